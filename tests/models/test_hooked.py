"""Hooks on odd modules, and the promise that a module is left as found."""

from collections import namedtuple

import pytest
import torch
from torch import nn

from monoseme.core.errors import UserError
from monoseme.models import HookedModel, ModelFacts, TokenGrid, open_model


def one_line(error: pytest.ExceptionInfo[BaseException], word: str) -> None:
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(word)


def seeded(build) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build()


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.again = self.layer
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        return self.head(self.again(self.layer(x).relu()))


Pair = namedtuple("Pair", "first second")


class Gives(nn.Module):
    """Returns its input in the container asked for."""

    def __init__(self, kind) -> None:
        super().__init__()
        self.kind = kind

    def forward(self, x):
        extra = torch.ones(1)
        return {"tuple": (x, extra), "list": [x, extra], "named": Pair(x, extra), "dict": {"x": x}}[self.kind]


class Takes(nn.Module):
    def __init__(self, kind) -> None:
        super().__init__()
        self.inner = Gives(kind)

    def forward(self, x):
        out = self.inner(x)
        return (out["x"] if isinstance(out, dict) else out[0]) * 2


def test_conv_maps_are_tokens_with_a_grid() -> None:
    net = seeded(lambda: nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten(), nn.Linear(5 * 4 * 6, 7)))
    model, x = open_model(net), torch.rand(2, 3, 6, 8)
    tokens = model.run(x, at="0")
    raw = net.get_submodule("0")(x)
    assert tokens.shape == (2, 24, 5)
    torch.testing.assert_close(tokens[1, 2 * 6 + 3], raw[1, :, 2, 3])
    assert model.grid("0") == TokenGrid(4, 6, 0)
    assert model.run(x, at="3").shape == (2, 1, 7)
    assert model.grid("3") is None
    assert model.grid("1") is None


@pytest.mark.parametrize("kind", ["tuple", "list", "named"])
def test_containers(kind: str) -> None:
    model, x = open_model(Takes(kind)), torch.rand(2, 3, 4)
    torch.testing.assert_close(model.run(x, at="inner"), x)
    with model.edit("inner", lambda tokens: tokens + 1):
        torch.testing.assert_close(model(x), (x + 1) * 2)


def test_dictionaries_are_refused() -> None:
    with pytest.raises(UserError) as error:
        open_model(Takes("dict")).run(torch.rand(2, 3), at="inner")
    one_line(error, "at must")


def test_tied_module_needs_the_call() -> None:
    net = Tied()
    model, x = open_model(net), torch.rand(3, 4)
    assert model.hooks() == ["layer", "again", "head"]
    for _ in range(2):  # known from the first pass, remembered in the second
        with pytest.raises(UserError, match="calls 2 times") as error:
            model.run(x, at="layer")
        one_line(error, "at must")
    both = model.run(x, at=["layer#0", "again#1"])
    torch.testing.assert_close(both["layer#0"][:, 0], net.layer(x))
    torch.testing.assert_close(both["again#1"][:, 0], net.layer(net.layer(x).relu()))
    with pytest.raises(UserError, match=r"0\.\.1"):
        model.run(x, at="layer#2")
    with pytest.raises(UserError, match="at least 2 times"), model.edit("layer", torch.neg):
        model(x)
    with model.edit("layer#1", torch.zeros_like):
        torch.testing.assert_close(model(x), net.head(torch.zeros(3, 4)))


def test_stop_runs_nothing_after_the_hook() -> None:
    ran = []

    class Note(nn.Module):
        def forward(self, x):
            ran.append(self)
            return x

    net = nn.Sequential(nn.Identity(), Note(), nn.Identity())
    model, x = open_model(net), torch.rand(1, 2)
    model.run(x, at="0")  # the first pass counts calls
    assert len(ran) == 1
    model.run(x, at="0")
    assert len(ran) == 1
    model.run(x, at="0", stop=False)
    assert len(ran) == 2
    model.run(x, at="0#0")
    assert len(ran) == 2


