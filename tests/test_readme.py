"""The README's YAML loads, its commands exist, and its tables are those of the published runs."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from runner import cli
from runner.expand import expand
from runner.spec.load import load_experiment
from tools.readme_tables import README, REFERENCE, ROOT, TABLES, bandwidth, claims, read_rows, with_tables

TEXT = README.read_text(encoding="utf-8")
BLOCK = re.compile(r"<!-- table: ([a-z]+) -->\n(.*?)<!-- end -->", re.DOTALL)


def test_the_yaml_of_the_readme_loads(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path / "readme.yaml"
    path.write_text(block, encoding="utf-8")
    cases = list(expand(load_experiment(path)))
    assert len(cases) == 17
    assert sum(bool(case.excluded) for case in cases) == 1
    shown, real = load_experiment(path), load_experiment("overlap")
    assert shown.experiment.name != real.experiment.name, "it is not the same file"
    assert [case.model.columns() for case in expand(real)] == [case.model.columns() for case in cases], "but for the exclusion"


def test_the_example_excludes_no_case_that_its_table_calls_the_best(tmp_path: Path) -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    path = tmp_path / "readme.yaml"
    path.write_text(block, encoding="utf-8")
    rows = read_rows(REFERENCE / "overlap" / "summary.csv")
    best = min(rows, key=lambda row: float(row["median_wall_ms"]))
    excluded = [case.model.columns() for case in expand(load_experiment(path)) if case.excluded]
    assert excluded
    assert all((str(each["chunk_bytes"]), str(each["streams"])) != (best["chunk_bytes"], best["streams"]) for each in excluded)


def test_every_make_target_that_the_readme_names_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|\$ )make ([a-z-]+)", TEXT))
    assert {"run", "test", "plan"} <= named
    assert [target for target in sorted(named) if not re.search(rf"^{target}:", makefile, re.MULTILINE)] == []


def test_the_verbs_that_take_json_are_named_one_by_one() -> None:
    verbs: Any = typer.main.get_command(cli.app)
    taking = {name for name, verb in verbs.commands.items() if any("--json" in each.opts for each in verb.params)}
    (sentence,) = re.findall(r"for scripts (.*?) take `--json`", TEXT)
    assert set(re.findall(r"`([a-z]+)`", sentence)) == taking
    table = (ROOT / "docs" / "install.md").read_text(encoding="utf-8").partition("| verb | its object |")[2].partition("```")[0]
    assert set(re.findall(r"^\| `([a-z]+)` \|", table, re.MULTILINE)) == taking


@pytest.mark.parametrize("page", ["README.md", "Makefile"])
def test_the_settings_that_are_shown_change_the_file_that_is_shown(page: str, tmp_path: Path) -> None:
    """The expectation's case is gone then, so that it stays undecided, which is no failure."""
    (shown,) = re.findall(r"SET='([^']+)'", (ROOT / page).read_text(encoding="utf-8"))
    settings = [word for pair in shown.split(";") for word in ("--set", pair)]
    run = CliRunner().invoke(cli.app, ["run", "overlap", "--device", "simulated:test", "--out", str(tmp_path), *settings])
    assert run.exit_code == 0, run.output
    assert "--set changed its cases: no case of overlapped has this chunk, got 32MiB; allowed: 8MiB, 16MiB" in run.output


def test_the_lines_of_make_help_stand_in_columns() -> None:
    words = ["make", "-C", str(ROOT), "--no-print-directory", "help"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    _, targets, variables = said.rstrip("\n").split("\n\n")
    targets_at = {re.match(r"  \S+ +", line).end() for line in targets.split("\n")}
    variables_at = {re.match(r"(\S+=)? +", line).end() for line in variables.split("\n")}
    assert (len(targets_at), len(variables_at)) == (1, 1)
    assert len(targets.split("\n")) > 20


def test_every_table_has_its_block() -> None:
    assert [name for name, _ in BLOCK.findall(TEXT)] == list(TABLES)


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_those_of_the_published_runs(name: str) -> None:
    (found,) = [content for block, content in BLOCK.findall(TEXT) if block == name]
    published = REFERENCE / name / TABLES[name].file
    expected = f"\n{chr(10).join(TABLES[name].lines(read_rows(published)))}\n\n" if published.exists() else ""
    assert found == expected, "make tables writes them"


@pytest.mark.slow
def test_tables_are_made_from_runs(tmp_path: Path) -> None:
    for name in [name for name in TABLES if name != "speed"]:
        verb = ["claims"] if name == "claims" else ["run", name]
        result = CliRunner().invoke(cli.app, [*verb, "--device", "simulated:rtx-4090", "--out", str(tmp_path / "out")])
        assert result.exit_code == 0, result.stderr
        (folder,) = (tmp_path / "out" / name).glob("2*")
        folder.rename(tmp_path / name)
    (tmp_path / "speed").mkdir()
    (tmp_path / "speed" / "goals.csv").write_text(
        "goal,figure,lowest_round,highest_round,unit,limit,verdict,told,device,device_kind\n"
        "as fast,1.01234,1.01,1.02,,at most 1.02,met,x,a device,cuda\n"
        "soon,,,,ms,at most 5 ms,MISSED,it broke,a device,cuda\n"
    )
    filled = with_tables(TEXT, tmp_path)
    assert "a device, measured: 1 of 2 goals met, native C++ and the runner by turns in one run." in filled
    assert "| as fast | 1.012 | 1.01 … 1.02 | at most 1.02 | met |\n| soon |  |  | at most 5 ms | MISSED |" in filled
    assert "| 256 MiB | 12.36 | 23.62 | 3.61 | 23.85 |" in filled, "the public example's own figures"
    assert re.search(r"\| ring of pinned slots \| 32 MiB \| 3 \| [0-9.]+ \| [0-9.]+x \|", filled)
    assert "simulated:rtx-4090, SIMULATED" in filled
    assert with_tables(filled, tmp_path) == filled, "a second time changes nothing"


def test_a_claim_is_told_with_its_interval_and_refuted_ones_first() -> None:
    row = {"device": "x", "device_kind": "cuda", "limit": "at most 2", "unit": "ms", "low": "1", "high": "1.5", "figure": "1.25"}
    rows = [row | {"claim": "fast", "verdict": "confirmed"}, row | {"claim": "slow", "verdict": "refuted", "figure": ""}]
    assert claims(rows)[0] == "x, measured: 2 claims, 1 confirmed, 1 refuted, 0 undecided."
    assert claims(rows)[-2:] == [
        "| slow | refuted |  | at most 2 ms |",
        "| fast | confirmed | 1.25 ms (1 … 1.5 ms) | at most 2 ms |",
    ]


def test_a_missing_run_or_case_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        with_tables(TEXT, tmp_path)
    one = {"size_bytes": "1048576", "buffer": "pinned", "direction": "h2d", "gb_per_s": "1", "samples": "3", "device": "x"}
    with pytest.raises(KeyError):
        bandwidth([one | {"device_kind": "cuda"}])
