"""Splicing against a token-by-token twin in plain Python, and the identities it must satisfy."""

import math
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

from monoseme.core.errors import UserError
from monoseme.core.seeds import generator
from monoseme.core.stats import ratio_interval
from monoseme.evaluation import SpliceBatch, splice
from monoseme.evaluation.output_change import Change, change_numbers
from monoseme.models import HookedModel, ModelFacts
from monoseme.models.llama import Llama, LlamaShape
from monoseme.models.vit import init_random

SHAPE = LlamaShape(vocabulary=30, width=12, depth=3, heads=3, key_heads=1, hidden=16, base=100.0)
AT = "blocks.1"
# documents of windows of tokens; the first token of every window stands for BOS and is never replaced
WINDOWS = [(0, 9), (0, 5), (1, 9), (2, 7), (2, 2), (3, 1), (4, 8)]


def language() -> HookedModel:
    decoder = Llama(SHAPE).double()
    init_random(decoder, 0)
    with torch.no_grad():
        for name, weight in decoder.named_parameters():
            if "norm" not in name:
                weight.mul_(15)
    return HookedModel(decoder, ModelFacts("tiny"))


MODEL = language()


def written(length: int, stream: torch.Generator) -> torch.Tensor:
    """A text the model itself writes, so that it has something to lose."""
    ids = torch.randint(0, 30, (1,), generator=stream)
    for _ in range(length - 1):
        chances = MODEL({"input_ids": ids[None]})[0, -1].softmax(0)
        ids = torch.cat([ids, torch.multinomial(chances, 1, generator=stream)])
    return ids


DOCUMENTS = [(group, written(length, generator(1, i))) for i, (group, length) in enumerate(WINDOWS)]


def batches(size: int, side: str = "right", extra: int = 0) -> list[SpliceBatch]:
    found = []
    for start in range(0, len(DOCUMENTS), size):
        part = DOCUMENTS[start : start + size]
        length = max(len(ids) for _, ids in part) + extra
        x, mask = torch.full((len(part), length), 3), torch.zeros(len(part), length, dtype=torch.int64)
        keep = torch.zeros(len(part), length, dtype=torch.bool)
        for i, (_, ids) in enumerate(part):
            first = 0 if side == "right" else length - len(ids)
            x[i, first : first + len(ids)], mask[i, first : first + len(ids)] = ids, 1
            keep[i, first + 1 : first + len(ids)] = True
        group = torch.tensor([group for group, _ in part])
        found.append(SpliceBatch({"input_ids": x, "attention_mask": mask}, keep, group))
    return found


def featurizer(known, k: int = 3):
    atoms = torch.linalg.qr(torch.randn(6, 12, 2, dtype=torch.float64, generator=generator(2)))[0].mT
    return known(atoms, k, bias=torch.full((12,), 0.1, dtype=torch.float64))


def slow(f: Any, baseline: torch.Tensor | None) -> dict[str, dict[int, list[float]]]:
    """Sums of every document, a window and a token at a time, calling the model's parts by hand."""
    decoder = MODEL.module
    assert isinstance(decoder, Llama)

    def enter(ids):
        from monoseme.models.llama import angles

        turn = angles(torch.arange(len(ids))[None], SHAPE)
        x = decoder.embed(ids[None])
        for block in decoder.blocks[:2]:
            x = block(x, turn, None)
        return x[0], turn

    def leave(x, turn):
        return (decoder.norm(decoder.blocks[2](x[None], turn, None))[0] @ decoder.embed.weight.T).tolist()

    rows = torch.cat([enter(ids)[0][1:] for _, ids in DOCUMENTS])
    row = rows.mean(0) if baseline is None else baseline
    sums: dict[str, dict[int, list[float]]] = {}

    def chances(logits):
        top = max(logits)
        total = sum(math.exp(value - top) for value in logits)
        return [value - top - math.log(total) for value in logits]

    for group, ids in DOCUMENTS:
        x, turn = enter(ids)
        spliced, ablated = x.clone(), x.clone()
        for t in range(1, len(ids)):
            spliced[t] = f.decode(f.encode(x[t : t + 1]))[0]
            ablated[t] = row
        outputs = {name: leave(y, turn) for name, y in (("clean", x), ("spliced", spliced), ("ablated", ablated))}
        for t in range(len(ids) - 1):
            log = {name: chances(logits[t]) for name, logits in outputs.items()}
            for name, values in log.items():
                kl = sum(math.exp(p) * (p - q) for p, q in zip(log["clean"], values, strict=True))
                sums.setdefault(f"ce_{name}", {}).setdefault(group, []).append(-values[int(ids[t + 1])])
                sums.setdefault(f"kl_{name}", {}).setdefault(group, []).append(kl)
    return sums


