"""Harnesses: how an agent meets a workspace."""
