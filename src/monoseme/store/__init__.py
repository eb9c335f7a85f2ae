"""Activations on disk: harvest once, read many times."""
