"""The model's part in the analysis of a domain (paper, 4.1): what its code does not say, and its skills."""
