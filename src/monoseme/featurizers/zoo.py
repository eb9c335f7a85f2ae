"""The zoo: featurizers by name. Each is one product of parts; a new one is one function here.

Every constructor takes `d_in` (width of a row), `n_blocks` (G), `block_size` (b) and `seed`, and what its gate needs.
`norm` names the training scale (`units.Units`); `learn_bias` trains an output bias.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
from collections.abc import Callable
from typing import Literal

from monoseme.core.cones import Sign, check_sign
from monoseme.core.errors import closest, refuse
from monoseme.featurizers import gates
from monoseme.featurizers.dictionaries import Frames, UnitNorm
from monoseme.featurizers.encoders import LinearEncoder, TiedEncoder
from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.units import Norm, Units

__all__ = ["ZOO", "BlockTopK", "Grassmannian", "ReLU", "TopK", "build", "species"]

ZOO: dict[str, Callable[..., Featurizer]] = {}


def species(make: Callable[..., Featurizer]) -> Callable[..., Featurizer]:
    """Register a constructor, check the sizes every one shares, and let the product remember how it was made."""
    name, signature = make.__name__, inspect.signature(make)

    @functools.wraps(make)
    def constructor(*args: object, **kwargs: object) -> Featurizer:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        arguments = dict(bound.arguments)
        _check_sizes(arguments)
        featurizer = make(**arguments)
        featurizer.recipe = {"name": name, "arguments": arguments}
        return featurizer

    ZOO[name] = constructor
    return constructor


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
        got = f"{size / 1e9:,.0f} GB of atoms, where there are {memory / 1e9:,.0f} GB"
        raise refuse("n_blocks", "fit into memory", got, "Lower n_blocks or block_size.")
    k, n_blocks = arguments.get("k", 1), arguments["n_blocks"]
    if k > n_blocks:  # pyright: ignore[reportOperatorIssue]
        raise refuse("k", f"be at most n_blocks = {n_blocks}", k, "Lower k or raise n_blocks.")
    check_sign(str(arguments.get("sign", "free")))
    for key, words in {"constraint": ("ball", "sphere"), "retraction": ("polar", "cholesky")}.items():
        if arguments.get(key, words[0]) not in words:
            raise refuse(
                key, f"be {' or '.join(map(repr, words))}", repr(arguments[key]), f"The default is {words[0]!r}."
            )


def _memory() -> float:
    """Bytes of main memory; infinite where the system does not tell."""
    try:
        return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    except (AttributeError, OSError, ValueError):  # Windows has no sysconf
        return math.inf


def build(name: str, arguments: dict[str, object]) -> Featurizer:
    """Make a featurizer from a recipe, as saved files and the command line name it."""
    if name not in ZOO:
        raise refuse("featurizer", "be in the zoo", repr(name), closest(name, ZOO))
    try:
        inspect.signature(ZOO[name]).bind(**arguments)
    except TypeError as error:
        raise refuse("arguments", f"fit {name}{inspect.signature(ZOO[name])}", error, "Correct the names.") from None
    return ZOO[name](**arguments)


@species
def ReLU(d_in: int, n_blocks: int, *, learn_bias: bool = True, norm: Norm = "sqrt_d", seed: int = 0) -> Featurizer:
    """Linear encoder × R₊ × every positive latent × unit-norm atoms; trained with an L1 penalty (`lam` of the fit)."""
    encoder, dictionary = LinearEncoder(d_in, n_blocks, 1), UnitNorm(d_in, n_blocks, 1, seed, "sphere")
    return Featurizer(encoder, "nonneg", gates.Positive(), dictionary, Units(d_in, norm), learn_bias, {})


@species
def TopK(
    d_in: int,
    n_blocks: int,
    *,
    k: int,
    sign: Sign = "nonneg",
    learn_bias: bool = True,
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """Linear encoder × R₊ or R × top-k × unit-norm atoms (Gao et al. 2024).

    ``sign="free"`` keeps the k largest absolute values: the paper's own scalar baseline.
    """
    encoder, dictionary = LinearEncoder(d_in, n_blocks, 1), UnitNorm(d_in, n_blocks, 1, seed, "sphere")
    return Featurizer(encoder, sign, gates.TopK(k), dictionary, Units(d_in, norm), learn_bias, {})


@species
def BlockTopK(
    d_in: int,
    n_blocks: int,
    block_size: int,
    *,
    k: int,
    sign: Sign = "free",
    constraint: Literal["ball", "sphere"] = "ball",
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """The paper's Vanilla: linear encoder × Rᵇ × top-k blocks × Frobenius ball (arXiv 2606.25234, App. D)."""
    encoder = LinearEncoder(d_in, n_blocks, block_size)
    dictionary = UnitNorm(d_in, n_blocks, block_size, seed, constraint)
    return Featurizer(encoder, sign, gates.TopK(k), dictionary, Units(d_in, norm), False, {})


@species
def Grassmannian(
    d_in: int,
    n_blocks: int,
    block_size: int,
    *,
    k: int,
    retract_every: int = 20,
    retraction: Literal["polar", "cholesky"] = "polar",
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """Tied encoder × Rᵇ × top-k blocks × orthonormal frames (arXiv 2606.25234, App. D)."""
    if block_size > d_in:
        raise refuse("block_size", f"be at most d_in = {d_in}", block_size, "More rows cannot be orthonormal.")
    dictionary = Frames(d_in, n_blocks, block_size, seed, retract_every, retraction)
    return Featurizer(TiedEncoder(), "free", gates.TopK(k), dictionary, Units(d_in, norm), False, {})
