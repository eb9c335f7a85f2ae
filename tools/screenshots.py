"""Take a picture of pages at two widths, light and dark, to look at them: ``python tools/screenshots.py PAGES OUT``.

When PAGES lie in the folder of a run, the pages of `monoseme view` on it are taken too.

Chromium will not make a window narrower than about 500 pixels, so the width is set through its developer protocol.
"""

from __future__ import annotations

import argparse
import base64
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

WIDTHS = (1280, 390)


def browser(profile: str) -> webdriver.Chrome:
    """A headless Chromium that talks to nobody."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    flags = "headless no-sandbox disable-gpu disable-quic no-first-run disable-background-networking"
    flags += " disable-component-update disable-sync hide-scrollbars disable-dev-shm-usage"
    for flag in flags.split():
        options.add_argument(f"--{flag}")
    options.add_argument(f"--user-data-dir={profile}")
    return webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))


def shoot(driver: webdriver.Chrome, address: str, width: int, scheme: str, height: int = 3200) -> bytes:
    """PNG of the top `height` pixels of a page at a width and in a colour scheme."""
    media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    driver.get("about:blank")  # an address that differs after '#' only would not load again
    driver.get(address)
    time.sleep(1.2)
    while "…" in driver.execute_script("return document.getElementById('walk-said')?.textContent ?? ''"):
        time.sleep(0.1)  # the server is computing
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])


@contextmanager
def live(run: Path) -> Iterator[str]:
    """Address of the page of `monoseme view` on a run."""
    import uvicorn

    from monoseme.api.viewing import live_run
    from monoseme.explorer.live import live_app

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(live_app([live_run(run)]), log_level="error", ws="none"))
        thread = threading.Thread(target=lambda: server.run(sockets=[taken]), daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.02)
        try:
            yield f"http://127.0.0.1:{taken.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(10)


def shoot_all(driver: webdriver.Chrome, name: str, address: str, height: int, out: Path) -> None:
    """One PNG for each width and scheme; a page that complains ends the program."""
    for width in WIDTHS:
        for scheme in ("light", "dark"):
            (out / f"{name}-{width}-{scheme}.png").write_bytes(shoot(driver, address, width, scheme, height))
    if complaints := driver.get_log("browser"):
        raise SystemExit(f"{name}: {complaints}")


def main() -> None:
    """Write one PNG for each page, width and scheme."""
    parser = argparse.ArgumentParser(description="Take pictures of pages at two widths, light and dark.")
    parser.add_argument("pages", type=Path, help="folder with index.html")
    parser.add_argument("out", type=Path, help="folder for the pictures")
    parser.add_argument("--block", type=int, default=3, help="block to open")
    parser.add_argument("--height", type=int, default=3200)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as profile:
        driver = browser(profile)
        try:
            for page in sorted(given.pages.glob("*.html")):
                end = f"#{given.block}" if page.stem == "block" else ""
                shoot_all(driver, page.stem, page.resolve().as_uri() + end, given.height, given.out)
            run = given.pages.resolve().parent
            if (run / "record.json").is_file() and given.pages.name == "pages":
                with live(run) as address:
                    shoot_all(driver, "live", address, given.height, given.out)
                    block = f"{address}run/0/live-block.html#{given.block}"
                    shoot_all(driver, "live-block", block, given.height, given.out)
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
