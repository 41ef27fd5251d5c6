"""What needs no device touches no driver: neither a module of it nor its library is loaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WATCHED = """
import json, sys
touched = []
def watch(event, arguments):
    text = str(arguments[0]) if arguments else ""
    if event == "ctypes.dlopen" and any(word in text for word in ("cuda", "nvidia", "cupti")):
        touched.append(text)
    if event == "import" and text.split(".")[0] in ("pycuda", "cuda", "cupti", "pynvml"):
        touched.append(text)
sys.addaudithook(watch)
sys.argv = ["dmalab", *json.loads(sys.argv[1])]
try:
    from runner.__main__ import main
    main()
except SystemExit as end:
    assert not end.code, end.code
finally:
    print(json.dumps(touched), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [
        ["validate", "overlap", "bandwidth"],
        ["plan", "overlap", "--device", "cuda"],
        ["list"],
        ["run", "bandwidth", "--device", "simulated:test", "--set", "scenarios.copy.size=[1MiB]"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_verb_that_needs_no_device_touches_no_driver(arguments: list[str], tmp_path: Path) -> None:
    given = [*arguments, *(["--out", str(tmp_path)] if arguments[0] == "run" else [])]
    command = [sys.executable, "-c", WATCHED, json.dumps(given)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_what_watches_over_a_real_device_touches_no_driver_itself() -> None:
    code = "import sys, runner.flow, runner.execution.supervisor, runner.execution.bench, runner.resume, runner.claims\n"
    code += "assert not {'pycuda', 'cuda', 'cupti', 'pynvml'} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