@pytest.mark.parametrize("baseline", ["mean", "zero", "row"])
def test_equals_the_slow_one(known, baseline: str) -> None:
    f = featurizer(known)
    row = {"mean": None, "zero": torch.zeros(12).double(), "row": torch.linspace(-1, 1, 12).double()}[baseline]
    with torch.no_grad():
        sums = slow(f, row)
    got = splice(f, MODEL, AT, batches(3), baseline="mean" if row is None else "zero" if baseline == "zero" else row)
    total = {name: sum(sum(values) for values in groups.values()) for name, groups in sums.items()}
    count = sum(length - 1 for _, length in WINDOWS)
    want = {
        "ce_clean": total["ce_clean"] / count,
        "ce_spliced": total["ce_spliced"] / count,
        "ce_ablated": total["ce_ablated"] / count,
        "ce_recovered": (total["ce_ablated"] - total["ce_spliced"]) / (total["ce_ablated"] - total["ce_clean"]),
        "kl": total["kl_spliced"] / count,
        "kl_recovered": 1 - total["kl_spliced"] / total["kl_ablated"],
    }
    assert set(got) == set(want)
    for name, value in want.items():
        assert got[name].value == pytest.approx(value, rel=1e-9), name
    groups = sorted(sums["ce_clean"])
    assert groups == [0, 1, 2, 4]  # a window of one token predicts nothing, so its document is no unit
    assert {outcome.n for outcome in got.values()} == {4}
    document = {name: np.array([sum(sums[name][g]) for g in groups]) for name in sums}
    low, high = ratio_interval(document["kl_ablated"] - document["kl_spliced"], document["kl_ablated"])
    assert (got["kl_recovered"].low, got["kl_recovered"].high) == pytest.approx((low, high))
    assert got["kl"].better == got["ce_spliced"].better == "lower"
    assert got["kl_recovered"].better == got["ce_recovered"].better == "higher"
    assert got["kl"].provenance["baseline"] == ("given" if baseline == "row" else baseline)


def test_neither_batches_nor_padding_matter(known) -> None:
    f = featurizer(known)
    want = splice(f, MODEL, AT, batches(1))
    for others in (batches(3), batches(7), batches(2, "left"), batches(7, "left", extra=3), batches(4)[::-1]):
        got = splice(f, MODEL, AT, others)
        for name, outcome in want.items():
            assert got[name].value == pytest.approx(outcome.value, rel=1e-9), name
            assert (got[name].low, got[name].high) == pytest.approx((outcome.low, outcome.high), rel=1e-6)


class Constant:
    """Nothing is active: every row becomes the bias."""

    def __init__(self, known, bias: torch.Tensor) -> None:
        self.inner = known(torch.zeros(1, 1, len(bias), dtype=torch.float64), 1, bias=bias)
        self.atoms, self.bias = self.inner.atoms, bias

    def encode(self, x, refine=None):
        return self.inner.encode(x, refine)

    def decode(self, code):
        return self.inner.decode(code)


def test_a_perfect_featurizer_recovers_everything(known) -> None:
    got = splice(known(torch.eye(12).double()[None], 1), MODEL, AT, batches(3))
    for name in ("ce_recovered", "kl_recovered"):
        assert (got[name].value, got[name].low, got[name].high) == (1, 1, 1)
    assert got["kl"].value == 0
    assert got["ce_spliced"].value == pytest.approx(got["ce_clean"].value, rel=1e-14)


@pytest.mark.parametrize("baseline", ["mean", "zero"])
def test_a_constant_recovers_nothing(known, baseline) -> None:
    kept = [MODEL.run(batch.x, at=AT)[batch.keep] for batch in batches(3)]
    bias = torch.cat(kept).mean(0) if baseline == "mean" else torch.zeros(12).double()
    got = splice(Constant(known, bias), MODEL, AT, batches(3), baseline=baseline)
    for name in ("ce_recovered", "kl_recovered"):
        assert got[name].value == pytest.approx(0, abs=1e-9)


def test_an_ablation_without_effect_recovers_nothing_known(known) -> None:
    """Of one window every row of which is the mean: the baseline changes nothing."""
    batch = batches(1)[0]
    keep = torch.zeros_like(batch.keep)
    keep[0, 4] = True
    got = splice(featurizer(known), MODEL, AT, [replace(batch, keep=keep)])
    assert got["ce_recovered"].value is None
    assert "is not above" in got["ce_recovered"].note
    assert got["kl_recovered"].value is None
    assert "nothing to recover" in got["kl_recovered"].note
    assert got["kl"].known
    assert got["kl"].low is None  # one document has no interval


