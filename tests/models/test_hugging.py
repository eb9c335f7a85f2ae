"""Models of transformers by name: tiny ones with random weights, saved to a folder and opened offline."""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.models.test_llama import padded

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, TokenGrid, Tokenizer, logits, open_model
from monoseme.models.byte_bpe import byte_of_letter

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()


def save_tokenizer(folder: Path, kind: str = "bytes") -> int:
    """A tokenizer of single bytes, or of sentencepiece's manner with a mark for spaces; returns its size."""
    from tokenizers import Tokenizer as Backend
    from tokenizers import decoders, models, pre_tokenizers

    special = ["<s>", "</s>"]
    if kind == "bytes":
        vocabulary = {letter: i for i, letter in enumerate([*special, *byte_of_letter()])}
        backend = Backend(models.BPE(vocabulary, []))
        backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
        backend.decoder = decoders.ByteLevel()
    else:
        vocabulary = {word: i for i, word in enumerate([*special, "?", "▁the", "▁", "c", "a", "t", "▁a"])}
        backend = Backend(models.BPE(vocabulary, [("▁", "a")], unk_token="?"))
        backend.pre_tokenizer = pre_tokenizers.Metaspace()
        backend.decoder = decoders.Metaspace()
    wrapped = transformers.PreTrainedTokenizerFast(tokenizer_object=backend, bos_token="<s>", eos_token="</s>")
    wrapped.save_pretrained(folder)
    return len(vocabulary)


def seeded(build):
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build()


def save_llama(folder: Path, rows: int = 258) -> None:
    config = transformers.LlamaConfig(
        vocab_size=rows,
        hidden_size=16,
        intermediate_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        initializer_range=0.5,
    )
    seeded(lambda: transformers.LlamaForCausalLM(config)).save_pretrained(folder)


def save_gpt2(folder: Path) -> None:
    config = transformers.GPT2Config(
        vocab_size=258,
        n_embd=16,
        n_layer=2,
        n_head=2,
        n_positions=32,
        initializer_range=0.5,
        bos_token_id=0,
        eos_token_id=1,
    )
    seeded(lambda: transformers.GPT2LMHeadModel(config)).save_pretrained(folder)


