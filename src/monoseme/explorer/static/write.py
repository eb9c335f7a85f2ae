"""A record becomes a folder of pages, all or nothing, that opens from a file and needs no server and no network."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import resources
from pathlib import Path

import numpy as np

from monoseme.core.errors import refuse
from monoseme.core.files import atomic_folder
from monoseme.explorer.static.certificate import certificate_page
from monoseme.explorer.static.certificate_data import SHARD as REASONS
from monoseme.explorer.static.certificate_data import certificate_index, named_by, reason_shard
from monoseme.explorer.static.claims import claims_page
from monoseme.explorer.static.film import film_files
from monoseme.explorer.static.heat import heat_png
from monoseme.explorer.static.network import network_page
from monoseme.explorer.static.overview import block_page, overview_page
from monoseme.explorer.static.scatter import scatter_script
from monoseme.explorer.static.shards import SHARD, card_index, script, shard
from monoseme.records.certificates import CertificateTable
from monoseme.records.network import NetworkView, network_json
from monoseme.records.page import Html
from monoseme.records.reproduce import Reproduction
from monoseme.records.run import RunRecord, relative_path

__all__ = ["Thumbnails", "check_pages", "write_certificates", "write_claims", "write_network", "write_pages"]

Thumbnails = Callable[[str], np.ndarray | bytes | Path | None]
# what may be copied beside a page; anything else is not a picture that browsers draw
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp", ".gif"}
MAGIC = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png", b"RIFF": ".webp", b"GIF8": ".gif"}
MARK = ".monoseme-pages"


def write_pages(record: RunRecord, out: Path | str, thumbnails: Thumbnails | Path | str | None = None) -> Path:
    """Write the pages of `record` into the folder `out` and return the path of its index.html.

    Parameters
    ----------
    record
        What to draw.
    out
        Folder to make. An earlier one written by this function is replaced in one step; any other folder that is not
        empty is refused.
    thumbnails
        The record's folder, where the paths in ``record.samples`` lie; or a function from sample id to a picture: an
        (H, W, 3) uint8 array, or the bytes or the path of a JPEG, PNG, WebP or GIF file; or None for a sample without
        one. The picture must be what the model saw, whole: the tokens' grid is laid over all of it.

    Returns
    -------
    Path
        ``out/index.html``.

    Raises
    ------
    UserError
        When `out` holds other things, or a picture is missing, outside its folder, or not a picture.
    """
    with _new_pages(Path(out)) as folder:
        _write_page(folder / "index.html", overview_page(record))
        if record.cards:
            pictures = _write_pictures(record, folder, thumbnails)
            _write_page(folder / "block.html", block_page(record))
            _write_data(record, folder / "data", pictures)
        _write_charts(record, folder / "data")
    return Path(out) / "index.html"


def write_claims(reproduction: Reproduction, out: Path | str) -> Path:
    """Write the page of a reproduction into the folder `out`, as `write_pages` does; return its index.html."""
    with _new_pages(Path(out)) as folder:
        _write_page(folder / "index.html", claims_page(reproduction))
    return Path(out) / "index.html"


def write_certificates(table: CertificateTable, out: Path | str) -> Path:
    """Write the page of a certification into the folder `out`, as `write_pages` does; return its index.html."""
    with _new_pages(Path(out)) as folder:
        _write_page(folder / "index.html", certificate_page(table))
        _write_certificates(table, folder / "data")
    return Path(out) / "index.html"


def write_network(view: NetworkView, out: Path | str) -> Path:
    """Write the page of an image network into the folder `out`, as `write_pages` does; return its index.html."""
    with _new_pages(Path(out)) as folder:
        _write_page(folder / "index.html", network_page(view))
        (folder / "data").mkdir()
        (folder / "data" / "network.js").write_text(script("network", network_json(view)), encoding="ascii")
    return Path(out) / "index.html"


def _write_certificates(table: CertificateTable, folder: Path) -> None:
    folder.mkdir()
    (folder / "certificates.js").write_text(script("certificates", certificate_index(table)), encoding="ascii")
    names = named_by(table)
    for number, start in enumerate(range(0, len(table.features), REASONS)):
        part = reason_shard(table, start, names)
        (folder / f"why-{number}.js").write_text(script("reasons", number, part), encoding="ascii")


def check_pages(out: Path | str) -> None:
    """Refuse a folder that holds anything else than pages of ours."""
    out = Path(out)
    if out.exists() and not (out / MARK).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise refuse("out", "be a new folder, or one of earlier pages", out, "Choose another; nothing was changed.")


@contextmanager
def _new_pages(out: Path) -> Iterator[Path]:
    check_pages(out)
    with atomic_folder(out) as folder:
        (folder / MARK).write_text("pages written by monoseme; the folder is replaced as a whole\n", encoding="utf-8")
        yield folder
        _copy_assets(folder)


def _copy_assets(folder: Path) -> None:
    """Copy the style sheet and the scripts of the package beside the pages."""
    for asset in resources.files("monoseme.explorer.static").joinpath("assets").iterdir():
        if asset.name.endswith((".css", ".js")):
            (folder / asset.name).write_bytes(asset.read_bytes())


def _write_page(path: Path, page: Html) -> None:
    path.write_text(page.document(), encoding="utf-8")


def _write_data(record: RunRecord, folder: Path, pictures: Mapping[str, str]) -> None:
    folder.mkdir()
    index = card_index(record.cards, pictures, record.samples)
    (folder / "index.js").write_text(script("index", index), encoding="ascii")
    numbers = {name: i for i, (name, *_) in enumerate(index["samples"])}
    for number, start in enumerate(range(0, len(record.cards), SHARD)):
        part = shard(record.cards[start : start + SHARD], numbers)
        (folder / f"{number}.js").write_text(script("add", number, part), encoding="ascii")


def _write_charts(record: RunRecord, folder: Path) -> None:
    if record.scatters or record.heats or record.films:
        folder.mkdir(exist_ok=True)
    if record.scatters:
        scripts = "".join(scatter_script(scatter, i) for i, scatter in enumerate(record.scatters))
        (folder / "scatters.js").write_text(scripts, encoding="ascii")
    for i, heat in enumerate(record.heats):
        (folder / f"heat-{i}.png").write_bytes(heat_png(heat))
    for i, film in enumerate(record.films):
        (folder / f"film-{i}").mkdir()
        for name, content in film_files(film, i):
            (folder.parent / name).write_bytes(content)


def _write_pictures(record: RunRecord, folder: Path, thumbnails: Thumbnails | Path | str | None) -> dict[str, str]:
    """Write every picture once, under a number: a sample's id never becomes a file name."""
    (folder / "pictures").mkdir()
    written: dict[str, str] = {}
    for sample in dict.fromkeys(item.sample for card in record.cards for item in card.shown):
        found = _picture(record, sample, thumbnails)
        if found is not None:
            content, suffix = found
            written[sample] = f"pictures/{len(written)}{suffix}"
            (folder / written[sample]).write_bytes(content)
    return written


