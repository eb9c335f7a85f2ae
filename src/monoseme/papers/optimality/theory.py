"""What the paper derives, on worlds whose answer is known: certificates, the joint solver, and trained autoencoders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float64

from monoseme.core.code import Code
from monoseme.core.outcome import Outcome
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import rng
from monoseme.featurizers import Featurizer, JumpReLU, ReLU, TopK, fit
from monoseme.optimality import CertifySettings, rank_one, solve, wide_limit
from monoseme.optimality.certify import certify_latents
from monoseme.optimality.columns import columns
from monoseme.optimality.gains import antipodal_pairs
from monoseme.optimality.reading import latents
from monoseme.worlds import Children, World, exclusive, hierarchical

__all__ = ["recipe"]

ROWS, LAM = 4000, 0.05


def recipe(wanted: Sequence[str], work: Path) -> dict[str, Outcome]:
    """Measure what the wanted claims need (see `records.reproduce`)."""
    makers: dict[str, Callable[[], dict[str, Outcome]]] = {
        "exclusive": _exclusive,
        "hierarchy": _hierarchy,
        "absorption": _absorption,
        "splitting": _splitting,
        "antipodal-threshold": _threshold,
        "antipodal-trained": _trained,
        "local-is-global-q": _starts,
        "local-is-global-wz": _starts,
        "median": _bias,
        "rays": _rays,
    }
    return {name: outcome for claim in wanted for name, outcome in makers[claim]().items()}


def _share(name: str, hits: Sequence[bool] | np.ndarray, note: str = "") -> Outcome:
    return Outcome(name, float(np.mean(hits)), "share", n=len(hits), note=note)


def _count(name: str, value: int, of: int) -> Outcome:
    return Outcome(name, float(value), "cases", n=of, n_unit="cases")


def _unstable(world: World, learned_bias: bool) -> np.ndarray:
    """Which planted concepts are unstable as the dictionary of their own world."""
    sample = world.sample(ROWS, seed=1)
    atoms = np.stack([factor.basis[0] for factor in world.factors])
    made = latents(atoms, None, sample.code, learned_bias)
    x = sample.x.double().numpy()
    found = certify_latents(lambda: iter([x]), made, LAM, CertifySettings(slack=False, splits=False, wide=False))
    return np.array([feature.verdict == "unstable" for feature in found.features])


def _exclusive() -> dict[str, Outcome]:
    # with a fixed bias: a learned one can take up the mean of categories that exhaust the rows
    found = _unstable(exclusive(d=32, groups=3, size=4, seed=0), learned_bias=False)
    return {"exclusive/unstable": _share("unstable", found, "fixed bias")}


def _hierarchy() -> dict[str, Outcome]:
    world = hierarchical(d=48, roots=6, p=0.15, children=Children((2,), given=0.3), seed=0)
    found = _unstable(world, learned_bias=True)
    return {
        "hierarchy/parents_unstable": _share("unstable", found[:6], "strict parents"),
        "hierarchy/children_unstable": _share("unstable", found[6:], "their children"),
    }


def _absorption() -> dict[str, Outcome]:
    world = hierarchical(d=12, roots=2, p=0.3, children=Children((1,), given=0.4), seed=0)
    sample = world.sample(800, seed=1)
    found = solve(sample.x.double().numpy(), 4, 0.2, starts=5)
    atoms = np.stack([factor.basis[0] for factor in world.factors])
    active, silent = sample.active.numpy(), []
    for parent, child in ((0, 2), (1, 3)):
        latent = int((found.atoms @ atoms[parent]).argmax())
        silent.append(float((found.codes[active[:, child], latent] <= 0).mean()))
    value = float(np.mean(silent))
    note = "share of rows with the child on where the parent's latent is silent, joint solver, λ 0.2"
    return {"absorption/parent_silent": Outcome("parent_silent", value, "share", better="lower", n=2, note=note)}


def _splitting() -> dict[str, Outcome]:
    world = hierarchical(d=12, roots=2, p=0.3, children=Children((2,), given=0.3), seed=0)
    x = world.sample(500, seed=1).x.double().numpy()
    narrow, wide = (solve(x, k, 0.2, starts=3) for k in (4, 24))

    def density(codes: Float64[np.ndarray, "n K"]) -> float:
        on = (codes > 0).mean(0)
        return float(on[on > 0].mean())

    ratio = density(wide.codes) / density(narrow.codes)
    return {
        "splitting/density_ratio": Outcome("density_ratio", ratio, "1", note="mean density at 24 atoms ÷ at 4"),
        "splitting/gap_narrow": Outcome("gap_narrow", narrow.loss - narrow.wide, "‖x‖²", better="lower"),
        "splitting/gap_wide": Outcome("gap_wide", wide.loss - wide.wide, "‖x‖²", better="lower"),
    }


def _threshold() -> dict[str, Outcome]:
    wrong = total = 0
    for law in ("uniform", "constant+noise", "exponential"):
        for p in np.linspace(0.05, 0.95, 19):
            if abs(p - 0.5) < 0.02:
                continue
            r = rng(0, law, int(100 * p))
            x, on = np.zeros(1000), np.arange(1000) < round(1000 * p)
            size = {"uniform": r.uniform(1, 3, 1000), "exponential": 1 + r.exponential(1, 1000)}
            x[on] = size.get(law, 2 + 0.2 * r.standard_normal(1000))[on]
            wrong += (rank_one(x, 0.1).verdict == "pair") != (p > 0.5)
            total += 1
    return {"antipodal/mismatches": _count("mismatches", int(wrong), total)}


def _trained() -> dict[str, Outcome]:
    made = {
        "ReLU": lambda: ReLU(8, 8, seed=0),
        "JumpReLU": lambda: JumpReLU(8, 8, start_l0=1.0, seed=0),
        "TopK": lambda: TopK(8, 8, k=1, seed=0),
    }
    dense = [_has_pair(make(), 0.8) for make in made.values()]
    sparse = [_has_pair(make(), 0.25) for make in made.values()]
    signed = [_has_pair(TopK(8, 8, k=1, sign="free", seed=seed), 0.8) for seed in range(3)]
    note = ", ".join(f"{name} {'pair' if hit else 'none'}" for name, hit in zip(made, dense, strict=True))
    return {
        "antipodal/nonneg_dense": _share("pairs", dense, f"active 80 %: {note}"),
        "antipodal/nonneg_sparse": _share("pairs", sparse, "active 25 %"),
        "antipodal/signed_dense": _share("pairs", signed, "signed TopK, active 80 %, three seeds"),
    }


def _has_pair(featurizer: Featurizer, p: float) -> bool:
    """Whether a fitted autoencoder codes one variable of that density by an antipodal pair."""
    r = rng(0, "dense", int(100 * p))
    amount = np.where(r.random(8000) < p, 1 + r.exponential(1.0, 8000), 0.0)
    x = amount[:, None] * np.eye(8)[0] + 0.02 * r.standard_normal((8000, 8))
    rows = torch.from_numpy(x).float()
    lam = {} if featurizer.recipe["name"] == "TopK" else {"lam": 0.1}
    fit(featurizer, ArrayRows(rows), steps=1500, batch_size=512, lr=3e-3, seed=0, **lam)
    code, atoms = featurizer.eval().encode(rows), featurizer.atoms[:, 0].double().numpy()
    # a signed latent counts on the side on which it mostly fires: then a pair looks the same for every cone
    total = np.bincount(code.indices.numpy(), weights=code.values[:, 0].double().numpy(), minlength=len(atoms))
    side = np.where(total < 0, -1.0, 1.0)
    size = Code(code.indptr, code.indices, code.values.abs(), code.n_blocks)
    made = latents(atoms * side[:, None], featurizer.bias.double().numpy(), size)
    return bool(antipodal_pairs(made, columns(made), both=0.02))


def _starts() -> dict[str, Outcome]:
    reseeded, plain = [], []
    for n in (5, 6, 7, 8):
        x = rng(0, "starts", n).standard_normal((n, 3))
        for seed in range(15):
            for hits, reseed in ((reseeded, True), (plain, False)):
                found = solve(x, n, 0.2, seed=seed, reseed=reseed)
                hits.append(found.loss - found.wide <= 1e-6 * found.wide)
    return {
        "wide/reseeded_global": _share("reseeded_global", reseeded, "of 60 starts, merge and re-seed"),
        "wide/plain_global": _share("plain_global", plain, "of 60 starts, plain descent; the others hold duplicates"),
    }


def _bias() -> dict[str, Outcome]:
    wrong = 0
    for seed in range(40):
        r = rng(seed, "bias")
        x, lam = r.standard_normal((30, 3)) + 5, float(r.uniform(0.01, 2.0))
        found = wide_limit(x, lam, tol=1e-12)
        t = np.linalg.norm(x - found.bias, axis=1)
        slope = np.linalg.norm(((x - found.bias) / np.maximum(t, lam)[:, None]).mean(0))
        median = np.linalg.norm(((x - found.bias) / t[:, None]).mean(0)) < 1e-5
        wrong += slope > 1e-5 or bool(median) != bool((t > lam).all())
    return {"bias/mismatches": _count("mismatches", int(wrong), 40)}


def _rays() -> dict[str, Outcome]:
    wrong, exact, less = 0, [], []
    for seed in range(10):
        r = rng(seed, "rays")
        u = r.standard_normal((2, 4))
        u = np.concatenate([u, -u]) / np.linalg.norm(np.concatenate([u, -u]), axis=1, keepdims=True)
        x = np.concatenate([np.repeat(u, 4, 0) * np.tile([2.0, 3.0, 4.0, 5.0], 4)[:, None], np.zeros((3, 4))])
        found = wide_limit(x, 0.5, tol=1e-12)
        wrong += found.rays != 4
        exact.append(solve(x, 4, 0.5, starts=6, seed=seed).loss - found.loss)
        less.append(solve(x, 3, 0.5, starts=6, seed=seed).loss - found.loss)
    note = "largest excess of the joint solver with as many atoms as rays"
    return {
        "rays/mismatches": _count("mismatches", int(wrong), 10),
        "rays/excess_exact": Outcome("excess_exact", float(np.max(exact)), "‖x‖²", better="lower", note=note),
        "rays/excess_one_less": Outcome("excess_one_less", float(np.min(less)), "‖x‖²", note="smallest, one atom less"),
    }
