"""Kept tensors: made once, checked when read, made again when damaged."""

from pathlib import Path

import pytest
import torch

from monoseme.core.cache import cache_folder
from monoseme.models.cache import cached_tensors


class Maker:
    """Counts how often it is asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, torch.Tensor]:
        self.calls += 1
        return {"a": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(3, dtype=torch.int64)}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MONOSEME_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def same(tensors: dict[str, torch.Tensor]) -> bool:
    want = Maker()()
    return tensors.keys() == want.keys() and all(torch.equal(tensors[name], want[name]) for name in want)


def test_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MONOSEME_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder() == Path.home() / ".cache" / "monoseme"
    monkeypatch.setenv("XDG_CACHE_HOME", "/elsewhere")
    assert cache_folder() == Path("/elsewhere/monoseme")
    monkeypatch.setenv("MONOSEME_CACHE", "/mine")
    assert cache_folder() == Path("/mine")


def test_made_once(folder: Path) -> None:
    make = Maker()
    assert all(same(cached_tensors("x", make)) for _ in range(3))
    assert make.calls == 1
    assert [path.name for path in folder.iterdir()] == ["x.safetensors"]  # nothing half-written beside it


@pytest.mark.parametrize("damage", ["short", "flipped", "empty", "text"])
def test_a_damaged_file_is_made_again(folder: Path, damage: str) -> None:
    make = Maker()
    cached_tensors("x", make)
    path = folder / "x.safetensors"
    good = path.read_bytes()
    flipped = good[:-9] + bytes([good[-9] ^ 1]) + good[-8:]
    path.write_bytes({"short": good[:-4], "flipped": flipped, "empty": b"", "text": b"not a tensor file"}[damage])
    assert same(cached_tensors("x", make))
    assert make.calls == 2
    assert path.read_bytes() == good


def test_no_place_to_keep_it_is_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("MONOSEME_CACHE", str(tmp_path / "file"))
    with pytest.warns(UserWarning, match="set MONOSEME_CACHE"):
        assert same(cached_tensors("x", Maker()))


def test_what_another_process_wrote_meanwhile_is_never_missing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow() -> dict[str, torch.Tensor]:
        cached_tensors("name", Maker())  # the other one is quicker
        monkeypatch.setattr("monoseme.models.cache.write_tensors", lambda path, *rest: there.append(path.exists()))
        return Maker()()

    there: list[bool] = []
    assert same(cached_tensors("name", slow))
    assert there == [True]
