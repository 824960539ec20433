"""Which candidates become practice: agent-free checks, the admission band and the split."""
