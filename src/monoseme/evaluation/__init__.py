"""Numbers about a fitted featurizer, on held-out samples."""
