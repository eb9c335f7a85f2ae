"""Scalar worlds: units, laws, structure and directions, against closed forms; and recovery reads them all."""

import numpy as np
import pytest
import torch

from monoseme.core.code import Code
from monoseme.core.errors import UserError
from monoseme.core.seeds import rng
from monoseme.evaluation import recover
from monoseme.worlds import (
    Children,
    Concept,
    Constant,
    Exponential,
    Normal,
    Uniform,
    World,
    dense,
    exclusive,
    hierarchical,
    independent,
    manifolds,
)
from monoseme.worlds.activity import Nested

N = 20_000
WORLDS = {
    "independent": independent(32, 20, p=list(np.linspace(0.02, 0.4, 20)), seed=1),
    "coherent": independent(32, 20, p=0.1, cosine=0.4, magnitude=Exponential(0.2, 1.0), noise=0.1, seed=1),
    "overcomplete": independent(16, 40, p=0.05, cosine=0.3, seed=2),
    "signed": independent(32, 20, p=0.2, magnitude=Normal(0.0, 2.0), seed=3),
    "constant": independent(32, 20, p=0.2, magnitude=Constant(3.0), seed=3),
    "exclusive": exclusive(32, 5, 4, on=0.6, seed=4),
    "exhaustive": exclusive(32, 5, 4, on=1.0, cosine=0.5, seed=4),
    "hierarchical": hierarchical(64, 6, 0.3, Children((3,), 0.3, ratio=0.5), cosine=0.2, seed=5),
    "leaking": hierarchical(64, 4, 0.3, Children((2, 2), 0.4, 0.2, exclusive=True), seed=6),
    "dense": dense(48, 4, 0.8, 30, 0.05, seed=7),
}
each_world = pytest.mark.parametrize("world", WORLDS.values(), ids=WORLDS.keys())


def parents(world: World) -> np.ndarray:
    assert isinstance(world.activity, Nested)
    return world.activity.parent


def closed_code(world) -> tuple[np.ndarray, np.ndarray]:
    """E z and E zzᵀ of the true codes, by their definition."""
    mean = np.array([world.gain * c.scale * c.magnitude.mean for c in world.factors])
    square = np.array([(world.gain * c.scale) ** 2 * c.magnitude.square for c in world.factors])
    both = world.activity.pairs()
    second = both * np.outer(mean, mean)
    np.fill_diagonal(second, np.diagonal(both) * square)
    return np.diagonal(both) * mean, second


@each_world
def test_codes_have_the_stated_mean_and_covariance(world):
    z = world.sample(N, seed=1).code.to_dense()[:, :, 0].numpy()
    mean, second = closed_code(world)
    assert (np.abs(z.mean(0) - mean) <= 5 * z.std(0) / np.sqrt(N) + 1e-9).all()
    for i in range(z.shape[1]):
        products = z[:, [i]] * z
        error = products.std(0) / np.sqrt(N)
        # pairs that are rarely on together have too few events for their own standard error: at least one event's worth
        rare = np.abs(second[i]) * N < 50 * np.square(np.abs(z).max())
        assert (np.abs(products.mean(0) - second[i])[~rare] <= 5 * error[~rare] + 1e-9).all()


@each_world
def test_rows_have_mean_square_norm_one_and_the_stated_mean(world):
    for each in (world, world.centred()):
        x = each.sample(N, seed=2).x.double()
        squares = x.square().sum(1)
        assert float(squares.mean()) == pytest.approx(1, abs=5 * float(squares.std()) / np.sqrt(N))
        error = (x.std(0) / np.sqrt(N)).numpy()
        assert (np.abs(x.mean(0).numpy() - each.mean) <= 5 * error + 1e-7).all()


def test_a_centred_world_has_mean_zero_and_the_same_contributions_up_to_its_gain():
    world = WORLDS["dense"]
    centred = world.centred()
    np.testing.assert_allclose(centred.mean, 0, atol=1e-15)
    assert np.linalg.norm(world.mean) > 0.5
    one, other = world.sample(50, seed=0), centred.sample(50, seed=0)
    torch.testing.assert_close(one.contribution(0) / world.gain, other.contribution(0) / centred.gain)
    torch.testing.assert_close(centred.centred().sample(50, seed=0).x, other.x, rtol=0, atol=0)


