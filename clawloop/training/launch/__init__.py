"""Where a stage is run: one part a file."""
