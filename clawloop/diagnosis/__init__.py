"""Why trials failed, and what that says of the agent."""
