"""Writes the page of the published run that the README shows, and the README's picture of it where there is a Chromium."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Final

from runner.report.page import write_report

ROOT: Final = Path(__file__).parents[1]
RUN: Final = ROOT / "results" / "reference" / "nvidia-h200" / "overlap"
PICTURE: Final = ROOT / "docs" / "pictures" / "overlap.png"
WIDTH: Final = 960
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


def main() -> int:
    """Write both; returns 0, also where only the page could be written, which it says."""
    page = write_report(RUN)
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"{page} is written; {PICTURE} is left as it was, since there is no Chromium", file=sys.stderr)
        return 0
    photograph(page, PICTURE, browser)
    return 0


def photograph(page: Path, picture: Path, browser: str) -> None:
    """Take a picture of a page from its top to the end of its first figure, `WIDTH` pixels wide."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
        seen = started.new_page(viewport={"width": WIDTH, "height": 2000}, color_scheme="light")
        seen.goto(page.as_uri())
        seen.wait_for_selector("figure .main-svg")
        seen.evaluate("document.querySelector('figure details').remove()")
        bottom = seen.locator("figure").first.bounding_box()
        assert bottom is not None, "the page has a figure"
        picture.parent.mkdir(exist_ok=True)
        clip = {"x": 0.0, "y": 0.0, "width": float(WIDTH), "height": bottom["y"] + bottom["height"] + 12}
        seen.screenshot(path=picture, clip=clip)
        started.close()


if __name__ == "__main__":
    sys.exit(main())
