"""Skills of an executable domain, and the tasks that they can carry (paper, 4.1, domain-grounded synthesis)."""
