"""The pages in Chromium, from files: no error, no request to anywhere, nothing wider than the window, all usable."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from monoseme.explorer.static import write_pages

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(not (CHROMIUM and DRIVER), reason="chromium and chromedriver are not installed"),
]
webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
FLAGS = (
    "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking "
    "disable-component-update disable-sync disable-dev-shm-usage hide-scrollbars"
)


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    from selenium.webdriver.chrome.options import Options
    from selenium.webdriver.chrome.service import Service

    options = Options()
    options.binary_location = CHROMIUM or ""
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory() as profile:
        for flag in [*FLAGS.split(), f"user-data-dir={profile}"]:
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(options=options, service=Service(DRIVER))
        try:
            yield browser
        finally:
            browser.quit()


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory, make_record: Callable[..., Any], make_picture: Any) -> Path:
    folder = tmp_path_factory.mktemp("site")
    for size in (1, 2, 3):
        write_pages(make_record(60, size), folder / f"b{size}", make_picture)
    write_pages(make_record(20, 3, (1, 16)), folder / "text")
    return folder


def wait(driver: Any, script: str, seconds: float = 20) -> Any:
    """Poll a script until what it returns is true."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = driver.execute_script(script)
        if value:
            return value
        time.sleep(0.05)
    pytest.fail(f"never true: {script}")


def show(driver: Any, path: Path, fragment: str = "", width: int = 1280) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
    driver.get(path.as_uri() + fragment)


def clean(driver: Any) -> None:
    """No complaint, and nothing asked of any other place than the disk."""
    assert driver.get_log("browser") == []
    messages = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    asked = [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]
    assert asked
    assert [url for url in asked if not url.startswith(("file://", "data:", "about:"))] == []


