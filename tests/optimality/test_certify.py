"""`certify` end to end: planted hierarchies, its proofs, repair, hypotheses, and bad input."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
import torch
from tests.optimality.twins import check_witness, row_weights

import monoseme as ms
from monoseme import Code, UserError
from monoseme.optimality import CertifySettings
from monoseme.optimality.hull import HullSettings


def planted(k=64, n=3000, d=48, pairs=5, seed=0, noise=0.05):
    """Strict pairs (child 2p+1 only where parent 2p is on), codes with noise: not a stationary point."""
    r = np.random.default_rng(seed)
    w = r.standard_normal((k, d))
    w /= np.linalg.norm(w, axis=1, keepdims=True)
    z = (r.random((n, k)) < 0.08) * (0.5 + r.exponential(1.0, (n, k)))
    for p in range(min(pairs, k // 4)):
        on = z[:, 2 * p + 1] > 0
        z[on, 2 * p] = np.where(z[on, 2 * p] > 0, z[on, 2 * p], 0.5 + r.exponential(1.0, int(on.sum())))
    z = np.maximum(z * (1 + noise * r.standard_normal(z.shape)), 0)
    x = z @ w + 0.5 + 0.02 * r.standard_normal((n, d))
    return x, w, z, np.full(d, 0.5)


@pytest.mark.parametrize("learned_bias", [True, False])
def test_planted_pairs_are_found_and_no_others_and_every_proof_holds(learned_bias: bool) -> None:
    x, w, z, b = planted()
    found = ms.certify(x, w, z, b, 0.05, learned_bias)
    assert [f.feature for f in found.features if f.verdict == "unstable"] == [0, 2, 4, 6, 8]
    assert all(f.verdict != "unknown" for f in found.features)
    for f in found.features:
        assert f.witness is not None
        assert check_shown(f, z, w, learned_bias)
        if f.verdict == "unstable":
            assert f.partners[0] == f.feature + 1
            assert f.removable_loss > 0
            assert np.isinf(f.strain)
            assert f.strain_partner == f.feature + 1
    assert found.gap.value == pytest.approx((found.loss.value or 0) - (found.wide_bound.value or 0))


def check_shown(f, z, w, learned_bias):
    shown = (f.witness.kind, f.witness.index, f.witness.weight, f.witness.offset)
    if f.witness.kind == "beta":
        return check_witness(w, z, f.feature, *shown, learned_bias, 0)
    a = row_weights(z, f.feature, *shown)
    index = np.flatnonzero(a)
    return check_witness(w, z, f.feature, "rows", index, a[index], 0.0, learned_bias, f.violation_upper + 1e-9)


def test_what_the_codes_come_as_does_not_matter() -> None:
    x, w, z, b = planted(k=24, n=400)
    forms = [z, torch.from_numpy(z), sp.csr_matrix(z), Code.from_dense(torch.from_numpy(z).unsqueeze(-1))]
    tables = [ms.certify(x, w, codes, b, 0.05).table() for codes in forms]
    assert len(set(tables)) == 1
    assert ms.certify(torch.from_numpy(x), torch.from_numpy(w), z, torch.from_numpy(b), 0.05).table() == tables[0]


def test_order_and_units_do_not_matter() -> None:
    x, w, z, b = planted(k=24, n=400)
    one = ms.certify(x, w, z, b, 0.05)
    order = np.random.default_rng(0).permutation(24)
    two = ms.certify(x, w[order], z[:, order], b, 0.05)
    three = ms.certify(10 * x, w, 10 * z, 10 * b, 0.5)
    assert [two.features[int(np.flatnonzero(order == j)[0])].verdict for j in range(24)] == [
        f.verdict for f in one.features
    ]
    assert [f.verdict for f in three.features] == [f.verdict for f in one.features]
    assert three.loss.value == pytest.approx(100 * (one.loss.value or 0))
    assert three.kkt["k2"].value == pytest.approx(one.kkt["k2"].value)


def test_the_slack_decides_a_stationary_point_in_one_pass() -> None:
    r = np.random.default_rng(0)
    x = np.maximum(r.standard_normal((400, 6)), 0) @ r.standard_normal((6, 8))
    s = ms.optimality.solve(x, 6, 0.2, rounds=3000, tol=1e-15)
    found = ms.certify(x, s.atoms, s.codes, s.bias, 0.2, settings=CertifySettings())
    assert all(f.verdict == "stable" or f.density == 0 for f in found.features)
    assert (found.kkt["k2"].value or 0) < 1e-3
    assert found.kkt["implied_lam"].value == pytest.approx(0.2, rel=1e-3)
    implied = ms.certify(x, s.atoms, s.codes, s.bias)
    assert implied.lam == pytest.approx(0.2, rel=1e-3)
    # above half density an optimum without its antipode cannot stand
    for f in found.features:
        if f.density > 0.5:
            least = 0.2**2 * (2 * f.density - 1) ** 2 / (1 - f.density)
            assert f.antipode_gain >= least * (1 - 1e-2)


def test_an_antipode_gains_what_is_said() -> None:
    x, w, z, b = planted(k=8, n=300, d=12)
    found = ms.certify(x, w, z, b, 0.01)
    r = x - b - z @ w
    for f in found.features:
        extra = np.maximum(-(r @ w[f.feature]) - 0.01, 0)
        before, after = np.square(r).sum(1), np.square(r + np.outer(extra, w[f.feature])).sum(1) + 0.02 * extra
        assert (before - after).mean() == pytest.approx(f.antipode_gain, abs=1e-12)


def test_a_split_gains_at_least_what_is_said() -> None:
    from monoseme.optimality import reading
    from monoseme.optimality.certify import pair_with_codes
    from monoseme.optimality.columns import columns
    from monoseme.optimality.gains import split_gains

    seen = 0
    for seed in range(20):
        x, w, z, b = planted(k=6, n=120, d=8, pairs=1, seed=seed)
        x = x + 0.5 * np.random.default_rng(seed).standard_normal(x.shape)
        latents = reading.latents(w, b, reading.as_code(z, 120, 6))
        by, lam = columns(latents), 0.05
        gain, delta = split_gains(pair_with_codes(lambda x=x: iter([x]), latents), latents, by, lam)
        r = x - b - z @ w
        for k in range(6):
            along = r @ delta[k]
            eps = (z[:, k] * np.abs(along)).mean() / (by.square[k] + lam * by.mass[k])
            size = np.sqrt(1 + eps**2)  # copies (w ± eps δ)/size with codes z·size
            up = np.where(along >= 0, 1.0, -1.0)
            new = r - np.outer(z[:, k] * up * eps, delta[k])
            drop = np.square(r).sum(1).mean() - np.square(new).sum(1).mean() - 2 * lam * by.mass[k] * (size - 1)
            assert drop >= gain[k] * (1 - 1e-9)
            seen += gain[k] > 0
    assert seen >= 100


def test_repair_keeps_its_promises_and_says_what_it_did() -> None:
    x, w, z, b = planted(k=24, n=600)
    found = ms.optimality.repair(x, w, z, b, 0.05, edits=6, refit=3)
    assert len(found.edits) == 5  # one for each planted pair; then no feature is unstable
    assert all(e.gained >= e.promised * (1 - 1e-9) for e in found.edits)
    assert found.after <= found.edited < found.before
    assert "would absorb it" in found.table()


def test_a_hypothesis_is_judged_before_training() -> None:
    x, w, z, b = planted(k=12, n=1500, d=24, pairs=1)
    names = [f"c{j}" for j in range(12)]
    found = ms.optimality.hypothesis(x, 0.05, concepts=w, labels=z, bias=b, names=names)
    assert found.fates[0] == "absorbed or split"
    assert set(found.fates[1:]) == {"stays"}
    assert "c0: absorbed or split" in found.table()
    assert "c1 would absorb it" in found.table()
    learnt = ms.optimality.hypothesis(x, 0.05, labels=(z > 0).astype(int))
    assert learnt.fates[0] == "absorbed or split"
    dense = np.concatenate(
        [z, 1.0 + np.random.default_rng(0).random((1500, 1)) * (np.arange(1500)[:, None] % 5 > 0)], 1
    )
    rows = x + dense[:, -1:] * np.eye(24)[:1]
    both = ms.optimality.hypothesis(
        rows, 0.05, concepts=np.concatenate([w, np.eye(24)[:1]]), labels=dense - (dense == 1)
    )
    assert both.certification.features[12].density > 0.5


def test_a_featurizer_is_certified_on_rows_and_on_a_population() -> None:
    x, _, _, _ = planted(k=16, n=2000, d=16)
    f = ms.featurizers.TopK(16, 32, k=4, seed=0).fit(x.astype(np.float32), steps=200)
    for codes in ("as-is", "resolved"):
        for about in ("rows", "population"):
            found = ms.certify(f, x.astype(np.float32), codes, lam=0.05, about=about)
            assert len(found.features) == 32
            assert found.about == about
            assert any("L1-equivalent" in note for note in found.notes) or codes == "resolved"


def test_signed_codes_count_as_two_atoms() -> None:
    _x, w, z, b = planted(k=8, n=300, d=12)
    signed = z * np.where(np.random.default_rng(0).random(z.shape) < 0.5, 1, -1)
    found = ms.certify(signed @ w + b, w, signed, b, 0.05)
    assert len(found.features) == 16
    assert (found.features[3].block, found.features[3].side) == (1, -1)
    assert any("two atoms" in note for note in found.notes)


def test_atoms_that_are_not_unit_are_rescaled_with_a_note() -> None:
    x, w, z, b = planted(k=8, n=300, d=12)
    one, two = ms.certify(x, w, z, b, 0.05), ms.certify(x, 3 * w, z / 3, b, 0.05)
    assert [f.verdict for f in one.features] == [f.verdict for f in two.features]
    assert two.loss.value == pytest.approx(one.loss.value)
    assert any("rescaled" in note for note in two.notes)


def test_never_off_never_on_and_few_rows() -> None:
    r = np.random.default_rng(0)
    w = np.eye(4)
    z = np.abs(r.standard_normal((3, 4)))
    z[:, 2], z[:2, 1] = 0.0, 0.0
    found = ms.certify(z @ w, w, z, np.zeros(4), 0.1)
    assert found.features[0].verdict == "unstable"
    assert "never off" in found.features[0].why
    assert found.features[2].verdict == "unknown"
    assert "never active" in found.features[2].why


BAD = {
    "integers": (lambda x, w, z, b: ((x * 10).astype(int), w, z, b, 0.1), "x"),
    "NaN rows": (lambda x, w, z, b: (np.where(x > 1, np.nan, x), w, z, b, 0.1), "x"),
    "NaN codes": (lambda x, w, z, b: (x, w, np.where(z > 1, np.nan, z), b, 0.1), "codes"),
    "integer codes": (lambda x, w, z, b: (x, w, z.astype(int), b, 0.1), "codes"),
    "codes of another width": (lambda x, w, z, b: (x, w, z[:, :-1], b, 0.1), "codes"),
    "atoms of another width": (lambda x, w, z, b: (x, w[:, :-1], z, b, 0.1), "atoms"),
    "bias of another width": (lambda x, w, z, b: (x, w, z, b[:-1], 0.1), "bias"),
    "lam zero": (lambda x, w, z, b: (x, w, z, b, 0.0), "lam"),
    "lam NaN": (lambda x, w, z, b: (x, w, z, b, float("nan")), "lam"),
    "no codes": (lambda x, w, z, b: (x, w), "codes"),
    "no shrinkage": (lambda x, w, z, b: (z @ w - z @ w * 0.1, w, z, 0 * b), "lam"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line(case: str) -> None:
    make, name = BAD[case]
    with pytest.raises(UserError, match=rf"^{name} must") as caught:
        ms.certify(*make(*planted(k=8, n=60, d=6)))
    assert "\n" not in str(caught.value)


def test_blocks_are_audited_and_never_called_stable_without_proof() -> None:
    x, _, _, _ = planted(k=16, n=1500, d=12)
    f = ms.featurizers.Grassmannian(12, 8, 2, k=2, seed=0).fit(x.astype(np.float32), steps=100)
    for about in ("rows", "population"):
        found = ms.certify(f, x.astype(np.float32), lam=0.05, about=about)
        assert len(found.features) == 8
        assert {feature.verdict for feature in found.features} <= {"unstable", "unknown"}
        assert (found.loss.value or 0) >= (found.wide_bound.value or 0)
        assert "ℓ2,1-equivalent" in found.notes[0]
    with pytest.raises(UserError, match="lam must"):
        ms.certify(f, x.astype(np.float32))
    with pytest.raises(UserError, match="codes must"):
        ms.certify(f, x.astype(np.float32), "resolved", lam=0.05)


def test_held_out_rows_are_never_the_rows_certified_on() -> None:
    x, w, z, b = planted(k=8, n=4, d=6)
    with pytest.raises(UserError, match="x must hold at least 5 rows"):
        ms.certify(x, w, z, b, 0.05, about="population")
    rows = np.random.default_rng(0).standard_normal((64, 6)).astype(np.float32)
    f = ms.featurizers.TopK(6, 8, k=2, seed=0).fit(rows, steps=5)
    store = ms.ActivationStore.__new__(ms.ActivationStore)
    with pytest.raises(UserError, match="split must not be the one held out"):
        ms.certify(f, store, lam=0.05, split="test")


def test_an_antipode_that_is_moved_onto_nothing_falls_silent() -> None:
    w = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]])
    r = np.random.default_rng(0)
    z = np.zeros((40, 3))
    z[:, 0], z[:, 2] = 2.0, r.random(40)
    z[:10, 1] = 0.5  # on only where its opposite is: both could shrink
    found = ms.optimality.repair(z @ w, w, z, np.zeros(2), 0.1, learned_bias=False, edits=4, refit=0)
    assert len(found.edits) > 0
    assert all(e.gained >= e.promised * (1 - 1e-9) for e in found.edits)
    assert np.isfinite(found.atoms).all()


def test_half_precision_and_sparse_tensors_are_read() -> None:
    x, w, z, b = planted(k=8, n=100, d=6)
    one = ms.certify(x, w, torch.from_numpy(z).to_sparse(), b, 0.05)
    assert one.table() == ms.certify(x, w, z, b, 0.05).table()
    assert len(ms.certify(torch.from_numpy(x).bfloat16(), w, z, b, 0.05).features) == 8


def test_where_time_runs_out_strict_pairs_are_known_all_the_same() -> None:
    x, w, z, b = planted()
    hull = HullSettings(seconds=0.0)
    found = ms.certify(x, w, z, b, 0.05, settings=CertifySettings(slack=False, hull=hull))
    assert [f.feature for f in found.features if f.verdict == "unstable"] == [0, 2, 4, 6, 8]
    assert found.count("unknown") > 0


def test_a_zero_atom_is_not_called_rescaled() -> None:
    x, w, z, b = planted(k=8, n=300, d=12)
    w[3] = 0.0
    found = ms.certify(x, w, z, b, 0.05)
    assert not any("rescaled" in note for note in found.notes)
    assert any("1 of 8 atom is zero" in note for note in found.notes)
    assert found.features[3].density == 0


MORE = {
    "cover bias": (lambda x, w, z, b: ms.optimality.cover(x, b[:-1], 0.1, 0.1), "bias"),
    "hypothesis bias": (lambda x, w, z, b: ms.optimality.hypothesis(x, 0.1, concepts=w, bias=b[:-1]), "bias"),
    "hypothesis NaN bias": (lambda x, w, z, b: ms.optimality.hypothesis(x, 0.1, concepts=w, bias=b * np.nan), "bias"),
    "labels of no concept": (lambda x, w, z, b: ms.optimality.hypothesis(x, 0.1, labels=z[:, :0]), "labels"),
    "edits": (lambda x, w, z, b: ms.optimality.repair(x, w, z, b, 0.1, edits=-1), "edits"),
    "threads": (lambda x, w, z, b: ms.certify(x, w, z, b, 0.1, settings=CertifySettings(threads=0)), "threads"),
}


@pytest.mark.parametrize("case", MORE)
def test_more_bad_input_is_one_line(case: str) -> None:
    call, name = MORE[case]
    with pytest.raises(UserError, match=rf"^{name} must") as caught:
        call(*planted(k=8, n=60, d=6))
    assert "\n" not in str(caught.value)
