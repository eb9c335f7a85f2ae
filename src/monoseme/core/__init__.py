"""Tensors and the few types every room shares. Imports nothing of ours.

Reading order: `errors`, `seeds`, `outcome`, `stats`, `files`, `parse`, `cones`, `code`, then `kernels/`.
"""
