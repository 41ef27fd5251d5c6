"""Files that a fuzzer makes of those of the repository, guided by the branches that they reach.

`python -m tests.soak.fuzz COUNT` needs atheris. Half of the inputs are bytes of a file, half are scenarios put together of known
fields and hostile values. It ends with an error and the input at the first one that is neither an experiment nor refused in
sentences.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

import atheris
import yaml

with atheris.instrument_imports(include=["runner", "yaml"]):
    from runner.scenarios import SCENARIOS
    from runner.spec.load import list_experiments
    from tests.soak.judging import HOSTILE, Judge

PIECES = [*HOSTILE.split(), "measure:", "expect:", "where:", "at_least:", "copies:"]
FIELDS = sorted({field for kind in SCENARIOS.values() for field in kind.model_fields} | {"zip", "exclude"})
TOP = ["measure", "baseline", "expect", "device", "seed", "answer", "name"]
DEPTH = 4


def value(data: Any, depth: int = 0) -> Any:
    """Draw what may stand behind a key."""
    choice = data.ConsumeIntInRange(0, 9 if depth < DEPTH else 6)
    if choice == 0:
        return data.ConsumeInt(9)
    if choice == 1:
        return data.ConsumeFloat()
    if choice == 2:
        return data.ConsumeUnicode(12)
    if choice == 3:
        return data.PickValueInList([None, True, False])
    if choice <= 6:
        return data.PickValueInList([*PIECES, *SCENARIOS, "h2d", "d2h", "pinned", "pageable", "auto", "4KiB", "1MiB"])
    if choice <= 8:
        return [value(data, depth + 1) for _ in range(data.ConsumeIntInRange(0, 4))]
    return {data.PickValueInList(FIELDS): value(data, depth + 1) for _ in range(data.ConsumeIntInRange(0, 4))}


def experiment(data: Any) -> bytes:
    """Draw a file of one or two scenarios of known kinds."""
    content: dict[str, Any] = {"name": "any", "question": "q", "scenarios": {}}
    for name in ("a", "b-1")[: data.ConsumeIntInRange(1, 2)]:
        kind = data.PickValueInList(list(SCENARIOS))
        fields = {data.PickValueInList(FIELDS): value(data) for _ in range(data.ConsumeIntInRange(0, 6))}
        content["scenarios"][name] = {"kind": kind, **fields}
    content |= {data.PickValueInList(TOP): value(data) for _ in range(data.ConsumeIntInRange(0, 2))}
    return yaml.safe_dump(content, allow_unicode=True).encode("utf-8", errors="surrogatepass")


def main() -> None:
    """Judge so many inputs; atheris ends the process."""
    judge, count, experiments = Judge(), 0, 0
    runs = int(sys.argv[1])

    def one(content: bytes) -> None:
        nonlocal count, experiments
        count += 1
        # The last byte chooses, so that a seed is the file as it stands but for one byte.
        made = experiment(atheris.FuzzedDataProvider(content[:-1])) if content[-1:] and content[-1] % 2 else content[:-1]
        experiments += judge.judge(made)
        judge.check_limits()
        if count == runs:
            print(f"{count:,} inputs, {experiments:,} experiments, the slowest took {judge.slowest_s:.2f} s", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        seeds = Path(folder)
        for place, path in enumerate(list_experiments().values()):
            (seeds / str(place)).write_bytes(path.read_bytes() + b"\x00")
            (seeds / f"{place}x").write_bytes(path.read_bytes()[-200:] + b"\x01")
        words = seeds / "dictionary"
        words.write_text("".join(f'"{piece}"\n' for piece in PIECES if not {'"', "\\"} & set(piece)))
        atheris.Setup(
            [sys.argv[0], f"-runs={runs}", f"-dict={words}", "-max_len=4096", "-seed=1", "-timeout=10", "-verbosity=0", folder],
            one,
        )
        atheris.Fuzz()


if __name__ == "__main__":
    main()
