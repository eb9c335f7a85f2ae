"""Take a picture of pages at two widths, light and dark, to look at them: ``python tools/screenshots.py PAGES OUT``.

Chromium will not make a window narrower than about 500 pixels, so the width is set through its developer protocol.
"""

from __future__ import annotations

import argparse
import base64
import tempfile
import time
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
    return base64.b64decode(driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})["data"])


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
                for width in WIDTHS:
                    for scheme in ("light", "dark"):
                        png = shoot(driver, page.resolve().as_uri() + end, width, scheme, given.height)
                        (given.out / f"{page.stem}-{width}-{scheme}.png").write_bytes(png)
                complaints = driver.get_log("browser")
                if complaints:
                    raise SystemExit(f"{page.name}: {complaints}")
        finally:
            driver.quit()


if __name__ == "__main__":
    main()
