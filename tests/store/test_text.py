"""Text: windows of documents, whose rows equal the model's own, whatever they are batched with."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from monoseme.core.errors import UserError
from monoseme.models import HookedModel, ModelFacts, Tokenizer
from monoseme.store import ActivationStore, Recipe, Texts, TokenPolicy, harvest, predict_size

from .conftest import Bytes, TinyLM

SMALL = TokenPolicy(context=24)


def refused(word: str, call, says: str = "") -> None:
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{word} must")
    assert says in str(error.value)


def cut(text: str, context: int = 24) -> list[list[int]]:
    """Windows as they should be, in the slow way."""
    ids, size = Bytes().encode(text), context - 1
    return [[256, *ids[start : start + size]] for start in range(0, len(ids), size)]


def direct(lm: HookedModel, ids: Sequence[int]) -> Tensor:
    """Activations of one window alone, without padding."""
    x = torch.tensor([ids])
    return lm.run({"input_ids": x, "attention_mask": torch.ones_like(x)}, at="block")[0]


def split_of(store: ActivationStore, document: str) -> str:
    return next(s["split"] for s in store._samples if s["id"] == f"{document}@0")


def test_the_tokenizer_is_one() -> None:
    assert isinstance(Bytes(), Tokenizer)


@pytest.mark.parametrize("padding", ["right", "left"])
def test_every_row_is_the_models_own(lm, texts, tmp_path, padding) -> None:
    policy = TokenPolicy(context=24, padding=padding)
    store = harvest(lm, texts, "block", tmp_path / "s", tokens=policy, batch_size=5, shard_rows=60)
    assert store.grid is None
    want = {f"{name}@{23 * i}": ids for name, text in texts for i, ids in enumerate(cut(text))}
    assert set(store.ids) == set(want)
    assert sum(store.manifest["rows"].values()) == sum(len(ids) - 1 for ids in want.values())
    for name, ids in want.items():
        sample = store.sample(name)
        assert sample.grid == (1, len(ids))
        assert sample.positions.tolist() == list(range(1, len(ids)))
        torch.testing.assert_close(sample.rows, direct(lm, ids)[1:], rtol=1e-5, atol=1e-5)
        held = sample.split != "train"
        assert (sample.pieces is not None) == (sample.input_ids is not None) == held
        if sample.pieces is not None and sample.input_ids is not None:
            assert sample.input_ids.tolist() == ids
            assert sample.pieces == ("<256>", *map(chr, ids[1:]))
    for split in ("train", "validation", "test"):
        rows = store.rows(split)
        in_order = list(rows.in_order(7))
        sample, position = (torch.cat([getattr(b, name) for b in in_order]) for name in ("sample", "position"))
        expected = [(i, p) for i, name in enumerate(store.ids) for p in range(1, len(want[name]))
                    if name in store.samples(split)]  # fmt: skip
        assert list(zip(sample.tolist(), position.tolist(), strict=True)) == expected
        keys = torch.cat([b.sample * 100 + b.position for b in store.batches(11, seed=2, split=split)])
        assert len(keys.unique()) == len(rows)
    torch.testing.assert_close(store[-1], store.sample(store.samples("test")[-1]).rows[-1], rtol=0, atol=0)


def test_padding_left_and_right_give_the_same_rows(lm, texts, tmp_path) -> None:
    """Same samples and positions; values up to rounding, because sums run in another order beside padding."""
    right, left = (
        harvest(lm, texts, "block", tmp_path / side, tokens=TokenPolicy(context=24, padding=side), shard_rows=60)
        for side in ("right", "left")
    )
    for split in ("train", "validation", "test"):
        for a, b in zip(right.rows(split).in_order(50), left.rows(split).in_order(50), strict=True):
            assert torch.equal(a.sample, b.sample)
            assert torch.equal(a.position, b.position)
            torch.testing.assert_close(a.x, b.x, rtol=1e-5, atol=1e-5)


def test_padding_gives_identical_bytes_where_tokens_do_not_meet(texts, tmp_path) -> None:
    class Alone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(258, 5)

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.tokens(input_ids)

    model = HookedModel(Alone(), ModelFacts("alone", tokenizer=Bytes()))
    for side in ("right", "left"):
        harvest(model, texts, "tokens", tmp_path / side, tokens=TokenPolicy(context=24, padding=side), shard_rows=60)
    names = sorted(path.name for path in (tmp_path / "right").glob("*.safetensors"))
    assert len(names) > 4
    assert [n for n in names if (tmp_path / "right" / n).read_bytes() != (tmp_path / "left" / n).read_bytes()] == []


def test_windows_for_the_splice(lm, texts, tmp_path) -> None:
    policy = TokenPolicy(context=24, positions=(2, 9))
    store = harvest(lm, texts, "block", tmp_path / "s", tokens=policy)
    found, want = list(store.windows("test")), {name: text for name, text in texts}
    kept = [id for id in store.samples("test")]
    assert len(found) == len(kept) > 2
    rows = torch.cat([batch.x for batch in store.rows("test").in_order(13)])
    at = 0
    for id, (ids, positions, group) in zip(kept, found, strict=True):
        assert id.rpartition("@")[0] == group
        start = int(id.rpartition("@")[2]) // 23
        assert ids.tolist() == cut(want[group])[start]
        assert positions.tolist() == list(range(2, min(9, len(ids))))
        part = rows[at : at + len(positions)]
        torch.testing.assert_close(part, direct(lm, ids.tolist())[positions], rtol=1e-5, atol=1e-5)
        at += len(positions)
    assert at == len(rows)
    refused("split", lambda: next(store.windows("train")), "held out")


def test_pictures_have_no_windows(model, samples, tmp_path) -> None:
    store = harvest(model, samples, "block", tmp_path / "s")
    refused("windows", lambda: next(store.windows()), "store of text")


def test_documents_and_their_copies_stay_on_one_side(lm, texts, tmp_path) -> None:
    copied = [*texts, *((f"{name} again", text) for name, text in texts if len(text) > 30)]
    store = harvest(lm, copied, "block", tmp_path / "s", tokens=SMALL, split=(0.4, 0.3, 0.3))
    side: dict[str, set[str]] = {}
    text_of = dict(copied)
    for sample in store._samples:
        side.setdefault(text_of[sample["id"].rpartition("@")[0]], set()).add(sample["split"])
    assert all(len(splits) == 1 for splits in side.values())
    assert set.union(*side.values()) == {"train", "validation", "test"}


def test_special_tokens_and_positions(lm, texts, tmp_path) -> None:
    marked = [(name, text[:5] + "\x03") for name, text in texts]
    dropped = harvest(lm, marked, "block", tmp_path / "d", tokens=SMALL)
    kept = harvest(lm, marked, "block", tmp_path / "k", tokens=TokenPolicy(special=True, context=24))
    middle = harvest(lm, marked, "block", tmp_path / "m", tokens=TokenPolicy(context=24, positions=(1, 3)))
    name = dropped.samples("test")[0]
    ids = dropped.sample(name).input_ids
    assert ids is not None
    assert kept.sample(name).positions.tolist() == list(range(len(ids)))
    assert dropped.sample(name).positions.tolist() == list(range(1, len(ids) - 1))
    assert middle.sample(name).positions.tolist() == [1, 2]
    for store in (dropped, kept, middle):
        tokens = store.manifest["tokens"]
        for split, rows in store.manifest["rows"].items():
            gone = sum(tokens[why][split] for why in ("special", "outside", "high_norm"))
            assert tokens["seen"][split] == rows + gone
    assert dropped.manifest["tokens"]["special"]["test"] == 2 * len(dropped.samples("test"))
    assert kept.manifest["tokens"]["special"]["test"] == 0
    assert middle.manifest["tokens"]["outside"]["test"] > 0


def test_size_is_predicted(lm, texts, tmp_path) -> None:
    for dtype in ("float32", "bfloat16"):
        predicted = predict_size(lm, texts, Recipe("block", dtype=dtype, tokens=SMALL, shard_rows=90))
        store = harvest(lm, texts, "block", tmp_path / dtype, dtype=dtype, tokens=SMALL, shard_rows=90)
        assert store.manifest["bytes"]["predicted"] == predicted
        assert abs(predicted - store.manifest["bytes"]["actual"]) < 0.01 * store.manifest["bytes"]["actual"] + 40


def test_empty_documents_are_counted(lm, tmp_path) -> None:
    data = ["some words", "", " \n ", "other words", "third text"]
    store = harvest(lm, data, "block", tmp_path / "s", tokens=SMALL)
    assert store.manifest["text"] == {"documents": 5, "empty": 2, "windows": 3, "without_rows": 0}
    assert set(store.ids) == {"0@0", "3@0", "4@0"}
    refused(
        "data", lambda: harvest(lm, ["", "  "], "block", tmp_path / "t", tokens=SMALL), "2 samples, all of them empty"
    )


def test_windows_without_rows_are_counted(lm, tmp_path) -> None:
    data = ["a", "bc", "d" * 30, "e" * 40, "f" * 50]
    store = harvest(lm, data, "block", tmp_path / "s", tokens=TokenPolicy(context=64, positions=(4, None)))
    assert store.manifest["text"]["without_rows"] == 2
    assert set(store.ids) == {"2@0", "3@0", "4@0"}
    none = TokenPolicy(context=64, positions=(60, 70))
    refused("tokens", lambda: harvest(lm, data, "block", tmp_path / "t", tokens=none), "5 windows in which")


def test_a_wrong_tokenizer_is_refused(texts, tmp_path) -> None:
    small = HookedModel(TinyLM(vocabulary=100), ModelFacts("small", tokenizer=Bytes()))
    refused("data", lambda: harvest(small, texts, "block", tmp_path / "s"), "tokenizer mismatch")

    class Liar(Bytes):
        vocabulary = 50

    liar = HookedModel(TinyLM(), ModelFacts("liar", tokenizer=Liar()))
    refused("data", lambda: harvest(liar, texts, "block", tmp_path / "s"), "tokenizer mismatch")
    assert not (tmp_path / "s" / "manifest.json").exists()

    class Short(Bytes):
        def pieces(self, ids: Sequence[int]) -> list[str]:
            return ["x"]

    short = HookedModel(TinyLM(), ModelFacts("short", tokenizer=Short()))
    refused("model", lambda: harvest(short, texts, "block", tmp_path / "t", tokens=SMALL), "one piece an id")


def test_bad_text_is_one_line(lm, model, texts, tmp_path) -> None:
    out = tmp_path / "s"
    refused("model", lambda: harvest(model, texts, "block", out), "have a tokenizer")
    refused("context", lambda: harvest(lm, texts, "block", out, tokens=TokenPolicy(context=65)), "at most 64")
    refused("context", lambda: harvest(lm, texts, "block", out, tokens=TokenPolicy(context=1)), "leave room")
    for word, data, says in [
        ("data", ["ab\ud800"], "valid Unicode"),
        ("data", [("a", "x"), ("a", "y")], "'a' twice"),
        ("documents", [("a", "x"), "y"], "pairs throughout"),
        ("documents", [{"text": None}], "NoneType at 0"),
        ("field", [{"body": "x"}], "'text' of body"),
    ]:
        refused(word, lambda data=data: harvest(lm, data, "block", out, tokens=SMALL), says)

    class Pooled(TinyLM):
        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            return self.block(self.tokens(input_ids).mean(1))

    pooled = HookedModel(Pooled(), ModelFacts("pooled", tokenizer=Bytes()))
    refused("at", lambda: harvest(pooled, texts, "block", out, tokens=SMALL), "one row a token")


class Dataset:
    """What a `datasets.Dataset` looks like from outside; it counts how often it is read."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts, self.read = texts, 0

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, i: int) -> dict[str, object]:
        if not 0 <= i < len(self.texts):
            raise IndexError(i)
        self.read += 1
        return {"title": f"title {i}", "text": self.texts[i]}


