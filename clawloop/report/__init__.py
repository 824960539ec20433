"""What a run came to: its summary, its tables, and the comparison of many runs."""
