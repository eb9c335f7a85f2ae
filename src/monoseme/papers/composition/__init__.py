"""Compositionality in a narrow depth-connectivity regime (arXiv 2606.19941): claims, runs and what they measured.

Reading order: `protocol`, `targets`; `trap`, `cuts`, `shapes`, `optimisers` (one trial each); `measures`.
"""
