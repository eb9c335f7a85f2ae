"""DINOv3 by its loaders: transformers' and timm's own classes, tiny, with random weights."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monoseme as ms
from monoseme.core.errors import UserError
from monoseme.models import TokenGrid, open_model
from monoseme.models.dinov3 import dinov3_preprocess
from monoseme.store import Sample

PICTURE = np.random.default_rng(0).integers(0, 256, (50, 40, 3), np.uint8)
# as the files on the hub have it, smaller
CONFIG = {
    "crop_size": None,
    "data_format": "channels_first",
    "do_center_crop": None,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_processor_type": "DINOv3ViTImageProcessorFast",
    "image_std": [0.229, 0.224, 0.225],
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": 32, "width": 32},
}


@pytest.fixture
def transformers(monkeypatch: pytest.MonkeyPatch) -> Any:
    library: Any = pytest.importorskip("transformers", reason="transformers is not installed")
    if not hasattr(library, "DINOv3ViTModel"):
        pytest.skip("this transformers has no DINOv3")
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    library.utils.logging.set_verbosity_error()
    library.utils.logging.disable_progress_bar()
    return library


def save(transformers: Any, folder: Path, kind: str = "ViT") -> Any:
    if kind == "ViT":
        about = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 20}
        about |= {"image_size": 32, "patch_size": 8, "num_register_tokens": 4}
    else:
        about = {"hidden_sizes": [4, 8, 8, 16], "depths": [1, 1, 1, 1]}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        config = getattr(transformers, f"DINOv3{kind}Config")(**about)
        net = getattr(transformers, f"DINOv3{kind}Model")(config).eval()
    net.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(CONFIG))
    return net


def test_vit_of_transformers(transformers: Any, tmp_path: Path) -> None:
    net = save(transformers, tmp_path / "net")
    model = open_model(f"hf:{tmp_path / 'net'}")
    facts = model.facts
    assert (facts.weights, facts.d_model, facts.patch, facts.special_tokens) == ("pretrained", 16, 8, 5)
    assert model.preprocess is not None
    x = model.preprocess(PICTURE)[None]
    assert x.shape == (1, 3, 32, 32)
    with torch.no_grad():
        wanted = net(x, output_hidden_states=True)
    found = model.run(x, at=["model.layer.1", "norm"])
    torch.testing.assert_close(found["norm"], wanted.last_hidden_state)
    torch.testing.assert_close(found["model.layer.1"], wanted.hidden_states[2])
    assert model.grid("model.layer.1") == TokenGrid(4, 4, 5)
    first, same, other = (open_model(f"hf:{tmp_path / 'net'}", "random", seed) for seed in (0, 0, 1))
    assert first.revision == same.revision != other.revision

    samples = [Sample(str(i), PICTURE[i : i + 36]) for i in range(8)]
    store = ms.harvest(model, samples, "model.layer.1", tmp_path / "store")
    assert (store.d_in, store.grid) == (16, (4, 4))  # CLS and registers are dropped


def test_convnext_of_transformers(transformers: Any, tmp_path: Path) -> None:
    save(transformers, tmp_path, "ConvNext")
    model = open_model(f"hf:{tmp_path}")
    assert model.preprocess is not None
    at = next(name for name in model.hooks("*stages.1") if name.count(".") < 3)
    tokens = model.run(model.preprocess(PICTURE)[None], at=at)
    assert tokens.shape == (1, 16, 8)
    assert model.grid(at) == TokenGrid(4, 4, 0)


@pytest.mark.parametrize("resample", [2, 3])
def test_preprocessing_is_that_of_transformers(transformers: Any, resample: int) -> None:
    pytest.importorskip("torchvision", reason="transformers has this processor only with torchvision")
    config = CONFIG | {"resample": resample}
    ours = dinov3_preprocess("x", config)
    own = {key: value for key, value in config.items() if key != "image_processor_type"}
    theirs = transformers.DINOv3ViTImageProcessor(**own)
    for size in ((50, 40), (32, 32), (20, 64)):
        picture = np.random.default_rng(size[0]).integers(0, 256, (*size, 3), np.uint8)
        wanted = torch.as_tensor(np.asarray(theirs(picture, return_tensors="np")["pixel_values"][0]))
        torch.testing.assert_close(ours(picture), wanted, rtol=0, atol=1e-5)


def test_preprocessing() -> None:
    made = dinov3_preprocess("x", CONFIG)
    mean, std = (torch.tensor(CONFIG[key])[:, None, None] for key in ("image_mean", "image_std"))
    picture = PICTURE[:32, :32]
    plain = torch.from_numpy(picture / 255).movedim(-1, 0).float()
    torch.testing.assert_close(made(picture), (plain - mean) / std)
    level = np.full((70, 30, 3), 51, np.uint8)
    torch.testing.assert_close(made(level), ((0.2 - mean) / std).expand(3, 32, 32))
    # halved: a half-width bilinear filter over 4 pixels each way, weights 1 3 3 1
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[32:] = 255
    rows = (made(stripes) * std + mean)[0, :, 5]
    torch.testing.assert_close(rows[14:18], torch.tensor([0, 1 / 8, 7 / 8, 1.0]), atol=1e-5, rtol=0)
    none = {"do_resize": False, "do_rescale": False, "do_normalize": False}
    torch.testing.assert_close(
        dinov3_preprocess("x", CONFIG | none)(PICTURE), torch.from_numpy(PICTURE).movedim(-1, 0).float()
    )
    assert dinov3_preprocess("x", {})(PICTURE).shape == (3, 224, 224)
    with pytest.raises(UserError, match="picture must"):
        made(PICTURE.astype(float))


@pytest.mark.parametrize(
    "change",
    [
        {"do_center_crop": True},
        {"resample": 0},
        {"size": {"shortest_edge": 32}},
        {"size": 32},
        {"image_mean": [0.5]},
        {"image_std": "x"},
        {"rescale_factor": "x"},
        {"do_resize": 3},
    ],
)
def test_odd_preprocessing(change: dict[str, Any]) -> None:
    with pytest.raises(UserError) as error:
        dinov3_preprocess("x", CONFIG | change)
    assert "\n" not in str(error.value)


def test_vit_of_timm(monkeypatch: pytest.MonkeyPatch) -> None:
    timm: Any = pytest.importorskip("timm", reason="timm is not installed")
    create = timm.create_model
    small = {"embed_dim": 24, "depth": 2, "num_heads": 2, "img_size": 64}
    monkeypatch.setattr(timm, "create_model", lambda name, **options: create(name, **options, **small))
    model = open_model("timm:vit_small_patch16_dinov3", "random")
    facts = model.facts
    assert (facts.patch, facts.special_tokens, facts.d_model) == (16, 5, 24)
    assert model.preprocess is not None
    side = model.preprocess(PICTURE).shape[-1]
    assert model.run(torch.zeros(2, 3, 64, 64), at="blocks.1").shape == (2, 21, 24)
    assert model.grid("blocks.1") == TokenGrid(4, 4, 5)
    assert side % 16 == 0
    same, other = (open_model("timm:vit_small_patch16_dinov3", "random", seed) for seed in (0, 1))
    assert model.revision == same.revision != other.revision