def test_a_data_set_is_read_lazily(lm, texts, tmp_path) -> None:
    data = Dataset([text for _, text in texts])
    assert len(Texts(data)) == len(texts)
    assert data.read == 1
    store = harvest(lm, data, "block", tmp_path / "s", tokens=SMALL)
    plain = harvest(lm, [text for _, text in texts], "block", tmp_path / "p", tokens=SMALL)
    assert store.ids == plain.ids
    torch.testing.assert_close(store.sample("20@23").rows, plain.sample("20@23").rows, rtol=0, atol=0)
    titles = harvest(lm, Texts(data, field="title"), "block", tmp_path / "t", tokens=SMALL)
    assert len(titles.ids) == len(texts)


@pytest.mark.parametrize("side", ["right", "left"])
def test_token_ids_with_masks(lm, texts, tmp_path, side) -> None:
    windows = [ids for _, text in texts for ids in cut(text)]
    ids, mask = np.zeros((len(windows) + 2, 24), np.int64), np.zeros((len(windows) + 2, 24), np.int64)
    for row, window in enumerate(windows):
        where = slice(len(window)) if side == "right" else slice(24 - len(window), None)
        ids[row, where], mask[row, where] = window, 1
    store = harvest(lm, {"input_ids": torch.from_numpy(ids), "attention_mask": mask}, "block", tmp_path / "s")
    assert store.manifest["text"] == {"documents": len(ids), "empty": 2, "windows": len(windows), "without_rows": 0}
    for id in (store.samples("test")[0], store.samples("train")[5]):
        sample = store.sample(id)
        assert sample.positions.tolist() == list(range(1, len(windows[int(id)])))
        torch.testing.assert_close(sample.rows, direct(lm, windows[int(id)])[1:], rtol=1e-5, atol=1e-5)


