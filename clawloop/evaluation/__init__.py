"""Measuring the agent on tasks that never steer the loop."""
