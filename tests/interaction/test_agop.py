"""The AGOP against one dense Jacobian a sample, at every place of five networks, on both sides."""

from __future__ import annotations

import numpy as np
import pytest
from tests.interaction.small_nets import build

from monoseme.interaction.agop import agop
from monoseme.interaction.dense import dense_agop
from monoseme.interaction.functions import function
from monoseme.interaction.how import How

# network, what is differentiated, places with the twin's view of each
CASES = {
    "mlp": ("logits", {"x": "tokens", "0": "tokens", "2": "tokens", "3:out": "tokens", "4": "tokens"}),
    "cnn": (
        "logits",
        {"x": "flat", "stem": "patches", "norm": "map", "norm:out": "map", "conv:out": "map", "head": "tokens"},
    ),
    "vit": (
        "logits",
        {
            "x": "tokens",
            "block": "tokens",
            "block.norm1:out": "tokens",
            "block.attn.qkv": "tokens",
            "block.attn.proj": "tokens",
            "block.mlp": "tokens",
            "block.mlp.2": "tokens",
            "block:out": "tokens",
            "head": "tokens",
        },
    ),
    "gru": ("logits", {"x": "tokens", "first": "tokens", "first:out": "tokens", "head": "tokens"}),
    "gpt": (
        "last",
        {
            "wte": "one-hot",
            "wte:out": "tokens",
            "blocks.0": "tokens",
            "blocks.0.mlp": "tokens",
            "blocks.1.qkv": "tokens",
            "blocks.1:out": "tokens",
            "head": "tokens",
        },
    ),
}


def twin(name: str, at: str, side: str, of: str, view: str) -> np.ndarray:
    module, inputs = build(name)
    return dense_agop(module, inputs, None if at == "x" else at, side, function(of), view)


@pytest.mark.parametrize("side", ["input", "output"])
@pytest.mark.parametrize("name", CASES)
def test_every_place_in_one_pass_equals_dense_jacobians(name: str, side: str) -> None:
    of, places = CASES[name]
    module, inputs = build(name)
    found = agop(module, inputs, at=[*places], side=side, of=of, how=How(chunk=3))
    assert list(found) == [*places]
    for at, view in places.items():
        expected = twin(name, at, side, of, view)
        np.testing.assert_allclose(
            found[at].matrix, expected, rtol=0, atol=1e-10 * max(1, abs(expected).max()), err_msg=at
        )
