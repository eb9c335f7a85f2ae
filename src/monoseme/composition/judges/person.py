"""A person as a judge: a contact sheet to click through, and the CSV that comes back from it.

The sheet is one HTML file with the pictures inside; nothing is loaded, nothing is sent. Pictures come in an order drawn
by a seed, without a word about where they come from. Some are canaries, whose answer is known.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import io
import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import numpy as np
from jaxtyping import Float, UInt8
from torch import Tensor

from monoseme.composition.judges.protocol import Answer, Verdict, as_png, check_picture, eight_bit, picture_key
from monoseme.core.errors import refuse
from monoseme.core.files import atomic_path, sha256
from monoseme.core.seeds import rng

__all__ = ["PersonJudge", "contact_sheet"]

COLUMNS = ("picture", "answer")
SIGNS = (",", ";", "\t")
ANSWERS = ("yes", "no", "unsure")
LARGEST = 1 << 24  # bytes of a CSV: a quarter of a million answers


def contact_sheet(
    pictures: Sequence[Float[Tensor, "h w 3"]],
    thing: str,
    path: Path | str,
    *,
    canaries: Sequence[Float[Tensor, "h w 3"]] = (),
    seed: int = 0,
) -> int:
    """Write the sheet, equal pictures once, and return how many pictures it holds.

    Beside it goes ``NAME.csv`` with a line a picture and empty answers, for who prefers a spreadsheet. One that holds
    answers is never overwritten.

    Parameters
    ----------
    pictures
        RGB in 0…1.
    thing
        What they should show, with its article: "a skull".
    path
        Of the sheet, ``NAME.html``.
    canaries
        Pictures whose answer is known; nothing tells them from the others.
    seed
        Draws the order.
    """
    path = Path(path)
    if not thing.strip():
        raise refuse("thing", "say what the pictures should show", repr(thing), 'For example "a skull".')
    if path.suffix.lower() not in (".html", ".htm") or path.is_dir():
        raise refuse("path", "be a file NAME.html", path, "The answers go to NAME.csv beside it.")
    shown: dict[str, UInt8[np.ndarray, "h w 3"]] = {}
    for name, some in (("pictures", pictures), ("canaries", canaries)):
        for picture in some:
            check_picture(picture, name)
            pixels = eight_bit(picture)
            shown[picture_key(pixels)] = pixels
    if not shown:
        raise refuse("pictures", "hold at least one", "none", "Score with replay, and see what is missing.")
    answers = path.with_suffix(".csv")
    if answers.exists() and any(_read(answers).values()):
        raise refuse(
            "path", "be a new sheet", f"{answers}, which holds answers", "Choose another name, or move it away."
        )
    keys = list(shown)
    keys = [keys[i] for i in rng(seed, "contact sheet").permutation(len(keys))]
    with atomic_path(path) as fresh:
        fresh.write_text(_page(thing, {key: shown[key] for key in keys}), encoding="utf-8")
    with atomic_path(answers) as fresh:
        fresh.write_text("picture,answer\n" + "".join(f"{key},\n" for key in keys), encoding="utf-8")
    return len(keys)


class PersonJudge:
    """Answers from a sheet's CSV.

    Parameters
    ----------
    path
        The CSV with the columns picture and answer: yes, no or unsure. An empty answer is "invalid": not yet given.
    canaries
        Picture → the answer that is known; `agreement` is how many of those answered were.
    """

    batch = 64

    def __init__(self, path: Path | str, canaries: Sequence[tuple[Tensor, Answer]] = ()) -> None:
        path = Path(path)
        if not path.is_file():
            raise refuse("path", "be a sheet's CSV", path, "Write a sheet with contact_sheet(...), fill it in.")
        self.answers = _read(path)
        known = [(self.answers.get(picture_key(eight_bit(picture)), ""), answer) for picture, answer in canaries]
        self.agreement = (sum(said == answer for said, answer in known), sum(said != "" for said, _ in known))
        self.about: Mapping[str, Any] = {"judge": "person", "file": sha256(path)}

    def judge(self, pictures: Float[Tensor, "n h w 3"]) -> list[Verdict]:
        """What was answered of each."""
        found = []
        for picture in pictures:
            said = self.answers.get(picture_key(eight_bit(picture)))
            note = "not on the sheet" if said is None else "" if said else "not answered yet"
            answer: Answer = said if said in get_args(Answer) and said else "invalid"  # pyright: ignore[reportAssignmentType]
            found.append(Verdict(answer, None, note))
        return found


def _page(thing: str, shown: Mapping[str, UInt8[np.ndarray, "h w 3"]]) -> str:
    page = resources.files("monoseme.composition.judges").joinpath("sheet.html").read_text(encoding="utf-8")
    texts = {
        "question": html.escape(f"Would a person still call each of these {thing}?"),
        "sheet": hashlib.sha256("".join([thing, *shown]).encode()).hexdigest()[:16],
        "pictures": "\n".join(_item(number, key, pixels) for number, (key, pixels) in enumerate(shown.items(), 1)),
    }
    # in one pass: a thing may be called like a place
    return re.sub(r"\{\{(\w+)\}\}", lambda place: texts[place[1]], page)


def _item(number: int, key: str, pixels: UInt8[np.ndarray, "h w 3"]) -> str:
    url = f"data:image/png;base64,{base64.b64encode(as_png(pixels)).decode()}"
    choices = "".join(
        f'<label><input type="radio" name="p{number}" value="{a}"><span>{a}</span></label>' for a in ANSWERS
    )
    return (
        f'<fieldset data-key="{key}"><legend>Picture {number}</legend><img src="{url}" alt="Picture {number}" '
        f'width="{pixels.shape[1]}" height="{pixels.shape[0]}"><div class="answers">{choices}</div></fieldset>'
    )


def _read(path: Path) -> dict[str, str]:
    """Answers by picture, from commas, semicolons or tabs, as spreadsheets leave them."""
    if path.stat().st_size > LARGEST:
        raise refuse("path", f"have at most {LARGEST} bytes", path.stat().st_size, "Is it the sheet's CSV?")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise refuse("path", "be UTF-8 text", path, "Save it as CSV UTF-8.") from None
    head = text.split("\n", 1)[0].strip()
    fields = [re.split(f"[{sign}]", head.lower().replace('"', "")) for sign in SIGNS]
    between = next((SIGNS[i] for i, cells in enumerate(fields) if tuple(c.strip() for c in cells) == COLUMNS), None)
    if between is None:
        raise refuse("path", "begin with picture,answer", head[:80] or "nothing", "Save the sheet's answers again.")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=between)
    found: dict[str, str] = {}
    try:
        for line in reader:
            cells = [cell.strip().lower() for cell in line]
            if reader.line_num == 1 or not any(cells):
                continue
            got = f"line {reader.line_num}: {between.join(line)[:80]!r}"
            if len(cells) != 2 or not re.fullmatch("[0-9a-f]{64}", cells[0]) or cells[1] not in ("", *ANSWERS):
                raise refuse("answer", "be yes, no, unsure or empty, behind a picture", got, "Correct that line.")
            if found.get(cells[0], cells[1]) != cells[1]:
                raise refuse("answer", "be one a picture", f"{got}, another one", "Remove one of the lines.")
            found[cells[0]] = cells[1]
    except csv.Error as error:
        raise refuse("path", "be a CSV file", f"line {reader.line_num}: {error}", "Correct that line.") from None
    return found
