"""The notebook under docs: its cells run in order, and it is stored without what running them gives."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

ROOT = Path(__file__).parents[1]
NOTEBOOK = json.loads((ROOT / "docs" / "results.ipynb").read_text(encoding="utf-8"))
CODE = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def test_every_cell_runs_in_order(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from matplotlib import pyplot

    monkeypatch.chdir(ROOT / "docs")
    names: dict[str, Any] = {}
    for number, source in enumerate(CODE):
        exec(compile(source, f"cell {number}", "exec"), names)
    assert len(pyplot.get_fignums()) == 3
    pyplot.close("all")
    assert "NVIDIA H200" in capsys.readouterr().out
    assert names["best"]["scenario"].iloc[0] == "overlapped"
    assert (names["spread"]["min"] <= names["spread"]["median"]).all()
    assert len(names["rate"].get_legend_handles_labels()[1]) == 5


def test_it_is_a_notebook_of_version_4_without_outputs() -> None:
    assert (NOTEBOOK["nbformat"], NOTEBOOK["metadata"]["kernelspec"]["language"]) == (4, "python")
    ids = [cell["id"] for cell in NOTEBOOK["cells"]]
    assert len(set(ids)) == len(ids)
    code = [cell for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    assert len(code) >= 6
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


def test_every_helper_is_shown() -> None:
    import runner

    helpers = [name for name in runner.__all__ if name.startswith(("plot_", "read_"))]
    assert len(helpers) == 4
    assert [name for name in helpers if f"runner.{name}(" not in "".join(CODE)] == []