def change(**sums: list[float]) -> Change:
    arrays = {name: np.array(values) for name, values in sums.items()}
    return Change("language", np.arange(len(arrays["rows"])), arrays)


def test_a_worse_baseline_than_none_is_unknown_and_an_uncertain_one_has_no_interval() -> None:
    same = {"rows": [10.0] * 3, "kl_spliced": [1.0] * 3, "kl_ablated": [4.0] * 3, "ce_spliced": [21.0] * 3}
    better = change(**same, ce_clean=[20.0] * 3, ce_ablated=[19.0] * 3)
    assert change_numbers(better)["ce_recovered"].value is None
    unsure = change_numbers(change(**same, ce_clean=[20.0] * 3, ce_ablated=[17.0, 23.0, 23.0]))["ce_recovered"]
    assert unsure.value == pytest.approx(0.0)
    assert unsure.low is None
    broken = change_numbers(change(**same, ce_clean=[20.0] * 3, ce_ablated=[np.nan] * 3))["ce_recovered"]
    assert broken.value is None
    assert "finite" in broken.note


# -- vision, and anything else


class Tail(NamedTuple):
    last_hidden_state: torch.Tensor


def pictures(module: nn.Module, facts: ModelFacts | None = None) -> tuple[HookedModel, list[SpliceBatch]]:
    init_random(module, 0)
    with torch.no_grad():
        for weight in module.parameters():
            weight.mul_(60)
    x = torch.randn(18, 3, 4, 4, dtype=torch.float64, generator=generator(3))
    keep = torch.rand(18, 16, generator=generator(4)) > 0.3
    group = torch.tensor([5, 5, 7, 8, 9, 9]).repeat_interleave(3)
    parts = [SpliceBatch(x[i : i + 5], keep[i : i + 5], group[i : i + 5]) for i in range(0, 18, 5)]
    return HookedModel(module.double(), facts or ModelFacts("net")), parts


def classifier() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 5, 1), nn.Tanh(), nn.Conv2d(5, 4, 3), nn.Tanh(), nn.Flatten(), nn.Linear(16, 6))


def by_hand(model: HookedModel, parts: list[SpliceBatch], f: Any) -> dict[str, torch.Tensor]:
    """Clean, spliced and ablated outputs of all samples."""
    first, rest = model.module[0], model.module[1:]  # type: ignore[index]
    x, keep = (torch.cat([getattr(part, name) for part in parts]) for name in ("x", "keep"))
    rows = first(x).flatten(2).mT
    mean = rows[keep].mean(0)
    put = {"clean": rows, "spliced": rows.clone(), "ablated": rows.clone()}
    for i, t in keep.nonzero().tolist():
        put["spliced"][i, t] = f.decode(f.encode(rows[i, t][None]))[0]
        put["ablated"][i, t] = mean
    return {name: rest(values.mT.reshape(len(x), 5, 4, 4)) for name, values in put.items()}


def small(known):
    return known(torch.linalg.qr(torch.randn(3, 5, 2, dtype=torch.float64, generator=generator(6)))[0].mT, 1)


def test_classifier(known) -> None:
    model, parts = pictures(classifier())
    got = splice(small(known), model, "0", parts, samples="pictures")
    with torch.no_grad():
        out = by_hand(model, parts, small(known))
    same = {name: (out[name].argmax(1) == out["clean"].argmax(1)).double().mean().item() for name in out}
    log = {name: values.log_softmax(1) for name, values in out.items()}
    kl = {name: (log["clean"].exp() * (log["clean"] - log[name])).sum().item() for name in out}
    assert set(got) == {"agreement", "agreement_ablated", "kl", "kl_recovered"}
    assert got["agreement"].value == pytest.approx(same["spliced"])
    assert got["agreement_ablated"].value == pytest.approx(same["ablated"])
    assert got["kl"].value == pytest.approx(kl["spliced"] / 18)
    assert got["kl_recovered"].value == pytest.approx(1 - kl["spliced"] / kl["ablated"])
    assert (got["agreement"].n, got["agreement"].n_unit, got["kl"].unit) == (4, "pictures", "nats/input")
    assert 0 < same["spliced"] < 1  # or the comparison could not fail


