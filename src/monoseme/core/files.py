"""Writing files so that nothing a user made is ever lost: all or nothing, and one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError
from safetensors.torch import save_file
from torch import Tensor

from monoseme.core.errors import UserError, refuse

__all__ = [
    "InUse",
    "atomic_folder",
    "atomic_path",
    "check_space",
    "explain_full_disk",
    "only_writer",
    "read_json",
    "settle_folder",
    "sha256",
    "sweep",
    "write_json",
    "write_tensors",
]


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it replaces `path` in one step, on failure it is removed."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    temporary.touch(exist_ok=False)
    mode = temporary.stat().st_mode
    try:
        with explain_full_disk(path):
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
        temporary.chmod(mode)  # safetensors makes its files private
        temporary.replace(path)
        _fsync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder beside `path`; on success it replaces `path`, on failure it is removed.

    An existing `path` is moved aside first and deleted last, so that a crash leaves the old or the new one; a crash
    between the two renames leaves the old one under a hidden name, from which `settle_folder` brings it back.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = _beside(path)
    temporary.mkdir()
    try:
        with explain_full_disk(path):
            yield temporary
        old = temporary.with_suffix(".old")
        if path.exists():
            path.rename(old)
        temporary.rename(path)
        _fsync_folder(path.parent)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def settle_folder(path: Path) -> None:
    """Tidy up after a writer of `atomic_folder(path)` that was killed: bring back the old folder, remove leftovers.

    Call it only while no other process can be writing `path` (see `only_writer`).
    """
    path = Path(path)
    if not path.exists():
        for old in sorted(path.parent.glob(f".{path.name}.*.old"))[:1]:
            old.rename(path)
    for leftover in (*path.parent.glob(f".{path.name}.*.part"), *path.parent.glob(f".{path.name}.*.old")):
        shutil.rmtree(leftover, ignore_errors=True)


def sweep(folder: Path) -> None:
    """Remove what killed writers of `atomic_path` left in `folder`, while no other can be writing there."""
    for leftover in Path(folder).glob(".*.part"):
        if leftover.is_file():
            leftover.unlink(missing_ok=True)


def _beside(path: Path) -> Path:
    # not tempfile: its files are private, and the mode they should have is only told by changing the umask, which
    # belongs to all threads
    return path.parent / f".{path.name}.{secrets.token_hex(8)}.part"


def _fsync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows opens no folders
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def explain_full_disk(path: Path) -> Iterator[None]:
    """Turn "no space left" into one line that names the file and the next step; other errors pass."""
    try:
        yield
    except (OSError, SafetensorError) as error:
        code = _errno(error)
        if code not in (errno.ENOSPC, errno.EDQUOT):
            raise
        free = shutil.disk_usage(path.parent).free
        raise OSError(
            code,
            f"out must lie on a disk with room left; {path} could not be written ({free / 1e9:.2f} GB free). "
            "Nothing half-written was kept. Free some space or choose another folder, then run the same command again.",
        ) from error


def _errno(error: OSError | SafetensorError) -> int | None:
    # safetensors is written in Rust and gives the number of the system's error only inside its message
    if isinstance(error, OSError):
        return error.errno
    found = re.search(r"os error (\d+)", str(error))
    return int(found.group(1)) if found else None


def check_space(folder: Path, needed: int) -> None:
    """Raise before any work is done when `needed` bytes do not fit on the disk of `folder`."""
    folder = Path(folder)
    while not folder.exists():
        folder = folder.parent
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"out must lie on a disk with {needed / 1e9:.2f} GB free; {folder} has {free / 1e9:.2f} GB. "
            "Free some space, choose another folder, or take fewer samples.",
        )


def write_json(path: Path, value: object) -> None:
    """Write JSON atomically, with sorted keys so that equal values give equal bytes."""
    text = json.dumps(value, indent=1, sort_keys=True, allow_nan=False) + "\n"
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read JSON; a missing or broken file is a one-line error that names it."""
    path = Path(path)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise refuse("path", f"hold the file {path.name}", f"{path} (no such file)", "Check the folder.") from None
    except (ValueError, RecursionError) as error:  # not JSON, not UTF-8, digits or brackets without end
        raise refuse("path", "hold valid JSON", f"{path} ({error})", "The file is damaged; make it again.") from None


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> None:
    """Write a safetensors file atomically. Tensors are stored contiguous, on CPU, in their own dtype."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # views into one storage are refused by safetensors: store independent copies
    seen: set[int] = set()
    for name, tensor in plain.items():
        pointer = tensor.untyped_storage().data_ptr()
        if pointer in seen:
            plain[name] = tensor.clone()
        seen.add(pointer)
    with atomic_path(path) as temporary:
        save_file(plain, str(temporary), metadata=dict(metadata or {}))


def sha256(path: Path) -> str:
    """Return the SHA-256 of a file, as hexadecimal text."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class InUse(UserError):
    """Another process is writing there."""


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold `folder` for writing; a second writer gets `InUse` at once. A killed process lets go by itself."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("a+") as file:
        try:
            _lock(file)
        except BlockingIOError:
            raise InUse(
                f"out must not be in use by another run; got {folder}, which another process is writing. "
                "Wait for it, stop it, or choose another folder."
            ) from None
        except OSError as error:  # some cluster file systems are mounted without locks
            if error.errno not in (errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP):
                raise
            raise refuse(
                "out", "lie where files can be locked", f"{folder} ({error.strerror})", "Choose a local disk."
            ) from None
        yield


def _lock(file: IO[str]) -> None:
    try:
        import fcntl  # here, so that reading and importing work where there is none
    except ImportError:
        raise OSError(errno.ENOSYS, "no POSIX file locks on this system; on Windows use WSL") from None
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
