"""Rollouts: one episode, and many of them at once."""
