"""Energies of a matrix against their definitions, and the population's against every pair of units."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch

from monoseme.interaction import energies as e
from monoseme.interaction.factors import FactorSums
from monoseme.interaction.population import ENERGIES, population_energies

OF: dict[str, Callable[[np.ndarray], float]] = {name: getattr(e, name) for name in ENERGIES}
FREE_OF_SCALE = ("aofe_ratio", "mean_cos2", "normalised_aofe", "participation_ratio", "rotation_baseline", "excess",
                 "effective_rank")  # fmt: skip


def psd(d: int, rank: int, seed: int) -> np.ndarray:
    j = np.random.default_rng(seed).standard_normal((rank, d)) * np.linspace(0.3, 2, d)
    return j.T @ j


@pytest.mark.parametrize("d", [1, 2, 7, 40])
def test_definitions(d: int) -> None:
    g = psd(d, 3, d)
    off = g - np.diag(np.diag(g))
    whole = float(np.linalg.norm(g)) ** 2
    assert e.aofe(g) == pytest.approx(np.linalg.norm(off) ** 2, abs=1e-9 * whole)
    assert e.aofe_ratio(g) == pytest.approx(np.linalg.norm(off) ** 2 / whole, abs=1e-12)
    assert e.participation_ratio(g) == pytest.approx(np.trace(g) ** 2 / whole)
    assert e.normalised_aofe(g) == pytest.approx(e.aofe_ratio(g) / e.participation_ratio(g), abs=1e-12)
    pairs = [(i, k) for i in range(d) for k in range(d) if i != k]
    weight = np.array([g[i, i] * g[k, k] for i, k in pairs])
    cos2 = np.array([g[i, k] ** 2 / (g[i, i] * g[k, k]) for i, k in pairs])
    assert e.mean_cos2(g) == pytest.approx(float(weight @ cos2 / weight.sum()) if pairs else 0.0, abs=1e-12)
    p = np.linalg.eigvalsh(g).clip(1e-300)
    p /= p.sum()
    assert e.effective_rank(g) == pytest.approx(np.exp(-(p * np.log(p)).sum()), rel=1e-9)
    assert (np.diff(e.spectrum(g)) <= 0).all()


@pytest.mark.parametrize("name", FREE_OF_SCALE)
def test_free_of_scale_and_order(name: str) -> None:
    g, order = psd(9, 4, 1), np.random.default_rng(0).permutation(9)
    of = getattr(e, name)
    assert of(1e-9 * g) == pytest.approx(of(g), rel=1e-9)
    assert of(g[np.ix_(order, order)]) == pytest.approx(of(g), rel=1e-9)


def test_of_nothing() -> None:
    zero = np.zeros((4, 4))
    assert [of(zero) for of in (e.aofe, e.aofe_ratio, e.mean_cos2, e.participation_ratio, e.effective_rank)] == [0] * 5
    assert e.aofe_ratio(np.eye(4)) == 0
    assert e.mean_cos2(np.diag([1.0, 0, 0])) == 0


@pytest.mark.parametrize(("d", "rank"), [(6, 1), (6, 6), (30, 4)])
def test_baseline_is_the_mean_over_random_bases(d: int, rank: int) -> None:
    r, g = np.random.default_rng(2), psd(d, rank, 3)
    drawn = []
    for _ in range(2000):
        q, s = np.linalg.qr(r.standard_normal((d, d)))
        q *= np.sign(np.diag(s))
        drawn.append(e.aofe_ratio(q @ g @ q.T))
    error = np.std(drawn) / len(drawn) ** 0.5
    assert abs(np.mean(drawn) - e.rotation_baseline(g)) < 4 * error


@pytest.mark.parametrize("m", [2, 9])  # rows a unit: fewer and more than half the width, two ways to the same sums
def test_population_is_the_mean_over_pairs_of_units(m: int) -> None:
    f = torch.randn(17, m, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    sums = FactorSums(5)
    sums.add(f)
    each = (f.mT @ f).numpy()
    np.testing.assert_allclose(sums.matrix(), each.mean(0), rtol=1e-12)
    pairs = [(i, j) for i in range(17) for j in range(17) if i != j]
    whole = np.mean([(each[i] * each[j]).sum() for i, j in pairs])
    diagonal = np.mean([np.diag(each[i]) @ np.diag(each[j]) for i, j in pairs])
    trace2 = np.mean([np.trace(each[i]) * np.trace(each[j]) for i, j in pairs])
    found = {name: o.value for name, o in population_energies(sums).items()}
    assert found["aofe"] == pytest.approx(whole - diagonal, rel=1e-10)
    assert found["aofe_ratio"] == pytest.approx((whole - diagonal) / whole, rel=1e-10)
    assert found["participation_ratio"] == pytest.approx(trace2 / whole, rel=1e-10)
    assert found["mean_cos2"] == pytest.approx((whole - diagonal) / (trace2 - diagonal), rel=1e-10)
    assert found["trace"] == pytest.approx(np.mean([np.trace(g) for g in each]), rel=1e-12)


def test_batches_and_scale_do_not_matter_and_sums_merge() -> None:
    f = torch.randn(50, 3, 6, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    at_once, parts, scaled = FactorSums(6), FactorSums(6), FactorSums(6)
    at_once.add(f)
    scaled.add(10 * f)
    for part in f.split([7, 1, 30, 12]):
        parts.add(part)
    a, b, c = (population_energies(s) for s in (at_once, parts, scaled))
    for name, o in a.items():
        other = b[name]
        assert (o.value, o.low, o.high) == pytest.approx((other.value, other.low, other.high), rel=1e-9)
    assert c["aofe_ratio"].value == pytest.approx(a["aofe_ratio"].value, rel=1e-12)
    halves = [FactorSums(6), FactorSums(6)]
    for half, part in zip(halves, f.split(32), strict=True):  # 32 groups: the second half begins anew with group 0
        half.add(part)
    joined = halves[0].merge(halves[1])
    torch.testing.assert_close(joined.totals, at_once.totals)
    torch.testing.assert_close(joined.squares, at_once.squares)


def planted(n: int, m: int | None, seed: int, d: int = 12, k: int = 10):
    """Jacobians B + A u of n units with Gaussian u, m probes each or all outputs, and the population's G."""
    r = np.random.default_rng(0)
    a, b = 0.7 * r.standard_normal((k, d, 3)), r.standard_normal((k, d))
    g = b.T @ b + sum(a[:, :, c].T @ a[:, :, c] for c in range(3))
    r = np.random.default_rng([seed, 1])
    f = b + np.einsum("kdc,nc->nkd", a, r.standard_normal((n, 3)))
    if m is not None:
        f = np.einsum("nmk,nkd->nmd", r.choice([-1.0, 1.0], (n, m, k)), f) / m**0.5
    return torch.from_numpy(f), g


