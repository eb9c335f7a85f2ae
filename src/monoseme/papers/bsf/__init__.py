"""Block-Sparse Featurizers (arXiv 2606.25234)."""
