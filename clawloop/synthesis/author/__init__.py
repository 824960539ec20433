"""Who writes generators: the library that the project ships, or the loop model."""
