"""A person as a judge: a contact sheet to click through, and the CSV that comes back from it.

The sheet is one HTML file with the pictures inside; nothing is loaded, nothing is sent. Pictures come in an order drawn
by a seed, without a word about where they come from. Some are canaries, whose answer is known.
"""

from __future__ import annotations

import base64
import csv
import html
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

from jaxtyping import Float
from torch import Tensor

from monoseme.composition.judges.protocol import Answer, Verdict, eight_bit, picture_key
from monoseme.core.errors import refuse
from monoseme.core.files import atomic_path, sha256
from monoseme.core.seeds import rng

__all__ = ["PersonJudge", "contact_sheet"]

COLUMNS = ("picture", "answer")
ANSWERS = ("yes", "no", "unsure")
PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.4 system-ui, sans-serif; }}
body {{ margin: 1rem auto; max-width: 72rem; padding: 0 1rem; }}
header {{ position: sticky; top: 0; background: Canvas; padding: .5rem 0; z-index: 1; }}
ol {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(10rem, 1fr)); gap: 1rem; padding: 0;
 list-style: none; }}
img {{ width: 100%; image-rendering: pixelated; display: block; }}
fieldset {{ border: 1px solid GrayText; border-radius: .3rem; display: flex; justify-content: space-between;
 padding: .3rem .5rem; margin: 0; }}
legend {{ font-size: .8rem; }}
button {{ font: inherit; padding: .3rem .8rem; }}
</style>
<header><h1>{title}</h1>
<p>{question} Keys in a picture's row: arrows. <span id="left" aria-live="polite"></span>
<button id="save">Save answers (CSV)</button></p></header>
<ol>{items}</ol>
<script>
const boxes = [...document.querySelectorAll("fieldset")];
const told = () => boxes.filter(box => box.querySelector(":checked"));
const tell = () => document.getElementById("left").textContent = `${{told().length}} of ${{boxes.length}} answered.`;
document.addEventListener("change", tell); tell();
document.getElementById("save").addEventListener("click", () => {{
  const lines = boxes.map(box => `${{box.dataset.key}},${{box.querySelector(":checked")?.value ?? ""}}`);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob(["picture,answer\\n" + lines.join("\\n") + "\\n"], {{type: "text/csv"}}));
  link.download = "answers.csv"; link.click(); URL.revokeObjectURL(link.href);
}});
</script></html>
"""


def contact_sheet(
    pictures: Sequence[Float[Tensor, "h w 3"]],
    thing: str,
    path: Path | str,
    *,
    canaries: Sequence[Float[Tensor, "h w 3"]] = (),
    seed: int = 0,
) -> int:
    """Write the sheet, equal pictures once, and return how many pictures it holds.

    Beside it goes ``NAME.csv`` with a line a picture and empty answers, for who prefers a spreadsheet.
    """
    path = Path(path)
    if not thing.strip():
        raise refuse("thing", "say what the pictures should show", repr(thing), 'For example "a skull".')
    pixels = {picture_key(eight_bit(one)): eight_bit(one) for one in (*pictures, *canaries)}
    if not pixels:
        raise refuse("pictures", "hold at least one", "none", "Score with replay, and see what is missing.")
    keys = list(pixels)
    keys = [keys[i] for i in rng(seed, "contact sheet").permutation(len(keys))]
    items = "".join(_item(number, key, pixels[key]) for number, key in enumerate(keys, 1))
    question = html.escape(f"Would a person still call each of these {thing}?")
    with atomic_path(path) as fresh:
        fresh.write_text(PAGE.format(title="Contact sheet", question=question, items=items), encoding="utf-8")
    with atomic_path(path.with_suffix(".csv")) as fresh:
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


def _item(number: int, key: str, pixels: Any) -> str:
    from PIL import Image

    kept = io.BytesIO()
    Image.fromarray(pixels).save(kept, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(kept.getvalue()).decode()}"
    choices = "".join(f'<label><input type="radio" name="p{number}" value="{a}"> {a}</label>' for a in ANSWERS)
    box = f'<fieldset data-key="{key}"><legend>Picture {number}</legend>{choices}</fieldset>'
    return f'<li><img src="{url}" alt="Picture {number}">{box}</li>\n'


def _read(path: Path) -> dict[str, str]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = list(csv.reader(file))
    if not lines or tuple(cell.strip().lower() for cell in lines[0]) != COLUMNS:
        got = ",".join(lines[0]) if lines else "an empty file"
        raise refuse("path", "begin with picture,answer", got[:80], "Save the sheet's answers again.")
    found: dict[str, str] = {}
    for number, line in enumerate(lines[1:], 2):
        if not any(cell.strip() for cell in line):
            continue
        cells = [cell.strip().lower() for cell in line]
        if len(cells) != 2 or len(cells[0]) != 64 or cells[1] not in ("", *ANSWERS):
            got = f"line {number}: {','.join(line)[:80]!r}"
            raise refuse("answer", "be yes, no, unsure or empty", got, "Correct that line.")
        if found.get(cells[0], cells[1]) != cells[1]:
            raise refuse("answer", "be one a picture", f"line {number}: another one", "Remove one of the lines.")
        found[cells[0]] = cells[1]
    return found
