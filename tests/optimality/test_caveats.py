"""What is said beside verdicts: codes far from optimal, rows too few; each rule is borne out by a simulation."""

from __future__ import annotations

import numpy as np
import pytest
from tests.optimality.test_certify import planted
from tests.optimality.twins import latents_of

import monoseme as ms
from monoseme.core.outcome import Outcome
from monoseme.optimality import CertifySettings
from monoseme.optimality.caveats import (
    HELD_ON,
    ROWS_A_FEATURE,
    far_from_optimal,
    few_rows,
    held_out_needed,
    strict_by_chance,
)
from monoseme.optimality.columns import columns
from monoseme.optimality.deciding import held_out_gain, held_out_leak
from monoseme.optimality.hull import Direction

FAST = CertifySettings(slack=False, splits=False, wide=False)


def independent(k: int, n: int, p: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    r = np.random.default_rng(seed)
    w = r.standard_normal((k, k))
    return w / np.linalg.norm(w, axis=1, keepdims=True), (r.random((n, k)) < p) * (0.5 + r.exponential(1.0, (n, k)))


def said(found: ms.optimality.Certification, start: str) -> list[str]:
    return [note for note in found.notes if note.startswith(start)]


def test_broken_conditions_stand_beside_the_verdicts() -> None:
    x, w, z, b = planted(k=16, n=1500, d=24, pairs=1)
    far = ms.certify(x, w, z, b, 0.05)
    (note,) = said(far, "verdicts hold for these codes")
    k1, k2 = (far.kkt[name].value for name in ("k1_active", "k2"))
    assert k1 is not None
    assert k2 is not None
    assert f"K1 (codes) {round(k1, 2):g}, K2 (atoms) {round(k2, 2):g}" in note
    assert "codes='resolved'" in note
    assert note in far.table()
    s = ms.optimality.solve(x[:200, :6].copy(), 4, 0.2, rounds=3000, tol=1e-15)
    near = ms.certify(x[:200, :6].copy(), s.atoms, s.codes, s.bias, 0.2)
    assert not said(near, "verdicts hold")
    (wrong,) = said(ms.certify(x[:200, :6].copy(), s.atoms, s.codes, s.bias, 2.0), "verdicts hold")
    assert "lam is not theirs, for they behave like lam = 0.2" in wrong


def test_a_fixed_bias_is_not_asked_to_be_optimal() -> None:
    kkt = {"k1_active": Outcome("k1_active", 0.0, "λ"), "k3": Outcome("k3", 5.0, "λ")}
    assert far_from_optimal(kkt, 0.1, False) == ()
    assert "K3 (bias) 5" in far_from_optimal(kkt, 0.1, True)[0]


@pytest.mark.parametrize("p", [0.1, 0.2])
def test_independent_features_need_as_many_rows_as_is_said(p: float) -> None:
    """Below one row a feature none is stable; at four times as many (where it is off) nearly all are."""
    k = 32
    for rows, low, high in ((k, 0.0, 0.1), (int(1.5 * ROWS_A_FEATURE * k), 0.9, 1.0)):
        w, z = independent(k, rows, p)
        found = ms.certify(z @ w, w, z, lam=0.05, settings=FAST)
        assert low <= found.count("stable") / k <= high
        assert bool(said(found, "few rows:")) == (rows == k)
    w, z = independent(k, k, p)
    live = int((z > 0).any(0).sum())
    (note, *_) = said(ms.certify(z @ w, w, z, lam=0.05), "few rows: ")
    assert f"{live} of {live} live features are off on fewer than {4 * live} rows, 4 for each live feature" in note


def test_pairs_that_look_strict_by_chance_are_as_many_as_is_said() -> None:
    expected = seen = 0.0
    for seed in range(40):
        w, z = independent(64, 200, 0.03, seed)
        on = (z > 0).astype(float)
        both = on.T @ on
        strict = (both == np.diag(both)) & (np.diag(both) > 0)
        seen += strict.sum() - np.diag(strict).sum()
        expected += strict_by_chance(columns(latents_of(w, z)), 200)
    assert expected == pytest.approx(seen, rel=0.2)
    w, z = independent(64, 150, 0.03)
    assert said(ms.certify(z @ w, w, z, lam=0.05, settings=FAST), "few rows: were all features independent")


def test_what_is_never_off_is_no_parent_by_chance() -> None:
    z = np.ones((50, 3))
    z[1:, 1] = 0.0
    z[2:, 2] = 0.0
    assert strict_by_chance(columns(latents_of(np.eye(3), z)), 50) == pytest.approx(0.02**2 + 0.04)


@pytest.mark.parametrize("leak", [0.01, 0.05, 0.3])
def test_held_out_rows_that_can_confirm_are_counted_exactly(leak: float) -> None:
    needed = held_out_needed(leak)
    shown = Direction(np.array([1]), np.ones(1), 0.0, 1.0, 1.0, 1.0)
    for n, enough in ((needed, True), (needed - 1, False)):
        z = np.zeros((n, 2))
        held = latents_of(np.eye(2), z)
        assert (held_out_leak(shown, held, columns(held), 0)[2] <= leak) == enough


def test_a_partner_must_be_on_in_three_held_out_rows() -> None:
    shown = Direction(np.array([1]), np.ones(1), 0.0, 1.0, 1.0, 1.0)
    for on in (HELD_ON - 1, HELD_ON):
        z = np.zeros((400, 2))
        z[:on] = 1.0
        assert (held_out_gain(shown, latents_of(np.eye(2), z), 0) > 0) == (on == HELD_ON)


def test_few_held_out_rows_are_told() -> None:
    w, z = independent(8, 3000, 0.2)
    by, few = columns(latents_of(w, z)), latents_of(w, z[:100])
    (note,) = few_rows(by, 3000, (columns(few), 100))
    assert note.startswith("few held-out rows (100): 8 of 8 live features are off on fewer than 299;")
    z[:2000, 0] = 0.0
    silent = latents_of(w, z[:2000])
    (note,) = few_rows(columns(latents_of(w, z)), 3000, (columns(silent), 2000))
    assert "1 of 8 live features are on in fewer than 3" in note
    assert few_rows(by, 3000, (columns(latents_of(w, independent(8, 1000, 0.2, 1)[1])), 1000)) == ()


def test_a_population_counts_its_rows() -> None:
    w, z = independent(8, 500, 0.2)
    found = ms.certify(z @ w, w, z, lam=0.05, about="population")
    assert (found.provenance["rows"], found.provenance["held_out_rows"]) == (400, 100)
    assert found.subject == "the population of rows (certified on 400, checked on 100 held out)"
    assert said(found, "few held-out rows (100)")
