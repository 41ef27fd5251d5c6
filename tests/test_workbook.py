from __future__ import annotations

import csv
import io
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import openpyxl
import pytest

from runner import workbook as module
from runner.errors import EnvironmentProblem
from runner.export import export_run
from runner.forms import ExportForm
from runner.report.reading import read_run
from runner.workbook import workbook
from tests.report.folders import LEAD, MIB, grid_rows, run_folder, transfer

SOFFICE = shutil.which("soffice") or shutil.which("libreoffice")
SAMPLES = [LEAD | {"case_id": "c_1", "role": "sample", "sample": place, "wall_ms": 60 + place / 3} for place in range(4)]
VERDICTS = [{"claim": "=cmd", "verdict": "confirmed", "figure": 0.25, "limit": "at most 1"}]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rows = [*grid_rows(), LEAD | {"status": "failed", "reason": "=1+1", "flags": "http://x.example"}]
    return run_folder(tmp_path / "run", rows, samples=SAMPLES, verdicts=VERDICTS)


def opened(folder: Path) -> Any:
    return openpyxl.load_workbook(io.BytesIO(workbook(read_run(folder))))


def column_of(sheet: Any, name: str) -> list[Any]:
    (place,) = [place for place, cell in enumerate(sheet[1]) if cell.value == name]
    return [row[place] for row in sheet.iter_rows(min_row=2)]


def test_sheets_have_frozen_filtered_headers_and_numbers_with_all_digits(folder: Path) -> None:
    book = opened(folder)
    assert book.sheetnames == ["about", "summary", "samples", "verdicts", "columns", "rates"]
    summary = book["summary"]
    assert summary.freeze_panes == "A2"
    assert summary.auto_filter.ref.endswith("9")
    chunks, rates = column_of(summary, "chunk_bytes"), column_of(summary, "gb_per_s")
    assert [cell.value for cell in chunks][:2] == [32 * MIB, MIB]
    assert chunks[0].number_format == "#,##0"
    assert rates[6].value == float(f"{256 * MIB / 60.0 / 1e6:.15g}")
    assert rates[7].value is None
    assert "size_bytes" not in [cell.value for cell in summary[1]], "columns without a value are left out"
    assert column_of(summary, "hidden_fraction")[0].number_format == "0.0%"
    assert [cell.value for cell in column_of(book["samples"], "wall_ms")] == pytest.approx([60, 60 + 1 / 3, 60 + 2 / 3, 61])


def test_text_is_never_a_formula_or_a_link(folder: Path) -> None:
    book = opened(folder)
    reason = column_of(book["summary"], "reason")[7]
    assert (reason.value, reason.data_type) == ("=1+1", "s"), "a text, which needs no apostrophe"
    assert column_of(book["verdicts"], "claim")[0].data_type == "s"
    assert {cell.data_type for sheet in book for row in sheet.iter_rows() for cell in row} <= {"s", "n"}
    assert not any(cell.hyperlink for row in book["summary"].iter_rows() for cell in row)


def test_columns_are_described(folder: Path) -> None:
    sheet = opened(folder)["columns"]
    described = {row[0].value: row[2].value for row in sheet.iter_rows(min_row=2)}
    assert described["gb_per_s"] == "10^9 bytes/s"
    assert "size_bytes" not in described


def test_the_chart_is_native_and_of_rate_against_size(folder: Path) -> None:
    with zipfile.ZipFile(io.BytesIO(workbook(read_run(folder)))) as book:
        chart = book.read("xl/charts/chart1.xml").decode()
    assert "<c:scatterChart>" in chart
    assert "rates!$A$2:$A$4" in chart
    assert "Rate against chunk" in chart
    assert "chunk, bytes" in chart
    sheet = opened(folder)["rates"]
    assert [cell.value for cell in sheet[1]] == [
        "chunk_bytes",
        "serial streams 1",
        "ring streams 1",
        "ring streams 2",
        "ring streams 3",
    ]
    assert [row[0].value for row in sheet.iter_rows(min_row=2)] == [MIB, 4 * MIB, 32 * MIB]
    assert sheet["B2"].value is None


