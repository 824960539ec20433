"""Which tasks to make."""
