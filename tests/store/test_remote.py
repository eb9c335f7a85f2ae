"""A store at a URL is the store of a folder, and only a whole one is a store."""

import json
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
import torch
from fsspec.implementations.memory import MemoryFileSystem

from monoseme.core.errors import UserError
from monoseme.store import ActivationStore, TokenPolicy, harvest

URL = "memory://bucket/deep/store"


@pytest.fixture(autouse=True)
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MemoryFileSystem]:
    """An empty memory file system, and a cache folder of its own."""
    monkeypatch.setenv("MONOSEME_CACHE", str(tmp_path / "cache"))
    fs = fsspec.filesystem("memory")
    fs.store.clear()
    yield fs
    fs.store.clear()


def other_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MONOSEME_CACHE", str(tmp_path / "elsewhere"))


def refused(word: str, call, says: str) -> None:
    with pytest.raises(UserError) as error:
        call()
    assert "\n" not in str(error.value)
    assert str(error.value).startswith(f"{word} must")
    assert says in str(error.value)


def same(a: ActivationStore, b: ActivationStore) -> None:
    assert a.manifest == b.manifest
    assert a.ids == b.ids
    for split in ("train", "validation", "test"):
        for x, y in zip(a.batches(11, split=split), b.batches(11, split=split), strict=True):
            assert torch.equal(x.x, y.x)
            assert torch.equal(x.sample, y.sample)
    for id in a.samples("test") + a.samples("train")[:2]:
        x, y = a.sample(id), b.sample(id)
        assert torch.equal(x.rows, y.rows)
        assert (x.pieces, x.grid) == (y.pieces, y.grid)
        for one, other in [(x.thumbnail, y.thumbnail)]:
            assert (one is None) == (other is None)
            assert one is None or other is None or one.read_bytes() == other.read_bytes()
        assert (x.mask is None) == (y.mask is None)


@pytest.mark.parametrize("kind", ["pictures", "text"])
def test_the_same_rows_as_in_a_folder(model, samples, lm, texts, tmp_path, monkeypatch, kind) -> None:
    what = (model, samples) if kind == "pictures" else (lm, texts)
    options = {"shard_rows": 50, "tokens": TokenPolicy(context=24)}
    local = harvest(*what, "block", tmp_path / "s", **options)
    made = harvest(*what, "block", URL, **options)
    assert repr(made).startswith(f"ActivationStore('{URL}')")
    same(made, local)
    assert not (tmp_path / "cache" / "harvests").exists() or not list((tmp_path / "cache" / "harvests").iterdir())
    other_machine(monkeypatch, tmp_path)
    opened = ActivationStore.open(URL + "/")
    assert opened.url == URL
    assert not list(opened.path.glob("train-*"))  # shards come when they are needed
    same(opened, local)
    if kind == "text":
        assert [w.group for w in opened.windows()] == [w.group for w in local.windows()]
    ran = []
    harvest(*what, "block", URL, progress=ran.append, **options)
    assert not ran
    refused("out", lambda: harvest(*what, "block", URL, seed=1, **options), "differs in seed")


