"""Description length, dimension and smoothness: values computed by others, loops, invariances, planted worlds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.core.code import Code
from monoseme.core.rows import ArrayRows, Batch
from monoseme.core.seeds import generator
from monoseme.evaluation.code_sums import code_sums, jackknife, log2_choose
from monoseme.evaluation.description_length import (
    HORIZON,
    contribution_spectrum,
    description_length,
    dictionary_bits,
    lengths,
    water_level,
)
from monoseme.evaluation.dimension import dimension, ranks
from monoseme.evaluation.smoothness import dirichlet, matched_ratio, smoothness, total_variation
from monoseme.worlds import manifolds


class Fixed:
    """Orthonormal blocks, known; codes of the k largest by projection."""

    def __init__(self, atoms: torch.Tensor, k: int, bias: torch.Tensor | None = None) -> None:
        self.atoms, self.k = atoms.double(), k
        self.bias = torch.zeros(atoms.shape[2], dtype=torch.float64) if bias is None else bias.double()
        self.inverse = torch.linalg.pinv(self.atoms @ self.atoms.mT)

    def encode(self, x: torch.Tensor, refine: object = None) -> Code:
        flat = x.double() - self.bias
        z = torch.einsum("nd,gbd->ngb", flat, self.atoms)
        z = torch.einsum("ngb,gbc->ngc", z, self.inverse)
        size = torch.einsum("ngb,gbd->ngd", z, self.atoms).square().sum(2)
        mask = torch.zeros(size.shape, dtype=torch.bool).scatter_(1, size.topk(self.k).indices, True)
        return Code.from_dense(z * mask[:, :, None], mask & (size > 0))

    def decode(self, code: Code) -> torch.Tensor:
        return torch.einsum("ngb,gbd->nd", code.to_dense(), self.atoms) + self.bias


def frames(G: int, b: int, d: int, seed: int = 0) -> torch.Tensor:
    drawn = torch.randn(G, d, b, generator=generator(seed, "frames"), dtype=torch.float64)
    return torch.linalg.qr(drawn).Q.mT


def drawn(n: int = 600, G: int = 6, b: int = 3, d: int = 12, seed: int = 0) -> tuple[Fixed, torch.Tensor]:
    x = torch.randn(n, d, generator=generator(seed, "x"), dtype=torch.float64) * torch.linspace(0.5, 2, d).double()
    return Fixed(frames(G, b, d, seed), 2), x + 0.7


# values of the reference notes, computed by others
@pytest.mark.parametrize(
    ("n", "k", "bits"),
    [(4096, 16, 147.7), (12288, 48, 449.0), (32768, 64, 663.9), (3 * 32768, 192, 1999.6), (256, 8, 48.5)],
)
def test_bits_of_a_choice(n: int, k: int, bits: float) -> None:
    assert float(log2_choose(n, k)) == pytest.approx(bits, abs=0.06)
    assert float(log2_choose(n, k)) == pytest.approx(math.log2(math.comb(n, k)), rel=1e-9)


@pytest.mark.parametrize(("b", "bits"), [(1, 1.40), (3, 4.18), (16, 21.9)])
def test_bits_of_a_dictionary(b: int, bits: float) -> None:
    assert dictionary_bits(32768, b, 768, HORIZON) == pytest.approx(bits, rel=5e-3)


@pytest.mark.parametrize(
    ("step", "r2"), [(1.0, 0.917), (1.1, 0.899), (1.55, 0.800), (2.0, 0.670), (3.0, 0.352), (7.0, 0.002)]
)
def test_what_a_quantiser_leaves_of_a_gaussian(step: float, r2: float) -> None:
    x = np.linspace(-8, 8, 2_000_001)
    density = np.exp(-(x**2) / 2)
    lost = (np.square(x - step * np.round(x / step)) * density).sum() / (np.square(x) * density).sum()
    assert 1 - lost == pytest.approx(r2, abs=1.5e-3)


def test_ranks_of_a_known_spectrum() -> None:
    found = {name: float(v) for name, v in ranks(torch.tensor([[0.25, 1.0, 0.5]], dtype=torch.float64)).items()}
    assert found["stable_rank_codes"] == pytest.approx(1.75)
    assert found["stable_rank_covariance"] == pytest.approx(1.3125)
    assert found["participation_ratio"] == pytest.approx(7 / 3)
    assert found["effective_rank"] == pytest.approx(2.60, abs=5e-3)
    assert found["utilisation"] == pytest.approx(found["effective_rank"] / 3)


def pattern(name: str) -> np.ndarray:
    made = np.zeros((14, 14))
    if name == "pixel":
        made[5, 5] = 1
    elif name == "constant":
        made[:] = 1
    elif name == "box":
        made[4:10, 4:10] = 1
    else:
        made = (np.indices((14, 14)).sum(0) % 2) * 1.0
    return made / np.linalg.norm(made)


@pytest.mark.parametrize(
    ("name", "tv", "energy"), [("pixel", 4, 4), ("constant", 0, 0), ("box", 4.0, 0.667), ("board", 36.77, 3.714)]
)
def test_smoothness_of_known_patterns(name: str, tv: float, energy: float) -> None:
    made = pattern(name)[None]
    assert total_variation(made)[0] == pytest.approx(tv, abs=5e-3)
    assert dirichlet(made)[0] == pytest.approx(energy, abs=5e-4)


def test_bits_are_those_of_a_plain_reading_of_the_formula() -> None:
    f, x = drawn()
    found = description_length(f, x, distortion=0.1, horizon=1e6, hard=True)
    dense, mask = f.encode(x).to_dense(), (f.encode(x).to_dense() != 0).any(2)
    delta = 0.1 * float(x.var(0, correction=0).mean())
    code = 0.0
    for g in range(6):
        values = np.linalg.eigvalsh(np.cov(dense[mask[:, g], g].T.numpy(), bias=True))
        code += float(mask[:, g].double().mean()) * sum(max(0.5 * math.log2(v / delta), 0) for v in values if v > 0)
    residual = np.linalg.eigvalsh(np.cov((x - f.decode(f.encode(x))).T.numpy(), bias=True))
    bits = sum(max(0.5 * math.log2(v / delta), 0) for v in residual if v > 1e-12)
    assert found.paper["code"].value == pytest.approx(code)
    assert found.paper["residual"].value == pytest.approx(bits)
    assert found.paper["support"].value == pytest.approx(math.log2(math.comb(6, 2)))
    assert found.paper["dictionary"].value == pytest.approx(0.5 * 6 * 3 * 9 * math.log2(1e6) / 1e6)
    parts = [found.paper[name].value or 0 for name in ("support", "code", "residual", "dictionary")]
    assert found.paper["total"].value == pytest.approx(sum(parts))
    assert "bits a row" in found.table()


def values(found: Any) -> list[float]:
    return [float(one.value) for one in [*found.paper.values(), *found.joint.values()]]


def turned(f: Fixed, seed: int = 3) -> Fixed:
    q = torch.linalg.qr(
        torch.randn(*f.atoms.shape[:2], f.atoms.shape[1], generator=generator(seed, "q"), dtype=torch.float64)
    ).Q
    return Fixed(q @ f.atoms, f.k, f.bias)


@pytest.mark.parametrize("distortion", [0.01, 0.2])
def test_nothing_depends_on_rotation_order_or_unit(distortion: float) -> None:
    f, x = drawn()
    own = description_length(f, x, distortion=distortion)
    swapped = Fixed(f.atoms[torch.tensor([3, 0, 5, 1, 2, 4])], f.k)
    for other in (
        description_length(turned(f), x, distortion=distortion),
        description_length(swapped, x, distortion=distortion),
        description_length(f, 1000 * x, distortion=distortion),
        description_length(f, x, distortion=distortion, batch_size=37),
    ):
        np.testing.assert_allclose(values(other), values(own), rtol=1e-9, atol=1e-9)


def test_scaling_codes_against_atoms_moves_only_the_papers_code_bits() -> None:
    f, x = drawn()
    scaled = Fixed(3 * f.atoms, f.k)
    one, two = description_length(f, x), description_length(scaled, x)
    assert abs((one.paper["code"].value or 0) - (two.paper["code"].value or 0)) > 0.5
    for part in one.joint:
        assert one.joint[part].value == pytest.approx(two.joint[part].value, rel=1e-9)


def test_the_water_level_reaches_the_distortion() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        n = int(draw.integers(1, 30))
        x, w = torch.from_numpy(draw.exponential(size=n)), torch.from_numpy(draw.random(n))
        wanted = float(draw.random() * 1.2 * float((w * x).sum()))
        level, reached = water_level(x, w, wanted)
        everything = float((w * x).sum())
        assert reached == pytest.approx(min(wanted, everything), rel=1e-9)
        assert float((w * x.clamp(max=level)).sum()) == pytest.approx(reached, rel=1e-9)
    f, rows = drawn()
    found = description_length(f, rows, distortion=0.1).joint["total"]
    delta = 0.1 * float(rows.var(0, correction=0).mean())
    assert found.provenance["distortion_reached"] == pytest.approx(delta, rel=1e-9)
    # no other split of the same distortion takes fewer bits: reverse water filling is the optimum (Cover & Thomas)


def test_spectra_of_contributions_are_those_of_the_rows_they_make() -> None:
    f, x = drawn()
    f = Fixed(f.atoms + 0.3 * f.atoms.roll(1, 1), f.k)  # atoms that are not orthonormal
    (fold,) = [code_sums(f, ArrayRows(x, torch.zeros(len(x), dtype=torch.int64)))][0]
    found = contribution_spectrum(fold, f.atoms)
    dense = f.encode(x).to_dense()
    for g in range(6):
        made = dense[(dense[:, g] != 0).any(1), g] @ f.atoms[g]
        wanted = torch.linalg.eigvalsh(torch.cov(made.T, correction=0))[-3:]
        torch.testing.assert_close(found[g], wanted, rtol=1e-8, atol=1e-10)


def test_folds_hold_whole_samples_and_add_up() -> None:
    f, x = drawn()
    sample = torch.arange(600) // 7
    many, one = code_sums(f, ArrayRows(x, sample)), code_sums(f, ArrayRows(x, 0 * sample))
    assert len(many) == 20
    assert len(one) == 1
    assert sum(fold.rows for fold in many) == one[0].rows == 600
    for part in ("fired", "gram", "rr", "choices"):
        np.testing.assert_allclose(
            sum(np.asarray(getattr(fold, part)) for fold in many), np.asarray(getattr(one[0], part))
        )
    assert {fold.rows % 7 for fold in many} <= {0.0, 5.0}  # the last sample has 5 rows
    assert jackknife(one, lambda s: [s.variance])[0][1:] == (None, None)


def test_intervals_cover_the_value_of_many_rows() -> None:
    f, many = drawn(60_000)
    truth = description_length(f, many).joint["total"].value
    ranks_truth = dimension(f, many).outcomes["participation_ratio"].value
    hits = rank_hits = 0
    for start in range(0, 20_000, 1000):
        part = many[start : start + 1000]
        found, rank = description_length(f, part).joint["total"], dimension(f, part).outcomes["participation_ratio"]
        assert found.low is not None
        assert found.high is not None
        assert rank.low is not None
        assert rank.high is not None
        hits += found.low <= (truth or 0) <= found.high
        rank_hits += rank.low <= (ranks_truth or 0) <= rank.high
    assert hits >= 16
    assert rank_hits >= 14  # with a bias of 1 / n


def test_several_distortions_of_one_pass() -> None:
    f, x = drawn()
    folds = code_sums(f, x)
    totals = [lengths(folds, f.atoms, share, 1e8).joint["total"].value or 0 for share in (0.01, 0.05, 0.1, 0.2)]
    assert totals == sorted(totals, reverse=True)
    assert totals[3] == pytest.approx(description_length(f, x, distortion=0.2, horizon=1e8).joint["total"].value or 0)


def planted(b: int, n: int = 6000) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows that sum two of eight planted spans of b dimensions, gaussian inside, and a little noise."""
    atoms, draw = frames(8, b, 32, 5), generator(6, "planted", b)
    chosen = torch.stack([torch.randperm(8, generator=draw)[:2] for _ in range(n)])
    z = torch.randn(n, 2, b, generator=draw, dtype=torch.float64)
    x = torch.einsum("nkb,nkbd->nd", z, atoms[chosen])
    return atoms, x + 0.01 * torch.randn(n, 32, generator=draw, dtype=torch.float64)


