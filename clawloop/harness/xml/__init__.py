"""The xml harness: one call a turn, written as tags around plain text."""
