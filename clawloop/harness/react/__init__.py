"""The react harness: thoughts, actions and observations as lines of text."""
