"""What each gate promises beyond the contracts: its formula against a slow twin, and its calibration."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from tests.featurizers.cases import D, G, K
from torch.testing import assert_close

from monoseme.core.errors import UserError
from monoseme.core.rows import ArrayRows
from monoseme.core.seeds import generator, rng
from monoseme.featurizers import BatchTopK, FalseDiscovery, Grassmannian, GroupLasso, JumpReLU, Tournament, fit
from monoseme.featurizers.dictionaries import orthonormalise
from monoseme.featurizers.gates import cut_for
from monoseme.featurizers.objective import Objective
from monoseme.featurizers.prior import ball_volume, map_penalty
from monoseme.featurizers.selection import Tournament as Duels
from monoseme.featurizers.selection import overlaps, rejected
from monoseme.featurizers.thresholds import SoftThreshold, kernel
from monoseme.worlds import manifolds


def rows(n: int = 2000, seed: int = 0) -> torch.Tensor:
    """Sparse mixtures of fixed directions."""
    directions = torch.randn(20, D, generator=generator(0, "directions"))
    stream = generator(seed, "mixture")
    codes = torch.rand(n, 20, generator=stream) * (torch.rand(n, 20, generator=stream) < 0.15)
    return codes @ directions + 0.05 * torch.randn(n, D, generator=stream)


# -- BatchTopK


@pytest.mark.parametrize("block_size", [1, 3])
def test_batch_topk_is_calibrated_after_twenty_steps(block_size):
    f = BatchTopK(D, 64, block_size, k=8)
    fit(f, ArrayRows(rows()), steps=20, batch_size=500)
    assert f.encode(rows(4000, seed=1)).l0.float().mean().item() == pytest.approx(8, rel=0.1)


def test_batch_topk_keeps_the_largest_of_the_batch():
    f = BatchTopK(D, G, k=K)
    pre = torch.randn(50, G, generator=generator(1))
    mask = f.gate.select(pre, 1, "nonneg", training=True).to_mask()
    positive = pre.relu().flatten().sort(descending=True).values
    assert int(mask.sum()) == 50 * K
    assert_close(pre[mask].sort(descending=True).values, positive[: 50 * K])
    assert float(f.gate.get_buffer("threshold")) == pytest.approx(-1 + 0.05 * (float(positive[50 * K - 1]) + 1))


def test_batch_topk_with_few_positive_keeps_them_all():
    f = BatchTopK(D, G, k=K)
    pre = -torch.ones(10, G)
    pre[0, 3] = 1.0
    assert f.gate.select(pre, 1, "nonneg", training=True).indices.tolist() == [3]


def test_batch_topk_is_calibrated_on_the_held_out_rows_it_is_given():
    f = BatchTopK(D, 64, k=8)
    wide = rows(seed=1) * 3  # another law than the training rows'
    fit(f, ArrayRows(rows()), steps=20, batch_size=500, held_out=ArrayRows(wide))
    assert f.encode(wide).l0.float().mean().item() == pytest.approx(8, rel=1e-3)


def test_batch_topk_refuses_to_encode_before_it_is_fitted():
    with pytest.raises(UserError, match=r"^featurizer must be fitted before it encodes; got .*BatchTopK.*\.$"):
        BatchTopK(D, G, k=K).encode(rows(5))


def test_every_checkpoint_has_a_threshold(tmp_path):
    f = BatchTopK(D, 64, k=8)
    objective = Objective(f)
    objective.begin(ArrayRows(rows()))
    for step in range(20):
        objective.loss(rows()[100 * step : 100 * step + 100], step)
    assert f.encode(rows(2000, seed=1)).l0.float().mean().item() == pytest.approx(8, rel=0.15)


def test_the_cut_lies_between_two_norms():
    norms = torch.tensor([[1.0, 4.0], [3.0, 2.0]])
    assert float(cut_for(norms, 1.0)) == 2.5  # two of four entries, one a row
    assert int((norms > cut_for(norms, 0.5)).sum()) == 1


# -- JumpReLU


def test_l0_of_jumprelu_falls_as_its_penalty_rises():
    l0 = []
    for lam in (0.01, 0.03, 0.1, 0.3, 1.0):
        f = JumpReLU(D, 64)
        fit(f, ArrayRows(rows()), steps=400, batch_size=200, lr=2e-2, lam=lam)
        l0.append(float(f.encode(rows(1000, seed=1)).l0.float().mean()))
    assert all(a > b for a, b in itertools.pairwise(l0)), l0
    assert l0[-1] < l0[0] / 2


@pytest.mark.parametrize("name", ["gaussian", "cauchy", "rectangle"])
@pytest.mark.parametrize("block_size", [1, 2])
def test_gradient_of_the_thresholds_is_the_formula(name, block_size):
    """−(θ/ε) K(t) ⟨∂L/∂z, u/‖u‖⟩ for the code and −(1/ε) K(t) for the count, row by row, block by block."""
    lam, f = 0.3, JumpReLU(D, 10, block_size, kernel=name, bandwidth=0.7).double()
    gate: Any = f.gate
    objective = Objective(f, lam)
    objective.begin(ArrayRows(rows(200).double()))
    x = rows(30, seed=2).double()
    loss, _ = objective.loss(x, 0)
    (got,) = torch.autograd.grad(loss, gate.log_theta)

    theta, atoms, units = gate.theta.detach(), f.atoms, f.units.enter(x)
    u = f.encoder.pre(units, atoms).detach().reshape(30, 10, block_size)
    u = u.relu() if f.sign == "nonneg" else u
    residual = f.reconstruct(units).detach() - units
    want = torch.zeros(10).double()
    for i in range(30):
        for g in range(10):
            norm = u[i, g].norm()
            if norm == 0:
                slope_of_code = torch.zeros(()).double()
            else:
                slope_of_code = (2 * residual[i] / 30 @ atoms[g].T) @ (u[i, g] / norm)
            width = 0.7 * theta[g]
            k = kernel(((norm - theta[g]) / width).reshape(1, 1), name)[0, 0]
            want[g] += -(theta[g] / width) * k * slope_of_code - 2 * lam / 30 * k / width
    assert_close(got, want * theta, rtol=1e-9, atol=1e-12)


def test_kernels_have_unit_mass():
    t = torch.linspace(-4000, 4000, 8_000_001, dtype=torch.float64).unsqueeze(0)
    for name in ("gaussian", "cauchy", "rectangle"):
        assert float(kernel(t, name).sum() * 1e-3) == pytest.approx(1, abs=2e-3)


# -- group lasso


def test_soft_threshold_is_the_proximal_operator():
    """The argument of min_z ½‖z − u‖² + θ‖z‖, by its subgradient."""
    gate = SoftThreshold(1, 1.0, "shared", lam=1.0).double()
    with torch.no_grad():
        gate.log_theta.fill_(math.log(0.7))
    u = torch.randn(40, 1, 3, generator=generator(3)).double()
    support = gate.select(u.reshape(40, 3), 3, "free")
    z = gate.dense(u, support).detach()[:, 0]
    active = support.to_mask()[:, 0]
    assert_close(z[active] - u[active, 0] + 0.7 * z[active] / z[active].norm(dim=1, keepdim=True), 0 * z[active])
    assert bool((u[~active, 0].norm(dim=1) <= 0.7).all())
    assert 0 < int(active.sum()) < 40


@pytest.mark.parametrize("gate", ["soft", "threshold"])
def test_group_lasso_holds_its_target(gate):
    world = manifolds(seed=0)
    f = GroupLasso(128, 64, 4, target_l0=6, gate=gate)
    fit(f, ArrayRows(world.sample(20_000, seed=1).x), steps=600, batch_size=1000, lr=1e-2)
    assert float(f.encode(world.sample(5000, seed=2).x).l0.float().mean()) == pytest.approx(6, rel=0.05)


# -- selection


def test_false_discovery_rate_is_held_under_the_null_and_power_is_kept():
    draw = rng(0)
    noise = np.sqrt(draw.chisquare(3, (4000, 200)))
    null = rejected(torch.from_numpy(noise), 3, 0.1, 0.4)
    any_false = null.any(1).double()
    # under the global null, the false-discovery rate is the share of rows with a rejection: 10 %, σ being estimated
    assert float(any_false.mean()) == pytest.approx(0.1, abs=0.035)
    noise[:, :8] = np.sqrt(draw.noncentral_chisquare(3, 64, (4000, 8)))
    found = rejected(torch.from_numpy(noise), 3, 0.1, 0.4)
    false = found[:, 8:].sum(1) / found.sum(1).clamp_min(1)
    assert float(false.mean()) < 0.11
    assert float(found[:, :8].double().mean()) > 0.99


def test_rejections_are_those_of_the_textbook_and_free_of_scale():
    from scipy.stats import chi, false_discovery_control

    norms = np.sqrt(rng(1).chisquare(2, (50, 40))) * 3.0
    norms[:, :4] *= 4
    got = rejected(torch.from_numpy(norms), 2, 0.1, 0.4).numpy()
    sigma = np.quantile(norms, 0.4, axis=1, keepdims=True) / chi.ppf(0.4, 2)
    want = false_discovery_control(chi.sf(norms / sigma, 2), axis=1) <= 0.1
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(rejected(torch.from_numpy(1000 * norms), 2, 0.1, 0.4).numpy(), want)


def test_false_discovery_takes_a_trained_grassmannian():
    trained = Grassmannian(D, G, 2, k=K)
    fit(trained, ArrayRows(rows()), steps=50, batch_size=200)
    f = FalseDiscovery(D, G, 2, k=K)
    f.load_state_dict(trained.state_dict())
    assert_close(f.atoms, trained.atoms)
    assert len(set(f.encode(rows(200)).l0.tolist())) > 1  # the row decides how many


def test_tournament_against_a_walk_down_the_norms():
    atoms = orthonormalise(torch.randn(30, 2, 6, generator=generator(2)))  # crowded: overlaps are large
    gate = Duels(30, 4, 0.4, 20)
    gate.refresh(atoms)
    pre = torch.randn(60, 60, generator=generator(5))
    got = gate.select(pre, 2, "free").to_mask()
    shared = torch.einsum("gad,hbd->ghab", atoms, atoms).square().sum((2, 3)) / 2
    assert_close(overlaps(atoms, chunk=200), shared)
    for i in range(60):
        inside: list[int] = []
        for g in pre[i].reshape(30, 2).norm(dim=1).argsort(descending=True).tolist()[:16]:
            if len(inside) < 4 and all(shared[g, h] <= 0.4 for h in inside):
                inside.append(g)
        assert got[i].nonzero().squeeze(1).tolist() == sorted(inside)


def test_tournament_never_activates_two_copies():
    f = Tournament(D, G, 2, k=K, overlap=0.5)
    with torch.no_grad():
        f.dictionary.weight[2:4] = f.dictionary.weight[:2]  # block 1 is a copy of block 0
    f.gate.refresh(f.atoms)
    plain = Grassmannian(D, G, 2, k=K)
    plain.dictionary.load_state_dict(f.dictionary.state_dict())
    x = 5 * f.atoms[0, 0] + rows(100) * 0.1
    assert bool(plain.encode(x).to_dense().norm(dim=2)[:, :2].bool().all())
    assert not bool(f.encode(x).to_dense().norm(dim=2)[:, :2].bool().all(1).any())


# -- the prior


def test_exhaustive_map_over_supports_is_the_solution_of_the_block_penalty():
    """Log posteriors from the densities themselves, over all 2^5 supports, against ½‖x − zD‖² + λ‖z‖_{2,0}."""
    sigma, pi, radius, b, n_blocks, d = 0.3, 0.15, 20.0, 2, 5, 8
    atoms = torch.randn(n_blocks, b, d, generator=generator(0)).double()
    lam, differ = map_penalty(sigma, pi, radius, b), 0
    for i in range(25):
        stream = generator(i, "row")
        on = torch.rand(n_blocks, generator=stream) < 0.4
        codes = torch.randn(n_blocks, b, generator=stream).double() * on.unsqueeze(1)
        x = torch.einsum("gb,gbd->d", codes, atoms) + sigma * torch.randn(d, generator=stream).double()
        posterior, objective = {}, {}
        for support in itertools.chain.from_iterable(itertools.combinations(range(n_blocks), r) for r in range(6)):
            design = atoms[list(support)].reshape(-1, d)
            z = torch.linalg.lstsq(design.T, x.unsqueeze(1), driver="gelsd").solution if support else x.new_zeros(0, 1)
            error = float((x - (design.T @ z).squeeze(1)).square().sum()) if support else float(x.square().sum())
            assert all(float(part.norm()) < radius for part in z.reshape(-1, b))  # inside the slab
            log_likelihood = -error / (2 * sigma**2)
            log_slab = -math.log(math.pi * radius**2)  # of the disc, b = 2
            prior = len(support) * (math.log(pi) + log_slab) + (n_blocks - len(support)) * math.log(1 - pi)
            posterior[support] = log_likelihood + prior
            objective[support] = 0.5 * error + lam * len(support)
        best = max(posterior, key=lambda s: posterior[s])
        assert best == min(objective, key=lambda s: objective[s])
        spread = [objective[s] + sigma**2 * posterior[s] for s in posterior]
        assert max(spread) - min(spread) < 1e-9  # equal up to one constant
        differ += best != ()
    assert differ > 10


def test_volume_of_balls():
    assert ball_volume(1, 2.0) == pytest.approx(4.0)
    assert ball_volume(3, 1.0) == pytest.approx(4 / 3 * math.pi)


@pytest.mark.parametrize(
    ("name", "value"), [("sigma", 0.0), ("pi", 1.0), ("radius", math.inf), ("b", 0), ("sigma", math.nan)]
)
def test_map_penalty_refuses(name, value):
    with pytest.raises(UserError, match=rf"^{name} must [^\n]*$"):
        map_penalty(**{"sigma": 1.0, "pi": 0.1, "radius": 1.0, "b": 2, name: value})
