"""The gateway: one local server in front of a policy, for harnesses that speak HTTP."""
