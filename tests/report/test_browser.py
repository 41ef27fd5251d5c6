"""The page in a real browser: every plot is drawn, nothing is fetched, the table works, and axe finds no serious fault."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from runner.report.page import write_report
from tests.report.folders import HOSTILE, LEAD, MIB, grid_rows, pipeline, run_folder, transfer

sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="axe-core is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium")]
REFERENCE = Path(__file__).parents[2] / "results" / "reference" / "nvidia-h200"


@dataclass
class Visit:
    """An opened page, what it said on its console, and what it asked for."""

    page: Any
    address: str
    said: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def drawn(self) -> list[str]:
        """Scroll to every plot, and return the names of those that were drawn."""
        names = self.page.eval_on_selector_all(".plot", "plots => plots.map(plot => plot.id)")
        for name in names:
            self.page.locator(f"#{name}").scroll_into_view_if_needed()
            self.page.wait_for_selector(f"#{name} .main-svg")
        return [str(name).removeprefix("plot-") for name in names]

    def column(self, name: str) -> list[str]:
        """Return the texts of a column of the table."""
        names = self.page.eval_on_selector_all("#cases th", "cells => cells.map(cell => cell.dataset.name)")
        place = names.index(name) + 1
        return list(self.page.locator(f"#cases tbody tr td:nth-child({place})").all_inner_texts())

    def quiet(self) -> bool:
        """Whether nothing was asked for but the page itself, and nothing was said on the console."""
        return self.said == [] and self.asked == [self.address]

    def faults(self) -> list[str]:
        """Return what axe finds serious or critical."""
        found = axe.Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found if each["impact"] in ("serious", "critical")]


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def visit(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Return what writes the page of a run's folder, moves it away, and opens it."""
    contexts = []

    def opened(folder: Path, width: int = 1100, scheme: str = "light") -> Visit:
        address = write_report(folder, tmp_path / "moved page.html").as_uri()
        contexts.append(browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme))
        visited = Visit(contexts[-1].new_page(), address)
        visited.page.on("console", lambda message: visited.said.append(message.text))
        visited.page.on("pageerror", lambda error: visited.said.append(str(error)))
        visited.page.on("request", lambda request: visited.asked.append(request.url))
        visited.page.goto(address)
        return visited

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.parametrize(
    ("name", "plots"), [("overlap", ["bars", "heat0", "size"]), ("bandwidth", ["size", "size1", "held"]), ("claims", [])]
)
def test_the_pages_of_the_published_runs_are_whole(visit: Open, name: str, plots: list[str]) -> None:
    seen = visit(REFERENCE / name)
    assert seen.drawn() == plots
    assert seen.quiet()
    assert seen.faults() == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1100, "dark")])
def test_a_phone_and_the_dark_are_served(visit: Open, tmp_path: Path, width: int, scheme: str) -> None:
    rows = [row | {"flags": "noisy", "device_kind": "simulated"} for row in grid_rows()]
    rows += [transfer(size * MIB, 5.0) for size in (1, 2)] + [LEAD | {"status": "failed", "reason": "no memory"}]
    verdicts = [{"claim": word, "verdict": word, "reason": "so"} for word in ("confirmed", "refuted", "undecided")]
    predicted = [{"case_id": rows[0]["case_id"], "figure": "wall_ms", "measured_ms": 2.0, "predicted_ms": 1.0}]
    seen = visit(run_folder(tmp_path / "run", rows, verdicts=verdicts, predicted=predicted), width, scheme)
    assert seen.drawn() == ["bars", "heat0", "size", "size1", "held", "predicted"]
    assert seen.quiet()
    assert seen.faults() == []
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width, "nothing sticks out"


