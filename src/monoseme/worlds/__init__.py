"""Synthetic data whose parts are known."""
