"""What an audit does when it is not told: where to look, and how large the featurizer is. Each is one stated rule."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any

from monoseme.core.errors import closest, refuse
from monoseme.featurizers import ZOO
from monoseme.models import HookedModel
from monoseme.store import TokenPolicy

__all__ = ["default_batch", "default_steps", "default_tokens", "middle_hook", "shape"]

BLOCK = 3  # a page's colour shows three directions: all that such a block has
SPARSITY = 16  # active dims are d_in / 16, as in the demonstration (24 of 384)
WIDTH = 4  # atoms a dimension of the rows
FIRINGS = 200  # training rows a block must be expected to fire on
SINKS = 10.0  # medians of the norm above which a token is one: one such row held 69 % of the variance in a small store
PASSES, FEWEST, MOST = 10, 400, 1000  # passes over the training rows, and the steps that bound them


def default_tokens(model: HookedModel, context: int = 128) -> TokenPolicy:
    """Special tokens dropped; of a language model also rows above ten medians of the norm, attention sinks."""
    return TokenPolicy(max_norm=None if model.facts.tokenizer is None else SINKS, context=context)


def middle_hook(hooks: Sequence[str]) -> str:
    """Where the residual stream is read: the numbered layer after which two thirds of them are done.

    Layers are modules ``prefix.N`` whose prefix holds no number; of several such families the largest is meant, of
    equally large ones the first.

    Examples
    --------
    >>> middle_hook(["embed", *(f"blocks.{i}" for i in range(12)), "blocks.0.mlp", "norm"])
    'blocks.7'
    """
    families: dict[str, list[str]] = {}
    for hook in hooks:
        found = re.fullmatch(r"((?:[^.]+\.)*)(\d+)", hook)
        if found and not re.search(r"(^|\.)\d+\.", found[1]):
            families.setdefault(found[1], []).append(hook)
    if not families:
        shown = ", ".join(hooks[:8]) + (", ..." if len(hooks) > 8 else "")
        raise refuse("at", "name a hook of a model without numbered layers", "none", f"Choose one of {shown}.")
    layers = max(families.values(), key=len)
    return layers[-(-2 * len(layers) // 3) - 1]


def shape(featurizer: str, d_in: int, rows: int, given: Mapping[str, int | None]) -> dict[str, Any]:
    """Sizes of a featurizer of the zoo: as they were given, the others by rule.

    Blocks have three directions. Active dims k·b are d_in / 16. Atoms G·b are four times d_in, but no more than let
    every block fire on 200 of the training rows, were all equally busy. Where the zoo speaks of a `target_l0`, k is
    meant.

    Parameters
    ----------
    featurizer
        Name in the zoo.
    d_in, rows
        Width and number of the training rows.
    given
        ``n_blocks``, ``block_size`` and ``k``; None leaves a size to the rule.

    Examples
    --------
    >>> shape("Grassmannian", 384, 100_000, {"k": 4})
    {'d_in': 384, 'n_blocks': 512, 'block_size': 3, 'k': 4}
    """
    if featurizer not in ZOO:
        raise refuse("featurizer", "be in the zoo", repr(featurizer), closest(featurizer, ZOO))
    takes = inspect.signature(ZOO[featurizer]).parameters
    active = "k" if "k" in takes else "target_l0" if "target_l0" in takes else None
    if given.get("block_size") and "block_size" not in takes:
        got = given["block_size"]
        raise refuse("block_size", f"be left out for {featurizer}, whose blocks are scalars", got, "Leave it out.")
    if given.get("k") and active is None:
        raise refuse("k", f"be left out for {featurizer}, whose penalty decides", given["k"], "Set lam instead.")
    for name, size in given.items():
        if size is not None and size < 1:
            raise refuse(name, "be at least 1", size, "Sizes count things.")
    # BatchTopK and JumpReLU take blocks, but mean scalars unless they are told
    scalar = "block_size" not in takes or takes["block_size"].default == 1
    b = given.get("block_size") or (1 if scalar else min(BLOCK, d_in))
    k = given.get("k") or max(1, round(d_in / SPARSITY / b))
    n_blocks = given.get("n_blocks") or max(k + 1, min(WIDTH * d_in // b, rows * k // FIRINGS))
    sizes: dict[str, Any] = {"d_in": d_in, "n_blocks": n_blocks}
    if "block_size" in takes:
        sizes["block_size"] = b
    return sizes | ({active: k} if active else {})


def default_batch(rows: int, most: int) -> int:
    """Rows of a step: `most`, or all there are."""
    return min(most, rows)


def default_steps(rows: int, batch_size: int) -> int:
    """Ten passes over the training rows, but between 400 and 1,000 steps.

    Examples
    --------
    >>> default_steps(7_000, 2048), default_steps(130_000, 2048)
    (400, 634)
    """
    return min(MOST, max(FEWEST, PASSES * rows // batch_size))
