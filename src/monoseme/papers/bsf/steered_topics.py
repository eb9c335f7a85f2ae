"""One topic of the text protocol, from fitted featurizers to judged steers (a trial of `benchmarks.steer_text`)."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from monoseme.core.outcome import Outcome
from monoseme.core.stats import mean_of
from monoseme.featurizers import Featurizer, build
from monoseme.models import HookedModel, ModelFacts, open_model
from monoseme.models.llama import Llama
from monoseme.papers.bsf import text_steering as t
from monoseme.papers.bsf.tuned import tuned
from monoseme.records import Claims
from monoseme.steering import matched_strength
from monoseme.store import ActivationStore, python_topics

__all__ = ["best_of", "featurizers", "judged", "measure", "points", "protocol"]

NODES = 8  # of the candidates of a block, on the map of the first


@functools.cache
def protocol() -> Mapping[str, Any]:
    """The protocol of steering.toml."""
    with resources.as_file(resources.files("monoseme.papers.bsf") / "steering.toml") as path:
        return Claims.load(path).protocol


def points() -> list[dict[str, Any]]:
    """One a topic."""
    return [{"topic": topic} for topic in protocol()["topics"]]


def featurizers(store: ActivationStore, out: Path) -> dict[str, Featurizer]:
    """Blocks and nonnegative latents of equal active dimensions and directions; kept in `out`."""
    d, active, directions = store.rows("train").d_in, protocol()["active"], protocol()["directions"]
    sizes = {
        "block": ("Grassmannian", {"n_blocks": directions // 4, "block_size": 4, "k": active // 4}),
        "latent": ("TopK", {"n_blocks": directions, "k": active}),
    }
    return {
        name: tuned(
            functools.partial(build, species, {"d_in": d, **given}),
            store.rows("train"),
            store.rows("validation"),
            out / name,
            steps=1000,
        )[0]
        for name, (species, given) in sizes.items()
    }


def measure(point: Mapping[str, Any], folder: Path, *, work: str) -> dict[str, Any]:
    """Choose every kind's best way towards the topic, and judge them at equal KL. `work` holds store and fits."""
    about = protocol()
    fitted = featurizers(ActivationStore.open(Path(work) / "stores" / "text-pretrained"), Path(work) / "text-fits")
    model = open_model(about["model"])
    assert model.facts.tokenizer is not None
    assert isinstance(model.module, Llama)
    wanted = t.topic_tokens(model.facts.tokenizer, about["topics"][point["topic"]])
    length, positions, many = about["prompt_tokens"], about["positions"], about["tune"] + about["judged"]
    given = t.prompts(model, about["at"], length, positions, many)
    tune, judge = (
        t.Prompts(given.hidden[part], given.next[part]) for part in (slice(about["tune"]), slice(about["tune"], None))
    )
    x, topical = _rows(model, about["at"], about["rows"], wanted)
    rest = HookedModel(t.Rest(model.module, int(about["at"].split(".")[1]) + 1, positions), ModelFacts("rest"))
    many = about["candidates"]
    means = x[topical].double().mean(0) - x.double().mean(0)
    kinds = {
        "block": t.blocks_for(fitted["block"], x, topical, many, NODES),
        "latent": t.latents_for(fitted["latent"], x, topical, many),
        "random": t.random_directions(x.shape[1], many, seed=0),
        "means": [t.Candidate(0, means / means.norm())],
    }
    chosen = {name: best_of(rest, tune, ways, wanted) for name, ways in kinds.items()}
    found: dict[str, Any] = {f"{name} unit": str(way.unit) for name, way in chosen.items()}
    found["topical rows"] = int(topical.sum())
    for kl in about["kl"]:
        found |= judged(rest, judge, chosen, wanted, kl)
    return found


def best_of(rest: HookedModel, given: t.Prompts, ways: Sequence[t.Candidate], wanted: Int[Tensor, " m"]) -> t.Candidate:
    """The candidate with the steepest rise of the topic on the tuning prompts."""
    before = t.logits(rest, given, None, 0.0)
    return max(ways, key=lambda way: t.slope(rest, given, before, way, wanted))


def judged(
    rest: HookedModel, given: t.Prompts, chosen: Mapping[str, t.Candidate], wanted: Int[Tensor, " m"], kl: float
) -> dict[str, Any]:
    """Every way at the same mean KL: rise of the topic, what else changed, perplexity, and differences to the block."""
    before, each = t.logits(rest, given, None, 0.0), {}
    found: dict[str, Any] = {}
    for name, way in chosen.items():
        scale = float(given.hidden[:, 1:].norm(dim=2).median()) / float(t.push_of(way).norm())

        def price(strength: float, way: t.Candidate = way, scale: float = scale) -> float:
            after = t.logits(rest, given, way, strength * scale)
            return float(t.outcome_of(before, after, wanted, given)["kl"].mean())

        strength, reached = matched_strength(price, kl, most=8.0, tolerance=0.01)
        after = t.outcome_of(before, t.logits(rest, given, way, strength * scale), wanted, given)
        each[name] = after["target"]
        found |= {
            f"{name} {kl:g} strength": strength,  # in norms of a row
            f"{name} {kl:g} kl": reached,
            f"{name} {kl:g} shift": _mean("shift", after["target"], "nats"),
            f"{name} {kl:g} off_target": _mean("off_target", after["off_target"], "1"),
            f"{name} {kl:g} perplexity": float(np.exp(after["loss"].mean())),
        }
        found["perplexity without"] = float(np.exp(after["loss_before"].mean()))
    for name in each:
        if name != "block":
            found[f"block - {name} {kl:g}"] = _mean("difference", each["block"] - each[name], "nats")
    return found


def _rows(
    model: HookedModel, at: str, many: int, wanted: Int[Tensor, " m"], length: int = 128
) -> tuple[Float[Tensor, "n d"], Bool[Tensor, " n"]]:
    """Activations of Python's help texts, and whether the next token is one of the topic's."""
    tokenizer = model.facts.tokenizer
    assert tokenizer is not None
    ids = torch.tensor([i for text in python_topics() for i in tokenizer.encode(text)])
    windows = ids[: (len(ids) // length) * length].reshape(-1, length)
    windows = windows[:: max(1, len(windows) * (length - 2) // many)]
    hidden = torch.cat([model.run({"input_ids": part}, at) for part in windows.split(16)])
    topical = torch.isin(windows[:, 2:], wanted)  # the first token's activations are of another kind
    return hidden[:, 1:-1].flatten(0, 1), topical.flatten()


def _mean(name: str, values: np.ndarray, unit: str) -> Outcome:
    found = mean_of(values)
    return Outcome(name, found.value, unit, found.low, found.high, n=found.n, n_unit="prompts")
