"""Film strips survive their record's folder pixel for pixel; what is damaged or missing is refused in one line."""

from __future__ import annotations

import base64
import io
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from monoseme.core.errors import UserError
from monoseme.core.seeds import rng
from monoseme.records import FilmStrip, RunRecord


def frames(seed: int, count: int = 5, height: int = 7, width: int = 9) -> np.ndarray:
    return rng(seed, "frames").integers(0, 256, (count, height, width, 3), dtype=np.uint8)


def film(note: str = "One attribute moves.") -> FilmStrip:
    return FilmStrip("Walk", (("block 17", frames(0)), ("random <b>direction</b>", frames(1))), note)


def saved(tmp_path: Path) -> list[Any]:
    RunRecord("t", "k", films=(film(),)).save(tmp_path)
    return json.loads((tmp_path / "record.json").read_text())["films"]


def edit(folder: Path, films: object) -> None:
    plain = json.loads((folder / "record.json").read_text())
    (folder / "record.json").write_text(json.dumps(plain | {"films": films}))


def refused(folder: Path, words: str) -> None:
    with pytest.raises(UserError, match=words) as error:
        RunRecord.load(folder)
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 400
    assert "record.json: films" in str(error.value)


def test_every_pixel_comes_back(tmp_path: Path) -> None:
    still = FilmStrip("One frame of one pixel", (("", np.full((1, 1, 1, 3), 7, np.uint8)),))
    after = RunRecord.load(RunRecord("t", "k", films=(film(), still)).save(tmp_path)).films
    for a, b in zip((film(), still), after, strict=True):
        assert (a.title, a.note, [label for label, _ in a.rows]) == (b.title, b.note, [label for label, _ in b.rows])
        for (_, x), (_, y) in zip(a.rows, b.rows, strict=True):
            assert y.dtype == np.uint8
            np.testing.assert_array_equal(x, y)


def test_the_same_strips_give_the_same_bytes(tmp_path: Path) -> None:
    first, second = (RunRecord("t", "k", films=(film(),)).save(tmp_path / name) for name in ("a", "b"))
    assert (first / "record.json").read_bytes() == (second / "record.json").read_bytes()


def test_a_record_from_before_there_were_strips_is_read(tmp_path: Path) -> None:
    saved(tmp_path)
    plain = json.loads((tmp_path / "record.json").read_text())
    del plain["films"]
    (tmp_path / "record.json").write_text(json.dumps(plain))
    assert RunRecord.load(tmp_path).films == ()


def picture(mode: str, size: tuple[int, int], kind: str = "PNG") -> str:
    from PIL import Image

    kept = io.BytesIO()
    Image.new(mode, size).save(kept, kind)
    return base64.b64encode(kept.getvalue()).decode()


def cut(text: str) -> str:
    return base64.b64encode(base64.b64decode(text)[:-40]).decode()


def flipped(text: str) -> str:
    raw = bytearray(base64.b64decode(text))
    raw[len(raw) // 2] ^= 255
    return base64.b64encode(raw).decode()


def bomb(text: str) -> str:
    """A header that promises far more pixels than there are, with its checksum."""
    raw = bytearray(base64.b64decode(text))
    raw[16:24] = b"\0\1\0\0" * 2
    raw[29:33] = zlib.crc32(raw[12:29]).to_bytes(4, "big")
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: "no base64 é", "PNG in base64"),
        (lambda text: text[:-3], "PNG in base64"),
        (lambda text: "", "PNG of 35 × 9 pixels"),
        (lambda text: base64.b64encode(b"<svg onload=alert(1)>").decode(), "PNG of 35 × 9 pixels"),
        (lambda text: picture("RGB", (9, 34)), "PNG of 35 × 9 pixels"),
        (lambda text: picture("RGB", (9, 35), "JPEG"), "PNG of 35 × 9 pixels"),
        (lambda text: picture("L", (9, 35)), "hold an RGB picture"),
        (bomb, "PNG of 35 × 9 pixels"),
        (cut, "sound PNG"),
        (flipped, "sound PNG"),
        (lambda text: 3, "be a str"),
    ],
)
def test_pictures_that_are_damaged_are_refused(tmp_path: Path, change: Callable[[str], object], words: str) -> None:
    films = saved(tmp_path)
    films[0]["rows"][1]["png"] = change(films[0]["rows"][1]["png"])
    edit(tmp_path, films)
    refused(tmp_path, words)


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("frames", 0, "1 to 48 frames"),
        ("frames", 10**9, "1 to 48 frames"),
        ("height", -7, "1 to 48 frames"),
        ("width", "9", "be a int"),
        ("rows", {}, "be a list"),
        ("rows", [{"label": "x"}], "png must be there"),
        ("title", None, "be a str"),
    ],
)
def test_strips_edited_by_hand_are_refused(tmp_path: Path, key: str, value: object, words: str) -> None:
    films = saved(tmp_path)
    films[0][key] = value
    edit(tmp_path, films)
    refused(tmp_path, words)


def test_a_strip_without_a_row_a_field_or_a_list_is_refused(tmp_path: Path) -> None:
    films = saved(tmp_path)
    edit(tmp_path, [films[0] | {"rows": []}])
    with pytest.raises(UserError, match=r"^rows must be 1 to 16; got 0"):
        RunRecord.load(tmp_path)
    del films[0]["rows"]
    edit(tmp_path, films)
    refused(tmp_path, "rows must be there")
    edit(tmp_path, "films")
    refused(tmp_path, "be a list")


@pytest.mark.parametrize(
    "rows",
    [
        (),
        tuple((str(i), frames(0)) for i in range(17)),
        (("a", frames(0)), ("b", frames(0, count=4))),
        (("a", frames(0).astype(np.float32)),),
        (("a", frames(0)[..., 0]),),
        (("a", frames(0)[..., :2]),),
        (("a", frames(0)[:0]),),
        (("a", np.zeros((49, 1, 1, 3), np.uint8)),),
        (("a", np.zeros((1, 1025, 1, 3), np.uint8)),),
    ],
)
def test_strips_that_no_page_can_show_are_refused(rows: Any) -> None:
    with pytest.raises(UserError, match=r"^rows must ") as error:
        FilmStrip("Walk", rows)
    assert "\n" not in str(error.value)
