"""The contact sheet in a browser, CSVs as spreadsheets leave them, and answers that must not be lost."""

from __future__ import annotations

import base64
import io
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.composition.refusals import check_refused
from tests.explorer import test_browser as browsing
from torch import Tensor

from monoseme.composition.judges import PersonJudge, contact_sheet
from monoseme.composition.judges.protocol import eight_bit, picture_key

driver, show, wait, clean = browsing.driver, browsing.show, browsing.wait, browsing.clean
THING = "<script>alert(1)</script> \"{{sheet}}\" {0} \\g<1> & 'co'"


def some(n: int = 6, seed: int = 0) -> Tensor:
    return torch.rand(n, 5, 7, 3, generator=torch.Generator().manual_seed(seed))


def make(folder: Path, seed: int = 0) -> Path:
    contact_sheet(list(some(seed=seed)), THING, folder / "sheet.html", canaries=list(some(1, 1)))
    return folder / "sheet.csv"


def fill(path: Path, answers: str = "yes no unsure yes no unsure yes") -> list[str]:
    head, *rest = path.read_text().splitlines()
    lines = [head, *(line + answer for line, answer in zip(rest, answers.split(), strict=True))]
    path.write_text("\n".join(lines) + "\n")
    return lines


def test_the_page_holds_the_pictures_and_asks_nothing_of_anybody(tmp_path: Path) -> None:
    from PIL import Image

    keys = [line.split(",")[0] for line in make(tmp_path).read_text().splitlines()[1:]]
    page = (tmp_path / "sheet.html").read_text()
    inlined = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    shown = [np.asarray(Image.open(io.BytesIO(base64.b64decode(code)))) for code in inlined]
    assert [picture_key(pixels) for pixels in shown] == keys
    assert set(keys) == {picture_key(eight_bit(picture)) for picture in [*some(), *some(1, 1)]}
    assert not re.findall(r"(?:src|href)=\"(?!data:)|https?:|@import|url\(", page)
    assert "default-src 'none'" in page


def test_a_thing_is_text_whatever_it_is_called(tmp_path: Path) -> None:
    make(tmp_path)
    page = (tmp_path / "sheet.html").read_text()
    assert page.count("<script>") == 1
    told = "&lt;script&gt;alert(1)&lt;/script&gt; &quot;{{sheet}}&quot; {0} \\g&lt;1&gt; &amp; &#x27;co&#x27;"
    assert page.count(told) == 2


def test_answers_are_never_overwritten(tmp_path: Path) -> None:
    path = make(tmp_path)
    make(tmp_path)  # nothing was answered yet
    fill(path)
    before = path.read_bytes(), (tmp_path / "sheet.html").read_bytes()
    check_refused(lambda: contact_sheet(list(some(2, 5)), "a face", tmp_path / "sheet.html"), "which holds answers")
    path.write_text("my own notes")
    check_refused(lambda: contact_sheet(list(some(2, 5)), "a face", tmp_path / "sheet.html"), "path must")
    assert path.read_text() == "my own notes"
    assert (tmp_path / "sheet.html").read_bytes() == before[1]


SAVED: dict[str, Callable[[list[str]], bytes]] = {
    "semicolons and a mark": lambda x: ("\ufeff" + "\r\n".join(x).replace(",", ";")).encode(),
    "tabs": lambda x: "\n".join(x).replace(",", "\t").encode(),
    "quotes": lambda x: "\r\n".join(",".join(f'"{cell}"' for cell in line.split(",")) for line in x).encode(),
    "old line ends": lambda x: "\r".join(x).encode(),
    "capitals, spaces, empty lines": lambda x: "\n\n".join(x).upper().replace(",", " , ").encode() + b"\n,\n",
    "another order": lambda x: "\n".join([x[0], *reversed(x[1:])]).encode(),
}


@pytest.mark.parametrize("name", SAVED)
def test_spreadsheets_save_in_their_ways(name: str, tmp_path: Path) -> None:
    path = make(tmp_path)
    lines = fill(path)
    want = PersonJudge(path).answers
    path.write_bytes(SAVED[name](lines))
    assert PersonJudge(path).answers == want
    assert len(want) == 7


