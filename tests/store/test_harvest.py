"""What a store holds equals what the model gives, row by row; and every way a harvest can go wrong."""

import errno
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch import nn

from monoseme.core.errors import UserError
from monoseme.core.rows import RowSource
from monoseme.core.stats import moments
from monoseme.models import HookedModel, ModelFacts
from monoseme.store import ActivationStore, Recipe, Sample, harvest, predict_size


def refused(word: str, call, says: str = "") -> str:
    with pytest.raises(UserError) as error:
        call()
    text = str(error.value)
    assert "\n" not in text
    assert text.startswith(f"{word} must")
    assert says in text
    return text


def direct(model: HookedModel, samples: list[Sample], at: str = "block") -> dict[str, torch.Tensor]:
    """Activations of every sample, one at a time."""
    assert model.preprocess is not None
    return {s.id: model.run(model.preprocess(s.image)[None], at=at)[0, 1:] for s in samples}


def files_of(folder):
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_every_row_is_the_models_own(model, samples, tmp_path, dtype) -> None:
    state = torch.random.get_rng_state()
    store = harvest(model, samples, "block", tmp_path / "s", dtype=dtype, batch_size=4, shard_rows=40)
    assert torch.equal(torch.random.get_rng_state(), state)
    want = {name: x.to(getattr(torch, dtype)).float() for name, x in direct(model, samples).items()}
    seen = set()
    for split in ("train", "validation", "test"):
        rows = store.rows(split)
        assert isinstance(rows, RowSource)
        assert len(rows) == 6 * len(store.samples(split)) == store.manifest["rows"][split]
        everything = torch.cat([want[name] for name in store.samples(split)])
        for shuffled in (store.batches(7, seed=3, split=split), rows.in_order(7)):
            found = list(shuffled)
            keys = torch.cat([torch.stack([b.sample, b.position], 1) for b in found])
            assert len({tuple(key) for key in keys.tolist()}) == len(rows)
            x = torch.cat([batch.x for batch in found])
            torch.testing.assert_close(
                x, torch.stack([want[store.ids[s]][p] for s, p in keys.tolist()]), rtol=0, atol=0
            )
        torch.testing.assert_close(x, everything, rtol=0, atol=0)  # the last loop was in order
        slow = moments(everything)
        torch.testing.assert_close(rows.moments.mean, slow.mean)
        torch.testing.assert_close(rows.moments.centred, slow.centred)
        assert rows.moments.count == slow.count
        seen |= set(store.samples(split))
    assert seen == {s.id for s in samples}
    assert store.manifest["dtype"] == dtype
    x = torch.cat([want[name] for name in store.samples("train")]).double()
    assert store.manifest["train"]["mean_square_norm"] == pytest.approx(float(x.square().sum(1).mean()))
    assert store.manifest["train"]["high_norm_share"] == 0


def test_samples_targets_thumbnails(model, samples, tmp_path) -> None:
    from PIL import Image

    store = harvest(model, samples, "block", tmp_path / "s")
    want = direct(model, samples)
    assert store.targets == {s.id: s.target for s in samples}
    assert store.grid == (2, 3)
    for split in ("train", "test"):
        sample = store.sample(store.samples(split)[0])
        torch.testing.assert_close(sample.rows, want[sample.id], rtol=0, atol=0)
        assert (sample.split, sample.grid, sample.target) == (split, (2, 3), store.targets[sample.id])
        assert (sample.thumbnail is None) == (split == "train")
        if sample.thumbnail is not None:
            with Image.open(sample.thumbnail) as picture:
                assert picture.size == (12, 8)
            assert sample.mask is not None
            np.testing.assert_allclose(sample.mask, [1, 0.5, 0, 0, 0, 0], atol=1 / 255)
    torch.testing.assert_close(store[7], want[store.samples("test")[1]][1], rtol=0, atol=0)
    torch.testing.assert_close(store[-1], want[store.samples("test")[-1]][-1], rtol=0, atol=0)
    assert len(store) == store.manifest["rows"]["test"]
    with pytest.raises(IndexError):
        store[len(store)]
    assert "tiny" in repr(store)
    refused("id", lambda: store.sample("s/99"), "Did you mean")
    refused("split", lambda: store.rows("tset"), "Did you mean test?")