@each_world
def test_a_row_is_its_code_times_the_true_atoms(world):
    for each in (world, world.centred()):
        sample = each.sample(300, seed=3)
        assert sample.code.indices.tolist() == sample.support.indices.tolist()
        rows = torch.einsum("ngb,gbd->nd", sample.code.to_dense(), each.atoms)
        if each.offset is not None:
            rows = rows + torch.from_numpy(each.offset)
        parts = torch.zeros_like(rows)
        for i in range(len(each.factors)):
            assert sample.rows(i).tolist() == sample.active[:, i].nonzero().squeeze(1).tolist()
            parts.index_add_(0, sample.rows(i), sample.contribution(i))
        whole = parts + (0 if each.offset is None else torch.from_numpy(each.offset))
        torch.testing.assert_close(rows, whole)
        if not each.noise:
            torch.testing.assert_close(rows, sample.x.double(), rtol=0, atol=1e-6)


def test_the_code_of_a_manifold_world_is_padded_and_exact():
    world = manifolds(d=24, n_factors=10, active=3)
    sample = world.sample(200, seed=1)
    rows = torch.einsum("ngb,gbd->nd", sample.code.to_dense(), world.atoms)
    torch.testing.assert_close(rows, sample.x.double(), rtol=0, atol=1e-6)
    assert sample.code.block_size == 3
    assert (sample.code.values[sample.code.indices == 0][:, 1:] == 0).all()


@pytest.mark.parametrize(
    "law", [Constant(2.0), Uniform(-1.0, 2.0), Exponential(0.5, 2.0), Normal(1.0, 0.5)], ids=lambda law: repr(law)
)
def test_magnitudes_have_the_stated_moments(law):
    a = law.draw(rng(0, "law"), 50_000)
    assert a.mean() == pytest.approx(law.mean, abs=5 * a.std() / np.sqrt(len(a)) + 1e-12)
    assert np.square(a).mean() == pytest.approx(law.square, abs=5 * np.square(a).std() / np.sqrt(len(a)) + 1e-12)


def test_positive_laws_make_nonnegative_codes_and_normal_ones_signed():
    assert float(WORLDS["coherent"].sample(2000, 0).code.values.min()) > 0
    signs = WORLDS["signed"].sample(2000, 0).code.values.sign()
    assert abs(float(signs.mean())) < 0.05


def test_at_most_one_member_of_a_group_is_on():
    for name in ("exclusive", "exhaustive"):
        groups = WORLDS[name].sample(5000, 0).active.view(5000, 5, 4).sum(2)
        assert int(groups.max()) == 1
        assert int(groups.min()) == (1 if name == "exhaustive" else 0)


def test_a_child_is_on_only_when_its_parent_is():
    world = WORLDS["hierarchical"]
    active = world.sample(5000, 0).active
    for child, parent in enumerate(parents(world)):
        if parent >= 0:
            assert not (active[:, child] & ~active[:, parent]).any()
            assert world.density[child] == pytest.approx(0.3 * world.density[parent])
            concept = world.factors[child]
            assert isinstance(concept, Concept)
            assert concept.scale == 0.5
    assert [c.kind for c in world.factors] == ["level 0"] * 6 + ["level 1"] * 18


def test_a_leak_is_the_share_of_firings_without_the_parent_and_changes_no_density():
    tight, loose = (hierarchical(64, 4, 0.3, Children((2, 2), 0.4, leak)) for leak in (0.0, 0.2))
    np.testing.assert_allclose(tight.density, loose.density)
    both = loose.activity.pairs()
    for child, parent in enumerate(parents(loose)):
        if parent >= 0:
            assert 1 - both[child, parent] / both[child, child] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("world", "groups"),
    [
        (independent(32, 31, cosine=0.35), 1),
        (exclusive(32, 6, 4, cosine=0.35), 6),
        (independent(32, 32), 1),
    ],
)
def test_cosines_are_exact_when_the_directions_fit(world, groups):
    w = world.atoms[:, 0]
    size = len(w) // groups
    inside = torch.block_diag(*[torch.ones(size, size)] * groups).bool()
    cosine = 0.0 if len(w) == 32 else 0.35
    expected = (cosine * inside.double()).fill_diagonal_(1)
    torch.testing.assert_close(w @ w.T, expected, rtol=0, atol=1e-12)


def test_cosines_are_right_in_the_mean_when_they_do_not_fit():
    for cosine in (0.1, 0.5, 0.9):
        w = independent(64, 400, cosine=cosine).atoms[:, 0]
        gram = w @ w.T
        torch.testing.assert_close(gram.diagonal(), torch.ones(400, dtype=torch.float64))
        beside = gram[~torch.eye(400, dtype=torch.bool)]
        assert float(beside.mean()) == pytest.approx(cosine, abs=0.01)
        assert float(beside.std()) == pytest.approx((1 - cosine) / 8, rel=0.1)