def _picture(record: RunRecord, sample: str, thumbnails: Thumbnails | Path | str | None) -> tuple[bytes, str] | None:
    if thumbnails is None:
        return None
    if callable(thumbnails):
        made = thumbnails(sample)
        if made is None:
            return None
        content = _encode(made) if isinstance(made, np.ndarray) else _bytes(made) if isinstance(made, Path) else made
    else:
        view = record.samples.get(sample)
        if view is None or not view.picture:
            return None
        content = _read(Path(thumbnails), view.picture)
    suffix = next((suffix for magic, suffix in MAGIC.items() if content.startswith(magic)), None)
    if suffix is None:
        raise refuse(
            "thumbnails", "give JPEG, PNG, WebP or GIF pictures", f"another kind for {sample!r}", "Convert it."
        )
    return content, suffix


def _read(root: Path, name: str) -> bytes:
    path = root / relative_path("picture", name)
    # a link inside the folder must not lead out of it either
    if not path.resolve().is_relative_to(root.resolve()) or path.suffix.lower() not in SUFFIXES:
        raise refuse("picture", "be a picture inside the record's folder", repr(name), "Copy it there.")
    return _bytes(path)


def _bytes(path: Path) -> bytes:
    if not path.is_file():
        raise refuse("thumbnails", "give files that exist", f"{path} (no such file)", "Give the folder of the record.")
    return path.read_bytes()


def _encode(array: np.ndarray) -> bytes:
    from PIL import Image

    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise refuse(
            "thumbnails", "give (height, width, 3) uint8 arrays", f"{array.shape} {array.dtype}", "Convert it."
        )
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, "JPEG", quality=88)
    return buffer.getvalue()
