"""The sampler with a denoiser that is known, the loss, hooks in every step, wrong input."""

from __future__ import annotations

import math

import pytest
import torch
from tests.composition.refusals import check_refused

from monoseme.core.seeds import generator
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.diffusion import UNet, denoising_loss, noised, sample_pictures, schedule
from monoseme.steering import Direction, steer

LABEL = torch.tensor([0, 1])


def test_a_denoiser_that_knows_the_picture_leads_to_it() -> None:
    truth = torch.rand(2, 3, 6, 6, generator=generator(0, "x")) * 2 - 1

    def knows(given: tuple[torch.Tensor, torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x, t, _ = given
        alpha, sigma = schedule(t)
        # v from x_t and the true picture; σ is never 0 where it is asked
        return alpha * (x - alpha * truth) / sigma - sigma * truth

    for steps in (1, 7):
        found = sample_pictures(knows, LABEL, 6, steps=steps)
        torch.testing.assert_close(found, ((truth + 1) / 2).movedim(1, -1), rtol=1e-4, atol=1e-4)


def test_noise_and_v_are_a_rotation_of_picture_and_noise() -> None:
    x, noise = torch.randn(2, 4, 3, 4, 4, generator=generator(0, "x"), dtype=torch.float64)
    t = torch.tensor([0.0, 0.3, 0.7, 1.0], dtype=torch.float64)
    mixed, v = noised(x, t, noise)
    torch.testing.assert_close(mixed.square() + v.square(), x.square() + noise.square())
    torch.testing.assert_close(mixed[0], x[0])
    torch.testing.assert_close(v[3], -x[3], rtol=1e-9, atol=1e-9)
    assert float(schedule(t)[0][1]) == pytest.approx(math.cos(0.15 * math.pi))


def test_the_loss_is_that_of_a_loop_and_of_its_stream() -> None:
    net = UNet(8, 2)
    x = torch.rand(2, 3, 8, 8, generator=generator(0, "x")) * 2 - 1
    found = denoising_loss(net, x, LABEL, generator(5, "loss"))
    stream = generator(5, "loss")
    t, noise = torch.rand(2, generator=stream), torch.randn(x.shape, generator=stream)
    errors = []
    for i in range(2):
        a, s = math.cos(float(t[i]) * math.pi / 2), math.sin(float(t[i]) * math.pi / 2)
        said = net(a * x[i : i + 1] + s * noise[i : i + 1], t[i : i + 1], LABEL[i : i + 1])
        errors.append((said - (a * noise[i] - s * x[i])).square().mean())
    torch.testing.assert_close(found, torch.stack(errors).mean())
    found.backward()
    assert all(p.grad is not None for p in net.parameters())


def test_steering_acts_in_the_chosen_steps_and_noise_stays() -> None:
    torch.manual_seed(0)
    model = HookedModel(UNet(8, 2), ModelFacts("tiny"))
    clean = sample_pictures(model, LABEL, 8, steps=4)
    torch.testing.assert_close(sample_pictures(model, LABEL, 8, steps=4), clean)
    v = 50 * torch.ones(16)
    with steer(model, "mid1", Direction(v), steps=[99]):
        torch.testing.assert_close(sample_pictures(model, LABEL, 8, steps=4), clean)
    with steer(model, "mid1", Direction(v), steps=[0, 1]):
        moved = sample_pictures(model, LABEL, 8, steps=4)
    with torch.no_grad():  # the last step's network begins as zeros in its second convolutions, not in `leave`
        assert float((moved - clean).abs().max()) > 1e-3
    assert model.run((torch.zeros(2, 3, 8, 8), torch.zeros(2), LABEL), at="mid1").shape == (2, 16, 16)


def test_wrong_input() -> None:
    check_refused(lambda: UNet(12), "channels")
    check_refused(lambda: UNet(8, 2)(torch.zeros(1, 3, 7, 8), torch.zeros(1), torch.zeros(1, dtype=torch.int64)), "x")
    check_refused(lambda: sample_pictures(lambda given: given[0], LABEL, 8, steps=0), "steps")