@pytest.mark.parametrize("d", [64, 16])
def test_a_child_stands_at_the_stated_cosine_to_its_parent(d):
    world = hierarchical(d, 4, 0.2, Children((2, 3)), cosine=0.6)
    w, parent = world.atoms[:, 0], torch.from_numpy(parents(world))
    children = parent >= 0
    got = (w[children] * w[parent[children]]).sum(1)
    torch.testing.assert_close(got, torch.full_like(got, 0.6), rtol=0, atol=1e-12)
    if d == 64:  # a grandchild at the product, siblings at the square
        torch.testing.assert_close(w[12] @ w[0], torch.tensor(0.36, dtype=torch.float64))
        torch.testing.assert_close(w[4] @ w[5], torch.tensor(0.36, dtype=torch.float64))


def test_a_world_is_a_function_of_its_seeds():
    one, again, other = (independent(16, 8, 0.3, seed=seed).sample(500, seed=2) for seed in (1, 1, 2))
    assert one.x.numpy().tobytes() == again.x.numpy().tobytes()
    assert one.support.indices.tolist() != other.support.indices.tolist()


@each_world
def test_recovery_of_the_truth_itself_is_perfect(world):
    sample = world.sample(3000, seed=9)

    class Oracle:
        atoms, bias = world.atoms, torch.zeros(world.d_in, dtype=torch.float64)
        at = 0

        def encode(self, x, refine=None):
            self.at, start = self.at + len(x), self.at
            return sample.code.select_rows(start, start + len(x))

        def decode(self, code: Code):
            return torch.einsum("ngb,gbd->nd", code.to_dense(), self.atoms)

    got = recover(Oracle(), sample, min_rows=20, batch_size=1000)
    assert got["purity"].value == pytest.approx(1)
    assert {score.best.blocks[0] == score.factor for score in got.factors} == {True}
    assert {f"recovery/{kind.kind}" for kind in world.factors} <= {outcome.name for outcome in got.outcomes}
    if isinstance(world.factors[0].magnitude, Constant):
        for name in ("recovery", "recovery_everywhere"):  # it fires exactly where the constant is: nothing to predict
            assert got[name].value is None
            assert "no factor varies" in got[name].note
    else:
        assert got["recovery"].value == pytest.approx(1)
        assert got["recovery_everywhere"].value == pytest.approx(1)


BAD = [
    (lambda: independent(n_concepts=0), "n_concepts"),
    (lambda: independent(d=1), "d"),
    (lambda: independent(noise=1.0), "noise"),
    (lambda: independent(p=0.0), "p"),
    (lambda: independent(n_concepts=3, p=[0.1, 0.2]), "p"),
    (lambda: independent(cosine=1.0), "cosine"),
    (lambda: exclusive(on=1.5), "on"),
    (lambda: exclusive(size=0), "size"),
    (lambda: exclusive(cosine=-0.1), "cosine"),
    (lambda: hierarchical(roots=0), "roots"),
    (lambda: hierarchical(children=Children(())), "children.branching"),
    (lambda: hierarchical(children=Children((2, 0))), "children.branching[1]"),
    (lambda: hierarchical(children=Children(given=0.0)), "children.given"),
    (lambda: hierarchical(children=Children((3,), 0.5, exclusive=True)), "children.given"),
    (lambda: hierarchical(p=0.9, children=Children(given=0.5, leak=0.5)), "children.given"),
    (lambda: hierarchical(p=1.0, children=Children(leak=0.1)), "children.leak"),
    (lambda: hierarchical(children=Children(leak=1.0)), "children.leak"),
    (lambda: hierarchical(children=Children(ratio=0.0)), "children.ratio"),
    (lambda: dense(p_dense=2.0), "p_dense"),
    (lambda: dense(n_sparse=0), "n_sparse"),
    (lambda: Constant(0.0), "value"),
    (lambda: Uniform(1.0, 1.0), "low"),
    (lambda: Exponential(spread=0.0), "spread"),
    (lambda: Normal(spread=-1.0), "spread"),
    (lambda: exclusive(8, 1, 1, on=1.0, magnitude=Constant()).centred(), "world"),
]


@pytest.mark.parametrize(("make", "name"), BAD)
def test_bad_arguments_are_refused_in_one_line(make, name):
    with pytest.raises(UserError) as caught:
        make()
    assert str(caught.value).startswith(f"{name} must ")
    assert "\n" not in str(caught.value)
