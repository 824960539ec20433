"""Tracking: where numbers and events go while a run works."""
