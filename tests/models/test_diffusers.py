"""SDXL's classes at a tiny size with random weights: saved, opened by name, harvested, steered. Needs diffusers."""

import importlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import monoseme as ms
from monoseme.core.errors import UserError
from monoseme.models import HookedPipeline, TokenGrid, open_model
from monoseme.steering import Direction
from monoseme.store import Prompts

diffusers: Any = pytest.importorskip("diffusers", reason="diffusers is not installed")
transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # those of other libraries about one another

AT, LONG = "down.2.1", "unet.down_blocks.2.attentions.1"
CALL = {"num_inference_steps": 3, "height": 16, "width": 16, "guidance_scale": 4.0}


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    for library in (transformers, diffusers):
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()


def save_tokenizer(folder: Path) -> Any:
    """CLIP's tokenizer with letters for a vocabulary."""
    folder.mkdir(parents=True, exist_ok=True)
    letters = [chr(c) for c in range(ord("a"), ord("z") + 1)]
    words = ["<|startoftext|>", "<|endoftext|>", *letters, *(f"{c}</w>" for c in letters)]
    (folder / "vocab.json").write_text(json.dumps({word: i for i, word in enumerate(words)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    return transformers.CLIPTokenizer.from_pretrained(folder, model_max_length=7)


def tiny_sdxl(folder: Path) -> Any:
    """SDXL's parts and their ways, thousands of times smaller."""
    torch.manual_seed(0)
    unet = diffusers.UNet2DConditionModel(
        sample_size=8,
        layers_per_block=2,
        norm_num_groups=4,
        block_out_channels=(8, 16, 16),
        down_block_types=("DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=(1, 2, 2),
        use_linear_projection=True,
        addition_embed_type="text_time",
        addition_time_embed_dim=4,
        transformer_layers_per_block=(1, 1, 2),
        projection_class_embeddings_input_dim=8 + 6 * 4,
        cross_attention_dim=16,
    )
    vae = diffusers.AutoencoderKL(
        block_out_channels=(8, 8),
        latent_channels=4,
        norm_num_groups=4,
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
    )
    about = {"vocab_size": 60, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 2, "eos_token_id": 1}
    config = transformers.CLIPTextConfig(
        **about, num_attention_heads=2, max_position_embeddings=7, projection_dim=8, bos_token_id=0, pad_token_id=1
    )
    tokenizer = save_tokenizer(folder / "letters")
    return diffusers.StableDiffusionXLPipeline(
        vae=vae,
        text_encoder=transformers.CLIPTextModel(config),
        text_encoder_2=transformers.CLIPTextModelWithProjection(config),
        tokenizer=tokenizer,
        tokenizer_2=tokenizer,
        unet=unet,
        scheduler=diffusers.EulerDiscreteScheduler(beta_start=0.00085, beta_end=0.012, timestep_spacing="leading"),
        add_watermarker=False,
    )


@pytest.fixture
def pipe(tmp_path: Path) -> Any:
    with torch.random.fork_rng(devices=[]):
        return tiny_sdxl(tmp_path)


@pytest.fixture
def saved(pipe: Any, tmp_path: Path) -> Path:
    pipe.save_pretrained(tmp_path / "sdxl", safe_serialization=True)
    return tmp_path / "sdxl"


def test_run_reads_what_a_plain_hook_sees(pipe: Any) -> None:
    model = HookedPipeline(pipe, **CALL)
    found: list[torch.Tensor] = []
    module = pipe.unet.down_blocks[2].attentions[1]
    handle = module.register_forward_hook(lambda m, a, o: found.append(o[0].flatten(2).transpose(1, 2)))
    streams = [torch.Generator().manual_seed(i) for i in range(2)]
    wanted = pipe(["a cat", "dogs"], generator=streams, output_type="np", **CALL).images
    handle.remove()
    assert [len(x) for x in found] == [4, 4, 4]
    torch.testing.assert_close(model.run(["a cat", "dogs"], at=AT), torch.cat([x[2:] for x in found], 1))
    assert model.grid(AT) == TokenGrid(3 * 2, 2, 0)
    torch.testing.assert_close(model.run(["a cat", "dogs"], at=f"{LONG}#2"), found[2][2:])
    torch.testing.assert_close(model(["a cat", "dogs"]), torch.as_tensor(wanted))
    assert model.run(["a cat", "dogs"], at="down.0.1#0").shape == (2, 64, 8)  # resnets: no attention there
    assert model.run(["a cat"], at="unet.up_blocks.0.resnets.2.conv1#1").shape == (1, 4, 16)


@pytest.mark.parametrize("halves", ["both", "conditional"])
def test_steering_at_chosen_steps(pipe: Any, halves: str) -> None:
    model, push = HookedPipeline(pipe, halves=halves, **CALL), Direction(torch.linspace(-1, 1, 16))
    module, clean, moved = pipe.unet.down_blocks[2].attentions[1], [], []
    before = module.register_forward_hook(lambda m, a, o: clean.append(o[0].clone()))
    pictures = model("a cat")
    clean.clear()
    with ms.steer(model, AT, push, steps=[0, 1]):
        after = module.register_forward_hook(lambda m, a, o: moved.append(o[0].clone()))
        steered = model("a cat")
    before.remove()
    after.remove()
    for i, (x, y) in enumerate(zip(clean, moved, strict=True)):
        wanted = torch.zeros_like(x)
        if i < 2:
            wanted[0 if halves == "both" else 1 :] = push.vector[:, None, None]
        torch.testing.assert_close(y - x, wanted, atol=1e-5, rtol=0)
    assert float((steered - pictures).abs().max()) > 1e-4
    torch.testing.assert_close(model("a cat"), pictures, rtol=0, atol=0)


def test_harvest_fit_and_walk_a_block(pipe: Any, tmp_path: Path) -> None:
    model = HookedPipeline(pipe, steps=[0, 1], **CALL)
    store = ms.harvest(model, Prompts([*"abcdefgh"], seeds=2), AT, tmp_path / "store", batch_size=4)
    assert (store.d_in, store.grid) == (16, (4, 2))
    f = ms.fit(ms.featurizers.Grassmannian(16, 8, 2, k=2), store, steps=30, batch_size=64).featurizer
    with ms.steer(model, AT, f, block=3, to=np.array([2.0, 0.0]), steps=[0, 1]):
        first = model.run("a cat", at=AT)
    code = f.encode(first[0, :4])
    mine = code.to_dense()[:, 3]
    # the block's contribution stands in the activation; other blocks may share its directions
    assert float((mine - torch.tensor([2.0, 0.0])).abs().median()) < 1.0
    with ms.steer(model, AT, f, block=3, to=np.array([0.0, 2.0]), steps=[0, 1], tokens=[0]):
        other = model("a cat")
    assert float((other - model("a cat")).abs().max()) > 1e-5


def test_open_by_name(pipe: Any, saved: Path) -> None:
    model = open_model(f"diffusers:{saved}")
    assert isinstance(model, HookedPipeline)
    assert (model.name, model.facts.weights, model.caveat) == (f"diffusers:{saved}", "pretrained", "")
    wanted = HookedPipeline(pipe, **CALL)("a cat")
    opened = HookedPipeline(model.pipeline, **CALL)
    torch.testing.assert_close(opened("a cat"), wanted)
    assert opened.revision != model.revision  # another call
    assert not any(p.requires_grad for p in model.module.parameters())


def test_random_weights_are_seeded(saved: Path) -> None:
    for file in saved.rglob("*.safetensors"):
        file.unlink()  # the configuration is enough
    state = torch.random.get_rng_state()
    first, same, other = (open_model(f"diffusers:{saved}", "random", seed) for seed in (0, 0, 1))
    torch.testing.assert_close(torch.random.get_rng_state(), state, rtol=0, atol=0)
    assert first.revision == same.revision != other.revision
    assert "control" in first.caveat
    assert first.run("a cat", at=f"{AT}#0").shape[2] == 16


def refused(folder: Path, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        open_model(f"diffusers:{folder}")
    assert str(error.value).startswith("model must")
    assert "\n" not in str(error.value)


def test_refusals(saved: Path, tmp_path: Path) -> None:
    refused(tmp_path / "nowhere", "nowhere")
    refused(Path("nobody/never-was"), "never-was")
    index = json.loads((saved / "model_index.json").read_text())
    for part, kind, says in (
        ("unet", ["mine", "UNet"], "whose unet is mine's"),
        ("unet", ["diffusers", "NoSuchNet"], "parts of diffusers"),
        ("_class_name", ["mine", "Pipeline"], "must"),
        ("vae", None, "must"),
    ):
        (saved / "model_index.json").write_text(json.dumps(index | {part: kind}))
        refused(saved, says)


def test_stable_diffusion_with_a_class_of_its_own(pipe: Any, tmp_path: Path) -> None:
    """The safety checker is named by its pipeline's folder in diffusers, not by a library."""
    checker: Any = importlib.import_module("diffusers.pipelines.stable_diffusion").StableDiffusionSafetyChecker

    about = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.CLIPConfig(
        text_config=about | {"vocab_size": 60},
        vision_config=about | {"image_size": 8, "patch_size": 4},
        projection_dim=8,
    )
    config_net = dict(pipe.unet.config) | {"addition_embed_type": None, "cross_attention_dim": 8}
    unet = diffusers.UNet2DConditionModel.from_config(config_net)
    small = diffusers.StableDiffusionPipeline(
        vae=pipe.vae,
        text_encoder=pipe.text_encoder,
        tokenizer=pipe.tokenizer,
        unet=unet,
        scheduler=pipe.scheduler,
        safety_checker=checker(config),
        feature_extractor=transformers.CLIPImageProcessor(size={"shortest_edge": 8}, crop_size=8),
    )
    small.save_pretrained(tmp_path / "sd", safe_serialization=True)
    for weights in ("pretrained", "random"):
        model = open_model(f"diffusers:{tmp_path / 'sd'}", weights)
        assert model.run("a cat", at=f"{AT}#0").shape[2] == 16
        assert model.hooks("safety_checker*")


@pytest.mark.parametrize("part", ["unet", "text_encoder", "vae"])
def test_weights_must_be_whole_and_in_safetensors(saved: Path, part: str) -> None:
    from safetensors.torch import load_file, save_file

    file = next((saved / part).glob("*.safetensors"))
    state = load_file(file)
    key = next(name for name in sorted(state) if state[name].ndim > 1)
    save_file({name: tensor for name, tensor in state.items() if name != key}, file, {"format": "pt"})
    refused(saved, f"whose {part} lacks 1, first ")
    file.write_bytes(file.read_bytes()[:100])
    refused(saved, "must")
    file.unlink()
    torch.save(state, file.with_suffix(".bin"))
    refused(saved, "reads from safetensors")
    shards = {"metadata": {"total_size": 1}, "weight_map": dict.fromkeys(state, file.with_suffix(".bin").name)}
    file.with_name(f"{file.name}.index.json").write_text(json.dumps(shards))
    refused(saved, "have its weights in safetensors; got .*[.]bin")
