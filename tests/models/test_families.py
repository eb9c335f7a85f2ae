"""Reference networks: counts and operations against the modules themselves, seeds, one attention as the other."""

from typing import Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from monoseme.core.errors import UserError
from monoseme.models.families import FAMILIES, GPT, CNNShape, GPTShape, GRUShape, MLPShape, ViTShape, family

SMALL: dict[str, list[Any]] = {
    "gpt": [GPTShape(1, 4), GPTShape(3, 12, 50, 20), GPTShape(2, 16, head=8)],
    "vit": [ViTShape(1, 4, 1, 8, 2, 10, 2), ViTShape(3, 12, side=8)],
    "cnn": [CNNShape(1, 1, 1, 8), CNNShape(3, 12, side=8), CNNShape(2, 5, 2, 4, 7)],
    "gru": [GRUShape(1, 1), GRUShape(3, 7, 2, 5, 10)],
    "mlp": [MLPShape(1, 1), MLPShape(4, 9, 3, 2)],
}
CASES = [pytest.param(name, shape, id=f"{name}-{shape.depth}-{shape.width}") for name in SMALL for shape in SMALL[name]]
# best shapes of the authors' table: budget in millions, depth, width
BEST = [
    *((0.3, 1, 128), (1.0, 5, 120), (1.3, 6, 128), (1.6, 5, 156), (2.0, 5, 176)),
    *((2.3, 6, 172), (2.7, 5, 204), (3.0, 5, 216), (5.0, 8, 224), (10.0, 10, 284)),
]


def sample(name: str, shape: Any, n: int = 2) -> torch.Tensor:
    g = torch.Generator().manual_seed(0)
    sizes = {
        "gpt": lambda: (n, shape.context),
        "vit": lambda: (n, shape.channels, shape.side, shape.side),
        "cnn": lambda: (n, shape.channels, shape.side, shape.side),
        "gru": lambda: (n, shape.steps, shape.inputs),
        "mlp": lambda: (n, shape.inputs),
    }[name]()
    if name == "gpt":
        return torch.randint(0, shape.vocabulary, sizes, generator=g)
    return torch.randn(sizes, generator=g)


def test_every_family_has_a_case() -> None:
    assert set(SMALL) == set(FAMILIES)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_counts_are_exact(name: str, shape: Any) -> None:
    module = family(name).module(shape, 0)
    assert shape.count() == sum(p.numel() for p in module.parameters())
    assert 0 <= shape.count(embeddings=False) < shape.count()


@pytest.mark.parametrize(("name", "shape"), [c for c in CASES if c.values[0] != "gru"])
def test_operations_are_those_that_torch_counts(name: str, shape: Any) -> None:
    module = GPT(shape, attention="plain") if name == "gpt" else family(name).module(shape, 0)
    with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        module(sample(name, shape, 1))
    assert counter.get_total_flops() == shape.flops()


def test_operations_of_a_recurrent_network_by_hand() -> None:
    # two layers: 3·4·(2 + 4) and 3·4·(4 + 4) products of inputs and states, 4 of the head; ten steps
    assert GRUShape(2, 4, 2, 1, 10).flops() == 2 * 10 * (3 * 4 * 6 + 3 * 4 * 8 + 4)


@pytest.mark.parametrize(("name", "shape"), CASES)
def test_seeds_name_the_weights_and_samples_do_not_mix(name: str, shape: Any) -> None:
    first, again, other = (family(name).module(shape, seed).double() for seed in (3, 3, 4))
    x = sample(name, shape, 3)
    x = x if x.dtype == torch.int64 else x.double()
    assert torch.equal(first(x), again(x))
    assert not torch.equal(first(x), other(x))
    torch.testing.assert_close(first(x)[1:2], first(x[1:2]), rtol=1e-10, atol=1e-12)


def test_every_hidden_layer_matters() -> None:
    for name, shapes in SMALL.items():
        module = family(name).module(shapes[-1], 0)
        module(sample(name, shapes[-1])).square().sum().backward()
        for key, parameter in module.named_parameters():
            assert parameter.grad is not None, (name, key)
            assert float(parameter.grad.abs().max()) > 0, (name, key)


def test_tinygpt_of_the_paper() -> None:
    assert GPTShape(5, 216).count() == 2_970_000
    for millions, depth, width in BEST:
        fits, more = GPTShape(depth, width).count(), GPTShape(depth, width + 4).count()
        assert fits <= millions * 1e6 < more, (millions, depth, width)


# torch's own table for forward mode is still written in TorchScript
@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")
def test_attention_written_out_is_the_fused_one_and_goes_forward() -> None:
    shape = GPTShape(2, 16, 30, 12)
    fused, plain = GPT(shape).double(), GPT(shape, attention="plain").double()
    plain.load_state_dict(fused.state_dict())
    tokens = sample("gpt", shape)
    torch.testing.assert_close(plain(tokens), fused(tokens), rtol=1e-10, atol=1e-12)
    e, direction = fused.embed(tokens).detach(), torch.randn(2, 12, 16, dtype=torch.float64)
    change = torch.func.jvp(plain.read, (e,), (direction,))[1]
    step = 1e-6
    twin = (plain.read(e + step * direction) - plain.read(e - step * direction)) / (2 * step)
    torch.testing.assert_close(change, twin, rtol=1e-6, atol=1e-9)


def test_the_future_is_not_seen() -> None:
    shape = GPTShape(2, 8, 30, 12)
    module, tokens = GPT(shape).double(), sample("gpt", shape)
    changed = tokens.clone()
    changed[:, 7:] = (changed[:, 7:] + 1) % 30
    torch.testing.assert_close(module(tokens)[:, :7], module(changed)[:, :7])
    moved = (module(tokens)[:, 7:] - module(changed)[:, 7:]).detach()
    assert float(moved.abs().max()) > 1e-6


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: GPTShape(0, 4), "shape"),
        (lambda: GPTShape(1, 6), "width"),
        (lambda: ViTShape(1, 6), "width"),
        (lambda: ViTShape(1, 4, side=10), "patch"),
        (lambda: CNNShape(1, 0), "shape"),
        (lambda: GRUShape(-1, 3), "shape"),
        (lambda: MLPShape(1, 1, outputs=0), "shape"),
        (lambda: family("gtp"), "family"),
        (lambda: GPT(GPTShape(1, 4, 9, 3))(torch.zeros(1, 4, dtype=torch.long)), "tokens"),
    ],
)
def test_wrong_shapes_are_refused(make: Any, argument: str) -> None:
    with pytest.raises(UserError, match=argument) as caught:
        make()
    assert "\n" not in str(caught.value)
