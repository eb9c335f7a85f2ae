"""Shapes under a budget: against a search through all widths, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from monoseme.core.errors import UserError
from monoseme.interaction import shapes
from monoseme.interaction.shapes import DEPTHS
from monoseme.models.families import FAMILIES, GPTShape, family


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("embeddings", [True, False])
def test_the_widest_of_every_depth(name: str, embeddings: bool) -> None:
    budget, kind = 50_000, family(name)
    depths = (1, 2, 5) if name != "mlp" else (2, 3, 5)
    rows = shapes(name, budget, depths=depths, embeddings=embeddings, tolerance=1.0)
    for row, depth in zip(rows, depths, strict=True):
        assert row.depth == depth
        widths = range(kind.multiple, 400, kind.multiple)
        fitting = [w for w in widths if kind.shape(depth, w).count(embeddings) <= budget]
        assert row.width == fitting[-1]
        assert row.parameters == kind.shape(depth, row.width).count(embeddings)
        assert row.unused == pytest.approx(1 - row.parameters / budget)
        assert row.ratio == depth / row.width
        assert row.flops == row.shape.flops()


def test_the_rule_gives_the_widths_that_the_authors_list() -> None:
    best = {1.0: (5, 120), 1.3: (6, 128), 1.6: (5, 156), 2.0: (5, 176), 2.3: (6, 172), 2.7: (5, 204), 3.0: (5, 216)}
    for millions, (depth, width) in {**best, 5.0: (8, 224), 10.0: (10, 284), 0.3: (1, 128), 0.6: (6, 84)}.items():
        assert [row.width for row in shapes("gpt", millions * 1e6, depths=[depth], tolerance=1)] == [width]


def test_what_leaves_too_much_is_left_out_and_widths_are_multiples() -> None:
    rows = shapes("gpt", 60_000, depths=range(1, 9))
    assert all(row.unused <= 0.2 for row in rows)
    assert 6 not in [row.depth for row in rows]
    assert all(row.width % 16 == 0 for row in shapes("gpt", 1e6, multiple=16))
    assert all(row.width % 2 == 0 for row in shapes("gpt", 60_000, head=2))
    assert [row.depth for row in shapes("gpt", 3e6)] == [d for d in DEPTHS if 1 - _left(d) <= 0.2]


def _left(depth: int) -> float:
    widths = [w for w in range(4, 600, 4) if GPTShape(depth, w).count() <= 3e6]
    return GPTShape(depth, widths[-1]).count() / 3e6


@pytest.mark.parametrize(
    ("call", "argument", "also"),
    [
        (lambda: shapes("gpt", 1000), "budget", "3,288"),  # one block of width 4
        (lambda: shapes("gpt", 4000, depths=[1], tolerance=0.01), "budget", "tolerance"),
        (lambda: shapes("gtp", 1e6), "family", "gpt"),
        (lambda: shapes("gpt", 1e6, depths=[]), "depths", ""),
        (lambda: shapes("gpt", 1e6, depths=[0]), "depths", ""),
        (lambda: shapes("gpt", 1e6, multiple=6), "multiple", ""),
        (lambda: shapes("gpt", 1e6, tolerance=2), "tolerance", ""),
        (lambda: shapes("gpt", float("nan")), "budget", ""),
        (lambda: shapes("gpt", -5), "budget", ""),
        (lambda: shapes("gpt", 1e6, contxt=3), "sizes", "context"),
    ],
)
def test_wrong_input_is_refused(call: Callable[[], Any], argument: str, also: str) -> None:
    with pytest.raises(UserError, match=argument) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert also in str(caught.value)
