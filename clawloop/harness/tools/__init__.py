"""The tools harness: function calls in JSON, several a turn."""
