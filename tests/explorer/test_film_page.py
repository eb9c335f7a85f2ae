"""Film strips on the page: a picture a step, each with its words, and the strip turned by the keyboard on a phone."""

from __future__ import annotations

from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.explorer.test_browser import CHROMIUM, DRIVER, clean, driver, show, wait  # noqa: F401
from tests.explorer.test_pages import EVIL, Outline

from monoseme.core.seeds import rng
from monoseme.explorer.static import write_pages
from monoseme.explorer.static.film import film_figure
from monoseme.records import FilmStrip, RunRecord

COUNT = 9


def ring(turn: float, side: int = 28) -> np.ndarray:
    """A bar that turns: (side, side, 3) uint8."""
    y, x = np.mgrid[0:side, 0:side] - (side - 1) / 2
    away = np.abs(x * np.sin(turn) - y * np.cos(turn))
    ink = np.where((away < 2.5) & (np.hypot(x, y) < side / 3), 230, 20)
    return np.repeat(ink[..., None], 3, axis=2).astype(np.uint8)


def film(note: str = "Columns are equal steps of the walk.", side: int = 28) -> FilmStrip:
    turns = np.linspace(0, np.pi, COUNT)
    walked = np.stack([ring(turn, side) for turn in turns])
    still = np.stack([ring(0.0, side) for _ in turns])
    return FilmStrip("Rotation", (("block 17", walked), ("random <direction>", still)), note)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("films") / "pages"
    noise = rng(0, "film").integers(0, 256, (3, 96, 160, 3), dtype=np.uint8)
    record = RunRecord("Walks", "steering", films=(film(), FilmStrip("Large", (("pictures", noise),))))
    write_pages(record, out)
    return out


def test_every_picture_is_there_and_says_what_it_is(pages: Path) -> None:
    from PIL import Image

    text = (pages / "index.html").read_text(encoding="utf-8")
    outline = Outline(text)
    assert outline.tags.count("img") == 2 * COUNT + 3
    words = [part.split('"')[0] for part in unescape(text).split(' alt="')[1:]]
    assert words[0] == "block 17, step 1 of 9"
    assert words[COUNT + 2] == "random <direction>, step 3 of 9"
    assert len(set(words)) == len(words)
    assert "random <direction>" not in text.replace("&lt;direction&gt;", "")
    assert 'href="#films"' in text
    for link in outline.links:
        if link.endswith(".png"):
            assert (pages / link).is_file()
    for step in (0, 4, 8):
        with Image.open(pages / "data" / "film-0" / f"0-{step}.png") as kept:
            np.testing.assert_array_equal(np.array(kept), film().rows[0][1][step])


def test_labels_cannot_become_markup_and_no_strip_no_section(tmp_path: Path) -> None:
    frames = np.zeros((2, 3, 4, 3), np.uint8)
    figure = film_figure(FilmStrip(EVIL, ((EVIL, frames),), EVIL), 0)
    assert Outline(figure).tags.count("script") == 0
    assert figure.count("&lt;script&gt;alert(1)") == 2 + 4  # alt texts; title, region, note, label
    index = write_pages(RunRecord("t", "k"), tmp_path / "pages")
    assert "films" not in index.read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")
@pytest.mark.parametrize("width", [390, 1280])
def test_strips_fit_and_scroll_by_keyboard(driver: Any, pages: Path, width: int) -> None:  # noqa: F811
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    show(driver, pages / "index.html", width=width)
    driver.execute_script("document.getElementById('films').scrollIntoView()")
    first = "const i = document.querySelector('.film img'); return i.complete && i.naturalWidth === 28"
    wait(driver, first)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    drawn = driver.execute_script(
        "return [...document.querySelectorAll('.film img')].slice(0, 20).map((i) => i.getBoundingClientRect().toJSON())"
    )
    upper, lower = drawn[:COUNT], drawn[COUNT : 2 * COUNT]
    assert [box["left"] for box in upper] == [box["left"] for box in lower]  # a step is a column
    assert min(box["width"] for box in drawn) > 50
    assert all(abs(box["width"] - box["height"]) < 1 for box in upper)
    wide = driver.execute_script(
        "const s = document.querySelector('.film .scroll'); return s.scrollWidth - s.clientWidth"
    )
    assert (wide > 0) == (width == 390)
    if width == 390:
        at = "const s = document.querySelector('.film .scroll'); return s.scrollLeft"
        driver.execute_script("document.querySelector('.film .scroll').focus()")
        ActionChains(driver).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT).perform()
        wait(driver, at.replace("return s.scrollLeft", "return s.scrollLeft > 0"))
        label = "return document.querySelector('.film tbody th').getBoundingClientRect().left"
        assert 0 <= driver.execute_script(label) < 60  # its label stays in view
    clean(driver)
