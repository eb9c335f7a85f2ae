"""The decoder against transformers' own, and against itself under padding."""

import pytest
import torch
from torch import nn

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.llama import Attention, Llama, LlamaShape, angles
from monoseme.models.vit import init_random

SHAPE = LlamaShape(vocabulary=50, width=24, depth=3, heads=6, key_heads=2, hidden=40, base=100.0)


def tiny() -> HookedModel:
    decoder = Llama(SHAPE).double()
    init_random(decoder, 0)
    with torch.no_grad():
        for name, weight in decoder.named_parameters():
            if "norm" not in name:
                weight.mul_(15)  # sharp attention, or every token would read the same mean
    return HookedModel(decoder, ModelFacts("tiny"))


def theirs(ours: nn.Module) -> nn.Module:
    """The same weights in transformers' Llama, whose heads pair entry i with entry i + size/2."""
    assert isinstance(ours, Llama)
    from transformers import LlamaConfig, LlamaForCausalLM

    shape = ours.shape
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.depth,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.key_heads,
        rms_norm_eps=shape.eps,
        rope_parameters={"rope_type": "default", "rope_theta": shape.base},
        tie_word_embeddings=True,
    )
    size = shape.width // shape.heads
    names = {"norm1": "input_layernorm", "norm2": "post_attention_layernorm", "mlp": "mlp", "attn": "self_attn"}
    parts = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "proj": "o_proj"}
    state = {}
    for name, weight in ours.state_dict().items():
        words = name.split(".")
        if words[-2] in ("query", "key"):
            weight = weight.unflatten(0, (-1, size // 2, 2)).transpose(1, 2).reshape(weight.shape)
        if words[0] == "blocks":
            last = parts.get(words[3], f"{words[3]}_proj") if words[2] in ("attn", "mlp") else ""
            name = ".".join(word for word in ("layers", words[1], names[words[2]], last, "weight") if word)
        state["model." + name.replace("embed.", "embed_tokens.", 1)] = weight
    model: nn.Module = LlamaForCausalLM(config)
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    model.load_state_dict(state, assign=True)  # without a copy
    return nn.Module.to(model, next(ours.parameters()).dtype).eval()


def padded(ids: torch.Tensor, pad: int, side: str) -> dict[str, torch.Tensor]:
    """The same rows, the second one token shorter, with `pad` more tokens of nonsense on one side."""
    batch, length = ids.shape
    x = torch.full((batch, length + pad), 7)
    mask = torch.zeros_like(x)
    for i, row in enumerate(ids):
        row = row[: length - i]
        where = slice(0, len(row)) if side == "right" else slice(length + pad - len(row), None)
        x[i, where], mask[i, where] = row, 1
    return {"input_ids": x, "attention_mask": mask}


IDS = torch.randint(0, 50, (2, 9), generator=generator(1))


def test_attention_equals_the_slow_one() -> None:
    """Query by query: pairs of entries as complex numbers, turned by position; query head h reads key head h // 3."""
    layer = tiny().module.get_submodule("blocks.1.attn")
    assert isinstance(layer, Attention)
    x = torch.randn(1, 6, 24, dtype=torch.float64, generator=generator(2))
    positions = torch.tensor([[0, 0, 0, 1, 2, 3]])  # two of padding on the left
    real = torch.tensor([0, 0, 1, 1, 1, 1])
    sees = torch.ones(6, 6).tril().bool() & real.bool() | torch.eye(6).bool()
    turn = torch.polar(torch.ones(6, 2).double(), positions[0, :, None] * 100.0 ** -torch.tensor([0.0, 0.5]).double())
    pairs = [torch.view_as_complex(part(x[0]).reshape(6, -1, 2, 2)) for part in (layer.query, layer.key)]
    query, key = (torch.view_as_real(part * turn[:, None]).flatten(2) for part in pairs)
    value = layer.value(x[0]).reshape(6, 2, 4)
    out = torch.zeros(6, 6, 4, dtype=torch.float64)
    for t in range(6):
        for h in range(6):
            scores = (key[:, h // 3] @ query[t, h] / 2).masked_fill(~sees[t], -torch.inf)
            out[t, h] = scores.softmax(0) @ value[:, h // 3]
    got = layer(x, angles(positions, SHAPE), sees[None, None])
    torch.testing.assert_close(got[0], layer.proj(out.flatten(1)))


def test_logits_equal_those_of_transformers() -> None:
    model = tiny()
    with torch.no_grad():
        want = theirs(model.module)(input_ids=IDS).logits
    got = model({"input_ids": IDS})
    # transformers takes angles and RMS norms in single precision whatever the weights are
    torch.testing.assert_close(got, want, rtol=0, atol=1e-5)
    assert float(got.std()) > 1  # the weights are large enough for the comparison to mean something


@pytest.mark.parametrize("at", ["embed", "blocks.0", "blocks.1.attn", "blocks.2.mlp", "norm"])
def test_padding_on_either_side_changes_nothing(at: str) -> None:
    model = tiny()
    found = []
    for pad, side in ((0, "right"), (3, "right"), (4, "left")):
        x = padded(IDS, pad, side)
        found.append(model.run(x, at=at)[x["attention_mask"].bool()])
    alone = torch.cat([model.run({"input_ids": row[None]}, at=at)[0] for row in (IDS[0], IDS[1, :-1])])
    for rows in found:
        torch.testing.assert_close(rows, alone, rtol=1e-10, atol=1e-10)


def test_only_earlier_tokens_are_read() -> None:
    model, other = tiny(), IDS.clone()
    other[:, 5] = (other[:, 5] + 1) % 50
    a, b = (model.run({"input_ids": ids}, at="norm") for ids in (IDS, other))
    torch.testing.assert_close(a[:, :5], b[:, :5], rtol=0, atol=1e-12)
    assert bool(((a - b)[:, 5:].abs().amax(-1) > 1e-3).all())


def test_all_padding_is_finite() -> None:
    x = {"input_ids": IDS, "attention_mask": torch.zeros_like(IDS)}
    assert bool(tiny()(x).isfinite().all())


@pytest.mark.parametrize("bad", [50, -1])
def test_ids_of_another_tokenizer(bad: int) -> None:
    with pytest.raises(UserError, match="tokenizer of this model") as error:
        tiny()({"input_ids": torch.tensor([[1, bad]])})
    assert str(error.value).startswith("input_ids must")
    assert "\n" not in str(error.value)