def test_edit_reaches_later_hooks_and_conv_layout() -> None:
    net = seeded(lambda: nn.Sequential(nn.Conv2d(3, 4, 1), nn.Conv2d(4, 2, 1)))
    first, second = net.children()
    model, x = open_model(net), torch.rand(2, 3, 2, 3)
    raw = first(x)
    raw[:, :, 1, 2] = 0

    def clear(tokens):
        tokens = tokens.clone()
        tokens[:, 1 * 3 + 2] = 0
        return tokens

    with model.edit("0", clear):
        torch.testing.assert_close(model(x), second(raw))
        torch.testing.assert_close(model.run(x, at="1"), second(raw).flatten(2).transpose(1, 2))
    with pytest.raises(UserError) as error, model.edit("0", lambda tokens: tokens[:, :1]):
        model(x)
    one_line(error, "fn must")


def test_left_as_found() -> None:
    net = seeded(lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2), nn.Dropout(0.5), nn.Linear(2, 2)))
    layers = list(net.children())
    net.train()
    layers[1].eval()
    before = {name: tensor.clone() for name, tensor in net.state_dict().items()}
    state = torch.random.get_rng_state()
    model = open_model(net)
    revision = model.revision

    def fail(_tokens):
        raise RuntimeError("mine")

    model.run(torch.rand(3, 2, generator=torch.Generator().manual_seed(0)), at="2")
    with pytest.raises(RuntimeError, match="mine"), model.edit("0", fail):
        model(torch.zeros(3, 2))
    with pytest.raises(RuntimeError):
        model.run(torch.zeros(3, 5), at="2")
    assert [layer.training for layer in layers] == [True, False, True, True]
    assert net.training
    assert all(not m._forward_hooks and not m._forward_pre_hooks for m in net.modules())
    for name, tensor in net.state_dict().items():
        torch.testing.assert_close(tensor, before[name], rtol=0, atol=0)
    torch.testing.assert_close(torch.random.get_rng_state(), state, rtol=0, atol=0)
    assert model.revision == revision
    with torch.no_grad():
        next(net.parameters())[0, 0] += 1
    assert model.revision != revision


def test_gradients_only_when_asked() -> None:
    net = seeded(lambda: nn.Sequential(nn.Linear(2, 2)))
    model, x = open_model(net), torch.rand(1, 2)
    tokens = model.run(x, at="0")
    assert not tokens.requires_grad
    assert not tokens.is_inference()  # what comes out may take part in training
    tokens = model.run(x, at="0", grad=True)
    assert torch.autograd.grad(tokens.sum(), next(net.parameters()))[0].shape == (2, 2)


def test_arguments_of_other_kinds() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, a, b):
            return self.inner(a - b)

    model, a, b = open_model(Two()), torch.ones(1, 2), torch.full((1, 2), 3.0)
    for x in ((a, b), {"b": b, "a": a}):
        torch.testing.assert_close(model.run(x, at="inner"), torch.full((1, 1, 2), -2.0))


@pytest.mark.parametrize(
    ("at", "says"),
    [
        ("blocks", "Did you mean"),
        ("block#0", "Did you mean"),
        ([], "at least one"),
        ("unused", "never fired"),
        ("blockz#x", "count the call"),
        ("deep", r"\(B, C, H, W\)"),
        ("whole", "floating-point"),
    ],
)
def test_bad_hooks_are_one_line(at, says: str) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blockz = nn.Identity()
            self.deep = nn.Identity()
            self.whole = nn.Identity()
            self.unused = nn.Identity()

        def forward(self, x):
            self.whole(torch.ones(2, 2, dtype=torch.int64))
            self.deep(x.reshape(1, 1, 1, 1, -1))
            return self.blockz(x)

    model = open_model(Net())
    with pytest.raises(UserError, match=says) as error:
        model.run(torch.rand(2, 2), at=at)
    one_line(error, "at must")


def test_vit_facts_give_the_grid() -> None:
    class Tokens(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x):
            return self.inner(torch.zeros(len(x), 1 + 6, 5))

    model = HookedModel(Tokens(), ModelFacts("tokens", patch=4, special_tokens=1))
    model.run(torch.zeros(1, 3, 8, 12), at="inner")
    assert model.grid("inner") == TokenGrid(2, 3, 1)


def test_open_model_refusals() -> None:
    for call, word in [
        (lambda: open_model("dinov2-small"), "model"),
        (lambda: open_model("dinov2-small-saliency", weights="pretraned"), "weights"),
        (lambda: open_model(nn.Identity(), weights="random"), "weights"),
    ]:
        with pytest.raises(UserError) as error:
            call()
        one_line(error, f"{word} must")