def test_a_cap_on_samples_is_said(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_SAMPLES", 3)
    book = opened(folder)
    assert book["samples"].max_row == 4
    assert ("samples", "Only the first 3 rows; all are in samples.csv.") in [
        (row[0].value, row[1].value) for row in book["about"]
    ]


def test_a_simulated_workbook_says_so(tmp_path: Path) -> None:
    book = opened(run_folder(tmp_path, [transfer(MIB, 1.0, device_kind="simulated")]))
    assert book["about"]["B4"].value == "SIMULATED: computed from a profile, measured nowhere"


def test_about_tells_the_machine_and_the_doubts(tmp_path: Path) -> None:
    book = opened(run_folder(tmp_path, [transfer(MIB, 1.0, flags="noisy")], host={"virtualisation": "kvm"}))
    told = [(row[0].value, row[1].value) for row in book["about"]]
    assert ("machine", "NVIDIA X, driver 580, link 63 GB/s one way, a virtual machine (kvm)") in told
    assert ("doubt", "noisy, 1 of 1 measured case: the interval of the median is wider than 5 % of it.") in told


def test_runs_without_rows_have_a_workbook(tmp_path: Path) -> None:
    assert opened(run_folder(tmp_path, [])).sheetnames == ["about", "summary", "samples", "verdicts", "columns"]


def test_decimal_commas_keep_every_digit_and_leave_text_alone(folder: Path) -> None:
    paths = export_run(folder, ExportForm.csv_semicolon)
    assert [path.name for path in paths] == [f"{name}.semicolon.csv" for name in ("summary", "samples", "verdicts", "columns")]
    assert paths[0].read_bytes().startswith(b"\xef\xbb\xbfrun_id;")
    with paths[0].open(encoding="utf-8-sig", newline="") as ours, (folder / "summary.csv").open(newline="") as theirs:
        mine, original = list(csv.DictReader(ours, delimiter=";")), list(csv.DictReader(theirs))
    assert [row["median_wall_ms"] for row in mine][:3] == ["200,0", "80,0", "70,0"]
    assert [row["gb_per_s"].replace(",", ".") for row in mine] == [row["gb_per_s"] for row in original]
    assert [row["chunk_bytes"] for row in mine] == [row["chunk_bytes"] for row in original]
    assert [row["reason"] for row in mine] == [row["reason"] for row in original]


def test_parquet_has_the_types_of_the_columns(folder: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    paths = export_run(folder, ExportForm.parquet, tmp_path)
    assert [path.name for path in paths] == [f"{name}.parquet" for name in ("summary", "samples", "verdicts", "columns")]
    table = parquet.read_table(paths[0])
    types = {name: str(table.schema.field(name).type) for name in ("chunk_bytes", "gb_per_s", "reason", "size_bytes")}
    assert types == {"chunk_bytes": "int64", "gb_per_s": "double", "reason": "string", "size_bytes": "int64"}
    assert table.column("chunk_bytes").to_pylist()[-2:] == [4 * MIB, None]
    assert table.column("reason").to_pylist()[-2:] == ["", "'=1+1"]


def test_without_pyarrow_a_sentence_says_what_to_install(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(EnvironmentProblem, match=r"pip install 'dmalab\[parquet\]'"):
        export_run(folder, ExportForm.parquet)


@pytest.mark.slow
@pytest.mark.skipif(SOFFICE is None, reason="LibreOffice is not installed")
@pytest.mark.parametrize(
    ("name", "reading"),
    [
        ("summary.xlsx", ""),
        ("summary.csv", "--infilter=CSV:44,34,76,1,,1033,false,true"),
        ("summary.semicolon.csv", "--infilter=CSV:59,34,76,1,,1031,false,true"),  # 1031: German
    ],
)
def test_libreoffice_reads_numbers_as_numbers_and_text_as_text(folder: Path, tmp_path: Path, name: str, reading: str) -> None:
    export_run(folder, ExportForm.xlsx)
    export_run(folder, ExportForm.csv_semicolon)
    command = [str(SOFFICE), f"-env:UserInstallation=file://{tmp_path}/profile", "--headless", *([reading] if reading else [])]
    command += ["--convert-to", "xlsx", "--outdir", str(tmp_path), str(folder / name)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    book = openpyxl.load_workbook((tmp_path / name).with_suffix(".xlsx"))
    sheet = book["summary"] if "summary" in book.sheetnames else book.worksheets[0]
    with (folder / "summary.csv").open(newline="") as file:
        wanted = list(csv.DictReader(file))
    for column in ("chunk_bytes", "median_wall_ms", "gb_per_s"):
        read = [cell.value for cell in column_of(sheet, column)]
        assert read == [float(row[column]) if row[column] else None for row in wanted]
    reasons = column_of(sheet, "reason")
    assert str(reasons[7].value).lstrip("'") == "=1+1"
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} <= {"s", "n"}
