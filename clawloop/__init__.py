"""clawloop: an agent that improves itself in its own harness, with no teacher."""

__version__ = "0.1.0"