def test_the_table_sorts_filters_and_turns_pages(visit: Open, tmp_path: Path) -> None:
    rows = [pipeline(size * MIB, 2, 10.0 + size, status="ok" if size != 16 else "failed") for size in (2, 128, 1, 16)]
    rows += [pipeline(MIB, streams, 50.0) for streams in range(3, 103)]
    seen = visit(run_folder(tmp_path / "run", rows))
    assert len(seen.column("chunk_bytes")) == 50
    seen.page.click("#cases th[data-name=chunk_bytes] button")
    seen.page.click("#cases th[data-name=chunk_bytes] button")
    assert seen.page.get_attribute("#cases th[data-name=chunk_bytes]", "aria-sort") == "descending"
    assert seen.column("chunk_bytes")[:4] == ["128MiB", "16MiB", "2MiB", "1MiB"], "by bytes, not by letters"
    seen.page.click("#next")
    seen.page.click("#next")
    assert seen.page.inner_text("#count") == "104 rows, page 3 of 3"
    seen.page.fill("#filter", "ring 128mib")
    assert seen.column("chunk_bytes") == ["128MiB"]
    seen.page.fill("#filter", "")
    seen.page.select_option("#status", "failed")
    assert seen.column("chunk_bytes") == ["16MiB"]
    assert seen.page.inner_text("#count") == "1 of 104 rows"
    seen.page.select_option("#status", "")
    seen.page.select_option("#page-size", "0")
    assert len(seen.column("streams")) == 104
    seen.page.click("#chooser summary")
    seen.page.get_by_label("case_id", exact=True).check()
    assert len(set(seen.column("case_id"))) == 104
    assert seen.quiet()


def test_the_table_is_used_by_keyboard(visit: Open, tmp_path: Path) -> None:
    seen = visit(run_folder(tmp_path / "run", grid_rows()))
    seen.page.focus("#cases th[data-name=median_wall_ms] button")
    seen.page.keyboard.press("Enter")
    assert seen.column("median_wall_ms")[0] == "60"
    assert seen.page.evaluate("document.activeElement.textContent") == "median_wall_ms", "the focus stays where it was"


def test_hostile_names_are_shown_as_they_are(visit: Open, tmp_path: Path) -> None:
    rows = [pipeline(chunk * MIB, streams, 60.0, scenario=HOSTILE) for chunk in (1, 2) for streams in (1, 2)]
    seen = visit(run_folder(tmp_path / "run", rows, question=HOSTILE, experiment=HOSTILE))
    seen.page.on("dialog", lambda dialog: seen.said.append(dialog.message))
    assert seen.drawn() == ["bars", "heat0", "size"]
    assert seen.page.inner_text("h1") == HOSTILE
    assert seen.column("scenario") == [HOSTILE] * 4
    assert "<b>bold</b>" in seen.page.text_content("#plot-bars .infolayer")
    assert seen.page.locator("img").count() == 0
    assert seen.quiet()


def test_on_paper_all_plots_are_there_and_controls_are_not(visit: Open, tmp_path: Path) -> None:
    seen = visit(run_folder(tmp_path / "run", grid_rows()), scheme="dark")
    seen.page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    seen.page.emulate_media(media="print")
    assert seen.page.locator(".main-svg").count() >= 3
    assert not seen.page.is_visible("#controls")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_on_paper_the_table_fits_and_its_names_break_between_words(visit: Open) -> None:
    seen = visit(REFERENCE / "overlap", 720)
    seen.page.emulate_media(media="print")
    lines = seen.page.eval_on_selector_all(
        "#cases th button",
        """buttons => buttons.map(button => {
          const texts = [...button.childNodes].filter(node => node.nodeType === Node.TEXT_NODE);
          return Math.max(...texts.map(text => {
            const range = document.createRange();
            range.selectNode(text);
            return range.getClientRects().length;
          }));
        })""",
    )
    assert len(lines) > 8
    assert set(lines) == {1}, "a word goes on in the next line"
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= 720


@pytest.mark.parametrize("rows", [[], [transfer(MIB, 1.0)], [LEAD | {"status": "failed", "reason": "no memory"}]])
def test_small_and_failed_runs_open_without_a_fault(visit: Open, tmp_path: Path, rows: list[Any]) -> None:
    seen = visit(run_folder(tmp_path / "run", rows))
    assert seen.drawn() == (["held"] if rows and rows[0]["status"] == "ok" else [])
    assert seen.quiet()
    assert seen.faults() == []
