"""The store: what a run keeps, where, and how it is found again."""
