"""Recovery against a dense, slow twin in float64; the ceilings of the paper's benchmark; oracles and failures."""

from itertools import permutations

import numpy as np
import pytest
import torch

from monoseme.core.code import Code
from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.evaluation import recover
from monoseme.evaluation.predict import Firings, greedy
from monoseme.evaluation.recovery import one_to_one, phi_coefficients
from monoseme.worlds import manifolds


@pytest.fixture(scope="module")
def sample():
    return manifolds(d=20, n_factors=12, active=3, seed=0).sample(1500, seed=1)


@pytest.fixture(scope="module")
def blocks(known):
    atoms = torch.randn(9, 2, 20, generator=generator(0, "blocks"), dtype=torch.float64)
    return known(atoms, k=4, gamma=0.1, bias=torch.full((20,), 0.05, dtype=torch.float64))


@pytest.fixture(scope="module")
def scalars(known):
    atoms = torch.randn(30, 1, 20, generator=generator(0, "scalars"), dtype=torch.float64)
    return known(torch.nn.functional.normalize(atoms, dim=2), k=6, gamma=0.3, sign="nonneg")


def dense_parts(sample):
    """(M, n, d) contributions written out."""
    parts = torch.zeros(len(sample.world.factors), len(sample), sample.world.d_in, dtype=torch.float64)
    for i in range(len(parts)):
        parts[i, sample.rows(i)] = sample.contribution(i)
    return parts


def slow_r2(part, active, dense, atoms, chosen):
    """R² by its definition, on dense arrays."""
    predicted = sum((dense[:, g] @ atoms[g] for g in chosen), torch.zeros_like(part))
    fires = (dense[:, chosen] != 0).any(2).any(1)
    scores = []
    for rows in (active, active | fires):
        m, guess = part[rows], predicted[rows]
        scores.append(1 - float(((m - guess) ** 2).sum() / ((m - m.mean(0)) ** 2).sum()))
    return scores


def slow_greedy(part, active, dense, atoms, count):
    chosen = []
    best = float((part[active] ** 2).sum())
    while len(chosen) < count:
        errors = {
            g: float(((part - sum(dense[:, h] @ atoms[h] for h in [*chosen, g]))[active] ** 2).sum())
            for g in range(len(atoms))
            if g not in chosen
        }
        new = min(errors, key=errors.__getitem__)
        if errors[new] >= best:
            break
        best = errors[new]
        chosen.append(new)
    return chosen


@pytest.mark.parametrize("which", ["blocks", "scalars"])
def test_every_score_equals_the_dense_twin(which, sample, request):
    featurizer = request.getfixturevalue(which)
    got = recover(featurizer, sample, batch_size=400)
    dense = featurizer.encode(sample.x.double()).to_dense()
    fires, active, parts = (dense != 0).any(2), sample.active, dense_parts(sample)
    assert len(got.factors) == 12
    for score in got.factors:
        on = active[:, score.factor]
        phi = [np.corrcoef(on, fires[:, g])[0, 1] if 0 < fires[:, g].sum() < 1500 else 0 for g in range(fires.shape[1])]
        assert score.best.blocks == (int(np.argmax(phi)),)
        assert score.best.phi == pytest.approx(max(phi))
        for match in filter(None, (score.best, score.one_to_one, score.atoms)):
            chosen = list(match.blocks)
            expected = slow_r2(parts[score.factor], on, dense, featurizer.atoms, chosen)
            assert [match.r2, match.r2_everywhere] == pytest.approx(expected, rel=1e-9, abs=1e-12)
            if chosen:
                both = float((on & fires[:, chosen[0]]).sum())
                assert match.purity == pytest.approx(both / float(fires[:, chosen[0]].sum()))
                assert match.recall == pytest.approx(both / float(on.sum()))
        if which == "scalars":
            assert score.atoms is not None
            found = slow_greedy(parts[score.factor], on, dense, featurizer.atoms, score.b)
            assert list(score.atoms.blocks) == found
        else:
            assert score.atoms is None


def test_the_numbers_are_means_over_the_table(blocks, sample):
    got = recover(blocks, sample)
    for name, values in {
        "recovery": [s.best.r2 for s in got.factors],
        "recovery_everywhere": [s.best.r2_everywhere for s in got.factors],
        "recovery_one_to_one": [s.one_to_one.r2 for s in got.factors],
        "purity": [s.best.purity for s in got.factors],
        "recovery/segment": [s.best.r2 for s in got.factors if s.kind == "segment"],
    }.items():
        outcome = got[name]
        assert outcome.value == pytest.approx(np.mean(values))
        assert outcome.n == len(values)
        assert outcome.low is not None
        assert outcome.low < np.mean(values)
    assert got["distinct_blocks"].value == len({s.best.blocks for s in got.factors})
    assert "recovery_atoms" not in [outcome.name for outcome in got.outcomes]
    assert len(got.table().splitlines()) == len(got.outcomes)
    assert got["recovery"].provenance == {"world_seed": 0, "sample_seed": 1, "rows": 1500, "refine": None}


