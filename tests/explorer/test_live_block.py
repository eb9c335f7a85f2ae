"""The live page of a block in Chromium: turned and walked by keyboard, at the widths of a desk and a phone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.explorer.serving import ask, served
from tests.explorer.test_browser import CHROMIUM, DRIVER, INK, driver, wait  # noqa: F401
from tests.explorer.test_certificate_page import made

from monoseme.api.viewing import live_run
from monoseme.explorer.static import write_pages
from monoseme.records import RunRecord, SampleView

Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed").Keys
pytest.importorskip("python_som", reason="python-som is not installed")
pytest.importorskip("ripser", reason="ripser is not installed")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
WIDTHS = pytest.mark.parametrize("width", [1280, 390])
Address = tuple[str, int]
EVIL = "<img src=x onerror=\"document.title='owned'\">"
WALKED = "return document.querySelectorAll('.way button').length > 0"
CLOUD = "return document.getElementById('cloud').toDataURL()"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, make_record: Callable[..., RunRecord], make_picture: Any) -> Path:
    """Runs of pictures, with certificates, and of texts that mean harm, without."""
    folder = tmp_path_factory.mktemp("runs")
    pictures, texts = make_record(40), make_record(20, 2, (1, 16))
    texts = RunRecord(
        EVIL, "fit", cards=texts.cards, samples={n: SampleView(tokens=(EVIL,) * 16, label=EVIL) for n in texts.samples}
    )
    for name, record in (("pictures", pictures), ("texts", texts), ("scalars", make_record(5, 1))):
        record.save(folder / name)
        write_pages(record, folder / name / "pages", make_picture if name == "pictures" else None)
    made(30).save(folder / "pictures")
    return folder


@pytest.fixture(scope="module")
def at(runs: Path) -> Iterator[Address]:
    names = ("pictures", "texts", "scalars")
    with served([live_run(runs / name, models=False) for name in names]) as address:
        yield address


def show(driver: Any, at: Address, width: int, run: int = 0, block: int = 3) -> None:  # noqa: F811
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia", {"features": [{"name": "prefers-reduced-motion", "value": "reduce"}]}
    )
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get(f"http://127.0.0.1:{at[1]}/run/{run}/live-block.html#{block}")


def press(driver: Any, *keys: str) -> None:  # noqa: F811
    from selenium.webdriver.common.action_chains import ActionChains

    ActionChains(driver).send_keys(*keys).perform()


def text(driver: Any, id_: str) -> str:  # noqa: F811
    return driver.find_element("id", id_).get_attribute("textContent")


@WIDTHS
def test_a_walk_is_taken_by_keyboard_and_seen_in_the_cloud(driver: Any, at: Address, width: int) -> None:  # noqa: F811
    show(driver, at, width)
    wait(driver, WALKED)
    shape = json.loads(ask(at, "/api/runs/0/blocks/3/shape")[1])
    steps = shape["walk"]["ways"][0]["waypoints"]
    assert driver.execute_script("return document.querySelectorAll('.way button').length") == len(steps) == 12
    assert "laid out as a ring" in text(driver, "walk-said")
    assert "Quantisation error 0.3" in text(driver, "walk-said")
    assert driver.execute_script("return document.querySelectorAll('.way button[tabindex=\"0\"]').length") == 1
    still = driver.execute_script(CLOUD)
    driver.execute_script("document.querySelector('.way button').focus()")
    wait(driver, f"return document.getElementById('cloud').toDataURL() !== {json.dumps(still)}")
    pressed = "return [...document.querySelectorAll('.way button')].findIndex((b) => b.ariaPressed === 'true')"
    assert driver.execute_script(pressed) == 0
    press(driver, Keys.ARROW_LEFT)  # a ring has no end
    assert driver.execute_script(pressed) == 11
    press(driver, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert driver.execute_script(pressed) == 1
    assert driver.execute_script("return location.hash") == "#3"  # the page's own arrows did not lead away
    press(driver, Keys.ENTER)
    meant = "return [...document.querySelectorAll('#shown .sample')].findIndex((n) => n.matches('.meant'))"
    assert driver.execute_script(meant) == steps[1]["shown"]
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.get_log("browser") == []


def test_a_step_shows_the_pixels_around_its_token(driver: Any, at: Address) -> None:  # noqa: F811
    show(driver, at, 1280)
    wait(driver, WALKED)
    filled = f"return (() => {{ {INK} }})() === 1".replace("arguments[0]", "'.way li:nth-child(4) canvas'")
    wait(driver, filled)
    step = json.loads(ask(at, "/api/runs/0/blocks/3/shape")[1])["walk"]["ways"][0]["waypoints"][3]
    # 160 pixels and 16 tokens a side; 6 tokens are shown around the middle of the token, inside the picture
    y, x = (min(max(0.0, (k + 0.5) * 10 - 30), 100.0) for k in divmod(step["token"], 16))
    means = driver.execute_async_script(
        """const [n, y, x, done] = arguments, item = document.querySelectorAll('#shown .sample img')[n];
        const mean = (g, ...part) => {  // of red, green and blue over a part
          const d = g.getImageData(...part).data, sums = [0, 0, 0];
          d.forEach((v, i) => { if (i % 4 < 3) sums[i % 4] += v; });
          return sums.map((v) => (4 * v) / d.length);
        };
        const whole = document.createElement('canvas'), shown = document.querySelector('.way li:nth-child(4) canvas');
        whole.width = whole.height = 160;
        item.loading = 'eager';
        item.decode().then(() => {
          const g = whole.getContext('2d');
          g.drawImage(item, 0, 0);
          // the upper fifth: above the frame around the token
          done([mean(g, x, y, 60, 12), mean(shown.getContext('2d'), 0, 0, 320, 64), mean(g, 0, 0, 160, 160)]);
        });""",
        step["shown"], round(y), round(x),
    )  # fmt: skip
    assert means[1] == pytest.approx(means[0], abs=3)
    assert means[2] != pytest.approx(means[0], abs=3)  # another part would be seen


@WIDTHS
def test_dimensions_and_certificate_have_their_place(driver: Any, at: Address, width: int) -> None:  # noqa: F811
    show(driver, at, width)
    wait(driver, "return document.querySelectorAll('#dimension .tile').length === 5")
    shape = json.loads(ask(at, "/api/runs/0/blocks/3/shape")[1])
    said = text(driver, "dimension")
    for name in ("stable rank of the covariance", "participation ratio", "effective rank", "utilisation"):
        assert name in said
    value = next(o["value"] for o in shape["dimension"] if o["name"] == "participation_ratio")
    bars = driver.execute_script("return [...document.querySelectorAll('progress')].map((p) => [p.value, p.max])")
    assert [value, 3] in bars
    assert bars[-1][1] == 1
    assert "Removable loss" in text(driver, "verdicts")
    assert "Feature 3" in text(driver, "verdicts")
    assert text(driver, "uncertified") == ""
    assert "certificate" not in text(driver, "numbers")  # it stands under its own heading
    driver.execute_script("location.hash = '#35'")  # more blocks than certificates
    wait(driver, "return document.getElementById('uncertified').textContent.includes('do not name this block')")
    assert driver.execute_script("return document.querySelectorAll('#verdicts *').length") == 0
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.get_log("browser") == []


@WIDTHS
def test_the_cloud_is_turned_by_keys_and_by_pointer(driver: Any, at: Address, width: int) -> None:  # noqa: F811
    from selenium.webdriver.common.action_chains import ActionChains

    show(driver, at, width)
    wait(driver, WALKED)
    assert driver.execute_script(INK, "#cloud") > 0.01
    views = [driver.execute_script(CLOUD)]
    driver.execute_script("document.getElementById('cloud').focus()")
    for key in (Keys.ARROW_RIGHT, Keys.ARROW_UP):
        press(driver, key)
        views.append(driver.execute_script(CLOUD))
    canvas = driver.find_element("id", "cloud")
    ActionChains(driver).click_and_hold(canvas).move_by_offset(40, 25).release().perform()
    views.append(driver.execute_script(CLOUD))
    assert len(set(views)) == len(views)
    assert driver.execute_script("return location.hash") == "#3"
    assert driver.get_log("browser") == []


def test_everything_has_a_name_and_dead_or_missing_blocks_are_said(driver: Any, at: Address) -> None:  # noqa: F811
    show(driver, at, 390)
    wait(driver, WALKED)
    silent = "return [...document.querySelectorAll('canvas, progress, img')].filter((n) => !n.alt"
    silent += " && !n.getAttribute('aria-label') && n.getAttribute('aria-hidden') !== 'true').length"
    assert driver.execute_script(silent) == 0
    small = "return [...document.querySelectorAll('.way button')].filter((n) => n.offsetWidth < 44).length"
    assert driver.execute_script(small) == 0
    show(driver, at, 390, block=16)
    wait(driver, "return document.getElementById('walk-said').textContent === 'It fires on no held-out sample.'")
    assert "not known" in text(driver, "dimension")
    assert driver.execute_script("return document.querySelectorAll('.way').length") == 0
    show(driver, at, 390, block=9999)
    wait(driver, "return document.getElementById('message').textContent.includes('no block 9999')")
    assert driver.get_log("browser") == []


@WIDTHS
def test_no_text_of_a_run_becomes_markup(driver: Any, at: Address, width: int) -> None:  # noqa: F811
    show(driver, at, width, run=1, block=2)
    wait(driver, WALKED)
    assert driver.execute_script("return document.querySelectorAll('img').length") == 0
    assert driver.title == "Block 2"
    assert EVIL in text(driver, "ways")
    assert driver.execute_script("return document.querySelectorAll('.way .peak').length") == 12
    assert "monoseme optimality certify" in text(driver, "uncertified")
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.get_log("browser") == []


def test_scalars_are_walked_along_their_line(driver: Any, at: Address) -> None:  # noqa: F811
    show(driver, at, 1280, run=2, block=1)
    wait(driver, WALKED)
    assert "laid out as a line" in text(driver, "walk-said")
    assert driver.execute_script("return document.querySelectorAll('#dimension .tile').length") == 1
    driver.execute_script("document.querySelector('.way button').focus()")
    press(driver, Keys.ARROW_LEFT)  # a line has an end
    pressed = "return [...document.querySelectorAll('.way button')].findIndex((b) => b.ariaPressed === 'true')"
    assert driver.execute_script(pressed) == 0
    assert driver.get_log("browser") == []


def test_the_way_back_leads_to_the_table_as_it_was_left(driver: Any, at: Address) -> None:  # noqa: F811
    show(driver, at, 1280)
    driver.get(f"http://127.0.0.1:{at[1]}/?run=0&sort=density&order=falling")
    rows = "return [...document.querySelectorAll('#rows th')].map((n) => Number(n.textContent))"
    wait(driver, "return document.querySelectorAll('#rows th').length === 25")
    order = driver.execute_script(rows)
    driver.find_element("css selector", "#rows a").click()
    wait(driver, f"return document.title === 'Block {order[0]}'")
    wait(driver, WALKED)
    driver.find_element("id", "next").click()  # the next one of the table, not of the numbers
    wait(driver, f"return document.title === 'Block {order[1]}'")
    wait(driver, WALKED)
    driver.find_element("id", "back").click()
    wait(driver, "return document.querySelectorAll('#rows th').length === 25")
    assert driver.execute_script(rows) == order
    assert driver.get_log("browser") == []