def test_an_interrupted_publication_is_not_a_store(model, samples, memory, monkeypatch, tmp_path) -> None:
    put, done = MemoryFileSystem.put_file, []

    def breaks(self, *args, **kwargs):
        if len(done) == 3:
            raise ConnectionError("the line is dead")
        done.append(args)
        return put(self, *args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(MemoryFileSystem, "put_file", breaks)
        with pytest.raises(ConnectionError):
            harvest(model, samples, "block", URL)
    assert len(memory.find("/bucket/deep/store")) == 3
    refused("path", lambda: ActivationStore.open(URL), "has no manifest.json")
    ran = []
    store = harvest(model, samples, "block", URL, progress=ran.append)
    assert not ran  # every row was there already
    same(store, harvest(model, samples, "block", tmp_path / "s"))


def test_damage_is_named(model, samples, memory, monkeypatch, tmp_path) -> None:
    harvest(model, samples, "block", URL)
    other_machine(monkeypatch, tmp_path)
    place = "/bucket/deep/store/train-00000.safetensors"
    whole = memory.cat_file(place)
    memory.pipe_file(place, whole[:-1] + bytes([whole[-1] ^ 1]))
    store = ActivationStore.open(URL)
    store.sample(store.samples("test")[0])
    refused("path", lambda: store.rows("train").batch(0, 5, 0), f"{URL}, whose train-00000.safetensors does not match")
    memory.pipe_file(place, whole)
    assert len(store.rows("train").batch(0, 5, 0).x) == 5  # mended there, fetched again
    local = store.path / "test-00000.safetensors"
    local.write_bytes(b"a torn copy")
    again = ActivationStore.open(URL)
    assert len(again.sample(again.samples("test")[0]).rows) == 6
    memory.rm_file(place)
    (store.path / "train-00000.safetensors").unlink()
    lost = ActivationStore.open(URL)
    refused("path", lambda: lost.rows("train").batch(0, 5, 0), "train-00000.safetensors is missing")


@pytest.mark.parametrize("table", ["samples.json", "moments.safetensors"])
def test_damaged_tables_are_refused(model, samples, memory, monkeypatch, tmp_path, table) -> None:
    harvest(model, samples, "block", URL)
    other_machine(monkeypatch, tmp_path)
    memory.pipe_file(f"/bucket/deep/store/{table}", b"[]")
    refused("path", lambda: ActivationStore.open(URL), f"{table}, which is not the one written")


@pytest.mark.parametrize("name", ["../../../gotcha.safetensors", "/tmp/gotcha.safetensors", "train-00000.pickle"])
def test_names_in_a_manifest_never_leave_the_folder(model, samples, memory, monkeypatch, tmp_path, name) -> None:
    harvest(model, samples, "block", URL)
    other_machine(monkeypatch, tmp_path)
    manifest = json.loads(memory.cat_file("/bucket/deep/store/manifest.json"))
    manifest["shards"][0]["file"] = name
    memory.pipe_file("/bucket/deep/store/manifest.json", json.dumps(manifest).encode())
    refused("path", lambda: ActivationStore.open(URL), "name shards like")


def test_foreign_files_are_left_alone(model, samples, memory) -> None:
    memory.pipe_file("/bucket/deep/store/thesis.txt", b"mine")
    refused("out", lambda: harvest(model, samples, "block", URL), "thesis.txt")
    memory.pipe_file("/bucket/deep/store/manifest.json", b"{}")
    refused("out", lambda: harvest(model, samples, "block", URL), "another manifest.json")
    refused("path", lambda: ActivationStore.open(URL), "be a monoseme-store of version 2")
    assert memory.cat_file("/bucket/deep/store/thesis.txt") == b"mine"


def test_a_store_that_was_replaced_is_not_mixed_with_the_old_one(model, samples, memory, tmp_path) -> None:
    first = harvest(model, samples, "block", URL)
    x = first.rows("train").batch(0, 5, 0).x
    memory.rm("/bucket", recursive=True)
    second = harvest(model, samples, "block", URL, seed=1)
    assert second.path != first.path
    assert second.manifest != first.manifest
    assert torch.equal(first.rows("train").batch(0, 5, 0).x, x)
    same(second, harvest(model, samples, "block", tmp_path / "s", seed=1))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("nosuch://bucket/store", "a URL that fsspec opens"),
        ("simplecache::memory://bucket/store", "without ::"),
        ("memory://nothing/here", "has no manifest.json"),
    ],
)
def test_bad_urls_are_one_line(url, says) -> None:
    refused("path", lambda: ActivationStore.open(url), says)


def test_a_missing_driver_is_named(monkeypatch) -> None:
    def missing(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    refused("path", lambda: ActivationStore.open("s3://bucket/store"), "Install s3fs to access S3")


def test_a_file_system_in_which_folders_must_be_made(model, samples, tmp_path, monkeypatch) -> None:
    url = f"file://{tmp_path}/deep/store"
    harvest(model, samples, "block", url, shard_rows=50)
    other_machine(monkeypatch, tmp_path)
    same(ActivationStore.open(url), harvest(model, samples, "block", tmp_path / "s", shard_rows=50))
