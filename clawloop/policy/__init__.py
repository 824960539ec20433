"""Policies: who answers a request, token for token."""
