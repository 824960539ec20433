"""Where GRPO's batches come from: one part a file."""
