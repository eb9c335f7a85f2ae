"""The certificate page in Chromium, from files: fits its window, sorts, filters, jumps, and asks nothing of anybody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.certifications import made_atoms, made_certification
from tests.explorer import test_browser as browsing

from monoseme.api.certificates_record import certificates_record
from monoseme.explorer.static import write_certificates
from monoseme.records import CertificateTable

pytestmark = browsing.pytestmark
driver, show, wait, clean = browsing.driver, browsing.show, browsing.wait, browsing.clean
FEATURES = 1200
ROWS = "return [...document.querySelectorAll('#rows tr')].map((row) => Number(row.id.slice(1)))"
TOLD = "return document.getElementById('pair-told').textContent"


@pytest.fixture(scope="module")
def table() -> CertificateTable:
    return certificates_record(made_certification(FEATURES), made_atoms(FEATURES), title="A dictionary")


@pytest.fixture(scope="module")
def page(table: CertificateTable, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_certificates(table, tmp_path_factory.mktemp("certificates") / "page")


def best(values: np.ndarray, sign: int = -1) -> list[int]:
    return np.argsort(sign * values.astype(np.float32), kind="stable").tolist()


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_fits_and_is_clean(driver: Any, page: Path, width: int):
    show(driver, page, width=width)
    wait(driver, "return document.querySelector('#rows .why').textContent.length > 0")
    assert len(driver.execute_script(ROWS)) == 50
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    assert driver.execute_script("return document.querySelectorAll('#pair-plot .pair-mark').length") > 100
    numbers = (
        "return [...document.querySelectorAll('#pair-plot *')].flatMap((n) => [...n.attributes]).map((a) => a.value)"
    )
    assert not [value for value in driver.execute_script(numbers) if "NaN" in value or "Infinity" in value]
    unnamed = "return [...document.querySelectorAll('input, select')].filter((n) => !n.labels.length).length"
    assert driver.execute_script(unnamed) == 0
    clean(driver)


def test_rows_show_verdict_numbers_and_sentence(driver: Any, page: Path, table: CertificateTable):
    show(driver, page)
    worst = wait(driver, ROWS)[0]
    assert worst == best(table.features.removable_loss)[0]
    sentence = table.features.why[worst]
    text = wait(driver, f"const t = document.getElementById('f{worst}').innerText; return t.includes('absorb') && t")
    assert "✗ unstable" in text
    assert sentence in text
    assert driver.execute_script("return document.querySelectorAll('#rows .verdict.stable').length") == 0


def test_sort_by_heads_and_lists_filter_and_search(driver: Any, page: Path, table: CertificateTable):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import Select

    show(driver, page)
    wait(driver, ROWS)
    head = driver.find_element(By.CSS_SELECTOR, "[data-sort=density]")
    driver.execute_script("arguments[0].click()", head)
    assert driver.execute_script(ROWS) == best(table.features.density)[:50]
    assert Select(driver.find_element(By.NAME, "sort")).first_selected_option.text == "density"
    driver.execute_script("arguments[0].click()", head)
    assert driver.execute_script(ROWS) == best(table.features.density, 1)[:50]
    assert head.find_element(By.XPATH, "..").get_attribute("aria-sort") == "ascending"
    Select(driver.find_element(By.NAME, "sort")).select_by_value("strain")
    Select(driver.find_element(By.NAME, "order")).select_by_value("desc")
    assert driver.execute_script(ROWS) == best(table.features.strain)[:50]  # infinities first, by number
    driver.execute_script("document.querySelector('[name=verdict][value=unknown]').click()")
    unknown = np.flatnonzero(table.features.verdict == 2)
    count = driver.find_element(By.ID, "count")
    assert count.text == f"{len(unknown)} of {FEATURES} features"
    driver.find_element(By.NAME, "min").send_keys("2")
    inside = [j for j in unknown if table.features.strain[j] >= 2]
    assert set(driver.execute_script(ROWS)) == set(inside[:50])
    address = driver.current_url
    driver.execute_script("document.querySelector('button[type=reset]').click()")
    driver.find_element(By.NAME, "q").send_keys("7, 20-22")
    assert sorted(driver.execute_script(ROWS)) == [7, 20, 21, 22]
    show(driver, page, "#" + address.split("#")[1])
    assert set(wait(driver, ROWS)) == set(inside[:50])
    clean(driver)


def test_pages_of_rows(driver: Any, page: Path):
    from selenium.webdriver.common.by import By

    show(driver, page, "#sort=feature&order=asc")
    assert wait(driver, ROWS) == list(range(50))
    driver.execute_script("arguments[0].click()", driver.find_element(By.ID, "later"))
    assert driver.execute_script(ROWS) == list(range(50, 100))
    assert driver.find_element(By.ID, "where").text == "2 / 24"


def test_a_partner_s_link_goes_to_its_row_and_back(driver: Any, page: Path, table: CertificateTable):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    show(driver, page, "#verdict=unstable")
    worst = wait(driver, ROWS)[0]
    partner = table.features.partners_of(worst)[0]
    at = "const row = document.querySelector('tr.at'); return row !== null && row === document.activeElement && row.id"
    driver.find_element(By.CSS_SELECTOR, f"#f{worst} td[data-label=Partners] a").send_keys(Keys.ENTER)
    assert wait(driver, at) == f"f{partner}"  # a stable one: the filter hid it
    box = (
        "const r = document.querySelector('tr.at').getBoundingClientRect(); return r.top > 0 && r.bottom < innerHeight"
    )
    wait(driver, box)
    named = f"return document.querySelector('#f{partner} .why').textContent.includes('Partner of {worst}')"
    wait(driver, named)
    driver.back()
    wait(driver, f"return document.querySelectorAll('#rows tr')[0].id === 'f{worst}'")
    show(driver, page, "#feature=999999")
    wait(driver, "return document.getElementById('count').textContent.includes('no feature 999999')")
    clean(driver)


def test_more_partners_are_listed(driver: Any, page: Path, table: CertificateTable):
    show(driver, page)
    worst = wait(driver, ROWS)[0]
    cell = f"document.querySelector('#f{worst} td[data-label=Partners]')"
    driver.execute_script(f"{cell}.querySelector('.more').click()")
    wait(driver, f"return {cell}.querySelector('.more') === null")
    listed = driver.execute_script(f"return [...{cell}.querySelectorAll('a')].map((a) => Number(a.textContent))")
    assert listed == table.features.partners_of(worst)


def test_pairs_by_keyboard_by_pointer_and_by_verdict(driver: Any, page: Path, table: CertificateTable):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    show(driver, page)
    wait(driver, ROWS)
    plot = driver.find_element(By.CSS_SELECTOR, "#pair-plot svg")
    plot.send_keys(Keys.ARROW_RIGHT)
    first, second = int(table.pairs.first[0]), int(table.pairs.second[0])
    told = driver.execute_script(TOLD)
    word = {0: "stable", 1: "unstable", 2: "not known"}[int(table.features.verdict[first])]
    assert told.startswith(f"{first} ({word}) beside {second}: strain ∞, cosine ")
    plot.send_keys(Keys.ARROW_RIGHT)
    assert driver.execute_script(TOLD).startswith(f"{int(table.pairs.first[1])} (")
    hover = """
    const svg = document.querySelector('#pair-plot svg'), mark = svg.querySelectorAll('.pair-mark.unknown')[0];
    const box = mark.getBoundingClientRect(), [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
    svg.dispatchEvent(new PointerEvent('pointermove', { clientX: x, clientY: y }));
    """
    driver.execute_script(hover)
    assert "beside" in driver.execute_script(TOLD)
    assert driver.execute_script("return document.querySelector('.ring').getAttribute('visibility')") == "visible"
    plot.send_keys(Keys.ENTER)
    wait(driver, "return document.querySelector('tr.at') !== null")
    marks = "return document.querySelectorAll('#pair-plot .pair-mark.stable').length"
    assert driver.execute_script(marks) > 0
    buttons = driver.find_elements(By.CSS_SELECTOR, "#pair-legend button")
    stable = next(button for button in buttons if button.text.startswith("stable"))
    driver.execute_script("arguments[0].click()", stable)
    assert (driver.execute_script(marks), stable.get_attribute("aria-pressed")) == (0, "false")
    clean(driver)


def test_no_sentence_runs(driver: Any, tmp_path: Path, table: CertificateTable):
    from dataclasses import replace

    evil = "<img src=x onerror=\"document.title='owned'\">"
    bad = replace(table, features=replace(table.features, why=(evil,) * FEATURES))
    show(driver, write_certificates(bad, tmp_path / "page"))
    wait(driver, "return document.querySelector('#rows .why').textContent.includes('onerror')")
    assert driver.title == "A dictionary"
    assert driver.execute_script("return document.querySelectorAll('#rows img').length") == 0
    clean(driver)
