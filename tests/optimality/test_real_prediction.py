"""The parts of the prediction test: confirmation on held-out rows, recurrence in both readings, areas within strata."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from monoseme.core.code import Code
from monoseme.optimality.certify import certify_latents
from monoseme.optimality.columns import columns
from monoseme.optimality.reading import latents
from monoseme.papers.optimality.certificates import SETTINGS, confirmed
from monoseme.papers.optimality.prediction import auroc, best_correlation, best_cosine


def planted(n: int, seed: int, leak: float):
    """Codes of 24 orthogonal latents; 1 fires where 0 does, but for a share of its rows."""
    r = np.random.default_rng(seed)
    z = (r.random((n, 24)) < 0.1) * (0.5 + r.exponential(1.0, (n, 24)))
    z[(z[:, 0] == 0) & (r.random(n) >= leak), 1] = 0.0
    return z


def verdict(leak: float):
    made = []
    for seed in (0, 1):
        code = Code.from_dense(torch.from_numpy(planted(3000, seed, leak)).unsqueeze(-1))
        made.append(latents(np.eye(24), np.zeros(24), code))
    rows = planted(3000, 0, leak)
    found = certify_latents(lambda: iter([rows]), made[0], 0.05, SETTINGS)
    return found.features, made[1]


def test_a_strict_child_is_confirmed_and_only_that():
    features, held = verdict(leak=0.0)
    by = columns(held)
    assert features[0].verdict == "unstable"
    assert [f.feature for f in features if confirmed(f, held, by)] == [0]


def test_a_witness_that_held_out_rows_contradict_is_not_confirmed():
    features, _ = verdict(leak=0.0)
    _, held = verdict(leak=1.0)  # there the child fires without its parent
    assert not confirmed(features[0], held, columns(held))


def test_both_readings_of_recurrence_against_slow_twins():
    r = np.random.default_rng(0)
    first, second = (np.maximum(r.standard_normal((50, k)), 0) for k in (5, 6))
    second[:, 5] = 3 * first[:, 2]
    slow = [max(np.corrcoef(first[:, i], second[:, j])[0, 1] for j in range(6)) for i in range(5)]
    np.testing.assert_allclose(best_correlation(csr_array(first), csr_array(second)), slow, atol=1e-12)
    assert slow[2] == pytest.approx(1.0)
    atoms = np.eye(3)
    np.testing.assert_allclose(best_cosine(atoms, -atoms[:1]), [-1.0, 0.0, 0.0])  # an opposite atom is another one


def test_areas_within_strata_leave_out_what_the_strata_explain():
    r = np.random.default_rng(0)
    strata = np.repeat([0, 1], 300)
    truth = r.random(600) < np.where(strata == 0, 0.1, 0.6)
    score = strata + 0.1 * r.random(600)
    value, _, _ = auroc(score, truth)
    _, low, high = auroc(score, truth, strata)
    assert value is not None and value > 0.7  # noqa: PT018
    assert low is not None and high is not None and low < 0.5 < high  # noqa: PT018
    assert auroc(r.random(10), np.ones(10, bool)) == [None, None, None]
