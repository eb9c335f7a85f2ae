"""Remedies against absorption: what they penalise, and that nothing changes without them."""

from __future__ import annotations

import pytest
import torch

from monoseme import UserError
from monoseme.core.rows import ArrayRows
from monoseme.featurizers import BlockTopK, ReLU, TopK
from monoseme.featurizers.objective import Objective
from monoseme.featurizers.remedies import Remedied, coherence


def test_coherence_is_the_written_sum_and_pushes_apart_what_does_not_fire_together() -> None:
    g = torch.Generator().manual_seed(0)
    z = torch.rand(50, 5, generator=g, dtype=torch.float64) * (torch.rand(50, 5, generator=g) < 0.5)
    atoms = torch.randn(5, 4, generator=g, dtype=torch.float64, requires_grad=True)
    w = torch.nn.functional.normalize(atoms.detach(), dim=1)
    total = 0.0
    for j in range(5):
        for k in range(5):
            if j != k:
                share = float((z[:, k] * (z[:, j] > 0)).mean() / z[:, k].mean())
                total += float(z[:, k].mean()) * max(float(w[j] @ w[k]) - share, 0.0) ** 2
    value = coherence(z, atoms)
    assert float(value.detach()) == pytest.approx(total, rel=1e-12)
    value.backward()
    assert atoms.grad is not None
    with torch.no_grad():
        assert float(coherence(z, atoms - 1e-3 * atoms.grad)) < total


def test_an_absorbing_pair_costs_and_a_planted_one_does_not() -> None:
    parent, child = torch.tensor([1.0, 0.0]), torch.tensor([0.0, 1.0])
    both = torch.tensor([[1.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
    planted = coherence(both, torch.stack([parent, child]).double())
    absorbed = coherence(
        torch.tensor([[1.0, 0.0], [0.0, 1.4]], dtype=torch.float64), torch.stack([parent, parent + child]).double()
    )
    assert float(planted) == 0.0
    assert float(absorbed) > 0.1


def test_without_remedies_the_loss_is_the_objectives_own() -> None:
    x = torch.randn(64, 6)
    losses = []
    for make in (Objective, Remedied):
        f = ReLU(6, 8, seed=0)
        objective = make(f, lam=0.1)
        objective.begin(ArrayRows(x))
        losses.append(float(objective.loss(x, 0)[0].detach()))
    assert losses[0] == losses[1]


def test_prefixes_add_their_own_error() -> None:
    x, f = torch.randn(64, 6), TopK(6, 8, k=3, seed=0)
    plain, nested = Remedied(f), Remedied(f, prefixes=(4,))
    plain.begin(ArrayRows(x))
    z = f.codes_dense(f.units.enter(x), training=True).squeeze(-1)
    first = (f.units.enter(x) - z[:, :4] @ f.dictionary.weight[:4] - f.out_bias).square().sum(1).mean()
    added = nested.loss(x, 0)[0] - plain.loss(x, 0)[0]
    torch.testing.assert_close(added, first, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Remedied(BlockTopK(6, 4, 2, k=2)), "featurizer"),
        (lambda: Remedied(TopK(6, 8, k=2, sign="free")), "featurizer"),
        (lambda: Remedied(ReLU(6, 8), weight=-1.0), "weight"),
        (lambda: Remedied(ReLU(6, 8), prefixes=(8,)), "prefixes"),
    ],
)
def test_bad_input_is_one_line(make, name: str) -> None:
    with pytest.raises(UserError, match=rf"^{name} must") as caught:
        make()
    assert "\n" not in str(caught.value)
