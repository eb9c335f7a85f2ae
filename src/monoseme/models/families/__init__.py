"""Reference networks of five families, small and readable, with exact parameter counts: what shapes are compared on."""

from monoseme.models.families.gpt import GPT, GPTShape

__all__ = ["GPT", "GPTShape"]
