"""An AGOP in a featurizer's basis: against D G Dᵀ written out, its bias, its control, and rotations inside blocks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.interaction.basis import block_energies
from monoseme.interaction.factors import FactorSums

G, B, D = 7, 2, 9


def atoms(blocks: int = G, size: int = B, width: int = D, seed: int = 0) -> torch.Tensor:
    return torch.randn(blocks, size, width, generator=generator(seed, "atoms"), dtype=torch.float64)


def sums(n: int, width: int = D, seed: int = 0, rows: int = 3) -> FactorSums:
    found = FactorSums(width)
    scale = torch.linspace(0.2, 2, width, dtype=torch.float64)
    found.add(torch.randn(n, rows, width, generator=generator(seed, "factors"), dtype=torch.float64) * scale)
    return found


def written_out(g: np.ndarray, d: torch.Tensor) -> tuple[np.ndarray, np.ndarray, float, float]:
    flat = d.numpy().reshape(-1, d.shape[2])
    whole = np.square(flat @ g @ flat.T).reshape(len(d), d.shape[1], len(d), d.shape[1]).sum((1, 3))
    sensitivity = np.array([np.trace(a @ g @ a.T) for a in d.numpy()])
    off = whole - np.diag(np.diag(whole))
    return sensitivity, off.sum(1), float(off.sum()), float(whole.sum())


def test_a_matrix_gives_what_is_written_out() -> None:
    g, d = sums(20).matrix(), atoms()
    found = block_energies(g, d)
    sensitivity, rows, off, whole = written_out(g, d)
    np.testing.assert_allclose(found.sensitivity, sensitivity, rtol=1e-12)
    np.testing.assert_allclose(found.interaction, rows, rtol=1e-10)
    assert found.off_block.value == pytest.approx(off, rel=1e-10)
    assert found.off_block_ratio.value == pytest.approx(off / whole, rel=1e-10)
    assert np.isnan(found.sensitivity_error).all()
    assert found.off_block.low is None


def test_sums_give_the_mean_over_pairs_of_different_groups() -> None:
    made, d = sums(40), atoms()
    found = block_energies(made, d)
    totals, counts = made.totals.numpy(), made.squares[0].numpy()
    flat = d.numpy().reshape(-1, D)
    energy, pairs = np.zeros((G, G)), 0.0
    for a in range(len(totals)):
        for b in range(len(totals)):
            if a != b:
                left, right = flat @ totals[a] @ flat.T, flat @ totals[b] @ flat.T
                energy += (left * right).reshape(G, B, G, B).sum((1, 3))
                pairs += counts[a] * counts[b]
    off = (energy - np.diag(np.diag(energy))) / pairs
    np.testing.assert_allclose(found.interaction, off.sum(1), rtol=1e-9)
    assert found.off_block.value == pytest.approx(off.sum(), rel=1e-9)
    np.testing.assert_allclose(found.sensitivity, written_out(made.matrix(), d)[0], rtol=1e-12)


def test_no_bias_where_the_plug_in_has_much_and_intervals_cover() -> None:
    d = atoms()
    truth = np.diag(torch.linspace(0.2, 2, D, dtype=torch.float64).square().numpy()) * 3
    sensitivity, _, off, _ = written_out(truth, d)
    unbiased, plug_in, covered, near = [], [], 0, 0
    for draw in range(100):
        made = sums(64, seed=draw)
        found = block_energies(made, d, turns=2)
        assert found.off_block.value is not None
        assert found.off_block.low is not None
        assert found.off_block.high is not None
        unbiased.append(found.off_block.value)
        plug_in.append(block_energies(made.matrix(), d, turns=2).off_block.value)
        covered += found.off_block.low <= off <= found.off_block.high
        near += int((abs(found.sensitivity - sensitivity) <= 2.04 * found.sensitivity_error).sum())
    error = np.std(unbiased) / 10
    assert abs(np.mean(unbiased) - off) < 3 * error
    assert np.mean(plug_in) > off + 3 * error
    assert 88 <= covered <= 100
    assert 0.9 <= near / (100 * G) <= 0.99


def test_turning_inside_blocks_changes_nothing_and_scale_is_as_it_says() -> None:
    made, d = sums(40), atoms()
    turn = torch.linalg.qr(torch.randn(B, B, generator=generator(2, "turn"), dtype=torch.float64))[0]
    found, turned, larger = (block_energies(made, x) for x in (d, turn @ d, 3 * d))
    np.testing.assert_allclose(turned.sensitivity, found.sensitivity, rtol=1e-10)
    np.testing.assert_allclose(turned.interaction, found.interaction, rtol=1e-8)
    np.testing.assert_allclose(larger.sensitivity, 9 * found.sensitivity, rtol=1e-10)
    np.testing.assert_allclose(larger.relative, found.relative, rtol=1e-10)
    assert larger.off_block_ratio.value == pytest.approx(found.off_block_ratio.value, rel=1e-9)


def test_eigenvectors_act_apart_and_random_blocks_have_relative_one_on_average() -> None:
    g = sums(30).matrix()
    vectors = torch.from_numpy(np.linalg.eigh(g)[1].T.copy())
    apart = block_energies(g, vectors.reshape(3, 3, D))
    assert apart.off_block_ratio.value == pytest.approx(0, abs=1e-12)
    assert apart.rotated_ratio.value is not None
    assert apart.rotated_ratio.value > 0.1
    many = block_energies(g, atoms(4000, 1))
    assert np.mean(many.relative) == pytest.approx(1, abs=0.05)


def test_cards_say_what_is_known() -> None:
    known, bare = block_energies(sums(40), atoms()).card(2), block_energies(sums(40).matrix(), atoms()).card(2)
    assert [one.name for one in known] == ["sensitivity", "interaction"]
    assert known[0].low is not None
    assert bare[0].low is None
    assert "random block" in known[0].note


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: block_energies(np.eye(4), atoms()), "atoms"),
        (lambda: block_energies(np.ones((3, 4)), atoms()), "of"),
        (lambda: block_energies(FactorSums(D), atoms()), "of"),
        (lambda: block_energies(np.eye(D), atoms() * torch.nan), "atoms"),
        (lambda: block_energies(np.eye(D), atoms(), turns=1), "turns"),
    ],
)
def test_wrong_input_is_refused(call: object, argument: str) -> None:
    with pytest.raises(UserError, match=argument) as caught:
        call()  # pyright: ignore[reportCallIssue]
    assert "\n" not in str(caught.value)


def test_blocks_without_sensitivity_are_not_known() -> None:
    found = block_energies(np.zeros((D, D)), atoms())
    assert found.off_block_ratio.value is None
    assert np.isnan(found.relative).all()
