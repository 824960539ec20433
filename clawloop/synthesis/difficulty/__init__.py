"""How hard the next tasks are, per capability."""