def test_groups_never_straddle_splits(model, samples, tmp_path) -> None:
    store = harvest(model, samples, "block", tmp_path / "s", seed=5, split=(0.5, 0.25, 0.25))
    group = {s.id: s.group for s in samples}
    sides = {name: {group[i] for i in store.samples(name)} for name in ("train", "validation", "test")}
    assert all(sides.values())
    assert not sides["train"] & sides["test"]
    assert not sides["train"] & sides["validation"]
    assert not sides["validation"] & sides["test"]
    assert len(set.union(*sides.values())) == 15


def test_rows_are_shuffled_across_samples_at_write(model, samples, tmp_path) -> None:
    store = harvest(model, samples, "block", tmp_path / "s", shard_rows=36)
    rows = store.rows("train")
    first = rows.take(torch.arange(24))
    assert len(first.sample.unique()) > 8
    # and the shuffle is no function of the order: two seeds, two orders
    other = harvest(model, samples, "block", tmp_path / "t", shard_rows=36, seed=1).rows("train")
    assert not torch.equal(first.position, other.take(torch.arange(24)).position)


def test_reading_is_a_function_of_seed_and_step(model, samples, tmp_path) -> None:
    harvest(model, samples, "block", tmp_path / "s", shard_rows=40)
    rows, again = (ActivationStore.open(tmp_path / "s").rows("train") for _ in range(2))
    n, size = len(rows), 11
    straight = [rows.batch(step, size, 0) for step in range(3 * n // size + 2)]
    for step in (17, 3, 0, 25, 4):  # in any order, from a fresh store
        torch.testing.assert_close(again.batch(step, size, 0).x, straight[step].x, rtol=0, atol=0)
    keys = torch.cat([b.sample * 6 + b.position for b in straight])
    epochs = [keys[i * n : (i + 1) * n] for i in range(3)]
    for epoch in epochs:  # every epoch is one pass over all rows, batches straddle shards and epochs
        assert len(epoch.unique()) == n
    assert not torch.equal(epochs[0], epochs[1])
    assert not torch.equal(straight[0].x, rows.batch(0, size, 1).x)
    refused("batch_size", lambda: rows.batch(0, n + 1, 0))


def test_size_is_predicted(model, samples, tmp_path) -> None:
    for i, (n, recipe) in enumerate([(30, Recipe("block")), (9, Recipe("block", dtype="bfloat16", shard_rows=7))]):
        predicted = predict_size(model, samples[:n], recipe)
        store = harvest(
            model, samples[:n], "block", tmp_path / str(i), dtype=recipe.dtype, shard_rows=recipe.shard_rows
        )
        payload = {name: data for name, data in files_of(store.path).items() if name != "manifest.json"}
        actual = sum(len(data) for data in payload.values())
        assert store.manifest["bytes"] == {"predicted": predicted, "actual": actual}
        # thousands of bytes here, where headers differ by a few characters; exact rows dominate in a real store
        assert abs(predicted - actual) < 0.01 * actual + 40


def test_same_request_returns_the_store(model, samples, tmp_path) -> None:
    ran = []
    first = harvest(model, samples, "block", tmp_path / "s", progress=ran.append)
    assert ran[-1].samples == ran[-1].total == 30
    assert ran[-1].eta_s == 0
    before, count = files_of(tmp_path / "s"), len(ran)
    again = harvest(model, samples, "block", tmp_path / "s", progress=ran.append)
    assert len(ran) == count
    assert again.manifest == first.manifest
    assert files_of(tmp_path / "s") == before
    refused("out", lambda: harvest(model, samples, "block", tmp_path / "s", dtype="float16"), "differs in dtype")
    refused("out", lambda: harvest(model, samples[1:], "block", tmp_path / "s"), "differs in data")
    assert files_of(tmp_path / "s") == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("do not touch")
    refused("out", lambda: harvest(model, samples, "block", tmp_path / "mine"), "thesis.txt")


def test_a_second_writer_is_refused(model, samples, tmp_path) -> None:
    from monoseme.core.files import only_writer

    with only_writer(tmp_path / "s"):
        refused("out", lambda: harvest(model, samples, "block", tmp_path / "s"), "another process")


def test_odd_outputs(tmp_path) -> None:
    """Convolution maps, tuples, one vector a sample, one sample, tied modules, inputs that are plain tensors."""

    class Odd(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(2, 3, 2)
            self.pair = nn.LSTM(3, 4, batch_first=True)
            self.tied = nn.Linear(4, 4)

        def forward(self, x):
            tokens = self.pair(self.conv(x).flatten(2).transpose(1, 2))[0]
            return self.tied(self.tied(tokens.mean(1)))

    model, x = Odd(), torch.rand(12, 2, 4, 5, generator=torch.Generator().manual_seed(0))
    for at, grid, width in [("conv", (3, 4), 3), ("pair", (1, 12), 4), ("tied#1", (1, 1), 4)]:
        store = harvest(model, x, at, tmp_path / at, batch_size=5)
        assert (store.grid, store.d_in, store.manifest["rows"]["train"]) == (grid, width, 10 * grid[0] * grid[1])
        assert store.ids == store.samples("train") + store.samples("validation") + store.samples("test")
        assert store.sample(store.samples("test")[0]).thumbnail is None
        assert store.targets == {}
    with torch.no_grad():
        raw = model.conv(x)
    number = int(store.samples("test")[0])
    conv = ActivationStore.open(tmp_path / "conv").sample(str(number))
    torch.testing.assert_close(conv.rows[1 * 4 + 2], raw[number, :, 1, 2])
    refused("at", lambda: harvest(model, x, "tied", tmp_path / "no"), "calls 2 times")
    refused("at", lambda: harvest(model, x, "cnov", tmp_path / "no"), "Did you mean conv?")
    one = harvest(model, x[:1], "tied#0", tmp_path / "one")
    assert one.manifest["rows"] == {"train": 1, "validation": 0, "test": 0}
    assert one.rows("train").batch(5, 1, 0).x.shape == (1, 4)
    refused("split", lambda: one.rows("test"), "'test' with none")


def test_merged_samples_are_refused(tmp_path) -> None:
    net = nn.Sequential(nn.Flatten(0, 1), nn.Identity())
    refused("at", lambda: harvest(net, torch.rand(9, 4, 3), "1", tmp_path / "s"), "4 for 1 samples")


def test_importing_is_light() -> None:
    heavy = "{'PIL', 'onnx', 'skimage', 'sklearn', 'scipy', 'torchvision', 'transformers', 'matplotlib'}"
    code = f"import sys, torch; had = set(sys.modules); import monoseme.store; print({heavy} & set(sys.modules) - had)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "set()"


def test_token_policy(model, samples, tmp_path) -> None:
    patches = harvest(model, samples, "block", tmp_path / "p")
    everything = harvest(model, samples, "block", tmp_path / "a", tokens="all")
    assert (patches.manifest["tokens"]["special"]["train"], patches.grid) == (len(patches.samples("train")), (2, 3))
    assert (everything.manifest["tokens"]["special"]["train"], everything.grid) == (0, (1, 7))
    name = patches.samples("test")[0]
    torch.testing.assert_close(everything.sample(name).rows[1:], patches.sample(name).rows, rtol=0, atol=0)
    assert float(everything.sample(name).rows[0].mean()) > 50  # the CLS token of the tiny model


def test_bad_numbers_stop_with_sample_and_token(samples, tmp_path) -> None:
    class Breaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Identity()

        def forward(self, x):
            return self.inner(x)

    x = torch.rand(20, 5, 3)
    x[13, 2, 1] = float("nan")
    text = refused("data", lambda: harvest(Breaks(), x, "inner", tmp_path / "s", batch_size=4), "NaN or infinity")
    assert "sample '13', token 2" in text
    assert not (tmp_path / "s" / "manifest.json").exists()
    refused("path", lambda: ActivationStore.open(tmp_path / "s"), "did not finish")
    x[13, 2, 1] = 1e5
    text = refused("dtype", lambda: harvest(Breaks(), x, "inner", tmp_path / "t", dtype="float16"), "overflow")
    assert "sample '13', token 2" in text


def test_high_norm_rows_are_reported(tmp_path) -> None:
    x = torch.rand(100, 4, 8, generator=torch.Generator().manual_seed(0)) + 1
    x[:, 0] *= 1000
    store = harvest(nn.Sequential(nn.Identity()), x, "0", tmp_path / "s")
    assert store.manifest["train"]["high_norm_share"] == 0.25


@pytest.mark.parametrize(
    ("word", "options"),
    [
        ("dtype", {"dtype": "float64"}),
        ("tokens", {"tokens": "cls"}),
        ("batch_size", {"batch_size": 0}),
        ("shard_rows", {"shard_rows": 0}),
        ("split", {"split": (0.5, 0.1, 0.1)}),
        ("split", {"split": (0.0, 0.5, 0.5)}),
        ("split", {"split": (float("nan"), 0.5, 0.5)}),
        ("data", {"data": []}),
        ("data", {"data": 3}),
        ("data", {"data": [1, 2]}),
        ("data", {"data": [Sample("a", np.zeros((8, 8, 3), np.uint8), {"label": np.int64(3)})]}),
        ("data", {"data": [Sample("a", np.zeros((8, 8, 3), np.uint8), {"label": float("nan")})]}),
        ("data", {"data": [Sample("a", np.zeros((8, 8, 3), np.uint8))] * 2}),
        ("data", {"data": [torch.zeros(3, 8, 8), torch.zeros(3, 8, 12)]}),
    ],
)
def test_bad_requests_are_one_line(model, samples, tmp_path, word, options) -> None:
    options = {"data": samples, **options}
    refused(word, lambda: harvest(model, at="block", out=tmp_path / "s", **options))
    assert not (tmp_path / "s" / "manifest.json").exists()


def test_pictures_need_preprocess(samples, tmp_path) -> None:
    refused("model", lambda: harvest(nn.Sequential(nn.Identity()), samples, "0", tmp_path / "s"), "preprocess")


def test_pictures_come_in_the_precision_of_the_weights(samples, tmp_path) -> None:
    module = nn.Sequential(nn.Conv2d(3, 5, 4, stride=4), nn.Flatten(2)).to(torch.bfloat16)
    half = HookedModel(module, ModelFacts("half", preprocess=lambda image: torch.tensor(image).permute(2, 0, 1) / 255))
    store = harvest(half, samples, "0", tmp_path / "s", dtype="bfloat16")
    image = next(s.image for s in samples if s.id == store.samples("test")[0])
    direct = module[0](torch.tensor(image).permute(2, 0, 1)[None].div(255).bfloat16()).flatten(2).mT[0]
    torch.testing.assert_close(store.sample(store.samples("test")[0]).rows, direct.detach().float())


def test_damaged_shards_are_named(model, samples, tmp_path) -> None:
    harvest(model, samples, "block", tmp_path / "s", shard_rows=40)
    name = "train-00001.safetensors"
    whole = (tmp_path / "s" / name).read_bytes()

    def flip(path):
        path.write_bytes(whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:])

    for damage, says in [
        (flip, "does not match its checksum"),
        (lambda path: path.write_bytes(whole[:-9]), "bytes instead of"),
        (lambda path: path.unlink(), "is missing"),
    ]:
        shutil.copytree(tmp_path / "s", tmp_path / "d")
        damage(tmp_path / "d" / name)
        store = ActivationStore.open(tmp_path / "d")
        store.sample(store.samples("test")[0])  # other shards still serve
        text = refused("path", lambda store=store: list(store.batches(50)), says)
        assert name in text
        shutil.rmtree(tmp_path / "d")


def test_foreign_manifests_are_refused(model, samples, tmp_path) -> None:
    refused("path", lambda: ActivationStore.open(tmp_path), "no manifest.json")
    harvest(model, samples, "block", tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["shards"][0]["file"] = "../../elsewhere.safetensors"
    path.write_text(json.dumps(manifest))
    refused("path", lambda: ActivationStore.open(tmp_path / "s"), "name shards like")
    path.write_text(json.dumps(manifest | {"version": 99}))
    refused("path", lambda: ActivationStore.open(tmp_path / "s"), "version 2")
    path.write_text("{")
    refused("path", lambda: ActivationStore.open(tmp_path / "s"), "valid JSON")


def edited(key, value):
    def edit(manifest):
        *path, last = key
        for step in path:
            manifest = manifest[step]
        manifest[last] = value

    return edit


@pytest.mark.parametrize(
    "edit",
    [
        *(lambda m, key=key: m.pop(key) for key in ("shards", "rows", "model", "tokens", "grid", "d_in", "tables")),
        *(edited([key], 5) for key in ("shards", "rows", "samples", "model", "tokens", "grid", "hook", "caveat")),
        *(edited(["d_in"], value) for value in (None, "6", 0)),
        *(edited(["shards", 0, "rows"], value) for value in (10**12, -1, "9", 7)),
        edited(["shards", 0], 1),
        edited(["shards", -1, "file"], "train-00000.safetensors"),
        edited(["grid"], [2, 2]),
        edited(["rows", "test"], 10**12),
        edited(["samples", "train"], 10**30),
        edited(["model", "revision"], 5),
        edited(["tokens", "norm"], {}),
    ],
)
def test_manifests_edited_by_hand_are_refused(model, samples, tmp_path, edit) -> None:
    harvest(model, samples, "block", tmp_path / "s")
    path = tmp_path / "s" / "manifest.json"
    manifest = json.loads(path.read_text())
    edit(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(UserError) as error:
        ActivationStore.open(tmp_path / "s")
    assert "\n" not in str(error.value)
    assert any(text in str(error.value) for text in ("manifest.json", "shards like", "its manifest counts"))


@pytest.mark.parametrize("name", ["samples.json", "moments.safetensors"])
def test_tables_of_another_store_are_refused(model, samples, tmp_path, name) -> None:
    harvest(model, samples, "block", tmp_path / "s")
    harvest(model, samples, "block", tmp_path / "other", seed=1)
    shutil.copy(tmp_path / "other" / name, tmp_path / "s" / name)
    refused("path", lambda: ActivationStore.open(tmp_path / "s"), name)


@pytest.mark.parametrize("text", ["{}", "[]", "null", '{"request": 3}'])
def test_a_folder_with_somebody_elses_manifest_is_left_alone(model, samples, tmp_path, text) -> None:
    (tmp_path / "manifest.json").write_text(text)
    (tmp_path / ".thesis.part").write_text("mine")
    refused("out", lambda: harvest(model, samples, "block", tmp_path), "another manifest.json")
    assert (tmp_path / ".thesis.part").exists()


def test_a_store_outlives_a_change_of_folder(model, samples, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    store = harvest(model, samples, "block", "s")
    monkeypatch.chdir("/")
    assert len(store.rows("train").batch(0, 5, 0).x) == 5


def test_leftovers_of_a_killed_writer_are_removed(model, samples, tmp_path) -> None:
    harvest(model, samples, "block", tmp_path / "clean")
    store = harvest(model, samples, "block", tmp_path / "s")
    (store.path / "manifest.json").unlink()  # as if killed just before the manifest
    (store.path / ".work").mkdir()
    (store.path / ".work" / "request.json").write_text(json.dumps(store.manifest["request"]))
    rows = [0] * len(store.manifest["shards"])
    journal = {"samples": len(samples), "rows": rows, "sealing": True}
    (store.path / ".work" / "journal.json").write_text(json.dumps(journal))
    (store.path / ".train-00000.safetensors.ab12.part").write_bytes(b"half a shard")
    harvest(model, samples, "block", tmp_path / "s")
    assert files_of(tmp_path / "s") == files_of(tmp_path / "clean")


def test_ids_may_hold_any_text(model, samples, tmp_path) -> None:
    hostile = ["../../x", "<script>", "a\nb", "a\0b", "\ud800", "ü\u2028", ""]
    named = [Sample(text, samples[i].image) for i, text in enumerate(hostile)]
    store = harvest(model, named, "block", tmp_path / "s")
    assert sorted(store.ids) == sorted(hostile)
    assert {path.name for path in tmp_path.iterdir()} == {"s"}
    assert all(len(store.sample(text).rows) == 6 for text in hostile)


def test_full_disk(model, samples, tmp_path, monkeypatch) -> None:
    """No room: nothing starts. Room that runs out on the way: one line, no manifest, and the same call finishes."""
    usage = shutil.disk_usage(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1000))
        with pytest.raises(OSError, match="out must lie on a disk with") as error:
            harvest(model, samples, "block", tmp_path / "s")
        assert "\n" not in str(error.value)

    def write(*args):
        with open("/dev/full", "wb") as file:
            file.write(b"row")

    with monkeypatch.context() as patch:
        patch.setattr("monoseme.store.streams.Streams.append", write)
        with pytest.raises(OSError, match="Free some space") as error:
            harvest(model, samples, "block", tmp_path / "s")
        assert error.value.errno == errno.ENOSPC
        assert "\n" not in str(error.value)
    ran = []

    def full(*args, **kwargs):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("monoseme.core.files.save_file", full)
        with pytest.raises(OSError, match="Free some space") as error:
            harvest(model, samples, "block", tmp_path / "s", progress=ran.append)
        assert "\n" not in str(error.value)
    assert ran
    assert not list((tmp_path / "s").glob("*.safetensors"))
    ran.clear()
    store = harvest(model, samples, "block", tmp_path / "s", progress=ran.append)
    assert not ran  # all rows were there already
    fresh = harvest(model, samples, "block", tmp_path / "t")
    assert files_of(store.path) == files_of(fresh.path)
