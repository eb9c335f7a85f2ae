"""`Recipe`: what is asked of a harvest, apart from model and data."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from monoseme.core.errors import refuse
from monoseme.store.policy import TokenPolicy, as_policy

__all__ = ["DTYPES", "Recipe"]

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class Recipe:
    """What is asked for, apart from model and data. Two harvests with equal recipes, models and data are one.

    Attributes
    ----------
    at
        Hook name.
    split
        Shares of groups in train, validation, test; None takes the source's own splits, or .8, .1, .1.
    seed
        Seed of splits and of the order in which training rows are stored.
    dtype
        "float32", "bfloat16" or "float16": how rows are stored.
    batch_size
        Samples in one forward pass.
    tokens
        A `TokenPolicy`, or in a word: "patches" drops special tokens (CLS, registers; begin-of-document marks), "all"
        keeps them.
    shard_rows
        Rows in one file, about.
    """

    at: str
    split: tuple[float, float, float] | None = None
    seed: int = 0
    dtype: str = "float32"
    batch_size: int = 16
    tokens: TokenPolicy | str = "patches"
    shard_rows: int = 65_536

    def __post_init__(self) -> None:
        if not isinstance(self.at, str):
            raise refuse("at", "be the name of a hook", repr(self.at), "See HookedModel.hooks().")
        if not isinstance(self.dtype, str) or self.dtype not in DTYPES:
            raise refuse("dtype", f"be one of {', '.join(DTYPES)}", repr(self.dtype), "float32 is always safe.")
        # one spelling, so that a word and the policy it stands for make the same request
        object.__setattr__(self, "tokens", as_policy(self.tokens))
        for name, least in (("batch_size", 1), ("shard_rows", 1), ("seed", -math.inf)):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise refuse(name, "be a whole number", repr(value), "Leave it out for the default.")
            if value < least:
                raise refuse(name, f"be at least {least}", value, "Raise it.")

    @property
    def policy(self) -> TokenPolicy:
        """Which tokens become rows."""
        return as_policy(self.tokens)
