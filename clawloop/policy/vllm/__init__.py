"""vLLM: it samples, and the weights that are trained stay in this process."""
