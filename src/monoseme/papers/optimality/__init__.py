"""What optimality does to sparse dictionaries (arXiv 2606.02385): claims, recipes, figures."""