@pytest.mark.parametrize("b", [2, 4])
def test_the_planted_block_size_is_the_shortest(b: int) -> None:
    atoms, x = planted(b)
    bits = {}
    for size in (1, 2, 4, 8):
        flat = atoms.reshape(-1, 32)
        cut = Fixed(flat.reshape(-1, size, 32), max(2 * b // size, 1) if size <= b else 2)
        bits[size] = description_length(cut, x, distortion=0.05, horizon=1e6).joint["total"].value or 0
    assert min(bits, key=lambda size: bits[size]) == b


def test_the_planted_dimension_is_found() -> None:
    basis = frames(1, 48, 64, 7)[0].reshape(8, 6, 64)  # all blocks orthogonal; concepts have four of the six directions
    draw = generator(8, "planted")
    chosen = torch.stack([torch.randperm(8, generator=draw)[:2] for _ in range(4000)])
    z = torch.randn(4000, 2, 4, generator=draw, dtype=torch.float64)
    x = torch.einsum("nkb,nkbd->nd", z, basis[:, :4][chosen])
    f = Fixed(basis, 2)
    found = dimension(f, x)
    assert found.outcomes["participation_ratio"].value == pytest.approx(4, abs=0.05)
    assert found.outcomes["effective_rank"].value == pytest.approx(4, abs=0.05)
    assert found.outcomes["stable_rank_codes"].value == pytest.approx(4, abs=0.4)
    assert found.outcomes["utilisation"].value == pytest.approx(4 / 6, abs=0.01)
    again = dimension(turned(f), x)
    for name, one in found.outcomes.items():
        assert again.outcomes[name].value == pytest.approx(one.value)


def test_rare_blocks_are_said_and_left_out() -> None:
    atoms, x = planted(2)
    found = dimension(Fixed(torch.cat([atoms, torch.zeros(1, 2, 32)]), 2), x)
    assert found.outcomes["too_rare"].value == 1
    assert math.isnan(found.per_block["effective_rank"][8])
    none = dimension(Fixed(atoms, 2), x[:1])
    assert none.outcomes["effective_rank"].value is None


def test_worlds_of_known_manifolds_have_their_dimension() -> None:
    world = manifolds(d=64, n_factors=16, active=2)
    sample = world.sample(4000, seed=1)
    code = sample.code

    class True_(Fixed):
        def __init__(self) -> None:
            self.atoms, self.bias = world.atoms.double(), torch.zeros(64, dtype=torch.float64)

        def encode(self, x: torch.Tensor, refine: object = None) -> Code:
            return code

    found = dimension(True_(), sample.x, batch_size=4000)
    sizes = np.array([factor.b for factor in world.factors])
    lines, circles = found.per_block["effective_rank"][sizes == 1], found.per_block["effective_rank"][sizes == 2]
    np.testing.assert_allclose(lines, 1.0, atol=1e-6)
    assert np.all((circles > 1.9) & (circles <= 2.0 + 1e-9))


class Maps:
    """A featurizer whose codes are given: presence by position."""

    def __init__(self, dense: torch.Tensor) -> None:
        self.dense, self.atoms = dense, torch.eye(dense.shape[1])[:, None, :].double()
        self.bias = torch.zeros(dense.shape[1], dtype=torch.float64)

    def encode(self, x: torch.Tensor, refine: object = None) -> Code:
        return Code.from_dense(x[:, :, None])

    def decode(self, code: Code) -> torch.Tensor:
        return code.to_dense()[:, :, 0]


class Placed(ArrayRows):
    """Rows with positions."""

    def __init__(self, x: torch.Tensor, sample: torch.Tensor, position: torch.Tensor) -> None:
        super().__init__(x, sample)
        self.sample, self.position = sample, position

    def in_order(self, size: int) -> Iterator[Batch]:
        for start in range(0, len(self), size):
            part = slice(start, start + size)
            yield Batch(self.x[part], self.sample[part], self.position[part])


def map_rows(pictures: int = 3, blocks: int = 12, side: int = 14, seed: int = 0) -> Placed:
    x = torch.rand(pictures * side * side, blocks, generator=generator(seed, "maps"), dtype=torch.float64)
    x = x * (torch.rand(x.shape, generator=generator(seed, "mask")) < 0.3)
    x[: side * side, 0] = torch.from_numpy(pattern("box").ravel()) * 50
    sample = torch.arange(pictures).repeat_interleave(side * side)
    return Placed(x, sample, torch.arange(side * side).repeat(pictures))


def test_smoothness_is_that_of_loops_whatever_the_batches() -> None:
    rows = map_rows()
    f = Maps(rows.x)
    wanted_tv, wanted_energy = [], []
    for picture in range(3):
        maps = rows.x[rows.sample == picture].T.reshape(12, 14, 14).numpy()
        order = np.argsort(-np.square(maps).sum((1, 2)))[:8]
        tv = energy = 0.0
        for m in maps[order]:
            m = m / np.sqrt(np.square(m).sum())
            for i in range(14):
                for j in range(14):
                    for di, dj in ((1, 0), (0, 1)):
                        if i + di < 14 and j + dj < 14:
                            step = m[i + di, j + dj] - m[i, j]
                            tv, energy = tv + abs(step) / 8, energy + step**2 / 8
        wanted_tv.append(tv)
        wanted_energy.append(energy)
    for size in (1, 50, 4096):
        found = smoothness(f, rows, (14, 14), batch_size=size)
        assert found.total_variation.value == pytest.approx(np.mean(wanted_tv))
        assert found.dirichlet.value == pytest.approx(np.mean(wanted_energy))
        assert found.total_variation.n == 3
    scaled = smoothness(f, Placed(7 * rows.x, rows.sample, rows.position), (14, 14))
    assert scaled.dirichlet.value == pytest.approx(np.mean(wanted_energy))


def test_at_equal_cover_a_featurizer_is_as_smooth_as_itself() -> None:
    rows = map_rows()
    one = smoothness(Maps(rows.x), rows, (14, 14))
    assert matched_ratio(one, one) == pytest.approx({"total_variation": 1.0, "dirichlet": 1.0})
    assert sum(count for count, *_ in one.by_cover.values()) == 24
    few = smoothness(Maps(rows.x), Placed(rows.x * (rows.x > 0.97), rows.sample, rows.position), (14, 14), maps=1)
    empty = {k: v for k, v in few.by_cover.items() if k not in one.by_cover}
    assert math.isnan(matched_ratio(one, type(one)(one.cover, one.cover, one.cover, empty))["dirichlet"])


def test_texts_are_one_row_of_tokens() -> None:
    x = torch.tensor([[1.0], [1.0], [0.0], [0.0]], dtype=torch.float64)
    found = smoothness(Maps(x), Placed(x, torch.zeros(4, dtype=torch.int64), torch.arange(4)), (1, 4))
    assert found.total_variation.value == pytest.approx(1 / math.sqrt(2))
    none = smoothness(Maps(0 * x), Placed(0 * x, torch.zeros(4, dtype=torch.int64), torch.arange(4)), (1, 4))
    assert none.dirichlet.value is None


def test_wrong_input() -> None:
    f, x = drawn(50)
    check_refused(lambda: description_length(f, x, distortion=0.0), "distortion")
    check_refused(lambda: description_length(f, x, horizon=1.0), "horizon")
    check_refused(lambda: description_length(f, torch.ones(40, 12, dtype=torch.float64)), "rows")
    check_refused(lambda: ranks(torch.tensor([[-1.0, 1.0]], dtype=torch.float64)), "spectrum")
    rows = map_rows()
    check_refused(lambda: smoothness(Maps(rows.x), rows, (3, 3)), "grid")
    check_refused(lambda: smoothness(Maps(rows.x), rows, (1, 1)), "grid")
    check_refused(lambda: smoothness(Maps(rows.x), rows, (14, 14), maps=0), "maps")