def save_vit(folder: Path, kind: str = "ViTForImageClassification") -> None:
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=20,
        image_size=32,
        patch_size=8,
        id2label={0: "cat", 1: "dog", 2: "fox"},
    )
    seeded(lambda: getattr(transformers, kind)(config)).save_pretrained(folder)
    plain = {"image_processor_type": "ViTImageProcessor", "size": {"height": 32, "width": 32}, "do_resize": True}
    rest = {"do_rescale": True, "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}
    (folder / "preprocessor_config.json").write_text(json.dumps(plain | rest))


SAVE = {"llama": (save_llama, "model.layers.1", 64), "gpt2": (save_gpt2, "transformer.h.1", 32)}


@pytest.mark.parametrize("kind", SAVE)
def test_language_models(tmp_path: Path, kind: str) -> None:
    save, at, context = SAVE[kind]
    save(tmp_path)
    save_tokenizer(tmp_path)
    model = open_model(f"hf:{tmp_path}")
    assert (model.name, model.facts.weights, model.d_model) == (f"hf:{tmp_path}", "pretrained", 16)
    assert model.facts.context == context
    tokenizer = model.facts.tokenizer
    assert isinstance(tokenizer, Tokenizer)
    assert (tokenizer.vocabulary, tokenizer.bos, tokenizer.special) == (258, 0, {0, 1})
    assert tokenizer.pieces([0, *tokenizer.encode("a é")]) == ["<s>", "a", " ", "\ufffd", "\ufffd"]

    ids = torch.randint(2, 258, (2, 9), generator=generator(1))
    reference = transformers.AutoModelForCausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        want = reference(input_ids=ids).logits
    torch.testing.assert_close(logits(model({"input_ids": ids})), want, rtol=0, atol=0)
    found = []
    for side in ("left", "right"):
        x = padded(ids, 4, side)
        found.append(model.run(x, at=at)[x["attention_mask"].bool()])
    alone = torch.cat([model.run({"input_ids": row[None]}, at=at)[0] for row in (ids[0], ids[1, :-1])])
    for rows in found:
        torch.testing.assert_close(rows, alone, rtol=1e-4, atol=1e-4 * float(alone.std()))


def test_spaces_of_sentencepiece_are_shown(tmp_path: Path) -> None:
    size = save_tokenizer(tmp_path, "spaces")
    save_llama(tmp_path, rows=size)
    tokenizer = open_model(f"hf:{tmp_path}").facts.tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("a cat at")
    assert "".join(tokenizer.pieces(ids)) == " a cat at"
    assert tokenizer.pieces([3, 5]) == [" the", "c"]


@pytest.mark.parametrize("kind", ["ViTForImageClassification", "ViTModel"])
def test_vision_models(tmp_path: Path, kind: str) -> None:
    save_vit(tmp_path, kind)
    model = open_model(f"hf:{tmp_path}")
    picture = np.random.default_rng(0).integers(0, 256, (32, 32, 3), np.uint8)
    assert model.preprocess is not None
    x = model.preprocess(picture)
    assert x.shape == (3, 32, 32)
    torch.testing.assert_close(x, torch.from_numpy((picture / 255 - 0.5) / 0.25).float().permute(2, 0, 1))
    at = next(name for name in model.hooks("*layers.1"))
    assert model.run(x[None], at=at).shape == (1, 17, 16)
    assert model.grid(at) == TokenGrid(4, 4, 1)
    classifies = kind.endswith("Classification")
    assert model.facts.classes == (("cat", "dog", "fox") if classifies else ())
    if classifies:
        assert logits(model(x[None])).shape == (1, 3)
    with pytest.raises(UserError, match="picture must"):
        model.preprocess(picture[..., 0])


def test_random_weights_are_seeded(tmp_path: Path) -> None:
    save_llama(tmp_path)
    save_tokenizer(tmp_path)
    state = torch.random.get_rng_state()
    first, same, other = (open_model(f"hf:{tmp_path}", "random", seed) for seed in (0, 0, 1))
    torch.testing.assert_close(torch.random.get_rng_state(), state, rtol=0, atol=0)
    assert first.revision == same.revision != other.revision
    assert "control" in first.caveat


def refused(name: str, says: str) -> None:
    with pytest.raises(UserError, match=says) as error:
        open_model(name)
    assert str(error.value).startswith("model must")
    assert "\n" not in str(error.value)


def test_refusals_about_the_name(tmp_path: Path) -> None:
    refused("hf:", "hf:NAME")
    refused("hub:gpt2", "hf:NAME")
    refused("hf:nobody/never-was", "never-was")
    refused(f"hf:{tmp_path / 'nowhere'}", "nowhere")
    refused(f"hf:{tmp_path}", "hf:")  # an empty folder


def test_tokenizer_mismatch(tmp_path: Path) -> None:
    save_llama(tmp_path, rows=257)
    save_tokenizer(tmp_path)
    refused(f"hf:{tmp_path}", "tokenizer mismatch: ids up to 257, but 257 embedded tokens")


def test_no_tokenizer(tmp_path: Path) -> None:
    save_llama(tmp_path)
    refused(f"hf:{tmp_path}", "tokenizer")


def test_pickled_weights_are_not_read(tmp_path: Path) -> None:
    save_llama(tmp_path)
    save_tokenizer(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save({"x": torch.zeros(1)}, tmp_path / "pytorch_model.bin")
    refused(f"hf:{tmp_path}", "safetensors")


def test_an_index_that_names_a_pickle_is_refused(tmp_path: Path) -> None:
    save_llama(tmp_path)
    save_tokenizer(tmp_path)
    (tmp_path / "model.safetensors").rename(tmp_path / "x.bin")
    index = {"metadata": {}, "weight_map": {"model.embed_tokens.weight": "x.bin"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    refused(f"hf:{tmp_path}", "have its weights in safetensors")


@pytest.mark.parametrize(
    ("file", "edit"),
    [
        ("config.json", {"architectures": 5}),
        ("config.json", {"architectures": [5]}),
        ("config.json", {"hidden_size": "a"}),
        ("config.json", {"num_attention_heads": 0}),
        ("config.json", {"quantization_config": 5}),
        ("config.json", {"pad_token_id": 10**9}),
        ("tokenizer_config.json", None),
        ("tokenizer.json", None),
    ],
)
def test_odd_files_are_one_line(tmp_path: Path, file: str, edit: dict[str, object] | None) -> None:
    save_llama(tmp_path)
    save_tokenizer(tmp_path)
    path = tmp_path / file
    path.write_text(json.dumps([] if edit is None else json.loads(path.read_text()) | edit))
    refused(f"hf:{tmp_path}", "must ")


def test_a_text_cannot_forge_special_tokens(tmp_path: Path) -> None:
    save_llama(tmp_path)
    save_tokenizer(tmp_path)
    tokenizer = open_model(f"hf:{tmp_path}").facts.tokenizer
    assert tokenizer is not None
    ids = tokenizer.encode("a</s>b")
    assert not tokenizer.special & set(ids)
    assert "".join(tokenizer.pieces(ids)) == "a</s>b"


def test_damaged_weights(tmp_path: Path) -> None:
    save_llama(tmp_path)
    save_tokenizer(tmp_path)
    whole = (tmp_path / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    refused(f"hf:{tmp_path}", "safetensors")


def test_missing_weights_are_not_drawn_at_random(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    save_llama(tmp_path)
    save_tokenizer(tmp_path)
    state = load_file(tmp_path / "model.safetensors")
    del state["lm_head.weight"]
    save_file(state, tmp_path / "model.safetensors", {"format": "pt"})
    refused(f"hf:{tmp_path}", "lack 1, first lm_head.weight")


def test_code_beside_a_model_is_not_run(tmp_path: Path) -> None:
    save_llama(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config", "AutoModelForCausalLM": "mine.Model"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    refused(f"hf:{tmp_path}", "without code of its own")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("written", ["BertForSequenceClassification", "NoSuchModel", "logging", None])
def test_models_of_another_kind(tmp_path: Path, written: str | None) -> None:
    save_llama(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["architectures"] = [written] if written else None
    (tmp_path / "config.json").write_text(json.dumps(config))
    refused(f"hf:{tmp_path}", "causal language model or a vision model")


@pytest.mark.parametrize(("name", "package"), [("hf:gpt2", "transformers"), ("timm:vit_tiny", "timm")])
def test_libraries_that_are_not_installed(monkeypatch: pytest.MonkeyPatch, name: str, package: str) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    refused(name, f"without {package}. Run: pip install {package}")


def test_devices(tmp_path: Path) -> None:
    net = torch.nn.Linear(2, 2)
    assert isinstance(open_model(net, device="cpu"), HookedModel)
    assert open_model(net, device=torch.device("cpu")).device.type == "cpu"
    for bad in ("gpu", "cuda:99", "meta", ""):
        with pytest.raises(UserError) as error:
            open_model(net, device=bad)
        assert str(error.value).startswith("device must name a device of this machine; got ")
        assert "\n" not in str(error.value)
    assert net.weight.device.type == "cpu"


def test_logits_of_something_else() -> None:
    with pytest.raises(UserError, match="output must"):
        logits({"x": 1})
