"""Which harnesses an optimizer step's rollouts are of: one part a file."""
