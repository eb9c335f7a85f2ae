"""Steering a language model towards a topic named beforehand: a block, an SAE latent, a difference of means, chance.

All are compared at an equal price, the KL divergence of the next-token distribution from that without a steer. What is
before the hook is run once; what comes after it, `Rest`, is a model of its own whose input is steered.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from monoseme.core.errors import refuse
from monoseme.core.protocols import Featurizes
from monoseme.core.seeds import generator, rng
from monoseme.models import HookedModel
from monoseme.models.facts import Tokenizer
from monoseme.models.llama import Llama, angles
from monoseme.steering import Direction, steer
from monoseme.steering.effects import effects

__all__ = [
    "Candidate",
    "Prompts",
    "Rest",
    "blocks_for",
    "latents_for",
    "logits",
    "module_docstrings",
    "outcome_of",
    "prompts",
    "push_of",
    "random_directions",
    "slope",
    "topic_tokens",
]


class Rest(nn.Module):
    """What a Llama does after block `after - 1`, from the residual stream there to logits at some positions.

    Its hook ``here`` is the stream. Rows have no padding.
    """

    def __init__(self, model: Llama, after: int, positions: Sequence[int]) -> None:
        super().__init__()
        self.here, self.whole, self.after, self.positions = nn.Identity(), model, after, list(positions)

    def forward(self, x: Float[Tensor, "B T d"]) -> Float[Tensor, "B P V"]:
        """Logits of the tokens after `positions`."""
        x = self.here(x)
        where = torch.arange(x.shape[1]).expand(len(x), -1)
        turn = angles(where, self.whole.shape).to(x.dtype)
        for block in self.whole.blocks[self.after :]:
            x = block(x, turn, None)
        return F.linear(self.whole.norm(x[:, self.positions]), self.whole.embed.weight)


@dataclass(frozen=True, eq=False)
class Prompts:
    """Texts at the hook: (n, T, d) activations there, and (n, P) the true token after every position that is read."""

    hidden: Float[Tensor, "n T d"]
    next: Int[Tensor, "n P"]


@dataclass(frozen=True, eq=False)
class Candidate:
    """One way of steering: a unit's code `to` times a strength replaces its contribution, or a vector is added.

    Attributes
    ----------
    unit
        Which block, latent, or random direction.
    what, to
        A featurizer and a code of `unit`; or a unit vector and None.
    """

    unit: int
    what: Featurizes | Tensor
    to: Float[Tensor, " b"] | None = None


def module_docstrings() -> Iterator[str]:
    """What the modules of Python's standard library say of themselves, in order of their paths; nothing is imported."""
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).parts
        if "site-packages" in parts or any("test" in part for part in parts):
            continue
        try:
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
        except (SyntaxError, UnicodeDecodeError):
            continue  # some are there to be broken
        if said:
            yield said


def topic_tokens(tokenizer: Tokenizer, words: Sequence[str]) -> Int[Tensor, " m"]:
    """Tokens that are one of the words, in any case, with or without a space before."""
    wanted = {word.lower() for word in words}
    pieces = tokenizer.pieces(range(tokenizer.vocabulary))
    return torch.tensor([i for i, piece in enumerate(pieces) if piece.strip().lower() in wanted])


def prompts(model: HookedModel, at: str, length: int, positions: Sequence[int], many: int, seed: int = 0) -> Prompts:
    """Beginnings of different docstrings, `length` tokens each, drawn by the seed."""
    tokenizer = model.facts.tokenizer
    if tokenizer is None:
        raise refuse("model", "be a language model", model.name, "Use smollm2-135m.")
    ids = [found for said in module_docstrings() if len(found := tokenizer.encode(said[:2000])) > length]
    if len(ids) < many:
        raise refuse("many", f"be at most {len(ids)}, the modules with so long a docstring", many, "Ask for fewer.")
    chosen = torch.tensor([ids[i][: length + 1] for i in rng(seed, "prompts").permutation(len(ids))[:many]])
    hidden = torch.cat([model.run({"input_ids": part}, at) for part in chosen[:, :length].split(20)])
    return Prompts(hidden, chosen[:, [p + 1 for p in positions]])


