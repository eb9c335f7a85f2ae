"""Laws of support: what is drawn has the pair probabilities that are stated in closed form."""

import itertools

import numpy as np
import pytest
import torch

from monoseme.core.seeds import rng
from monoseme.worlds.activity import Activity, Exactly, Exclusive, Independent, Nested

N = 40_000
LAWS = {
    "exactly": Exactly(7, 3),
    "independent": Independent(np.array([0.02, 0.3, 0.9, 1.0, 0.5])),
    "exclusive": Exclusive(np.array([0.1, 0.2, 0.3, 0.5, 0.5, 0.05]), np.array([0, 0, 0, 1, 1, 2])),
    "nested": Nested(
        np.array([-1, -1, 0, 0, 1, 2, 2]),
        np.array([0.4, 0.2, 0.5, 0.3, 0.9, 0.5, 0.6]),
        np.array([0, 0, 0.1, 0.0, 0.05, 0.0, 0.2]),
    ),
    "nested exclusive": Nested(
        np.array([-1, -1, 0, 0, 0, 1, 1, 3, 3]),
        np.array([0.5, 0.3, 0.3, 0.4, 0.2, 0.5, 0.5, 0.6, 0.3]),
        np.array([0, 0, 0.1, 0.2, 0, 0, 0, 0.1, 0.0]),
        exclusive=True,
    ),
}
each_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS.keys())


def exact_pairs(nested: Nested) -> np.ndarray:
    """The slow twin: add up the probability of every pattern of the forest."""
    size = len(nested.parent)
    both = np.zeros((size, size))
    for pattern in itertools.product([0, 1], repeat=size):
        probability = 1.0
        for parent in range(-1, size):
            children = np.flatnonzero(nested.parent == parent)
            rates = nested.on[children] if parent < 0 or pattern[parent] else nested.off[children]
            on = np.array([pattern[c] for c in children])
            if nested.exclusive and parent >= 0:
                probability *= 0 if on.sum() > 1 else (rates @ on if on.any() else 1 - rates.sum())
            else:
                probability *= float(np.prod(np.where(on == 1, rates, 1 - rates)))
        both += probability * np.outer(pattern, pattern)
    return both


@each_law
def test_draws_have_the_stated_pair_probabilities(law: Activity):
    both = law.pairs()
    mask = law.draw(rng(0, "law"), N).to_mask().double().numpy()
    found = mask.T @ mask / N
    error = np.sqrt(both * (1 - both) / N)
    assert (np.abs(found - both) <= 5 * error + 1e-12).all()  # impossible pairs never come, certain ones always


@each_law
def test_supports_are_ascending_and_the_same_for_the_same_stream(law: Activity):
    support, again = law.draw(rng(1, "law"), 500), law.draw(rng(1, "law"), 500)
    torch.testing.assert_close(support.indices, again.indices, rtol=0, atol=0)
    torch.testing.assert_close(support.indptr, again.indptr, rtol=0, atol=0)
    rows, indices = support.rows, support.indices
    assert (indices.diff()[rows.diff() == 0] > 0).all()
    assert support.n_rows == 500
    assert support.n_blocks == len(law.pairs())


@pytest.mark.parametrize("name", ["nested", "nested exclusive"])
def test_pairs_of_a_forest_equal_the_sum_over_patterns(name: str):
    law = LAWS[name]
    assert isinstance(law, Nested)
    np.testing.assert_allclose(law.pairs(), exact_pairs(law), atol=1e-12)


def test_exhaustive_groups_always_show_one_member():
    law = Exclusive(np.full(21, 1 / 7), np.arange(3).repeat(7))
    assert law.draw(rng(0, "all"), 20_000).indptr.diff().unique().tolist() == [3]


def test_chunks_do_not_change_a_draw(monkeypatch: pytest.MonkeyPatch):
    for law in LAWS.values():
        whole = law.draw(rng(3, "chunk"), 1000)
        monkeypatch.setattr("monoseme.worlds.activity.CHUNK", 64)
        parts = law.draw(rng(3, "chunk"), 1000)
        monkeypatch.undo()
        assert whole.indices.tolist() == parts.indices.tolist()
        assert whole.indptr.tolist() == parts.indptr.tolist()