def test_one_to_one_uses_no_block_twice_and_leaves_factors_over(blocks, sample):
    own = [s.one_to_one for s in recover(blocks, sample).factors]
    used = [match.blocks[0] for match in own if match.blocks]
    assert len(used) == len(set(used)) == 9  # 12 factors, 9 blocks
    for match in own:
        if not match.blocks:
            assert match.r2 <= 0  # predicting 0 is at best predicting the mean
            assert match.recall == 0


def test_the_assignment_is_the_best_of_all():
    phi = torch.rand(5, 4, generator=generator(3, "phi"), dtype=torch.float64).numpy()
    found = one_to_one(phi)
    value = sum(phi[i, g] for i, g in enumerate(found) if g >= 0)
    best = max(sum(phi[i, g] for g, i in enumerate(order)) for order in permutations(range(5), 4))
    assert value == pytest.approx(best)
    assert sorted(found.tolist()) == [-1, 0, 1, 2, 3]


def test_phi_of_equal_opposite_and_constant_masks():
    both = np.array([[4, 0, 4, 0]])
    phi = phi_coefficients(both, np.array([4]), np.array([4, 6, 10, 0]), 10)
    np.testing.assert_allclose(phi, [[1, -1, 0, 0]], atol=1e-12)


def test_a_split_circle_needs_its_atoms_together(sample):
    """Four nonnegative directions write a circle exactly; one of them cannot."""
    world = manifolds(d=6, n_factors=2, active=1, seed=0)
    rows = world.sample(2000, seed=0)
    basis = torch.from_numpy(world.factors[1].basis)
    atoms = torch.cat([basis, -basis])
    code = Code.from_dense((rows.x.double() @ atoms.T).relu()[:, :, None] * rows.active[:, 1:, None])
    part, own = rows.contribution(1), rows.rows(1)
    firings = Firings(code, atoms[:, None])
    chosen = greedy(firings, part @ basis.T, basis, own, 4)
    assert sorted(chosen) == [0, 1, 2, 3]
    assert firings.r2(part, own, chosen)[0] == pytest.approx(1, abs=1e-6)
    assert firings.r2(part, own, chosen[:1])[0] < 0.4
    assert greedy(firings, part @ basis.T, basis, own, 9) == chosen  # nothing is left to gain


def test_true_spans_reach_the_known_ceilings(known, frames):
    """One pass over the true spans is held back by interference; refinement is not."""
    world = manifolds(seed=0)
    rows = world.sample(4000, seed=1)
    oracle = known(frames(world), k=4, gamma=0.922)
    values = {how: recover(oracle, rows, how, min_rows=50)["recovery"].value for how in (None, "ls", "omp")}
    assert values[None] == pytest.approx(0.937, abs=0.01)
    assert values["ls"] == pytest.approx(0.972, abs=0.01)
    assert values["omp"] == pytest.approx(1, abs=1e-4)


def test_a_block_that_also_fires_elsewhere_pays_only_everywhere(known, sample, frames):
    atoms = frames(sample.world)
    quiet = recover(known(atoms, k=3), sample)
    loud = recover(known(atoms, k=8), sample)
    assert float(loud["purity"].value or 0) < float(quiet["purity"].value or 0)
    gap = float(loud["recovery"].value or 0) - float(loud["recovery_everywhere"].value or 0)
    assert gap > 0.1


def test_a_featurizer_that_never_fires_is_scored_and_not_a_crash(known, sample):
    silent = known(torch.zeros(4, 2, 20, dtype=torch.float64), k=2)
    got = recover(silent, sample)
    assert got["recovery"].value == pytest.approx(0, abs=0.05)
    assert float(got["recovery"].value or 0) <= 0
    assert got["purity"].value is None
    assert "no block fires" in got["purity"].note


def test_too_few_rows_and_other_widths_are_refused_in_one_line(blocks, known, sample):
    with pytest.raises(UserError, match=r"^sample must have a factor active on 5000 rows; got \d+\. .*$"):
        recover(blocks, sample, min_rows=5000)
    with pytest.raises(UserError, match=r"^data must have d_in = 7, the featurizer's; got 20\. .*$"):
        recover(known(torch.ones(2, 1, 7), k=1), sample)