def test_all_padding_is_refused(lm, tmp_path) -> None:
    ids = torch.zeros(3, 8, dtype=torch.int64)
    blank = {"input_ids": ids, "attention_mask": ids}
    refused("data", lambda: harvest(lm, blank, "block", tmp_path / "s"), "3 samples, all of them empty or padding")
    for wrong in (ids.float(), ids + 2):
        bad = (
            {"input_ids": ids, "attention_mask": wrong} if wrong.is_floating_point() is False else {"input_ids": wrong}
        )
        refused("data", lambda bad=bad: harvest(lm, bad, "block", tmp_path / "s"), "attention_mask (T,) of 0 and 1")
    long = {"input_ids": torch.ones(2, 65, dtype=torch.int64)}
    refused("context", lambda: harvest(lm, long, "block", tmp_path / "s"), "at most 64")


def test_ids_without_a_tokenizer(tmp_path) -> None:
    model = HookedModel(TinyLM(), ModelFacts("bare"))
    data = [{"input_ids": [i, i + 1, i + 2]} for i in range(20)]
    store = harvest(model, data, "block", tmp_path / "s")
    sample = store.sample(store.samples("test")[0])
    assert sample.pieces is None
    assert sample.input_ids is not None
    assert sample.positions.tolist() == [0, 1, 2]
    assert store.grid == (1, 3)
    refused("data", lambda: harvest(model, [{"input_ids": [300]}], "block", tmp_path / "t"), "tokenizer mismatch")


def test_damaged_text_is_refused(lm, texts, tmp_path) -> None:
    store = harvest(lm, texts, "block", tmp_path / "s", tokens=SMALL)
    path = store.path / "text.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    refused("path", lambda: ActivationStore.open(tmp_path / "s"), "text.safetensors, which is not the one written")
    path.unlink()
    bare = ActivationStore.open(tmp_path / "s")
    assert len(bare.rows("test")) > 0
    refused("path", lambda: bare.sample(bare.samples("test")[0]), "hold a whole store")
