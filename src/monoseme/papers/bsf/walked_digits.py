"""One attribute of digits and one seed of the fits: candidates, their tuning, and the judged comparison (a trial)."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Float64, UInt8
from torch import Tensor

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator
from monoseme.featurizers import Featurizer, build
from monoseme.models import HookedModel
from monoseme.papers.bsf import digit_steering as d
from monoseme.papers.bsf.tuned import tuned
from monoseme.records import Claims
from monoseme.steering import fit_map, matched_strength
from monoseme.steering.walks import along

__all__ = ["FILM", "KINDS", "SPECIES", "measure", "points", "protocol", "walks_of"]

KINDS = ("block", "latent", "random")
SPECIES = {
    "block": ("Grassmannian", {"n_blocks": 96, "block_size": 3, "k": 4}),
    "latent": ("TopK", {"n_blocks": 288, "k": 12}),
}
SCALE = {"rotation": 1.2 / 12**0.5, "thickness": 0.22 / 12**0.5, "hue": 1 / 12**0.5}  # deviations of what was planted
CHOSEN, TUNED, JUDGED = 1, 2, 3  # seeds of the noises
FITTED, HELD = 40_000, 10_000  # rows
MAPPED = 3000  # codes that a map is fitted to
TOLERANCE = 0.03  # of a strength
FILM, SHOWN, FRACTIONS = "film.npz", 4, (0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5)


class Moved(NamedTuple):
    """What a way did where the target moved as far as wanted; it is nowhere if it never did."""

    off: Float64[np.ndarray, " n"]
    strength: float
    reached: float

    @property
    def is_reached(self) -> bool:
        """Whether the target moved so far at some strength."""
        return math.isfinite(self.strength)


@functools.cache
def protocol() -> Mapping[str, Any]:
    """The protocol of digits.toml."""
    with resources.as_file(resources.files("monoseme.papers.bsf") / "digits.toml") as path:
        return Claims.load(path).protocol


def points() -> list[dict[str, Any]]:
    """Every attribute with every seed of the fits."""
    return [{"attribute": name, "draw": draw} for draw in protocol()["draws"] for name in d.ATTRIBUTES]


def measure(point: Mapping[str, Any], folder: Path, *, work: str) -> dict[str, Any]:
    """Fit, choose, match, judge (see `learning.sweep`). `work` holds the trained model."""
    about, attribute, draw = protocol(), point["attribute"], point["draw"]
    model = d.opened(Path(work) / "model")
    acts, shown = d.harvested(model, about["choose"], CHOSEN)
    wanted = d.targets(d.read(shown, CHOSEN), attribute)
    fits = {name: _fitted(name, acts, folder / name, draw) for name in SPECIES}
    ways = {
        "block": _block_ways(fits["block"], acts, wanted, about["candidates"] // 2),
        "latent": _pushes(fits["latent"], acts, wanted, about["candidates"]),
        "random": _random(acts.shape[-1], about["candidates"], draw),
    }
    search = functools.partial(_matched, model, attribute, about["wanted"][attribute])
    found: dict[str, Any] = {}
    judged: dict[str, Moved] = {}
    frames: dict[str, np.ndarray] = {}
    for kind, candidates in ways.items():
        tried = [search(way, about["tune"], TUNED) for way in candidates]
        best = candidates[int(np.argmin([one.off.mean() for one in tried]))]
        judged[kind] = made = search(best, about["judge"], JUDGED)
        found |= {f"{kind} way": f"{best.name} {best.unit}", f"{kind} r2": best.r2, f"{kind} strength": made.strength}
        found |= {f"{kind} target": made.reached, f"{kind} off": float(made.off.mean())}
        found[f"{kind} reached"] = sum(one.is_reached for one in tried)
        frames[kind] = _frames(model, best, made.strength)
    for kind in KINDS[1:]:
        both = judged["block"].is_reached and judged[kind].is_reached
        found[f"{kind} - block"] = float((judged[kind].off - judged["block"].off).mean()) if both else float("nan")
    np.savez(folder / FILM, allow_pickle=False, **frames)
    return found


def _fitted(name: str, acts: Float[Tensor, "n s T d"], out: Path, draw: int) -> Featurizer:
    rows = acts.flatten(0, 2)
    rows = rows[torch.randperm(len(rows), generator=generator(0, "digit rows"))][: FITTED + HELD]
    species, sizes = SPECIES[name]
    make = functools.partial(build, species, {"d_in": rows.shape[1], **sizes, "seed": draw})
    return tuned(make, ArrayRows(rows[:FITTED]), ArrayRows(rows[FITTED:]), out, seed=draw)[0]


def _pushes(
    f: Featurizer, acts: Float[Tensor, "n s T d"], wanted: Float64[np.ndarray, "n m"], many: int
) -> list[d.Way]:
    chosen = d.foretelling(d.mean_codes(f, acts), wanted, many)
    return [d.push("push", torch.from_numpy(up) @ f.atoms[g].double(), g, r2) for g, r2, up in chosen]


def _block_ways(
    f: Featurizer, acts: Float[Tensor, "n s T d"], wanted: Float64[np.ndarray, "n m"], many: int
) -> list[d.Way]:
    """A push and a walk of each of the best blocks."""
    code = f.encode(acts[::4].flatten(0, 2))
    found = _pushes(f, acts, wanted, many)
    for way in list(found):
        codes = code.values[code.entries_of(way.unit)].double().numpy()
        up = d.foretelling(d.mean_codes(f, acts)[:, way.unit : way.unit + 1], wanted, 1)[0][2]
        found.append(walks_of(f, way.unit, codes, "ring" if wanted.shape[1] > 1 else "line", up, way.r2))
    return found


def walks_of(
    f: Featurizer,
    block: int,
    codes: Float64[np.ndarray, "n b"],
    topology: str,
    up: Float64[np.ndarray, " b"],
    r2: float,
) -> d.Way:
    """A walk of everybody from his own place along a map of the codes; a line in the sense of `up`."""
    made = fit_map(codes[:: 1 + len(codes) // MAPPED], topology)
    size = float(np.sqrt(np.square(codes).sum(1).mean()))
    line = made.nodes[:, 0]
    sense = 1.0 if topology == "ring" or (line[-1] - line[0]) @ up > 0 else -1.0

    def moves(strength: float) -> dict[str, Any]:
        def to(now: Tensor) -> Tensor:
            return torch.from_numpy(along(made, now.numpy(), sense * strength * size)[0])

        return {"what": f, "block": block, "to": to, "mode": "clamp"}

    return d.Way(f"walk on a {topology}", block, moves, r2)


def _random(width: int, many: int, draw: int) -> list[d.Way]:
    drawn = torch.randn(many, width, generator=generator(draw, "random pushes"), dtype=torch.float64)
    return [d.push("push", v, i) for i, v in enumerate(drawn)]


def _matched(model: HookedModel, attribute: str, wanted: float, way: d.Way, n: int, seed: int) -> Moved:
    """Off-target change of every picture where the target's mean |change| is as wanted; infinite where it never is."""
    before = _read(model, n, seed)

    def after(strength: float) -> dict[str, np.ndarray]:
        return d.read(d.moved(model, way, strength, n, seed), seed)

    price: Callable[[float], float] = lambda s: float(np.nanmean(d.change(before, after(s), attribute)))  # noqa: E731
    try:
        strength, reached = matched_strength(price, wanted, most=64, tolerance=TOLERANCE)
    except UserError:  # a line ends, a block that seldom fires moves little
        return Moved(np.full(n, np.inf), math.nan, math.nan)
    then = after(strength)
    others = [name for name in d.ATTRIBUTES if name != attribute]
    off = np.nansum([d.change(before, then, name) / SCALE[name] for name in others], axis=0)
    return Moved(off, strength, reached)


def _read(model: HookedModel, n: int, seed: int) -> dict[str, np.ndarray]:
    return d.read(d.pictures(model, n, seed), seed)


def _frames(model: HookedModel, way: d.Way, strength: float) -> UInt8[np.ndarray, "t h w 3"]:
    """The same four noises at parts of the strength, one above another."""
    at: Sequence[float] = FRACTIONS if math.isfinite(strength) else (0.0,) * len(FRACTIONS)
    shown = [
        d.moved(model, way, part * strength, SHOWN, JUDGED) if part else d.pictures(model, SHOWN, JUDGED) for part in at
    ]
    return np.stack([(255 * one.flatten(0, 1).numpy()).round().astype(np.uint8) for one in shown])
