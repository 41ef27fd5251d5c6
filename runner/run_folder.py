"""The folder of one run: made once, never overwritten, with a manifest that tells how far the run came."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import os
import platform
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from runner import __version__
from runner.device.contract import DeviceFacts
from runner.errors import EnvironmentProblem, UsageError
from runner.measure.environment import host_facts
from runner.tables import write_whole

if TYPE_CHECKING:
    from runner.spec.load import LoadedExperiment

RECORDED_PACKAGES: Final = ("numpy", "pandas", "pydantic", "PyYAML", "pycuda", "cuda-bindings", "rich", "typer")


@dataclass
class RunFolder:
    """A run's own folder `out/<name>/<UTC time>-<hash>/`, and the manifest in it."""

    path: Path
    run_id: str
    manifest: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def create(cls, out: Path, name: str, spec_sha256: str, now: datetime | None = None) -> RunFolder:
        """Make a new folder under `out/name`; two runs never share one, also when they start in the same second.

        Raises UsageError where a file stands in the way of the folder, EnvironmentProblem where it cannot be made otherwise.
        """
        started = (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ")
        for attempt in range(1000):
            # With the folder in it: the runs of a fleet's GPUs begin in one process in the same second.
            mixed = hashlib.sha256(
                f"{spec_sha256} {started} {os.getpid()} {out} {attempt}".encode("utf-8", "replace")
            ).hexdigest()[:6]
            path = out / name / f"{started}-{mixed}"
            try:
                path.mkdir(parents=True, exist_ok=False)
            except FileExistsError:
                if not path.exists():
                    raise UsageError(f"{out / name} can be no folder of results: a link or a file is in its way") from None
                continue
            except NotADirectoryError:
                raise UsageError(f"{out / name} can be no folder of results: a part of it is a file") from None
            except OSError as error:
                raise EnvironmentProblem(
                    f"the results folder {path} cannot be made: {error.strerror}; choose another with --out"
                ) from None
            return cls(path, f"r_{started}_{mixed}")
        raise EnvironmentProblem(f"no free folder name was found in {out / name}")

    def write_bytes(self, name: str, content: bytes) -> None:
        """Write a file whole or not at all; raises EnvironmentProblem where it cannot be written."""
        write_whole(self.path / name, content)

    def write_manifest(self, **changes: Any) -> None:
        """Change the manifest and write it whole."""
        self.manifest |= changes
        self.write_bytes("manifest.json", (json.dumps(self.manifest, indent=2, ensure_ascii=False) + "\n").encode())

    def point_latest(self) -> None:
        """Let `latest` beside this folder point at it; file systems without links go without."""
        link = self.path.parent / "latest"
        temporary = self.path.parent / f".latest-{self.run_id}"
        try:
            temporary.symlink_to(self.path.name, target_is_directory=True)
            os.replace(temporary, link)
        except OSError:
            temporary.unlink(missing_ok=True)


def begin_run(out: Path, loaded: LoadedExperiment, **more: Any) -> RunFolder:
    """Make a run's folder, with the file's own bytes and what its manifest says before anything is measured, `more` last."""
    experiment = loaded.experiment
    folder = RunFolder.create(out, experiment.name, loaded.spec_sha256)
    folder.write_bytes("experiment.yaml", loaded.original)
    folder.write_manifest(
        run_id=folder.run_id,
        experiment=experiment.name,
        question=experiment.question,
        status="running",
        started_utc=utc_now(),
        spec_sha256=loaded.spec_sha256,
        overrides=list(loaded.overrides),
        **more,
    )
    return folder


def describe_device(facts: DeviceFacts) -> dict[str, Any]:
    """Return the facts of a device as they stand in the manifest."""
    return {
        "name": facts.name,
        "kind": facts.kind,
        "memory_bytes": facts.memory_bytes,
        "free_bytes": facts.free_bytes,
        "copy_engines": facts.copy_engines,
        "link_gb_per_s": facts.link_gb_per_s,
        **facts.environment,
    }


def describe_host(environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return what this machine and its software are and how they are set, for the manifest."""
    return {
        "platform": platform.platform(),
        "machine": platform.machine(),
        "cpus": os.cpu_count(),
        "python": sys.version.split()[0],
        "dmalab": __version__,
        "packages": {name: version for name in RECORDED_PACKAGES if (version := _version_of(name))},
        **host_facts(environment=environment),
    }


def utc_now() -> str:
    """Return the time as the manifest writes it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _version_of(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""
