"""`Prompts`: samples for a text-to-image model, each a prompt and the seed of its noise."""

from __future__ import annotations

from collections.abc import Sequence

from jaxtyping import UInt8
from torch import Tensor

from monoseme.core.errors import refuse
from monoseme.models.prompts import to_row
from monoseme.store.sources import Entry

__all__ = ["Prompts"]


class Prompts:
    """Every prompt with every seed; all seeds of one prompt lie on one side of a split.

    Parameters
    ----------
    prompts
        Texts, each once.
    seeds
        How many pictures of each: seeds 0, 1, ...

    Examples
    --------
    >>> source = Prompts(["a cat", "a dog"], seeds=2)
    >>> len(source), source.entries[3].target
    (4, {'prompt': 'a dog', 'seed': 1})
    """

    def __init__(self, prompts: Sequence[str], seeds: int = 1) -> None:
        if isinstance(prompts, str) or not len(prompts) or not all(isinstance(text, str) for text in prompts):
            raise refuse("prompts", "be a list of texts", type(prompts).__name__, "Put them in a list.")
        if len(set(prompts)) < len(prompts):
            raise refuse("prompts", "differ", f"{len(prompts) - len(set(prompts))} twice", "Use seeds= for copies.")
        if seeds < 1:
            raise refuse("seeds", "be at least 1", seeds, "It is the number of pictures of a prompt.")
        self._pairs = [(text, seed) for text in prompts for seed in range(seeds)]
        self._width = max(len(to_row(text, 0)) for text in prompts)
        self.entries = [
            Entry(f"{text} #{seed}", text, None, {"prompt": text, "seed": seed}) for text, seed in self._pairs
        ]

    def __len__(self) -> int:
        return len(self._pairs)

    def __getitem__(self, i: int) -> UInt8[Tensor, " w"]:
        return to_row(*self._pairs[i], self._width)
