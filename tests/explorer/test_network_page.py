"""The page of an image network: in Chromium it computes the library's picture; what it is made of; wrong input."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.composition.refusals import check_refused
from tests.explorer.test_browser import CHROMIUM, DRIVER, clean, driver, show, wait  # noqa: F401

from monoseme.api.composing import depth_page, depth_record, network_page, network_view
from monoseme.composition import Delta, ImageNetwork, emc2, layerize, scene
from monoseme.composition.judges import PixelJudge
from monoseme.records.network import NetworkView, network_json

browser = pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed")
BANK = ["identity", "sin", "cos", "tanh", "sigmoid", "gaussian", "relu"]


def networks() -> dict[str, ImageNetwork]:
    return {
        "scene": layerize(scene("butterfly")),
        "colour": ImageNetwork.dense(7, 3, BANK, seed=2),
        "ink": ImageNetwork.dense(7, 2, BANK, outputs=1, seed=3),
    }


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("networks")
    for name, net in networks().items():
        score = emc2(net, PixelJudge(net.render(16), 0.05), Delta("absolute", 0.3), size=16)
        network_page(net, folder / name, score, f"A network <{name}>", made="for a test")
    return folder


@browser
@pytest.mark.browser
@pytest.mark.parametrize("name", ["scene", "colour", "ink"])
def test_the_page_computes_the_librarys_picture(driver: Any, pages: Path, name: str) -> None:  # noqa: F811
    show(driver, pages / name / "index.html")
    wait(driver, "return document.getElementById('choice').options.length > 0")
    found = np.array(driver.execute_script("return monoseme.networkPicture(24)"))
    net = networks()[name].double()
    np.testing.assert_allclose(found.reshape(24, 24, 3), net.render(24).numpy(), atol=1e-6)
    clean(driver)


@browser
@pytest.mark.browser
def test_a_weight_moves_the_picture_and_is_put_back(driver: Any, pages: Path) -> None:  # noqa: F811
    show(driver, pages / "scene" / "index.html")
    wait(driver, "return document.getElementById('choice').options.length > 0")
    before = driver.execute_script("return monoseme.networkPicture(16)")
    number = int(driver.execute_script("return document.getElementById('choice').value"))
    net = networks()["scene"].double()
    layer, to, from_ = net.entries()[number]
    moved = "const s = document.getElementById('slider'); s.value = Number(s.min) + 0.5;"
    moved += "s.dispatchEvent(new Event('input')); return [Number(s.value), monoseme.networkPicture(16)]"
    value, after = driver.execute_script(moved)
    assert np.abs(np.array(after) - np.array(before)).max() > 0.01
    net.weights[layer].data[to, from_] = value
    np.testing.assert_allclose(np.array(after).reshape(16, 16, 3), net.render(16).numpy(), atol=1e-6)
    driver.execute_script("document.getElementById('film').click()")
    assert driver.execute_script("return document.querySelectorAll('#strip canvas').length") == 7
    driver.execute_script("document.getElementById('reset').click()")
    assert driver.execute_script("return monoseme.networkPicture(16)") == before
    # a cell of the scores chooses its weight
    driver.execute_script(
        "const c = document.querySelector('#matrices canvas'); const r = c.getBoundingClientRect();"
        "for (let x = 2; x < c.width; x += 4) for (let y = 2; y < c.height; y += 4)"
        "c.dispatchEvent(new MouseEvent('click', {clientX: r.left + 1 + x, clientY: r.top + 1 + y}))"
    )
    assert "judge says" in driver.execute_script("return document.getElementById('about').textContent")
    clean(driver)


@browser
@pytest.mark.browser
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", ["scene", "colour"])
def test_nothing_is_wider_than_the_window(driver: Any, pages: Path, name: str, width: int) -> None:  # noqa: F811
    show(driver, pages / name / "index.html", width=width)
    wait(driver, "return document.querySelectorAll('.neuron').length > 0")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    unnamed = "return [...document.querySelectorAll('button, select, input')].filter(n => !n.labels?.length && "
    unnamed += "!n.textContent.trim() && !n.getAttribute('aria-label')).length"
    assert driver.execute_script(unnamed) == 0
    box = driver.execute_script("const c = document.getElementById('picture'); return [c.clientWidth, c.clientHeight]")
    assert box[0] == box[1] > 100
    clean(driver)


def test_the_view_holds_every_weight_and_what_became_of_it() -> None:
    net = layerize(scene("face"))
    score = emc2(scene("face"), PixelJudge(net.render(16), 0.02), 0.3, size=16)
    view = network_view(net, score)
    assert [weight[:3] for weight in view.weights] == net.entries()
    assert len(view.moved) == len(score.per_weight)
    plain = network_json(view)
    assert {tuple(one[:3]) for one in plain["moved"]} <= set(net.entries())
    assert ["mouth width" in name for *_, name in plain["labels"]].count(True) == 1
    lost = emc2(net, PixelJudge(1 - net.render(16), 0.01), 0.3, size=16)
    assert "means nothing" in network_view(net, lost).notes[0]


ROWS = [
    {"depth": d, "width": w, "seed": s, "score": 0.1 * d + s, "loss": 1.0 / w}
    for d in (2, 4)
    for w in (8, 16)
    for s in (0, 1)
]


def test_numbers_against_depth(tmp_path: Path) -> None:
    record = depth_record(ROWS, ["score", "loss"], judge="a stand-in")
    chart = record.scatters[0]
    assert [point.label for point in chart.points] == [f"width {w}, depth {d}" for w in (8, 16) for d in (2, 4)]
    assert chart.points[0].values[1].value == pytest.approx(0.7)
    assert record.comparisons[0].rows[1][1].value == pytest.approx(0.9)  # pyright: ignore
    assert depth_page(ROWS, ["score"], tmp_path / "page").is_file()


def test_wrong_input() -> None:
    check_refused(lambda: depth_record([], ["score"]), "rows")
    check_refused(lambda: depth_record(ROWS, ["scores"]), "scores")
    check_refused(lambda: NetworkView("t", [["sin"]], [], 1), "weights")
    check_refused(lambda: NetworkView("t", [["sin"]], [(0, 0, 0, float("nan"))], 1), "weights")
