"""Any program that speaks to a model over HTTP, as a harness."""
