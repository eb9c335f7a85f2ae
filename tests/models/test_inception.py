"""InceptionV1: both public layouts of its weights, and files that are not what they should be.

Outputs were compared once with those of torchvision and of lucent on random weights (docs/blocks.md). Neither is needed
here: the layouts are held by a second network, written out from its names.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.models import TokenGrid, open_model
from monoseme.models.inception import AUXILIARY, LAYOUTS, InceptionV1, names
from monoseme.models.state import read_state, translate


def state_of(layout: str, seed: int = 0) -> dict[str, Tensor]:
    """A state dict under the layout's own names, every number drawn: norms too, so that they do something."""
    stream, found = generator(seed, "state"), {}
    ours = open_model(f"inceptionv1:{layout}", "random").module.state_dict()
    named = names(layout)
    for key, tensor in ours.items():
        layer, _, kind = key.rpartition(".")
        if kind == "num_batches_tracked":
            continue
        drawn = torch.randn(tensor.shape, generator=stream)
        if kind == "running_var":
            drawn = drawn.square() + 0.5
        elif kind == "weight" and tensor.ndim == 1:
            drawn = 1 + 0.2 * drawn
        elif kind == "weight":
            drawn = drawn * (2 / tensor[0].numel()) ** 0.5
        else:
            drawn = 0.1 * drawn
        found[f"{named[layer]}.{kind}"] = drawn
    if layout == "torchvision":
        found["aux1.conv.conv.weight"] = torch.zeros(128, 512, 1, 1)
    return found


def save(folder: Path, state: dict[str, Tensor], suffix: str = "safetensors") -> Path:
    path = folder / f"net.{suffix}"
    if suffix == "safetensors":
        save_file(state, path)
    else:
        torch.save(state, path)
    return path


