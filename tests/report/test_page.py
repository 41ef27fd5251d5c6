from __future__ import annotations

import hashlib
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from runner.columns import summary_columns
from runner.errors import EnvironmentProblem
from runner.report.machine import machine_line
from runner.report.page import page, write_report
from runner.report.reading import read_run
from runner.report.table import MOST_CELLS, MOST_ROWS, page_table
from tests.report.folders import HOSTILE, LEAD, MIB, grid_rows, pipeline, run_folder, transfer

ROOT = Path(__file__).parents[2]
PLOTLY = ROOT / "runner" / "report" / "assets" / "plotly-cartesian.min.js"
SIMULATED = {"name": "simulated:h200", "kind": "simulated"}


class Elements(HTMLParser):
    """Collects the elements of a page with their attributes, and the text outside of scripts."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.scripts: dict[str, str] = {}
        self.inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self.inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self.inside = ""

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.scripts[self.inside] = self.scripts.get(self.inside, "") + data
        else:
            self.text += data


def parsed(folder: Path) -> Elements:
    elements = Elements()
    elements.feed(write_report(folder).read_text(encoding="utf-8"))
    return elements


def test_the_page_has_the_question_the_answer_and_the_verdicts_before_the_pictures(tmp_path: Path) -> None:
    verdicts = [{"claim": "A ring wins", "verdict": "confirmed", "figure": 0.3, "low": 0.2, "high": 0.4, "limit": "at most 0.8"}]
    rows = [row | {"flags": "noisy"} for row in grid_rows()]
    text = " ".join(parsed(run_folder(tmp_path, rows, verdicts=verdicts)).text.split())
    order = [
        "measured on NVIDIA X",
        "How fast?",
        "noisy, 7 of 7",
        "ring (chunk 4MiB, streams 3) is the best",
        "confirmed A ring wins",
    ]
    order += [
        "0.3 (0.2 … 0.4)",
        "(expected: at most 0.8)",
        "NVIDIA X, driver 580, link 63 GB/s one way",
        "Chunk against streams",
        "All cases",
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert "SIMULATED" not in text


def test_a_simulated_run_has_a_band_before_all_else(tmp_path: Path) -> None:
    rows = [transfer(MIB, 1.0, device="simulated:h200", device_kind="simulated")]
    elements = parsed(run_folder(tmp_path, rows, device=SIMULATED, note="There is no GPU here."))
    assert elements.text.index("SIMULATED.") < elements.text.index("How fast?")
    assert "none is measured on a GPU" in elements.text
    assert "There is no GPU here." in elements.text
    assert ("p", {"class": "band"}) in elements.found


def test_the_page_asks_for_nothing_outside_itself(tmp_path: Path) -> None:
    elements = parsed(run_folder(tmp_path, grid_rows()))
    addresses = {
        value for _, attributes in elements.found for name, value in attributes.items() if name in ("src", "href", "action")
    }
    assert addresses == {"#answer", "summary.csv", "samples.csv", "columns.csv", "manifest.json"}
    policy = next(attributes for tag, attributes in elements.found if attributes.get("http-equiv") == "Content-Security-Policy")
    assert str(policy["content"]).startswith("default-src 'none'")
    assert not {tag for tag, _ in elements.found} & {"link", "iframe", "object", "img"}
    assert (tmp_path / "report.html").stat().st_size < 2_000_000


def test_from_elsewhere_the_page_tells_the_way_to_the_tables(tmp_path: Path) -> None:
    folder = run_folder(tmp_path / "a run", grid_rows())
    elsewhere = write_report(folder, tmp_path / "moved.html").read_text()
    assert 'href="a%20run/summary.csv"' in elsewhere
    assert "They lie in a run, seen from where this page was written." in elsewhere
    with pytest.raises(EnvironmentProblem, match="cannot be written"):
        write_report(folder, tmp_path / "nowhere" / "page.html")


def test_the_machine_says_what_is_around_it(tmp_path: Path) -> None:
    around = {"virtualisation": "unknown", "container": "docker"}
    assert machine_line(read_run(run_folder(tmp_path / "inside", [], host=around))).endswith(
        "a virtual machine, in a container (docker)"
    )
    bare = {"virtualisation": "none", "container": None}
    assert "virtual" not in machine_line(read_run(run_folder(tmp_path / "bare", [], host=bare)))
    named = {"virtualisation": "kvm"}
    assert machine_line(read_run(run_folder(tmp_path / "named", [], host=named))).endswith("a virtual machine (kvm)")


def test_hostile_names_are_text(tmp_path: Path) -> None:
    rows = [transfer(size, 5.0, scenario=HOSTILE, buffer=HOSTILE, reason=HOSTILE, flags="<i>odd</i>") for size in (MIB, 2 * MIB)]
    verdicts = [{"claim": HOSTILE, "verdict": HOSTILE, "limit": HOSTILE, "reason": HOSTILE, "source": HOSTILE}]
    device = {"name": HOSTILE, "kind": "cuda", HOSTILE: HOSTILE}
    folder = run_folder(
        tmp_path, rows, verdicts=verdicts, question=HOSTILE, experiment=HOSTILE, device=device, overrides=[HOSTILE]
    )
    elements = parsed(folder)
    tags = {tag for tag, _ in elements.found}
    assert not tags & {"img", "b", "i"}
    assert sum(tag == "script" for tag, _ in elements.found) == 5
    assert elements.text.count(HOSTILE) >= 8
    (spec,) = [spec for spec in json.loads(elements.scripts["figure-data"]) if spec["name"] == "size"]
    assert "<b>" not in spec["data"][0]["name"]
    assert HOSTILE in json.dumps(json.loads(elements.scripts["case-data"]), ensure_ascii=False).replace('\\"', '"')


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([], ["No case gave a number", "There are no numbers to draw", "The run has no cases"]),
        ([transfer(MIB, 1.0)], ["1 case.", "copy reaches 1 GB/s"]),
        ([LEAD | {"status": "failed", "reason": "no memory"}], ["1 of 1 case failed: no memory", "No case gave a number"]),
    ],
)
def test_empty_single_and_failed_runs_give_a_page(tmp_path: Path, rows: list[Any], words: list[str]) -> None:
    text = parsed(run_folder(tmp_path, rows)).text
    assert [each for each in words if each not in text] == []


def test_a_manifest_that_says_little_gives_a_page(tmp_path: Path) -> None:
    folder = run_folder(tmp_path, [transfer(MIB, 1.0)], device=None, question="")
    assert "measured on NVIDIA X" in parsed(folder).text
    assert machine_line(read_run(folder)) == ""


def test_the_table_has_what_varies_first_and_what_is_alike_once(tmp_path: Path) -> None:
    table = page_table(read_run(run_folder(tmp_path, grid_rows())))
    names = [column.name for column in table.columns]
    assert names[:4] == ["scenario", "chunk_bytes", "streams", "median_wall_ms"]
    assert table.alike["buffer"] == "pinned"
    assert not set(names) & {"buffer", "run_id", "device", "size_bytes"}
    assert table.cells[names.index("chunk_bytes")][:2] == (32 * MIB, MIB)
    assert len(table.static()) == 7


def test_a_long_table_is_cut_and_says_so(tmp_path: Path) -> None:
    names = [column.name for column in summary_columns() if column.type == "number"]
    rows = [pipeline(MIB, 1 + place, 10.0) | {name: float(place) for name in names} for place in range(MOST_ROWS // 5)]
    run = read_run(run_folder(tmp_path, rows))
    long = page_table(type(run)(run.folder, run.columns, run.rows * 6, (), (), run.manifest))
    assert long.notes[0] == "These are the first 5,000 of 6,000 rows."
    assert re.fullmatch(r"\d+ columns of so long a table are only in summary\.csv\.", long.notes[1])
    assert len(long.cells) * MOST_ROWS <= MOST_CELLS
    assert set(long.first) <= {column.name for column in long.columns}


def test_several_experiments_together_have_no_pictures(tmp_path: Path) -> None:
    rows = [transfer(MIB, 1.0), transfer(2 * MIB, 1.0, experiment="other")]
    text = parsed(run_folder(tmp_path, rows)).text
    assert "There is no picture of several experiments together." in text


def test_the_script_of_plotly_is_the_published_one() -> None:
    content = PLOTLY.read_bytes()
    assert b"plotly.js (cartesian - minified) v4.1.1" in content[:200]
    assert hashlib.sha256(content).hexdigest() == "79542150855a52c567260e3137095dbe2b744e6d702a5cabe67da246942fba7a"
    assert "</script" not in content.decode()
    assert "MIT" in PLOTLY.with_name("plotly-LICENSE.txt").read_text()


def test_json_for_the_page_ends_no_script(tmp_path: Path) -> None:
    html = page(read_run(run_folder(tmp_path, [transfer(MIB, 1.0, reason="</script><!--\u2028")])))
    assert "</script><!--" not in html.split('id="case-data">')[1].split("</script>")[0]
    assert "\u2028" not in html.split('id="case-data">')[1].split("</script>")[0]


def test_the_published_page_is_that_of_the_published_run() -> None:
    folder = ROOT / "results" / "reference" / "nvidia-h200" / "overlap"
    published = (folder / "report.html").read_text(encoding="utf-8")
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    assert manifest["run_id"] in published, "make tables writes it"
    assert (ROOT / "docs" / "pictures" / "overlap.png").read_bytes().startswith(b"\x89PNG")


def test_many_claims_are_grouped_by_verdict_the_refuted_first(tmp_path: Path) -> None:
    rows = [transfer(MIB, 1.0, experiment=name) for name in ("one", "two")]
    rows.append(LEAD | {"experiment": "two", "status": "failed", "reason": "refused, as wanted"})
    verdicts = [
        {"claim": f"claim {word}", "verdict": word, "limit": "at most 2", "figure": 1.0, "unit": "ms", "reason": "so"}
        for word in ("confirmed", "confirmed", "refuted")
    ]
    elements = parsed(run_folder(tmp_path, rows, verdicts=verdicts, question=""))
    assert "Which claims hold on NVIDIA X?" in elements.text
    assert elements.text.index("1 refuted") < elements.text.index("claim refuted") < elements.text.rindex("2 confirmed")
    assert "(expected: at most 2 ms)" in elements.text
    assert [attributes.get("class") for tag, attributes in elements.found if tag == "li"].count("grave") == 0
