"""Steering of a small decoder: the rest of a model is the model, prices are equal, a planted direction is found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.core.seeds import generator
from monoseme.featurizers import TopK
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.llama import Llama, LlamaShape
from monoseme.models.vit import init_random
from monoseme.papers.bsf import text_steering as t
from monoseme.papers.bsf.steered_topics import best_of, judged, protocol

V, D, T, POSITIONS = 40, 16, 6, [3, 5]
WORDS = torch.tensor([3, 4])


class Letters:
    """A tokenizer of forty words."""

    vocabulary, bos, special = V, None, frozenset[int]()

    def encode(self, text: str) -> list[int]:
        return [ord(letter) % V for letter in text]

    def pieces(self, ids: Sequence[int]) -> list[str]:
        return [(" String", "string", "strings", "STRING")[i] if i < 4 else f"w{i}" for i in ids]


def model() -> HookedModel:
    net = Llama(LlamaShape(vocabulary=V, width=D, depth=3, heads=2, key_heads=1, hidden=24))
    init_random(net, 0)
    with torch.no_grad():
        net.embed.weight.mul_(20)  # answers that are not all alike
    return HookedModel(net.requires_grad_(False), ModelFacts("tiny", tokenizer=Letters()))


def given(net: HookedModel, n: int = 30) -> t.Prompts:
    ids = torch.randint(0, V, (n, T + 1), generator=generator(0, "ids"))
    return t.Prompts(net.run({"input_ids": ids[:, :T]}, "blocks.0"), ids[:, [p + 1 for p in POSITIONS]])


def rest_of(net: HookedModel) -> HookedModel:
    assert isinstance(net.module, Llama)
    return HookedModel(t.Rest(net.module, 1, POSITIONS), ModelFacts("rest"))


def test_the_rest_of_a_model_is_the_model() -> None:
    net = model()
    ids = torch.randint(0, V, (4, T), generator=generator(1, "ids"))
    whole = net({"input_ids": ids})[:, POSITIONS]
    np.testing.assert_allclose(rest_of(net)(net.run({"input_ids": ids}, "blocks.0")).numpy(), whole.numpy(), atol=1e-5)


def test_topic_tokens_are_its_words_in_any_case() -> None:
    assert t.topic_tokens(Letters(), ["string"]).tolist() == [0, 1, 3]


def test_equal_price_and_a_direction_towards_the_words_wins() -> None:
    net = model()
    rest, prompts = rest_of(net), given(net)
    assert isinstance(net.module, Llama)
    aim = net.module.embed.weight[WORDS].double().mean(0)
    random = t.random_directions(D, 6, seed=0)
    f = TopK(D, 20, k=3, seed=1)
    ways = {
        "block": best_of(rest, prompts, [*random, t.Candidate(-7, aim / aim.norm())], WORDS),
        "random": random[0],
        "latent": t.latents_for(f, prompts.hidden.flatten(0, 1), torch.arange(30 * T) % 2 == 0, 3)[0],
    }
    assert ways["block"].unit == -7
    found = judged(rest, prompts, ways, WORDS, 0.05)
    for name in ways:
        assert found[f"{name} 0.05 kl"] == pytest.approx(0.05, rel=0.05)
    assert found["block - random 0.05"].low > 0
    same = t.logits(rest, prompts, None, 0.0)
    none = t.outcome_of(same, same, WORDS, prompts)
    assert float(np.abs(none["target"]).max()) == 0
    assert none["loss"] == pytest.approx(none["loss_before"])


def test_a_topic_without_words_in_the_texts_is_refused() -> None:
    f = TopK(D, 20, k=3, seed=1)
    x = torch.randn(50, D, generator=generator(2, "x"))
    check_refused(lambda: t.latents_for(f, x, torch.zeros(50, dtype=torch.bool), 3), "topic")


def test_prompts_are_docstrings_of_different_modules() -> None:
    said = list(t.module_docstrings())
    assert len(said) > 200
    assert set(protocol()["topics"]) == {"errors", "strings", "numbers"}
