"""Where tasks come from: cards, programs that the agent or the library writes, and what they build."""
