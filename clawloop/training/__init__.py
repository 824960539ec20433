"""Training: SFT and GRPO on what the agent did."""
