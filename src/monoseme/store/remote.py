"""A store at a URL, whatever `fsspec` opens (``s3://``, ``gs://``, ``memory://``, ...), with a copy of what is read.

A harvest is made in a local folder, where it can be stopped and go on, and is published file by file, its manifest
last: without a manifest there is no store. A reader gets the manifest and the tables at once, a shard when it is first
needed, and checks every one of them. Credentials and end points are fsspec's own business, see its configuration.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from monoseme.core.cache import cache_folder
from monoseme.core.errors import refuse
from monoseme.core.files import atomic_path, sha256
from monoseme.store.manifest import SHARD_NAME, TABLES

__all__ = ["Remote", "is_url", "payload"]

URL = re.compile(r"[A-Za-z][A-Za-z0-9+.:-]*://.+")
PICTURE = re.compile(r"(thumbnails|masks)/\d{6,}\.(jpg|png)")
MANIFEST = "manifest.json"


def is_url(place: str | Path) -> bool:
    """Whether a place is a URL, and no path of this machine.

    Examples
    --------
    >>> is_url("s3://bucket/store"), is_url("stores/a"), is_url("C:/stores/a")
    (True, False, False)
    """
    return isinstance(place, str) and URL.fullmatch(place) is not None


class Remote:
    """The files of a store at a URL.

    Parameters
    ----------
    url
        Where its folder is.
    argument
        What the caller calls it, for errors.
    """

    def __init__(self, url: str, argument: str = "path") -> None:
        self.url, self._argument = url.rstrip("/"), argument
        if "::" in url:
            raise refuse(argument, "be one URL, without ::", url, "Name the place itself.")
        try:
            import fsspec.core
        except ImportError:
            raise refuse(
                argument, "be a local folder where fsspec is not installed", url, "pip install fsspec"
            ) from None
        try:
            self._fs, root = fsspec.core.url_to_fs(self.url)
        except (ImportError, ValueError) as error:
            raise refuse(argument, "be a URL that fsspec opens", f"{url} ({error})", "Check its first word.") from None
        self._root = str(root).rstrip("/")

    @property
    def work(self) -> Path:
        """Local folder in which a harvest for this URL is made."""
        return cache_folder() / "harvests" / _digest(self.url.encode())

    def _place(self, name: str) -> str:
        return f"{self._root}/{name}"

    def read(self, name: str) -> bytes | None:
        """Bytes of a file; None when it is not there."""
        try:
            return self._fs.cat_file(self._place(name))
        except FileNotFoundError:
            return None

    def fetch(self, name: str, folder: Path) -> None:
        """Bring a file into a local folder, whole or not at all. A file that is not there is left to the reader."""
        if not _ours(name):
            raise refuse(self._argument, "name files as a store does", repr(name), "Harvest it anew.")
        try:
            with atomic_path(folder / name) as temporary:
                self._fs.get_file(self._place(name), str(temporary))
        except FileNotFoundError:
            (folder / name).unlink(missing_ok=True)

    def mirror(self) -> Path:
        """Local folder with the manifest and the tables; one for every manifest, so that two stores never mix."""
        manifest = self.read(MANIFEST)
        if manifest is None:
            raise refuse(
                self._argument, "be a finished store", f"{self.url}, which has no manifest.json",
                "Harvest into it first; a harvest that did not finish goes on by the same call.",
            )  # fmt: skip
        folder = self._mirror_of(manifest)
        if not (folder / MANIFEST).is_file() or (folder / MANIFEST).read_bytes() != manifest:
            with atomic_path(folder / MANIFEST) as temporary:
                temporary.write_bytes(manifest)
        given = _json(manifest).get("tables")
        tables: dict[str, Any] = given if isinstance(given, dict) else {}
        for name in TABLES:
            path = folder / name
            if name in tables and not (path.is_file() and sha256(path) == tables[name]):
                self.fetch(name, folder)
        return folder

    def _mirror_of(self, manifest: bytes) -> Path:
        return cache_folder() / "stores" / f"{_digest(self.url.encode())}-{_digest(manifest)}"

    def fetch_pictures(self, folder: Path) -> None:
        """Bring thumbnails and masks that are not in the local folder yet."""
        for name in self._names():
            if PICTURE.fullmatch(name) and not (folder / name).is_file():
                self.fetch(name, folder)

    def request(self) -> dict[str, Any] | None:
        """What the store there was asked for; None when there is none yet. Raise when the place is not ours."""
        manifest = self.read(MANIFEST)
        if manifest is not None:
            found = _json(manifest).get("request")
            if not isinstance(found, dict):
                got = f"{self.url} with another {MANIFEST}"
                raise refuse(self._argument, "be a new place", got, "Choose another place.")
            return found
        foreign = [name for name in self._names() if not _ours(name)]
        if foreign:
            got = f"{self.url} with {foreign[0]}"
            raise refuse(self._argument, "be a new or empty place", got, "Choose another place.")
        return None

    def _names(self) -> Sequence[str]:
        self._fs.invalidate_cache()
        try:
            found = self._fs.find(self._root)
        except FileNotFoundError:
            return []
        return sorted(str(path).removeprefix(self._root).lstrip("/") for path in found)

    def publish(self, folder: Path) -> None:
        """Copy a finished local store to the URL, its manifest last."""
        names = [name for name in payload(folder) if name != MANIFEST]
        for name in (*names, MANIFEST):
            self._put(folder / name, self._place(name))

    def _put(self, file: Path, place: str) -> None:
        try:
            self._fs.put_file(str(file), place)
        except FileNotFoundError:
            # a file system has folders, which must be made first; of an object store this would make a bucket
            self._fs.makedirs(place.rpartition("/")[0], exist_ok=True)
            self._fs.put_file(str(file), place)

    def keep(self, folder: Path) -> None:
        """Make the local store that was published the copy to read from."""
        mirror = self._mirror_of((folder / MANIFEST).read_bytes())
        mirror.parent.mkdir(parents=True, exist_ok=True)
        if mirror.exists():
            shutil.rmtree(folder)
        else:
            folder.rename(mirror)


def payload(folder: Path) -> list[str]:
    """Files of a finished local store, by name; nothing else that lies in its folder."""
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    return sorted(name for name in found if _ours(name))


def _ours(name: str) -> bool:
    return name in (MANIFEST, *TABLES) or any(rule.fullmatch(name) for rule in (SHARD_NAME, PICTURE))


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def _json(data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