@pytest.mark.parametrize("m", [None, 4])
def test_intervals_cover_and_the_plug_ins_bias_is_gone(m: int | None) -> None:
    names = ("aofe", "aofe_ratio", "participation_ratio", "trace", "mean_cos2", "normalised_aofe")
    hits, values, plug_in = dict.fromkeys(names, 0), {name: [] for name in names}, []
    for seed in range(200):
        f, g = planted(64, m, seed)
        sums = FactorSums(f.shape[2])
        sums.add(f)
        found = population_energies(sums)
        plug_in.append(e.aofe(sums.matrix()) / e.aofe(g) - 1)
        for name in names:
            o, truth = found[name], OF[name](g)
            assert o.value is not None
            assert o.low is not None
            assert o.high is not None
            hits[name] += o.low <= truth <= o.high
            values[name].append(o.value / truth - 1)
    assert all(0.90 <= hit / 200 <= 0.99 for hit in hits.values()), hits
    for drawn in values.values():
        assert abs(np.mean(drawn)) < 4 * np.std(drawn) / 200**0.5
    # the plug-in is too large: about 4 % with all ten outputs, 15 % with four probes
    assert np.mean(plug_in) > (0.02 if m is None else 0.1)


def test_what_cannot_be_known_is_said() -> None:
    sums = FactorSums(3)
    sums.add(torch.ones(1, 2, 3))
    assert all(not o.known for o in population_energies(sums).values())
    sums.add(torch.ones(4, 2, 3))
    few = population_energies(sums)["aofe"]
    assert few.value is not None
    assert few.low is None
    assert "8 groups" in few.note
    zero = FactorSums(3)
    zero.add(torch.zeros(20, 2, 3))
    assert not population_energies(zero)["aofe_ratio"].known
    one_group = FactorSums(100, keep=8 * 100 * 100 * 3)
    one_group.add(torch.randn(40, 1, 100, generator=torch.Generator().manual_seed(0)))
    assert population_energies(one_group)["aofe"].low is None


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: FactorSums(0), "width"),
        (lambda: FactorSums(100_000), "width"),
        (lambda: FactorSums(3).add(torch.ones(2, 2, 4)), "factors"),
        (lambda: FactorSums(3).matrix(), "factors"),
        (lambda: FactorSums(3).merge(FactorSums(4)), "other"),
        (lambda: e.aofe(np.ones((2, 3))), "g"),
        (lambda: e.trace(np.full((2, 2), np.nan)), "g"),
    ],
)
def test_bad_input_is_one_line_that_names_the_argument(call: Callable[[], object], argument: str) -> None:
    with pytest.raises(ValueError, match=f"^{argument} ") as error:
        call()
    assert "\n" not in str(error.value)
