"""`certify_blocks` end to end: what is planted is found, every promise is kept, nothing depends on the gauge."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from tests.optimality.blocks.dense import as_blocks, frames_of, loss_of, planted, stationary

from monoseme import Code, UserError
from monoseme.core.rows import ArrayRows
from monoseme.optimality.blocks import apply_move, blocks, certify_blocks, move_of, resolve

LAM = 0.05


def world(n: int = 600, b: int = 2, seed: int = 0):
    return planted(np.random.default_rng(seed), n, 5, b, 14)


@pytest.mark.parametrize("b", [1, 2, 3])
def test_a_planted_child_is_found_and_its_promise_kept(b: int) -> None:
    x, frames, z = planted(np.random.default_rng(b), 1500, 5, b, 40)
    found = certify_blocks(x, z, frames, None, LAM)
    unstable = {f.feature for f in found.features if f.verdict == "unstable"}
    assert 1 in unstable
    assert found.features[1].partners == (0,)
    assert "0 would absorb it: 100.0%" in found.features[1].why
    assert unstable <= {0, 1}
    on = as_blocks(frames, z)
    for f in found.features:
        move = move_of(f)
        assert f.side == 0
        assert f.density == pytest.approx((z[:, f.feature] != 0).any(1).mean())
        assert f.violation_upper == math.inf
        if move is None:
            assert f.verdict == "unknown"
            assert f.removable_loss == 0
            continue
        moved = apply_move(on, move, f.step)
        assert loss_of(x, on, LAM) - loss_of(x, moved, LAM) >= f.removable_loss - 1e-12 > 0
        assert f.removable_loss == pytest.approx(LAM * f.violation_lower**2)
        assert f.beta == {}
    assert found.numbers["loss"].value == pytest.approx(loss_of(x, on, LAM))
    assert found.numbers["unstable"].value == pytest.approx(len(unstable) / 5)
    assert (found.numbers["gap"].value or 0) > 0
    pairs = [found.numbers[name].value or 0 for name in ("stable_pairs", "unstable_pairs", "open_pairs")]
    assert sum(pairs) == 20
    assert found.numbers["widen_gain"].known
    assert all(f.split_gain > 0 for f in found.features)
    assert any("joint certificate" in note for note in found.notes)


def test_nothing_depends_on_the_gauge_the_container_or_the_precision_of_rows() -> None:
    x, frames, z = world()
    r = np.random.default_rng(1)
    stretch = r.standard_normal((5, 2, 2))
    turned, codes = stretch @ frames, np.einsum("ngb,gbc->ngc", z, np.linalg.inv(stretch))
    one = certify_blocks(x, z, frames, None, LAM, splits=False)
    other = certify_blocks(
        ArrayRows(torch.from_numpy(x)),
        Code.from_dense(torch.from_numpy(codes)),
        torch.from_numpy(turned),
        torch.zeros(14, dtype=torch.float64),
        LAM,
        splits=False,
    )
    assert "5 of 5 blocks were not orthonormal" in other.notes[0]
    for a, b in zip(one.features, other.features, strict=True):
        assert (a.verdict, a.partners, a.why) == (b.verdict, b.partners, b.why)
        assert a.removable_loss == pytest.approx(b.removable_loss, rel=1e-5)
    for name, value in one.numbers.items():
        assert value.value == pytest.approx(other.numbers[name].value, rel=1e-6), name
    for name, value in one.kkt.items():
        assert value.value == pytest.approx(other.kkt[name].value, rel=1e-6, abs=1e-9), name


def test_at_a_stationary_point_no_block_is_called_unstable() -> None:
    x = np.random.default_rng(3).standard_normal((80, 6)) * np.linspace(0.4, 1.5, 6)
    on, _ = stationary(x, 3, 2, 0.4)
    found = certify_blocks(x, on.to_dense(), on.frames, on.bias, 0.4)
    assert {f.verdict for f in found.features} == {"unknown"}
    assert all(f.antipode_gain == pytest.approx(0, abs=1e-12) for f in found.features)
    assert (found.kkt["k2"].value or 0) < 1e-5


def test_a_one_sided_dense_block_is_taken_over_by_the_bias_if_it_may_move() -> None:
    r, frames = np.random.default_rng(0), frames_of(np.random.default_rng(0), 2, 2, 6)
    z = np.zeros((300, 2, 2))
    z[:, 0] = (r.random((300, 1)) < 0.9) * (np.array([2.0, 0]) + 0.2 * r.standard_normal((300, 2)))
    z[:, 1] = (r.random((300, 1)) < 0.3) * r.standard_normal((300, 2))
    x, on = np.einsum("ngb,gbd->nd", z, frames), as_blocks(frames, z)
    free, fixed = (certify_blocks(x, z, frames, None, LAM, flag) for flag in (True, False))
    first = free.features[0]
    assert first.verdict == "unstable"
    assert "bias" in first.why or first.partners
    move = move_of(first)
    assert move is not None
    assert np.linalg.norm(move.offset) > 0
    moved = apply_move(on, move, first.step)
    assert loss_of(x, on, LAM) - loss_of(x, moved, LAM) >= first.removable_loss > 0
    for f in fixed.features:
        kept = move_of(f)
        assert kept is None or not kept.offset.any()
    assert "k3" not in fixed.kkt
    assert (free.kkt["balance"].value or 0) > 0.5


def test_held_out_rows_can_take_a_verdict_back() -> None:
    x, frames, z = world(60, seed=2)
    _, _, same = world(4000, seed=7)
    r = np.random.default_rng(8)
    leaky = same.copy()
    leaky[:, 1] *= r.random((4000, 1)) < 0.2  # the parent is mostly off with the child now
    plain = certify_blocks(x, z, frames, None, LAM, splits=False, wide=False)
    kept = certify_blocks(x, z, frames, None, LAM, held=same, splits=False, wide=False)
    lost = certify_blocks(x, z, frames, None, LAM, held=leaky, splits=False, wide=False)
    assert plain.features[1].verdict == kept.features[1].verdict == "unstable"
    assert lost.features[1].verdict == "unknown"
    assert "held-out" in lost.features[1].why
    assert lost.features[1].violation_lower > 0
    assert any("exactly these rows" in note for note in plain.notes)
    assert not any("exactly these rows" in note for note in kept.notes)


def test_resolved_codes_and_dead_blocks() -> None:
    x, frames, _ = world()
    frames = np.concatenate([frames, np.zeros((1, 2, 14))])
    on, gap = resolve(x, frames[:5], None, LAM)
    assert gap.max() < 1e-6
    z = np.concatenate([on.to_dense(), np.ones((600, 1, 2))], 1)  # codes of a block of zeros say nothing
    found = certify_blocks(x, z, frames, None, LAM)
    assert found.features[5].density == 0
    assert "never on" in found.features[5].why
    assert found.numbers["dead_share"].value == pytest.approx(1 / 6)
    assert (found.kkt["code_gap"].value or 0) < 1e-5
    empty = certify_blocks(x, 0 * z, frames, None, LAM)
    assert not empty.numbers["unstable"].known
    assert all(f.verdict == "unknown" for f in empty.features)


X, F, Z = np.ones((3, 4)), np.eye(4).reshape(2, 2, 4), np.ones((3, 2, 2))
BAD = {
    "integer rows": ((X.astype(int), Z, F, None, 0.1), "rows"),
    "nan rows": ((X * np.nan, Z, F, None, 0.1), "rows"),
    "nan in a source": ((ArrayRows(X * np.nan), Z, F, None, 0.1), "rows"),
    "rows of another width": ((np.ones((3, 5)), Z, F, None, 0.1), "rows"),
    "a source of another width": ((ArrayRows(np.ones((3, 5))), Z, F, None, 0.1), "rows"),
    "fewer codes than rows": ((X, Z[:2], F, None, 0.1), "codes"),
    "lam of zero": ((X, Z, F, None, 0.0), "lam"),
    "frames of two axes": ((X, Z, F[0], None, 0.1), "frames"),
    "held-out codes of other blocks": ((X, Z, F, None, 0.1), "codes"),
}


@pytest.mark.parametrize("case", BAD)
def test_what_does_not_fit_is_refused_in_one_line(case: str) -> None:
    arguments, name = BAD[case]
    more = {"held": Z[:, :1]} if case.startswith("held") else {}
    with pytest.raises(UserError) as caught:
        certify_blocks(*arguments, **more)
    assert str(caught.value).startswith(f"{name} must")
    assert "\n" not in str(caught.value)


def test_single_precision_rows_and_codes_are_read_in_double() -> None:
    x, frames, z = world()
    one = certify_blocks(x.astype(np.float32), z.astype(np.float32), frames.astype(np.float32), None, LAM, wide=False)
    assert one.features[1].verdict == "unstable"
    assert blocks(frames.astype(np.float32), None, z).frames.dtype == np.float64
