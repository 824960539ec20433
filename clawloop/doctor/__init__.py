"""What this machine can do, and whether its sandboxes hold: `clawloop doctor`."""