BROKEN: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "begin with picture,answer"),
    "UTF-16": ("picture,answer\n".encode("utf-16"), "UTF-8"),
    "Latin-1": (b"picture,answer\n\xe9,yes\n", "UTF-8"),
    "no picture's name": (b"picture,answer\n" + b"z" * 64 + b",yes\n", "line 2"),
    "a quote without end": (b'picture,answer\n"' + b"x" * 200_000, "line 2"),
    "three fields": (b"picture,answer\n" + b"a" * 64 + b",yes,no\n", "line 2"),
    "a NUL": (b"picture,answer\n" + b"a" * 64 + b",y\0es\n", "line 2"),
    "too much": (b"picture,answer\n" + b"\n" * (1 << 24), "at most"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_sheets_csv_is_refused(name: str, tmp_path: Path) -> None:
    content, says = BROKEN[name]
    (tmp_path / "a.csv").write_bytes(content)
    check_refused(lambda: PersonJudge(tmp_path / "a.csv"), says)


@pytest.mark.parametrize(
    ("pictures", "name", "argument"),
    [
        ([torch.zeros(4, 4, 3)], "sheet.csv", "path"),  # would be its own answers
        ([torch.zeros(4, 4, 3)], "", "path"),
        ([torch.full((4, 4, 3), float("nan"))], "a.html", "pictures"),
        ([torch.full((4, 4, 3), 255.0)], "a.html", "pictures"),
        ([torch.zeros(0, 4, 3)], "a.html", "pictures"),
    ],
)
def test_sheets_that_cannot_be(pictures: list[Tensor], name: str, argument: str, tmp_path: Path) -> None:
    check_refused(lambda: contact_sheet(pictures, "a face", tmp_path / name), f"{argument} must")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.browser
@browsing.pytestmark[1]
@pytest.mark.parametrize("width", [390, 1280])
def test_a_sheet_is_answered_by_keys_kept_and_saved(width: int, driver: Any, tmp_path: Path) -> None:
    from selenium.webdriver.common.keys import Keys

    # other pictures at each width: pages from the disk share what the browser stores
    path = make(tmp_path, seed=width)
    page = path.with_suffix(".html")
    saved = tmp_path / "saved" / "answers.csv"
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(saved.parent)})
    show(driver, page, width=width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    count = "return document.getElementById('progress').value"
    wait(driver, f"{count} === '0 of 7 answered'")
    assert driver.execute_script("return [...document.querySelectorAll('button')].every((b) => b.textContent)")
    assert driver.execute_script("return [...document.images].every((image) => image.naturalWidth === 7)")
    assert THING in driver.execute_script("return document.querySelector('h1').textContent")
    for key in "ynuby":  # b goes back, and y puts another answer in the place of u
        driver.switch_to.active_element.send_keys(key)
    driver.switch_to.active_element.send_keys(Keys.SPACE, Keys.ARROW_RIGHT)  # the buttons of a form, as everywhere
    wait(driver, f"{count} === '4 of 7 answered'")
    # a page that comes back reads what it stored; that Chromium itself now and then loses what a page from the disk has
    # stored is why it asks before it is left, and why the CSV is what counts
    driver.execute_script("document.getElementById('sheet').reset(); tell()")
    wait(driver, f"{count} === '0 of 7 answered'")
    driver.execute_script("recall(); tell(); go(4)")
    wait(driver, f"{count} === '4 of 7 answered'")
    for _ in range(3):
        driver.switch_to.active_element.send_keys("n")
    driver.find_element("id", "download").click()
    wait(driver, f"{count} === 'Saved: all answered'")
    for _ in range(1200):
        if saved.exists() and saved.read_text().count("\n") == 8:
            break
        time.sleep(0.05)
    given = list(PersonJudge(saved).answers.items())
    assert [answer for _, answer in given] == ["yes", "no", "yes", "no", "no", "no", "no"]
    driver.find_element("id", "clear").click()  # who comes next
    driver.switch_to.alert.accept()
    wait(driver, f"{count} === '0 of 7 answered'")
    assert [key for key, _ in given] == [line.split(",")[0] for line in path.read_text().splitlines()[1:]]
    clean(driver)
