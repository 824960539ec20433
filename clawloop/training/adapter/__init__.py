"""What of a network is trained: one part a file."""
