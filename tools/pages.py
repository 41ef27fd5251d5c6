"""Writes the page of the published run that the README links, and where there is a Chromium the README's pictures of them.

They are parts of pages as any run has them: rates against size, the heat map of chunk against streams, the top of the page of
`overlap`; and the timeline of one case, where the run has kept it: else the old picture is left, and that is said.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from runner.profile_of_run import predictions_of
from runner.report.page import write_report
from runner.results import read_results
from runner.timeline_case import case_timeline
from runner.timeline_page import timeline_svg
from runner.timeline_store import NAME as TIMELINES

if TYPE_CHECKING:
    from playwright.sync_api import Browser

ROOT: Final = Path(__file__).parents[1]
RUNS: Final = ROOT / "results" / "reference" / "nvidia-h200"
PUBLISHED: Final = "overlap"
"""The run whose page is published: one of them is enough to see what a page is, and each has a megabyte and a half."""
PICTURES: Final = ROOT / "docs" / "pictures"
WIDTH: Final = 960
MARGIN: Final = 12
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture of figures of a run's page, side by side; `ids` are those of their titles.

    With `from_top` it reaches from the top of the page to the end of the first of them.
    """

    name: str
    run: str
    ids: tuple[str, ...]
    from_top: bool = False


WANTED: Final = (
    Picture("rates", "bandwidth", ("title-size", "title-size1")),
    Picture("heat", "overlap", ("title-heat0",)),
    Picture("overlap", "overlap", ("title-bars",), from_top=True),
)
TIMELINE_OF: Final = ("overlapped", "chunk=32MiB", "streams=3")
"""The case of the file's claim; its 8 chunks can be told apart in a picture."""
_BESIDE = """figures => {
  const box = document.createElement("div");
  figures[0].before(box);
  box.style.cssText = "display: grid; gap: 12px; grid-template-columns: repeat(" + figures.length + ", minmax(0, 1fr))";
  figures.forEach(each => { each.style.margin = "0"; each.querySelector("details")?.remove(); });
  box.append(...figures);
  window.dispatchEvent(new Event("resize"));
}"""


def main() -> int:
    """Write all; returns 0, also where only the page could be written, which it says."""
    page = write_report(RUNS / PUBLISHED, predicted=predictions_of(RUNS / PUBLISHED))
    found = next(filter(None, map(shutil.which, BROWSERS)), None)
    if found is None:
        print(f"{page} is written; the pictures are left as they were, since there is no Chromium", file=sys.stderr)
        return 0
    from playwright.sync_api import sync_playwright

    PICTURES.mkdir(exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        pages = {run: write_report(RUNS / run, Path(folder) / f"{run}.html") for run in {wanted.run for wanted in WANTED}}
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        for wanted in WANTED:
            photograph(browser, pages[wanted.run], wanted, PICTURES / f"{wanted.name}.png")
        if (RUNS / PUBLISHED / TIMELINES).exists():
            draw_timeline(browser, RUNS / PUBLISHED, TIMELINE_OF, PICTURES / "timeline.png")
        else:
            print(f"timeline.png is left as it was: {PUBLISHED} has no {TIMELINES}", file=sys.stderr)
        browser.close()
    return 0


def photograph(browser: Browser, page: Path, wanted: Picture, target: Path) -> None:
    """Take one picture of a page that has the figures, `WIDTH` pixels wide."""
    seen = browser.new_page(viewport={"width": WIDTH, "height": 2000}, color_scheme="light")
    try:
        seen.goto(page.as_uri())
        figures = ", ".join(f"figure[aria-labelledby='{each}']" for each in wanted.ids)
        seen.eval_on_selector_all(figures, _BESIDE)
        first = seen.locator(figures).first
        first.scroll_into_view_if_needed()
        first.locator("svg").first.wait_for()
        seen.wait_for_timeout(500)  # a figure that was moved is drawn anew at its new width
        seen.evaluate("window.scrollTo(0, 0)")
        box = first.locator("xpath=..").bounding_box()
        assert box is not None, "the figures have a place on the page"
        top = 0.0 if wanted.from_top else max(0.0, box["y"] - MARGIN)
        bottom = box["y"] + box["height"] + MARGIN
        seen.screenshot(path=target, clip={"x": 0.0, "y": top, "width": float(WIDTH), "height": bottom - top}, full_page=True)
    finally:
        seen.close()


def draw_timeline(browser: Browser, run: Path, case: Sequence[str], target: Path) -> None:
    """Draw the timeline of one case that a run has kept; raises InputError where it has kept none of it."""
    seen = browser.new_page(viewport={"width": WIDTH, "height": 2000}, color_scheme="light")
    try:
        seen.set_content(timeline_svg(case_timeline(read_results(run), case)))
        seen.locator("svg").screenshot(path=target)
    finally:
        seen.close()


if __name__ == "__main__":
    sys.exit(main())
