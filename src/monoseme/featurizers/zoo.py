"""The zoo: featurizers by name. Each is one product of parts; a new one is one function here.

Every constructor takes `d_in` (width of a row), `n_blocks` (G), `block_size` (b) and `seed`, and what its gate needs.
`norm` names the training scale (`units.Units`); `learn_bias` trains an output bias.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from monoseme.core.cones import Sign
from monoseme.core.errors import closest, refuse
from monoseme.featurizers import gates
from monoseme.featurizers.arguments import check_arguments
from monoseme.featurizers.dictionaries import Constraint, Frames, UnitNorm
from monoseme.featurizers.encoders import LinearEncoder, TiedEncoder
from monoseme.featurizers.featurizer import Featurizer
from monoseme.featurizers.selection import FalseDiscovery as BenjaminiHochberg
from monoseme.featurizers.selection import Tournament as Duels
from monoseme.featurizers.thresholds import Jump, Kernel, SoftThreshold, Theta
from monoseme.featurizers.units import Norm, Units

__all__ = [
    "ZOO",
    "BatchTopK",
    "BlockTopK",
    "FalseDiscovery",
    "Grassmannian",
    "GroupLasso",
    "JumpReLU",
    "ReLU",
    "TopK",
    "Tournament",
    "build",
    "check",
    "species",
]

ZOO: dict[str, Callable[..., Featurizer]] = {}


def species(make: Callable[..., Featurizer]) -> Callable[..., Featurizer]:
    """Register a constructor, check the sizes every one shares, and let the product remember how it was made."""
    name, signature = make.__name__, inspect.signature(make)

    @functools.wraps(make)
    def constructor(*args: object, **kwargs: object) -> Featurizer:
        arguments = _bound(name, signature, args, kwargs)
        check_arguments(make, arguments)
        featurizer = make(**arguments)
        featurizer.recipe = {"name": name, "arguments": arguments}
        return featurizer

    ZOO[name] = constructor
    return constructor


def check(name: str, arguments: Mapping[str, object]) -> None:
    """Refuse arguments that no featurizer of that name can be made of, without making one."""
    check_arguments(ZOO[name], _bound(name, inspect.signature(ZOO[name]), (), arguments))


def build(name: str, arguments: dict[str, object]) -> Featurizer:
    """Make a featurizer from a recipe, as saved files and the command line name it."""
    if name not in ZOO:
        raise refuse("featurizer", "be in the zoo", repr(name), closest(name, ZOO))
    return ZOO[name](**arguments)


def _bound(
    name: str, signature: inspect.Signature, args: Sequence[object], named: Mapping[str, object]
) -> dict[str, object]:
    """Arguments by name, defaults included; what does not fit the constructor is refused with its signature."""
    try:
        bound = signature.bind(*args, **named)
    except TypeError as error:
        shown = str(signature.replace(return_annotation=inspect.Signature.empty)).replace("'", "")
        fix = "Name every argument after those before the *."
        raise refuse("arguments", f"fit {name}{shown}", str(error).removeprefix("got "), fix) from None
    bound.apply_defaults()
    return dict(bound.arguments)


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
    constraint: Constraint = "ball",
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
    gamma: Literal["shared", "block"] = "shared",
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """Tied encoder × Rᵇ × top-k blocks × orthonormal frames (arXiv 2606.25234, App. D).

    ``gamma="shared"`` is the paper's one scale; ``"block"`` gives every block its own, as its later public code does.
    """
    dictionary = _frames(d_in, n_blocks, block_size, seed, retract_every, retraction)
    encoder = TiedEncoder(n_blocks if gamma == "block" else None)
    return Featurizer(encoder, "free", gates.TopK(k), dictionary, Units(d_in, norm), False, {})


def _frames(
    d_in: int, n_blocks: int, b: int, seed: int, every: int = 20, retraction: Literal["polar", "cholesky"] = "polar"
) -> Frames:
    if b > d_in:
        raise refuse("block_size", f"be at most d_in = {d_in}", b, "More rows cannot be orthonormal.")
    return Frames(d_in, n_blocks, b, seed, every, retraction)


def _cone(sign: Sign | None, block_size: int) -> Sign:
    """Nonnegative scalars and free blocks are what the field means by default."""
    return sign or ("nonneg" if block_size == 1 else "free")


@species
def BatchTopK(
    d_in: int,
    n_blocks: int,
    block_size: int = 1,
    *,
    k: int,
    sign: Sign | None = None,
    learn_bias: bool = True,
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """Linear encoder × R₊ or Rᵇ × the n·k largest of n rows × unit norm (Bussmann et al. 2024, for blocks of any size).

    At inference one calibrated threshold decides, so that a row's code does not depend on its neighbours. `sign`:
    ``"nonneg"`` for scalars and ``"free"`` for blocks unless said otherwise.
    """
    encoder, dictionary = (
        LinearEncoder(d_in, n_blocks, block_size),
        UnitNorm(d_in, n_blocks, block_size, seed, "sphere"),
    )
    cone, units = _cone(sign, block_size), Units(d_in, norm)
    return Featurizer(encoder, cone, gates.BatchTopK(k), dictionary, units, learn_bias, {})


@species
def JumpReLU(
    d_in: int,
    n_blocks: int,
    block_size: int = 1,
    *,
    start_l0: float = 64.0,
    bandwidth: float = 0.25,
    kernel: Kernel = "cauchy",
    sign: Sign | None = None,
    learn_bias: bool = True,
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """Linear encoder × R₊ or Rᵇ × a learned threshold × unit norm (Rajamanoharan et al. 2024, for blocks of any size).

    The fit's `lam` weighs L0 and decides it; `start_l0` (at most a quarter of the blocks) only starts the thresholds.
    `bandwidth` is that of the kernel, as a share of the threshold. Defaults: see `thresholds.Jump`.
    """
    encoder, dictionary = (
        LinearEncoder(d_in, n_blocks, block_size),
        UnitNorm(d_in, n_blocks, block_size, seed, "sphere"),
    )
    gate = Jump(n_blocks, min(start_l0, n_blocks / 4), "block", bandwidth, kernel)
    return Featurizer(encoder, _cone(sign, block_size), gate, dictionary, Units(d_in, norm), learn_bias, {})


@species
def GroupLasso(
    d_in: int,
    n_blocks: int,
    block_size: int,
    *,
    target_l0: float,
    gate: Literal["soft", "threshold"] = "soft",
    theta: Theta = "block",
    sign: Sign = "free",
    constraint: Constraint = "ball",
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """Linear encoder × Rᵇ × threshold × Frobenius ball, held at `target_l0` (arXiv 2606.25234, §2.3 and App. D).

    After training, the thresholds are scaled so that held-out rows have exactly that L0.

    ``gate="soft"`` is the paper's: the proximal operator of the norm, a penalty λ‖z‖_{2,1} on batches above the target.
    ``"threshold"`` does not shorten what it keeps, weighs L0, and steers λ by dual ascent: the paper's public code.
    `theta`: one threshold a block (App. D), or one for all (§2.3).
    """
    encoder = LinearEncoder(d_in, n_blocks, block_size)
    dictionary = UnitNorm(d_in, n_blocks, block_size, seed, constraint)
    # λ‖z‖ goes with the norm of a row, λ‖z‖₀ with its square; 0.09 and 8e-4 were tried on the manifold world only
    size = {"sqrt_d": math.sqrt(d_in), "unit": 1.0, "none": None}[norm]
    if gate == "soft":
        thresholds = SoftThreshold(n_blocks, target_l0, theta, size and 0.09 * size)
    else:
        lam = size and 8e-4 * size**2
        thresholds = Jump(n_blocks, target_l0, theta, bandwidth=0.25, kernel="cauchy", target=target_l0, lam=lam)
    return Featurizer(encoder, sign, thresholds, dictionary, Units(d_in, norm), False, {})


@species
def FalseDiscovery(
    d_in: int,
    n_blocks: int,
    block_size: int,
    *,
    k: int,
    alpha: float = 0.1,
    quantile: float = 0.4,
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """A Grassmannian featurizer that decides for every row how many blocks stand out from noise.

    Trained with top-k; at inference by false-discovery rate `alpha` on the χ_b null (see `selection`). Its tensors are
    those of `Grassmannian`: ``load_state_dict`` takes a trained one's.
    """
    dictionary, gate = _frames(d_in, n_blocks, block_size, seed), BenjaminiHochberg(k, alpha, quantile)
    return Featurizer(TiedEncoder(), "free", gate, dictionary, Units(d_in, norm), False, {})


@species
def Tournament(
    d_in: int,
    n_blocks: int,
    block_size: int,
    *,
    k: int,
    overlap: float = 0.5,
    retract_every: int = 20,
    norm: Norm = "sqrt_d",
    seed: int = 0,
) -> Featurizer:
    """A Grassmannian featurizer in which, on every row, of two overlapping blocks only the larger may be active.

    See `selection.Tournament`. Random blocks overlap b/d on average: `overlap` must lie above that.
    """
    if overlap <= block_size / d_in:
        raise refuse("overlap", f"lie above b/d = {block_size / d_in:.3g}", overlap, "Random blocks overlap that much.")
    dictionary, gate = (
        _frames(d_in, n_blocks, block_size, seed, retract_every),
        Duels(n_blocks, k, overlap, retract_every),
    )
    return Featurizer(TiedEncoder(), "free", gate, dictionary, Units(d_in, norm), False, {})