def test_any_other_module(known) -> None:
    class Ends(nn.Module):
        def forward(self, x):
            return Tail(x.flatten(2).mT)

    net = nn.Sequential(nn.Conv2d(3, 5, 1), nn.Tanh(), nn.Conv2d(5, 4, 3), Ends())
    model, parts = pictures(net)
    got = splice(small(known), model, "0", parts)
    with torch.no_grad():
        out = {name: tail.last_hidden_state for name, tail in by_hand(model, parts, small(known)).items()}  # type: ignore[attr-defined]
    error = {name: (values - out["clean"]).square().sum().item() for name, values in out.items()}
    assert set(got) == {"output_recovered"}
    assert got["output_recovered"].value == pytest.approx(1 - error["spliced"] / error["ablated"])
    assert got["output_recovered"].better == "higher"


def test_padding_of_an_encoder_does_not_count(known) -> None:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(30, 5)
            self.mix = nn.Linear(5, 4)

        def forward(self, input_ids, attention_mask):
            rows = self.embed(input_ids)
            noise = (1 - attention_mask)[..., None] * torch.arange(rows.shape[1])[:, None] * rows.mean()
            return Tail(self.mix(rows + noise))

    encoder = Encoder().double()
    init_random(encoder, 0)
    model = HookedModel(encoder, ModelFacts("encoder"))
    values = [splice(small(known), model, "embed", batches(size, side)) for size, side in ((1, "right"), (7, "left"))]
    assert values[0]["output_recovered"].value == pytest.approx(values[1]["output_recovered"].value, rel=1e-9)


def test_the_language_model_of_the_demo(smollm2: HookedModel, known) -> None:
    """A frame of 8 principal directions keeps more of the loss than one of 1, and the identity keeps all of it."""
    tokenizer = smollm2.facts.tokenizer
    assert tokenizer is not None
    text = "Every man is a piece of the continent, a part of the main. If a clod be washed away, Europe is the less."
    ids = torch.tensor([tokenizer.encode(text)])
    x = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    inputs = [SpliceBatch(x, torch.arange(ids.shape[1])[None] > 0, torch.tensor([0]))]
    rows = smollm2.run(x, at="blocks.9")[0, 1:].double()
    directions = torch.linalg.svd(rows - rows.mean(0))[2]
    got = [
        splice(known(directions[None, :size], 1, bias=rows.mean(0)), smollm2, "blocks.9", inputs)["ce_recovered"].value
        for size in (1, 8, 576)
    ]
    assert got[2] == pytest.approx(1, abs=1e-3)
    assert got[0] is not None
    assert got[1] is not None
    assert got[0] < got[1] < 0.999


def first_tokens(batch: SpliceBatch) -> SpliceBatch:
    return replace(batch, x={name: ids[:, :1] for name, ids in batch.x.items()}, keep=batch.keep[:, :1] | True)


@pytest.mark.parametrize(
    ("change_inputs", "options", "word", "says"),
    [
        (lambda inputs: [], {}, "inputs", "at least one batch"),
        (lambda inputs: [], {"baseline": "zero"}, "inputs", "at least one token"),
        (lambda inputs: iter(inputs), {}, "inputs", "iterator"),
        (lambda inputs: [replace(i, keep=i.keep & False) for i in inputs], {}, "inputs", "at least one token"),
        (lambda inputs: [replace(i, keep=i.keep[:, 1:]) for i in inputs], {}, "inputs", "those of the hook"),
        (lambda inputs: [replace(i, keep=i.keep | True) for i in inputs], {}, "inputs", "no padding"),
        (lambda inputs: [first_tokens(i) for i in inputs], {}, "inputs", "next token"),
        (lambda inputs: inputs, {"baseline": "median"}, "baseline", "median"),
        (lambda inputs: inputs, {"baseline": torch.zeros(3)}, "baseline", "width 12"),
        (lambda inputs: inputs, {"at": "blocks.1.mlp.gate"}, "at", "width 12"),
        (lambda inputs: inputs, {"at": "blocks.7"}, "at", "Did you mean"),
    ],
)
def test_refusals(known, change_inputs, options: dict[str, Any], word: str, says: str) -> None:
    arguments: dict[str, Any] = {"at": AT} | options
    with pytest.raises(UserError, match=says) as error:
        splice(featurizer(known), MODEL, inputs=change_inputs(batches(3)), **arguments)
    assert str(error.value).startswith(f"{word} must")
    assert "\n" not in str(error.value)


def test_an_output_that_cannot_be_compared(known) -> None:
    class Says(nn.Sequential):
        def forward(self, input):
            return {"x": super().forward(input)}

    model, parts = pictures(Says(nn.Conv2d(3, 5, 1)))
    with pytest.raises(UserError, match="dict") as error:
        splice(small(known), model, "0", parts)
    assert str(error.value).startswith("model must")
