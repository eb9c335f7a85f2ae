"""Arguments of the zoo's constructors: sizes, shares and words, checked once for all of them."""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from typing import Any, Literal, get_args, get_origin, get_type_hints

from monoseme.core.cones import check_sign
from monoseme.core.errors import refuse

__all__ = ["check_arguments"]


def check_arguments(make: Callable[..., Any], arguments: dict[str, object]) -> None:
    """Refuse, in one line, what no featurizer can be made of."""
    _check_sizes(arguments)
    _check_shares(arguments)
    for key, kind in get_type_hints(make).items():
        # a word is checked against the annotation, so that a new constructor need not be listed anywhere
        if get_origin(kind) is Literal and arguments[key] not in get_args(kind):
            *others, last = map(repr, get_args(kind))
            rule = f"be {', '.join(others)} or {last}"
            default = inspect.signature(make).parameters[key].default
            raise refuse(key, rule, repr(arguments[key]), f"The default is {default!r}.")


def _check_sizes(arguments: dict[str, object]) -> None:
    for key in ("d_in", "n_blocks", "block_size", "k", "retract_every"):
        value = arguments.get(key, 1)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise refuse(key, "be a positive integer", repr(value), "Sizes count things.")
    for key, kind in (("seed", int), ("learn_bias", bool)):
        if not isinstance(arguments.get(key, kind()), kind):
            raise refuse(key, f"be of type {kind.__name__}", repr(arguments[key]), "See the constructor.")
    sizes: list[int] = [arguments.get(key, 1) for key in ("d_in", "n_blocks", "block_size")]  # pyright: ignore
    size = 4 * math.prod(sizes)
    if size > (memory := _memory()):
        got = f"{size // 10**9:,} GB of atoms, where there are {memory / 1e9:,.0f} GB"
        raise refuse("n_blocks", "fit into memory", got, "Lower n_blocks or block_size.")
    k, n_blocks = arguments.get("k", 1), arguments["n_blocks"]
    if k > n_blocks:  # pyright: ignore[reportOperatorIssue]
        raise refuse("k", f"be at most n_blocks = {n_blocks}", k, "Lower k or raise n_blocks.")


def _check_shares(arguments: dict[str, object]) -> None:
    n_blocks = arguments["n_blocks"]
    for key, high in {"target_l0": n_blocks, "alpha": 1, "quantile": 1, "overlap": 1}.items():
        value = arguments.get(key)
        if key in arguments and not (_is_number(value) and 0 < value < high):  # pyright: ignore
            raise refuse(key, f"lie above 0 and below {high}", repr(value), "See the constructor.")
    for key in ("bandwidth", "start_l0"):
        value = arguments.get(key, 1.0)
        if not (_is_number(value) and 0 < value < math.inf):  # pyright: ignore[reportOperatorIssue]
            raise refuse(key, "be positive and finite", repr(value), "See the constructor.")
    if arguments.get("sign") is not None or "sign" not in arguments:
        check_sign(str(arguments.get("sign", "free")))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _memory() -> float:
    """Bytes of main memory; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return math.inf
