"""The protocols that the gateway speaks, one codec each."""
