"""`clawloop domains`: a person's view of executable domains, and the model's part in their analysis."""
