"""The shell harness: one bash command a turn."""