FILLED = "document.getElementById('parts').scrollIntoView(); return document.querySelectorAll('.card.full').length > 2"
# share of pixels of a canvas that are not empty
INK = """
const c = document.querySelector(arguments[0]), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 0; return n / (d.length / 4);
"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["b3", "text"])
def test_pages_fit_and_are_clean(driver: Any, pages: Path, name: str, width: int):
    for page, fragment, ready in (
        ("index.html", "", FILLED),
        ("block.html", "#3", "return document.querySelectorAll('#shown .sample').length > 2"),
    ):
        show(driver, pages / name / page, fragment, width)
        wait(driver, ready)
        assert driver.execute_script("return document.documentElement.scrollWidth") <= width
        clean(driver)


def test_cards_have_pictures_overlays_and_labels(driver: Any, pages: Path):
    show(driver, pages / "b3" / "index.html")
    wait(driver, FILLED)
    wait(driver, "const i = document.querySelector('.card.full img'); return i.complete && i.naturalWidth > 0")
    assert driver.execute_script(INK, ".card.full .over.place") > 0.005
    assert driver.execute_script(INK, ".card.full .mini") > 0.01
    silent = "return [...document.querySelectorAll('img:not([alt]), img[alt=\"\"], canvas, svg')].filter((n) =>"
    silent += " !n.alt && !n.getAttribute('aria-label') && n.getAttribute('aria-hidden') !== 'true').length"
    assert driver.execute_script(silent) == 0
    unnamed = "return [...document.querySelectorAll('input, select')].filter((n) => !n.labels.length).length"
    assert driver.execute_script(unnamed) == 0


BLOCKS = "return [...document.querySelectorAll('.card h3')].map((n) => Number(n.textContent.slice(6)))"


def test_sort_search_range_and_the_address(driver: Any, pages: Path, make_record: Callable[..., Any]):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    density = {card.block: card.outcomes[0].value for card in make_record(60, 3).cards}
    show(driver, pages / "b3" / "index.html")
    wait(driver, FILLED)
    Select(driver.find_element(By.NAME, "sort")).select_by_visible_text("density")
    best = sorted(density, key=lambda g: -density[g])
    assert driver.execute_script(BLOCKS) == best[:48]
    Select(driver.find_element(By.NAME, "order")).select_by_value("asc")
    assert [density[g] for g in driver.execute_script(BLOCKS)] == sorted(density.values())[:48]
    driver.find_element(By.NAME, "min").send_keys("0.01")
    assert set(driver.execute_script(BLOCKS)) == {g for g in density if density[g] >= 0.01}
    address = driver.current_url
    driver.find_element(By.CSS_SELECTOR, "button[type=reset]").click()
    assert len(driver.execute_script(BLOCKS)) == 48
    driver.find_element(By.NAME, "q").send_keys("7, 20-22")
    assert sorted(driver.execute_script(BLOCKS)) == [7, 20, 21, 22]
    show(driver, pages / "b3" / "index.html", "#" + address.split("#")[1])
    wait(driver, FILLED)
    assert set(driver.execute_script(BLOCKS)) == {g for g in density if density[g] >= 0.01}


def test_pages_of_the_gallery(driver: Any, pages: Path):
    from selenium.webdriver.common.by import By

    show(driver, pages / "b3" / "index.html")
    first = wait(driver, BLOCKS)
    driver.execute_script("arguments[0].click()", driver.find_element(By.ID, "later"))
    second = driver.execute_script(BLOCKS)
    assert len(second) == 12
    assert sorted(first + second) == list(range(60))


def test_a_card_opens_its_block_by_keyboard(driver: Any, pages: Path):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    show(driver, pages / "b3" / "index.html", "#q=7")
    wait(driver, BLOCKS)
    driver.find_element(By.CSS_SELECTOR, ".card h3 a").send_keys(Keys.ENTER)
    wait(driver, "return document.title === 'Block 7' && document.querySelectorAll('#shown .sample').length > 0")
    text = driver.find_element(By.ID, "numbers").text
    assert "density" in text
    assert "Not computed: certificate, interaction energy, nameability" in text
    driver.find_element(By.ID, "back").click()
    assert wait(driver, BLOCKS) == [7]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_cloud_is_drawn(driver: Any, pages: Path, size: int):
    show(driver, pages / f"b{size}" / "block.html", "#4")
    wait(driver, "return document.querySelectorAll('#shown .sample').length > 0")
    assert driver.execute_script(INK, "#cloud") > 0.01
    still = driver.execute_script("return document.getElementById('cloud').toDataURL()")
    drag = "const c = document.getElementById('cloud'); c.focus(); for (const key of ['ArrowRight', 'ArrowUp'])"
    drag += " c.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })); return c.toDataURL()"
    assert (driver.execute_script(drag) != still) == (size == 3)
    clean(driver)


def test_a_dead_block_and_a_block_that_is_not_there(driver: Any, pages: Path):
    from selenium.webdriver.common.by import By

    show(driver, pages / "b3" / "block.html", "#16")
    wait(driver, "return document.getElementById('shown').textContent.includes('no held-out sample')")
    show(driver, pages / "b3" / "block.html", "#9999")
    wait(driver, "return document.getElementById('message').textContent !== ''")
    assert "no block 9999" in driver.find_element(By.ID, "message").text


def test_views_can_be_switched(driver: Any, pages: Path):
    show(driver, pages / "b3" / "block.html", "#3")
    wait(driver, "return document.querySelectorAll('#shown .sample').length > 0")
    seen = "return ['place', 'presence'].map((v) => "
    seen += "Number(getComputedStyle(document.querySelector(`.over.${v}`)).opacity) > 0)"
    assert driver.execute_script(seen) == [True, False]
    for view, expected in (("presence", [False, True]), ("plain", [False, False])):
        driver.execute_script(f"document.querySelector('input[value={view}]').click()")
        assert driver.execute_script(seen) == expected
    driver.execute_script("document.querySelector('input[value=place]').click()")


def test_a_text_is_shown_around_its_strongest_token(driver: Any, tmp_path: Path, make_record: Callable[..., Any]):
    import dataclasses

    from monoseme.records import SampleView

    record = make_record(3, 3, (1, 64))
    tokens = (*(f" word{i}" if i % 5 else "\n" for i in range(63)), "")
    record = dataclasses.replace(record, samples={name: SampleView(tokens=tokens) for name in record.samples})
    write_pages(record, tmp_path / "pages")
    show(driver, tmp_path / "pages" / "block.html", "#1")
    wait(driver, "return document.querySelectorAll('#shown .sample').length > 0")
    assert driver.execute_script("return document.querySelectorAll('#shown .peak').length") == len(
        record.cards[1].shown
    )
    first = "return document.querySelector('#shown .text p')"
    shown = driver.execute_script(f"{first}.textContent")
    assert "\n" not in shown
    assert "⏎" in shown
    peak = int(record.cards[1].shown[0].presence.argmax())
    strongest = driver.execute_script(f"{first}.querySelector('.peak').textContent")
    assert strongest.strip("\u200b") == (tokens[peak].replace("\n", "⏎") or "▁")
    assert "Text only" in driver.find_element("css selector", ".views").text
    driver.execute_script("document.querySelector('#shown .more').click()")
    assert driver.execute_script(f"{first}.querySelectorAll('span').length") == 64
    assert driver.execute_script(f"{first}.textContent").count("⏎\n") == 13
    driver.execute_script("document.querySelector('#shown .more').click()")
    assert driver.execute_script(f"{first}.textContent") == shown
    clean(driver)


def test_no_text_of_a_record_runs(driver: Any, tmp_path: Path, make_record: Callable[..., Any]):
    import dataclasses

    from monoseme.records import SampleView

    record = make_record(3, 3, (1, 4))
    evil = "<img src=x onerror=\"document.title='owned'\">"
    samples = {name: SampleView(tokens=(evil,) * 4, label=evil) for name in record.samples}
    write_pages(dataclasses.replace(record, title=evil, samples=samples), tmp_path / "pages")
    show(driver, tmp_path / "pages" / "block.html", "#1")
    wait(driver, "return document.querySelectorAll('#shown .sample').length > 0")
    assert driver.title == "Block 1"
    assert driver.execute_script("return document.querySelectorAll('#shown img').length") == 0
    clean(driver)


@pytest.fixture(scope="module")
def sweep_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from monoseme.core.outcome import Outcome, unknown
    from monoseme.records import Comparison, RunRecord, Scatter, ScatterPoint

    def point(series: str, k: int, fvu: float | None) -> ScatterPoint:
        known = unknown("fvu", "1", "failed") if fvu is None else Outcome("fvu", fvu, "1", fvu - 50, fvu + 0.02)
        seeds = () if fvu is None else ((fvu - 0.01, fvu + 0.01), (float(k),) * 2)
        return ScatterPoint(series, f"k {k}", (known, Outcome("k", float(k), "")), "one", seeds)

    points = [point("TopK", k, 0.5 / k) for k in (1, 4, 100)] + [point("Grassmannian", 2, 0.3), point("Empty", 3, None)]
    rows = tuple((p.series, p.values[0], str(int(p.values[1].value or 0))) for p in points)
    record = RunRecord(
        "A sweep",
        "sweep",
        comparisons=(Comparison("Points", ("featurizer", "fvu", "k"), rows),),
        scatters=(Scatter("Two numbers", ("fvu", "k"), tuple(points), "k", "fvu"),),
    )
    write_pages(record, tmp_path_factory.mktemp("sweep") / "pages")
    return tmp_path_factory.getbasetemp() / "sweep0" / "pages"


MARKS = "return document.querySelectorAll('.plot .mark-of').length"


@pytest.mark.parametrize("width", [390, 1280])
def test_a_sweep_is_drawn_and_its_axes_can_be_chosen(driver: Any, sweep_pages: Path, width: int):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    show(driver, sweep_pages / "index.html", width=width)
    assert wait(driver, MARKS) == 4
    told = driver.find_element(By.CSS_SELECTOR, ".told")
    assert told.text.startswith("1 of 5 points lack a number")
    assert driver.execute_script("return document.querySelectorAll('.plot .seed').length") == 8
    assert driver.execute_script("return document.querySelectorAll('.plot .strand').length") == 2
    assert driver.execute_script("return document.querySelector('[name=log-x]').checked")  # k spans a factor of 100
    numbers = "return [...document.querySelectorAll('.plot *')].flatMap((n) => [...n.attributes]).map((a) => a.value)"
    assert not [value for value in driver.execute_script(numbers) if "NaN" in value or "Infinity" in value]
    # an interval a hundred times wider than the values is cut: the values still fill the frame
    high = "const y = [...document.querySelectorAll('.reach')].map((n) => +n.getAttribute('cy'));"
    assert driver.execute_script(high + " return Math.max(...y) - Math.min(...y)") > 60
    driver.execute_script("document.querySelector('.plot .mark-of').focus()")
    assert told.text == "TopK · k 1 · k 1 · fvu 0.5 [−49.5, 0.52]"
    Select(driver.find_element(By.NAME, "x")).select_by_visible_text("fvu")
    labels = "return [...document.querySelectorAll('.plot .label')].map((n) => n.textContent)"
    assert driver.execute_script(labels) == ["fvu (log scale)"] * 2
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    clean(driver)


def test_series_can_be_hidden_and_tables_sorted(driver: Any, sweep_pages: Path):
    from selenium.webdriver.common.by import By

    show(driver, sweep_pages / "index.html")
    assert wait(driver, MARKS) == 4
    first, *_ = driver.find_elements(By.CSS_SELECTOR, ".legend button")
    driver.execute_script("arguments[0].click()", first)
    assert (driver.execute_script(MARKS), first.get_attribute("aria-pressed")) == (1, "false")
    driver.execute_script("arguments[0].click()", first)
    assert driver.execute_script(MARKS) == 4
    heads = driver.find_elements(By.CSS_SELECTOR, ".sortable thead button")
    column = "return [...document.querySelectorAll('.sortable tbody tr')].map((r) => r.cells[arguments[0]].textContent)"
    driver.execute_script("arguments[0].click()", heads[2])
    assert driver.execute_script(column, 2) == ["1", "2", "3", "4", "100"]  # as numbers, not as words
    driver.execute_script("arguments[0].click()", heads[2])
    assert driver.execute_script(column, 2) == ["100", "4", "3", "2", "1"]
    driver.execute_script("arguments[0].click()", heads[1])
    assert [k for k in driver.execute_script(column, 2)] == ["100", "4", "2", "1", "3"]  # what is not known is last
    driver.execute_script("arguments[0].click()", heads[1])
    assert [k for k in driver.execute_script(column, 2)] == ["1", "2", "4", "100", "3"]
    clean(driver)
