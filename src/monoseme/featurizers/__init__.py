"""A featurizer is encoder × cone × gate × dictionary, over blocks of size b."""
