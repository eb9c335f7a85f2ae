"""The live page in Chromium, at the widths of a desk and a phone, with and without a mouse."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.explorer.serving import served, two_runs
from tests.explorer.test_browser import CHROMIUM, DRIVER, driver, wait  # noqa: F401

from monoseme.explorer.live import Fired, LiveRun, Tried

Keys = pytest.importorskip("selenium.webdriver.common.keys", reason="selenium is not installed").Keys
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
WIDTHS = pytest.mark.parametrize("width", [1280, 390])
Address = tuple[str, int]
FIRST = "return document.querySelector('#rows th').textContent"
WHERE = "return document.getElementById('where').textContent"


def show(driver: Any, address: Address, width: int, query: str = "") -> None:  # noqa: F811
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get(f"http://127.0.0.1:{address[1]}/{query}")
    wait(driver, "return document.getElementById('can').textContent !== ''")


def focused(driver: Any) -> str:  # noqa: F811
    return driver.switch_to.active_element.get_attribute("id")


@WIDTHS
def test_a_table_is_searched_sorted_and_left_for_a_block_by_keyboard(
    driver: Any,  # noqa: F811
    address: Address,
    width: int,
) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    def press(*keys: str) -> None:
        ActionChains(driver).send_keys(*keys).perform()

    def tab_to(wanted: str, most: int = 12) -> None:
        for _ in range(most):
            press(Keys.TAB)
            if focused(driver) == wanted:
                return
        pytest.fail(f"#{wanted} is not reached by the keyboard")

    show(driver, address, width)
    tab_to("search")
    press("11")
    wait(driver, f"{WHERE}.includes('of 11 blocks')")
    assert driver.execute_script(FIRST) == "11"
    press(Keys.BACKSPACE, Keys.BACKSPACE)
    wait(driver, f"{WHERE}.includes('of 120 blocks')")
    tab_to("sort", 1)
    press("d")  # density, as a list of choices takes letters
    wait(driver, "return new URLSearchParams(location.search).get('sort') === 'density'")
    wait(driver, f"{FIRST} !== '0'")
    largest = driver.execute_script(FIRST)
    tab_to("rising", 1)
    press(Keys.SPACE)
    wait(driver, f"{FIRST} !== '{largest}'")
    press(Keys.SPACE)
    wait(driver, f"{FIRST} === '{largest}'")
    tab_to("next", 40)  # past the table's region and its links
    press(Keys.ENTER)
    wait(driver, f"{WHERE}.startsWith('26 to 50')")
    wanted = driver.execute_script(FIRST)
    driver.execute_script("document.querySelector('#rows a').focus()")
    press(Keys.ENTER)
    wait(driver, f"return location.pathname.endsWith('block.html') && location.hash === '#{wanted}'")
    wait(driver, f"return document.querySelector('h1').textContent === 'Block {wanted}'")
    driver.back()
    wait(driver, f"{WHERE}.startsWith('26 to 50')")  # the view that was left
    assert driver.execute_script(FIRST) == wanted
    assert driver.find_element("id", "sort").get_attribute("value") == "density"
    assert driver.get_log("browser") == []


@WIDTHS
def test_it_fits_and_everything_has_a_name(driver: Any, address: Address, width: int) -> None:  # noqa: F811
    show(driver, address, width)
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    unnamed = driver.execute_script(
        "return [...document.querySelectorAll('button, select, input, textarea')].filter(n => !n.labels?.length "
        "&& !n.textContent.trim() && !n.getAttribute('aria-label')).map(n => n.id)"
    )
    assert unnamed == []
    small = driver.execute_script(
        "return [...document.querySelectorAll('button, select, input:not([type=checkbox])')]"
        ".filter(n => n.offsetParent && n.getBoundingClientRect().height < 32).map(n => n.id)"
    )
    assert small == []  # a finger finds them
    assert driver.get_log("browser") == []


@WIDTHS
def test_two_runs_side_by_side_and_the_other_one(driver: Any, address: Address, width: int) -> None:  # noqa: F811
    show(driver, address, width, "?sort=density")
    wait(driver, "return document.getElementById('compared').textContent.includes('0.1873')")
    first = driver.find_element("css selector", "#compared tr").text
    assert "0.1873 [0.181, 0.194] share" in first
    assert "0.5 share" in first
    driver.find_element("id", "run").send_keys("An")
    wait(driver, f"{WHERE} === 'no block is like that'")  # it has none; and no column to sort by is asked of it
    wait(driver, "return document.getElementById('can').textContent === 'It has no store.'")
    assert driver.find_element("id", "message").text == ""
    assert not driver.find_element("id", "go").is_displayed()
    assert driver.get_log("browser") == []


def test_what_is_refused_is_said_and_taken_back(driver: Any, address: Address) -> None:  # noqa: F811
    show(driver, address, 1280, "?search=density%3Efar")
    wait(driver, "return document.getElementById('message').textContent.includes('search must')")
    assert driver.execute_script("return document.querySelectorAll('#rows tr').length") == 0
    field = driver.find_element("id", "search")
    field.clear()
    field.send_keys("picture")
    wait(driver, "return document.querySelectorAll('#rows tr').length > 0")
    assert driver.find_element("id", "message").text == ""


@pytest.mark.parametrize("query", ["?run=9", "?run=x&start=-4", "?start=1e9&sort=", "?start=NaN#compare", "?run=-1"])
def test_addresses_that_name_nothing_are_survived(driver: Any, address: Address, query: str) -> None:  # noqa: F811
    show(driver, address, 1280, query)
    wait(driver, f"{WHERE}.startsWith('1 to 25 of 120')")
    wait(driver, "return document.getElementById('compared').textContent !== ''")
    assert driver.find_element("id", "message").text == ""


def test_a_picture_of_ones_own(driver: Any, address: Address, tmp_path: Path) -> None:  # noqa: F811
    from PIL import Image

    Image.fromarray(np.full((20, 30, 3), 200, np.uint8)).save(tmp_path / "mine.png")
    show(driver, address, 390)
    driver.find_element("id", "go").send_keys(Keys.ENTER)
    wait(driver, "return document.getElementById('message').textContent === 'Choose a picture first.'")
    driver.find_element("id", "file").send_keys(str(tmp_path / "mine.png"))
    driver.find_element("id", "go").send_keys(Keys.ENTER)
    wait(driver, "return document.querySelectorAll('#found canvas').length === 2")
    assert "Block 7 80.0 % of the energy" in driver.find_element("id", "found").text
    # presence 0, 1, 2 of at most 2: dark, half, and the picture's own grey
    light = "const line = document.querySelector('#found canvas').getContext('2d').getImageData(0, 30, 192, 1).data;"
    light += "return [32, 96, 160].map(x => line[4 * x])"
    dark, half, whole = driver.execute_script(light)
    assert (dark, half, whole) == (pytest.approx(50, abs=3), pytest.approx(125, abs=3), pytest.approx(200, abs=3))
    (tmp_path / "big.bin").write_bytes(b"x" * (17 << 20))
    driver.find_element("id", "file").send_keys(str(tmp_path / "big.bin"))
    driver.find_element("id", "go").send_keys(Keys.ENTER)
    wait(driver, "return document.getElementById('message').textContent.includes('16 MB')")
    assert driver.get_log("browser") == []


@WIDTHS
def test_a_text_of_ones_own(driver: Any, run_folder: Path, width: int) -> None:  # noqa: F811
    def attempt(body: bytes) -> Tried:
        words = body.decode().split()
        fired = Fired(3, 1.0, [float(len(word)) for word in words])
        return Tried(1, len(words), [f" {word}" for word in words], [fired], None, "Cut.")

    one = two_runs(run_folder)[0]
    with served([LiveRun(one.record, one.pages, "text", attempt)]) as at:
        show(driver, at, width)
        assert "Only one run" in driver.find_element("id", "alone").text
        driver.find_element("id", "text").send_keys("a <img src=x onerror=alert(1)> sea " + "w" * 300)
        driver.find_element("id", "go").send_keys(Keys.ENTER)
        wait(driver, "return document.querySelectorAll('#found mark').length === 6")
        assert "<img src=x onerror=alert(1)>" in " ".join(driver.find_element("id", "found").text.split())
        assert driver.execute_script("return document.querySelectorAll('#found img').length") == 0
        assert driver.find_element("id", "fvu").text == "Cut."
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert driver.get_log("browser") == []
    driver.find_element("id", "go").send_keys(Keys.ENTER)  # the server is gone
    wait(driver, "return document.getElementById('message').textContent.includes('does not answer')")


def test_of_the_latest_question_the_answer_is_shown(
    driver: Any,  # noqa: F811
    address: Address,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Typing goes on while an answer is on its way; the slow one must not replace the quick one."""
    import time

    from monoseme.explorer.live.table import BlockTable

    whole: Callable[..., Any] = BlockTable.page

    def slow(self: BlockTable, search: str = "", *given: Any) -> Any:
        time.sleep(0.6 if search == "1" else 0)
        return whole(self, search, *given)

    show(driver, address, 1280)
    monkeypatch.setattr(BlockTable, "page", slow)
    driver.find_element("id", "search").send_keys("1", "1")
    wait(driver, f"{WHERE}.includes('of 11 blocks')")
    time.sleep(1)
    assert "of 11 blocks" in driver.execute_script(WHERE)
