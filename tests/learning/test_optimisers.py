"""Muon against its definition, in float64 with a singular value decomposition; state there and back."""

import math

import pytest
import torch
from torch import Tensor, nn

from monoseme.core.seeds import generator
from monoseme.learning.optimisers import ObjectOptimiser


def draw(*shape: int, path: str) -> Tensor:
    return torch.randn(*shape, generator=generator(0, path))


def slow_muon(weight: Tensor, gradients: list[Tensor], lr: float) -> Tensor:
    """Jordan et al. 2024: the quintic 3.4445 s − 4.7750 s³ + 2.0315 s⁵, five times, on the singular values alone."""
    weight, momentum = weight.double(), torch.zeros_like(weight, dtype=torch.float64)
    for gradient in gradients:
        momentum = 0.95 * momentum + 0.05 * gradient.double()
        update = 0.05 * gradient.double() + 0.95 * momentum
        u, s, vt = torch.linalg.svd(update, full_matrices=False)
        s = s / s.norm()
        for _ in range(5):
            s = 3.4445 * s - 4.7750 * s**3 + 2.0315 * s**5
        weight = weight - lr * 0.2 * math.sqrt(max(weight.shape)) * (u * s) @ vt
    return weight


@pytest.mark.parametrize("shape", [(6, 24), (24, 6), (12, 12)])
def test_muon_equals_its_slow_twin(shape) -> None:
    start, gradients = draw(*shape, path="w"), [draw(*shape, path=f"g{i}") for i in range(3)]
    weight = nn.Parameter(start.clone())
    optimiser = ObjectOptimiser([weight], "muon")
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimiser.step(0.1)
    moved, expected = weight.detach().double() - start, slow_muon(start, gradients, 0.1) - start
    # torch iterates in bfloat16 (8 bits): per cent, not more
    assert (moved - expected).norm() / expected.norm() < 0.03


@pytest.mark.parametrize("shape", [(6, 24), (24, 6)])
def test_a_muon_step_is_near_the_orthogonal_factor(shape) -> None:
    weight, gradient = nn.Parameter(torch.zeros(shape)), draw(*shape, path="g")
    weight.grad = gradient.clone()
    ObjectOptimiser([weight], "muon").step(1.0)
    u, _, vt = torch.linalg.svd(gradient.double(), full_matrices=False)
    update = -weight.detach().double() / (0.2 * math.sqrt(24))
    in_basis = u.T @ update @ vt.T
    values = in_basis.diagonal()
    assert values.min() > 0.6
    assert values.max() < 1.3
    assert (in_basis - values.diag()).abs().max() < 0.03
    # the size of an Adam step: entries of about 0.2 in root mean square, times sqrt(rank / smaller side) = 1
    assert float(weight.detach().square().mean().sqrt()) == pytest.approx(0.2, rel=0.3)


def test_muon_leaves_other_shapes_to_adam_and_decays_nothing() -> None:
    flat, block, vector = (nn.Parameter(draw(*s, path="p")) for s in ((4, 6), (2, 3, 4), (5,)))
    twins = [nn.Parameter(p.detach().clone()) for p in (block, vector)]
    still = flat.detach().clone()
    optimiser, adam = ObjectOptimiser([flat, block, vector], "muon"), torch.optim.Adam(twins, lr=0.1)
    for step in range(3):
        flat.grad = torch.zeros_like(flat)
        for mine, twin in zip((block, vector), twins, strict=True):
            mine.grad = draw(*mine.shape, path=f"g{step}")
            twin.grad = mine.grad.clone()
        optimiser.step(0.1)
        adam.step()
    torch.testing.assert_close([block, vector], twins)
    torch.testing.assert_close(flat.detach(), still, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_state_there_and_back_is_exact(kind) -> None:
    def steps(optimiser: ObjectOptimiser, which: range) -> None:
        for step in which:
            for parameter in optimiser.parameters:
                parameter.grad = draw(*parameter.shape, path=f"g{step}")
            optimiser.step(0.01 * (step + 1))

    start = [draw(4, 6, path="a"), draw(5, path="b")]
    straight = ObjectOptimiser([nn.Parameter(p.clone()) for p in start], kind)
    steps(straight, range(6))

    first = ObjectOptimiser([nn.Parameter(p.clone()) for p in start], kind)
    steps(first, range(3))
    second = ObjectOptimiser([nn.Parameter(p.detach().clone()) for p in first.parameters], kind)
    second.load_state({name: tensor.clone() for name, tensor in first.state().items()})
    steps(second, range(3, 6))
    torch.testing.assert_close(second.parameters, straight.parameters, rtol=0, atol=0)
    torch.testing.assert_close(second.state(), straight.state(), rtol=0, atol=0)
    assert all(isinstance(value, Tensor) for value in straight.state().values())


@pytest.mark.parametrize("kind", ["adam", "muon"])
def test_weight_decay_shrinks_before_the_update_and_leaves_moments_alone(kind) -> None:
    start = [draw(4, 6, path="a"), draw(5, path="b")]
    decayed, plain = ([nn.Parameter(p.clone()) for p in start] for _ in range(2))
    one, other = ObjectOptimiser(decayed, kind, weight_decay=0.5), ObjectOptimiser(plain, kind)
    for step in range(3):
        before = [(p.detach().clone(), q.detach().clone()) for p, q in zip(decayed, plain, strict=True)]
        for p, q in zip(decayed, plain, strict=True):
            p.grad = draw(*p.shape, path=f"g{step}")
            q.grad = p.grad.clone()
        one.step(0.1)
        other.step(0.1)
        for p, q, (p0, q0) in zip(decayed, plain, before, strict=True):
            torch.testing.assert_close(p.detach() - 0.95 * p0, q.detach() - q0)
