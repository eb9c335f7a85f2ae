"""Full disks and killed writers."""

import errno
import sys
from pathlib import Path

import pytest
import torch
from safetensors import SafetensorError

from monoseme.core.errors import UserError
from monoseme.core.files import (
    atomic_folder,
    explain_full_disk,
    only_writer,
    read_json,
    settle_folder,
    write_json,
    write_tensors,
)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_full_disk_is_explained_in_one_line(tmp_path, error) -> None:
    with (
        pytest.raises(OSError, match=r"out must lie on a disk with room left[^\n]*$") as raised,
        explain_full_disk(tmp_path / "x"),
    ):
        raise error
    assert raised.value.errno == errno.ENOSPC


def test_other_errors_pass(tmp_path) -> None:
    with pytest.raises(SafetensorError, match="invalid header"), explain_full_disk(tmp_path / "x"):
        raise SafetensorError("invalid header")


def write(path, text: str) -> None:
    with atomic_folder(path) as new:
        (new / "file").write_text(text)


def test_settle_brings_back_the_old_folder(tmp_path) -> None:
    write(tmp_path / "a", "old")
    (tmp_path / "a").rename(tmp_path / ".a.x.old")
    (tmp_path / ".a.y.part").mkdir()
    settle_folder(tmp_path / "a")
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a" / "file").read_text() == "old"


def test_settle_keeps_the_new_folder_and_strangers(tmp_path) -> None:
    write(tmp_path / "a", "new")
    (tmp_path / ".a.x.old").mkdir()
    (tmp_path / ".ab.x.part").mkdir()
    settle_folder(tmp_path / "a")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ab.x.part", "a"]
    assert (tmp_path / "a" / "file").read_text() == "new"


def test_settle_of_nothing(tmp_path) -> None:
    settle_folder(tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("text", ["[" * 200_000, '{"a": ' + "9" * 5000 + "}", "{", "\x00"])
def test_json_of_any_kind_of_damage_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UserError, match=r"^path must hold valid JSON; got .*a\.json") as error:
        read_json(tmp_path / "a.json")
    assert "\n" not in str(error.value)


def test_new_files_have_the_mode_of_plain_ones(tmp_path) -> None:
    (tmp_path / "plain").write_text("")
    (tmp_path / "folder").mkdir()
    write_json(tmp_path / "json", 1)
    write_tensors(tmp_path / "tensors", {"x": torch.zeros(2)})
    write(tmp_path / "new", "text")
    mode = {path.name: path.stat().st_mode for path in tmp_path.iterdir()}
    assert mode["json"] == mode["tensors"] == mode["plain"]
    assert mode["new"] == mode["folder"]


def test_where_nothing_can_be_locked_nothing_is_written(tmp_path, monkeypatch) -> None:
    def unlockable(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", unlockable)
    with pytest.raises(UserError, match=r"^out must lie where files can be locked[^\n]*$"), only_writer(tmp_path):
        pass
    monkeypatch.setitem(sys.modules, "fcntl", None)
    with pytest.raises(UserError, match=r"^out must lie where files can be locked[^\n]*WSL"), only_writer(tmp_path):
        pass
