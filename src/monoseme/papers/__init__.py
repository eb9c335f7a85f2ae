"""One folder a paper: its claims, its recipe, its figures."""
