"""Local vision-language models: wrong folders, half precision, words that are none, prompts as the model knows them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.composition.refusals import check_refused
from tests.composition.test_judges import tiny_model

from monoseme.composition.judges import LocalJudge, open_local
from monoseme.composition.judges.protocol import identity

transformers: Any = pytest.importorskip("transformers", reason="transformers is not installed")
pytestmark = pytest.mark.filterwarnings("ignore")  # of transformers, about itself
PICTURE = torch.rand(1, 8, 8, 3, generator=torch.Generator().manual_seed(0))


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model")
    tiny_model(folder)
    return folder


@pytest.fixture
def folder(saved: Path, tmp_path: Path) -> Path:
    for file in saved.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    return tmp_path


def made(folder: Path, thing: str = "a skull") -> LocalJudge:
    return LocalJudge(thing, *open_local(str(folder)), "tiny")


def edit(folder: Path, file: str, **fields: Any) -> None:
    path = folder / file
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def test_kept_verdicts_are_those_of_the_weights_and_the_prompt(folder: Path) -> None:
    first = identity(made(folder))
    assert identity(made(folder)) == first
    assert identity(made(folder, "a cat")) != first
    template = folder / "chat_template.jinja"
    template.write_text("Be strict. " + template.read_text())
    second = identity(made(folder))
    assert second != first
    model, processor = open_local(str(folder))
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    assert identity(LocalJudge("a skull", model, processor, "tiny")) != second  # the same name, another model


def test_a_prompt_begins_once(folder: Path) -> None:
    """A tokenizer that marks the beginning, and a template that does: one mark, as in the model's training."""
    from tokenizers import processors

    model, processor = open_local(str(folder))
    start = processor.tokenizer.bos_token_id
    backend = processor.tokenizer.backend_tokenizer
    backend.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    processor.chat_template = "<s>" + processor.chat_template
    judge = LocalJudge("a skull", model, processor, "tiny")
    seen: list[torch.Tensor] = []
    handle = model.register_forward_pre_hook(lambda _m, _a, given: seen.append(given["input_ids"]), with_kwargs=True)
    judge.judge(PICTURE)
    handle.remove()
    assert seen[0][0].tolist().count(start) == 1
    assert seen[0][0, 0] == start


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_models_keep_their_precision(dtype: torch.dtype, folder: Path) -> None:
    model, processor = open_local(str(folder))
    judge = LocalJudge("a skull", model.to(dtype), processor, "tiny")
    assert judge.about["dtype"] == str(dtype)
    assert judge.judge(PICTURE)[0].answer in ("yes", "no", "unsure", "invalid")


def test_broken_weights_give_no_answer(folder: Path) -> None:
    model, processor = open_local(str(folder))
    with torch.no_grad():
        model.lm_head.weight[0] = torch.nan
    (verdict,) = LocalJudge("a skull", model, processor, "tiny").judge(PICTURE)
    assert (verdict.answer, verdict.score) == ("invalid", None)


def test_no_pictures_are_no_verdicts(folder: Path) -> None:
    assert made(folder).judge(torch.zeros(0, 8, 8, 3)) == []


def test_an_unknown_word_is_not_yes(tmp_path: Path) -> None:
    """A tokenizer that knows neither word makes one and the same token of both: "unknown"."""
    tiny_model(tmp_path, words=("maybe",))
    check_refused(lambda: made(tmp_path), "have yes and no as single tokens")
    tiny_model(tmp_path, words=("yes",))
    check_refused(lambda: made(tmp_path), "none of 'no'")


def test_a_model_without_a_template_is_refused(folder: Path) -> None:
    (folder / "chat_template.jinja").unlink()
    check_refused(lambda: made(folder), "chat template")


def drop_weights(folder: Path) -> None:
    from safetensors.torch import load_file, save_file

    state = load_file(folder / "model.safetensors")
    del state[next(name for name in sorted(state) if "q_proj" in name)]
    save_file(state, folder / "model.safetensors", {"format": "pt"})


def pickled(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    torch.save({"x": torch.zeros(1)}, folder / "pytorch_model.bin")


def cut_off(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:1000])


def of_code(folder: Path) -> None:
    auto = {"AutoConfig": "mine.Config", "AutoModelForImageTextToText": "mine.Model"}
    edit(folder, "config.json", model_type="mine", auto_map=auto)
    (folder / "mine.py").write_text(f"open({str(folder / 'ran')!r}, 'w')\n")


WRONG: dict[str, tuple[Callable[[Path], Any], str]] = {
    "weights missing": (drop_weights, "lack 1, first model."),
    "weights pickled": (pickled, "safetensors"),
    "weights cut off": (cut_off, "safetensors"),
    "code of its own": (of_code, "without code"),
    "another kind": (lambda folder: edit(folder, "config.json", model_type="llama"), "vision-language"),
    "no kind": (lambda folder: edit(folder, "config.json", model_type=5), "model must"),
    "an odd config": (lambda folder: edit(folder, "config.json", text_config=5), "model must"),
    "a config that is a list": (lambda folder: (folder / "config.json").write_text("[]"), "model must"),
    "no config": (lambda folder: (folder / "config.json").unlink(), "model must"),
    "no processor": (lambda folder: (folder / "processor_config.json").unlink(), "model must"),
    "an odd tokenizer": (lambda folder: (folder / "tokenizer.json").write_text("{}"), "model must"),
}


@pytest.mark.parametrize("name", WRONG)
def test_folders_that_are_wrong_are_refused_in_one_line(name: str, folder: Path) -> None:
    spoil, says = WRONG[name]
    spoil(folder)
    check_refused(lambda: made(folder), says)
    assert not (folder / "ran").exists()
