"""Law of Neural Interaction (arXiv 2605.27989): claims, recipes, figures."""
