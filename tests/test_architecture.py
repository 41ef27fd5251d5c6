"""Holds the directions of imports and the places of pandas, of the driver, and of printing."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "runner").rglob("*.py"))
}
BOTTOM = (
    "runner.errors",
    "runner.units",
    "runner.memory",
    "runner.operations",
    "runner.plan",
    "runner.pattern",
    "runner.placement",
    "runner.plan_accesses",
    "runner.plan_check",
    "runner.plan_clocks",
    "runner.plan_group_rules",
    "runner.plan_groups",
    "runner.plan_holdings",
    "runner.plan_order",
    "runner.plan_uses",
    "runner.plan_words",
)
DEVICES = ("runner.device",)
SCENARIOS = ("runner.scenarios",)
ABOVE = (
    "runner.tables",
    "runner.rows",
    "runner.columns",
    "runner.results",
    "runner.screen",
    "runner.watch",
    "runner.cli",
    "runner.cli_results",
    "runner.cli_shell",
    "runner.flow",
)
COMMAND_LINE = (
    "runner.cli",
    "runner.cli_advise",
    "runner.cli_fleet",
    "runner.cli_model",
    "runner.cli_reports",
    "runner.cli_results",
    "runner.cli_runs",
    "runner.cli_start",
    "runner.cli_timeline",
    "runner.cli_shell",
)


def within(module: str, packages: tuple[str, ...]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def imports_of(module: str, *, runtime_only: bool = False) -> Iterator[str]:
    """Yield what a module imports, `from a import b` as a.b too, since b may be a module; absolute names as they stand."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    skipped: set[ast.AST] = set()
    for node in ast.walk(tree):
        if runtime_only and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            skipped |= {inner for statement in node.body for inner in ast.walk(statement)}
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} imports relatively"
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def calls_of(module: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func)


def test_the_modules_are_found() -> None:
    assert {*BOTTOM, *ABOVE, *DEVICES, *SCENARIOS} <= set(MODULES)
    assert "runner.plan" in set(imports_of("runner.device.contract"))


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_one_way(module: str) -> None:
    imported = {name for name in imports_of(module) if name.startswith("runner")}
    if within(module, BOTTOM):
        # `from runner import plan` names the package, too.
        bad = {name for name in imported - {"runner"} if not within(name, BOTTOM)}
    elif within(module, DEVICES):
        bad = {name for name in imported if within(name, (*SCENARIOS, *ABOVE, "runner.spec", "runner.expand", "runner.measure"))}
    elif within(module, SCENARIOS):
        bad = {name for name in imported if within(name, (*ABOVE, "runner.spec", "runner.expand", "runner.measure"))}
        bad |= {name for name in imported if within(name, DEVICES) and not within(name, ("runner.device.contract",))}
    else:
        bad = {name for name in imported if within(name, COMMAND_LINE) and module not in (*COMMAND_LINE, "runner.__main__")}
    assert not bad, f"{module} must not import {sorted(bad)}"


@pytest.mark.parametrize("module", MODULES)
def test_only_the_cuda_device_imports_the_driver(module: str) -> None:
    drivers = {name for name in imports_of(module) if within(name, ("pycuda", "cuda", "cupti", "pynvml"))}
    assert not drivers or within(module, ("runner.device.cuda",)), f"{module} imports {sorted(drivers)}"


@pytest.mark.parametrize("module", MODULES)
def test_only_results_imports_pandas(module: str) -> None:
    found = any(within(name, ("pandas",)) for name in imports_of(module, runtime_only=True))
    assert not found or module == "runner.results"


@pytest.mark.parametrize("module", MODULES)
def test_only_the_command_line_prints_or_exits(module: str) -> None:
    found = {"print", "exit", "quit", "sys.exit", "os._exit", "sys.stdout.write", "sys.stderr.write"} & set(calls_of(module))
    assert not found or module in ("runner.cli", "runner.cli_shell", "runner.__main__"), f"{module} calls {sorted(found)}"


@pytest.mark.parametrize(
    "module", ["runner", "runner.cli", "runner.flow", "runner.pricing", "runner.device.select", "runner.tables"]
)
def test_importing_is_light(module: str) -> None:
    code = f"import sys, {module}; sys.exit(bool({{'pandas', 'pycuda', 'cuda'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
