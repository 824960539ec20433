"""A schedule that follows the agent."""