@torch.no_grad()
def logits(rest: HookedModel, given: Prompts, way: Candidate | None, strength: float) -> Float[Tensor, "n P V"]:
    """Answers with a steer at every token but the first, whose activations are of another kind; None: without."""

    def run() -> Tensor:
        return torch.cat([rest(part) for part in given.hidden.split(20)])

    if way is None:
        return run()
    after_first = slice(1, None)
    if way.to is None:
        assert isinstance(way.what, Tensor)
        with steer(rest, "here", Direction(way.what, strength), tokens=after_first):
            return run()
    assert not isinstance(way.what, Tensor)
    with steer(rest, "here", way.what, block=way.unit, to=strength * way.to, tokens=after_first):
        return run()


def outcome_of(
    before: Float[Tensor, "n P V"], after: Float[Tensor, "n P V"], wanted: Int[Tensor, " m"], given: Prompts
) -> dict[str, np.ndarray]:
    """KL, rise of the topic (log of its share), off-target change, and loss of the true next token, a prompt each."""
    n, P, V = before.shape
    each = effects(before.reshape(n * P, V), after.reshape(n * P, V), wanted).each
    found = {name: values.reshape(n, P).mean(1) for name, values in each.items()}
    for name, answers in (("loss_before", before), ("loss", after)):
        chance = answers.double().log_softmax(2)
        found[name] = -chance.gather(2, given.next[:, :, None])[:, :, 0].mean(1).numpy()
    return found


def slope(
    rest: HookedModel, given: Prompts, before: Float[Tensor, "n P V"], way: Candidate, wanted: Int[Tensor, " m"]
) -> float:
    """Rise of the topic per √KL at a push of a twentieth of a row's norm: by it every kind chooses its own."""
    size = 0.05 * float(given.hidden[:, 1:].norm(dim=2).median())
    one = push_of(way)
    found = outcome_of(before, logits(rest, given, way, size / float(one.norm())), wanted, given)
    return float(found["target"].mean() / np.sqrt(max(found["kl"].mean(), 1e-12)))


def push_of(way: Candidate) -> Float[Tensor, " d"]:
    """What strength 1 adds where nothing was."""
    if isinstance(way.what, Tensor):
        return way.what
    assert way.to is not None
    return way.to.double() @ way.what.atoms[way.unit].double()


def blocks_for(f: Featurizes, x: Float[Tensor, "n d"], topical: Tensor, many: int, nodes: int) -> list[Candidate]:
    """Blocks that fire most before the topic's words, with their mean code there; then nodes of the first one's map."""
    from monoseme.steering import fit_map

    code = f.encode(x)
    chosen = _associated(code, topical, many - nodes)
    made = []
    for block in chosen:
        entries = code.entries_of(block)
        mine = entries[topical[code.rows[entries]]]
        made.append(Candidate(block, f, code.values[mine].double().mean(0)))
    entries = code.entries_of(chosen[0])
    found = fit_map(code.values[entries][:4000].double().numpy(), "ring", nodes=(nodes, 1))
    return made + [Candidate(chosen[0], f, torch.from_numpy(node)) for node in found.flat if np.linalg.norm(node) > 0]


def latents_for(f: Featurizes, x: Float[Tensor, "n d"], topical: Tensor, many: int) -> list[Candidate]:
    """Latents that fire most before the topic's words."""
    code = f.encode(x)
    return [Candidate(i, f, torch.ones(1, dtype=torch.float64)) for i in _associated(code, topical, many)]


def random_directions(d: int, many: int, seed: int) -> list[Candidate]:
    """Unit vectors."""
    drawn = torch.randn(many, d, generator=generator(seed, "random steers"), dtype=torch.float64)
    return [Candidate(i, v / v.norm()) for i, v in enumerate(drawn)]


def _associated(code: Any, topical: Tensor, many: int) -> list[int]:
    """Units by the difference of their mean presence before topic words and elsewhere, in deviations."""
    presence = torch.zeros(3, code.n_blocks, dtype=torch.float64)
    mine, size = topical[code.rows], code.presence.double()
    where = code.indices.long()
    presence[0].index_add_(0, where[mine], size[mine])
    presence[1].index_add_(0, where, size)
    presence[2].index_add_(0, where, size.square())
    n, on = len(topical), int(topical.sum())
    if not on:
        raise refuse("topic", "have words in the texts", "none", "Name other words, or bring other texts.")
    mean = presence[1] / n
    spread = (presence[2] / n - mean.square()).clamp(min=0).sqrt()
    score = (presence[0] / on - mean) / (spread + 1e-9)
    fires = presence[0] > 0
    return torch.where(fires, score, -torch.inf).argsort(descending=True)[: min(many, int(fires.sum()))].tolist()
