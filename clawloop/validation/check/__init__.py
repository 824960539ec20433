"""Agent-free checks of a candidate."""
