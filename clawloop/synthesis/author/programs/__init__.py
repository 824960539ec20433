"""The modules that generators are put together from: standard library only, seeded, and complete in themselves."""