def written_out(state: dict[str, Tensor], x: Tensor, layout: str) -> dict[str, Tensor]:
    """The network as its names spell it, with functions alone."""

    def conv(x: Tensor, name: str, stride: int = 1) -> Tensor:
        if layout == "torchvision":
            weight = state[f"{name}.conv.weight"]
            x = F.conv2d(x, weight, None, stride, weight.shape[-1] // 2)
            mean, var, scale, shift = (
                state[f"{name}.bn.{kind}"] for kind in ("running_mean", "running_var", "weight", "bias")
            )
            return F.relu(F.batch_norm(x, mean, var, scale, shift, eps=0.001))
        weight, bias = (state[f"{name}_pre_relu_conv.{kind}"] for kind in ("weight", "bias"))
        side = weight.shape[-1]
        pad = (2, 3, 2, 3) if side == 7 else (side // 2,) * 4
        return F.relu(F.conv2d(F.pad(x, pad), weight, bias, stride))

    def halved(x: Tensor, kernel: int = 3) -> Tensor:
        return F.max_pool2d(F.pad(x, (0, kernel - 2) * 2, value=-torch.inf), kernel, 2)

    def responds(x: Tensor) -> Tensor:
        if layout == "torchvision":
            return x
        sums = sum(F.pad(x.square(), (0, 0, 0, 0, 4 - i, 4 + i))[:, 4 : 4 + x.shape[1]] for i in range(-4, 5))
        return x / (1 + 1e-4 / 9 * sums) ** 0.5

    tv = layout == "torchvision"
    x = responds(halved(conv(x, "conv1" if tv else "conv2d0", 2)))
    x = conv(conv(x, "conv2" if tv else "conv2d1"), "conv3" if tv else "conv2d2")
    x, found = halved(responds(x)), {}
    for block in ("3a", "3b", "4a", "4b", "4c", "4d", "4e", "5a", "5b"):
        if block in ("4a", "5a"):
            x = halved(x, 2 if tv and block == "5a" else 3)
        pooled = F.max_pool2d(x, 3, 1, 1)
        if tv:
            at = f"inception{block}.branch"
            parts = [conv(x, f"{at}1"), conv(conv(x, f"{at}2.0"), f"{at}2.1")]
            parts += [conv(conv(x, f"{at}3.0"), f"{at}3.1"), conv(pooled, f"{at}4.1")]
        else:
            at = f"mixed{block}_"
            parts = [conv(x, f"{at}1x1"), conv(conv(x, f"{at}3x3_bottleneck"), f"{at}3x3")]
            parts += [conv(conv(x, f"{at}5x5_bottleneck"), f"{at}5x5"), conv(pooled, f"{at}pool_reduce")]
        found[f"mixed{block}"] = x = torch.cat(parts, 1)
    last = "fc" if tv else "softmax2_pre_activation_matmul"
    found["logits"] = F.linear(x.mean((2, 3)), state[f"{last}.weight"], state[f"{last}.bias"])
    return found


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_state_dict_gives_the_network_that_its_names_spell(tmp_path: Path, layout: str) -> None:
    state = state_of(layout)
    model = open_model(f"inceptionv1:{save(tmp_path, state)}")
    x = torch.randn(2, 3, 64, 96, generator=generator(1))
    wanted = written_out(state, x, layout)
    torch.testing.assert_close(model(x), wanted.pop("logits"), rtol=1e-4, atol=1e-4)
    found = model.run(x, at=list(wanted))
    for at, maps in wanted.items():
        torch.testing.assert_close(found[at], maps.flatten(2).transpose(1, 2), rtol=1e-4, atol=1e-4)
    assert model.grid("mixed3b") == TokenGrid(8, 12, 0)
    assert found["mixed3b"].shape[2] == 480
    assert model.run(x, at="mixed3b.three").shape == (2, 96, 192)
    assert model.facts.weights == "pretrained"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_pth_files_hold_tensors_alone(tmp_path: Path, layout: str) -> None:
    state, x = state_of(layout), torch.randn(1, 3, 32, 32, generator=generator(2))
    wanted = open_model(f"inceptionv1:{save(tmp_path, state)}")(x)
    path = save(tmp_path, state, "pth")
    torch.testing.assert_close(open_model(f"inceptionv1:{path}")(x), wanted, rtol=0, atol=0)
    torch.save({"state_dict": state}, path)
    torch.testing.assert_close(open_model(f"inceptionv1:{path}")(x), wanted, rtol=0, atol=0)
    half = save(tmp_path, {name: tensor.half() for name, tensor in state.items()})
    assert open_model(f"inceptionv1:{half}").dtype == torch.float32


def test_random_weights_are_a_control(tmp_path: Path) -> None:
    drawn = torch.random.get_rng_state()
    first, same, other = (open_model("inceptionv1", "random", seed) for seed in (0, 0, 1))
    path = save(tmp_path, state_of("lucid"))
    shaped = open_model(f"inceptionv1:{path}", "random")
    open_model(f"inceptionv1:{path}")
    torch.testing.assert_close(torch.random.get_rng_state(), drawn, rtol=0, atol=0)
    assert first.revision == same.revision != other.revision
    assert "control" in first.caveat
    # what torchvision's googlenet has without its side classifiers
    assert sum(p.numel() for p in first.module.parameters()) == 6_624_904
    assert len(first.facts.classes) == 1000
    assert shaped.facts.classes == ()
    assert isinstance(shaped.module, InceptionV1)
    assert shaped.module.classifier.out_features == 1008
    maps = first.run(torch.randn(4, 3, 64, 64, generator=generator(0)), at=["mixed3a", "mixed5b"])
    assert all(0.05 < float(tokens.std()) < 20 for tokens in maps.values())


def test_preprocess() -> None:
    picture = np.full((300, 200, 3), 255, np.uint8)
    for layout, wanted in (("torchvision", 1.0), ("lucid", 138.0)):
        model = open_model(f"inceptionv1:{layout}", "random")
        assert model.preprocess is not None
        torch.testing.assert_close(model.preprocess(picture), torch.full((3, 224, 224), wanted))


def refused(name: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        open_model(name)
    assert str(error.value).startswith("model must")
    assert "\n" not in str(error.value)


def test_no_file(tmp_path: Path) -> None:
    refused("inceptionv1", "Write 'inceptionv1:FILE'")
    refused(f"inceptionv1:{tmp_path / 'nowhere.pth'}", "name a file of weights")
    refused("inceptionv1:torchvision", "name a file of weights")


@pytest.mark.parametrize("layout", LAYOUTS)
def test_keys_and_shapes(tmp_path: Path, layout: str) -> None:
    state = state_of(layout)
    key = f"{names(layout)['mixed4c.five.conv']}.weight"

    def with_state(change: dict[str, Tensor | None], says: str) -> None:
        merged = {name: tensor for name, tensor in (state | change).items() if tensor is not None}
        refused(f"inceptionv1:{save(tmp_path, merged)}", says)

    with_state({key: None}, f"without {key}")
    with_state({key: torch.zeros(1)}, rf"with {key} of \(1,\) where \(64, 24, . . .\)".replace(". . .", r"\d, \d"))
    with_state({"layer9.weight": torch.zeros(1)}, "with layer9.weight")
    with_state({"layer9.weight": torch.zeros(1), "layer9.bias": torch.zeros(1)}, "and 1 more")
    with_state(dict.fromkeys(state), "without")


def test_a_classifier_of_ones_own(tmp_path: Path) -> None:
    state = state_of("torchvision")
    state |= {"fc.weight": torch.zeros(7, 1024), "fc.bias": torch.zeros(7)}
    model = open_model(f"inceptionv1:{save(tmp_path, state)}")
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 7)
    assert model.facts.classes == ()


class Runs:
    """A pickle that runs a function of its choice when it is opened."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_in_a_file_runs(tmp_path: Path) -> None:
    path, ran = tmp_path / "net.pth", tmp_path / "ran"
    torch.save(state_of("lucid") | {"more": Runs(ran)}, path)
    refused(f"inceptionv1:{path}", "be a file of tensors alone")
    assert not ran.exists()


def test_odd_files(tmp_path: Path) -> None:
    for name in ("net.pth", "net.safetensors"):
        path = tmp_path / name
        for content in (b"", b"hello", bytes(64)):
            path.write_bytes(content)
            refused(f"inceptionv1:{path}", "be a file of tensors alone")
    torch.save([torch.zeros(1)], tmp_path / "net.pth")
    refused(f"inceptionv1:{tmp_path / 'net.pth'}", "hold names and tensors")
    torch.save({"epoch": 3, "w": torch.zeros(1)}, tmp_path / "net.pth")
    refused(f"inceptionv1:{tmp_path / 'net.pth'}", "hold names and tensors")


def test_counts_of_batches_may_be_lacking() -> None:
    state = state_of("torchvision")
    net = open_model("inceptionv1", "random").module
    translate(state, net.state_dict(), names("torchvision"), AUXILIARY)
    state["conv1.bn.num_batches_tracked"] = torch.tensor(5)
    found = translate(state, net.state_dict(), names("torchvision"), AUXILIARY)
    assert (int(found["conv2d0.norm.num_batches_tracked"]), int(found["conv2d1.norm.num_batches_tracked"])) == (5, 0)


def test_layouts_are_named() -> None:
    with pytest.raises(UserError, match="layout must be one of torchvision, lucid; got 'slim'"):
        InceptionV1("slim")


def test_read_state_names_the_argument(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="model must name a file"):
        read_state(tmp_path)
