"""Reaching inside a model: open, hook, stop, edit."""
