"""A cluster with certificates: who has one of the authority takes part, anybody else is told in one sentence."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from runner import cli
from runner.errors import UsageError
from runner.execution.cluster_line import scheduler_address, security_of
from tests.cluster.clusters import Processes

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made by openssl")

FILE = """
name: few
question: Does it run there?
device: simulated:test
spread: cases
measure: {warmup: 0, samples: 1}
scenarios:
  copy: {kind: transfer, size: [1MiB, 2MiB], direction: [h2d, d2h]}
"""


def certified(folder: Path) -> Path:
    """Make an authority, and a certificate of it with its key, as docs/cluster.md names the files."""
    folder.mkdir()
    for command in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority",
        "req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=dask",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2",
    ):
        subprocess.run(["openssl", *command.split()], cwd=folder, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(tmp_path_factory.mktemp("ours") / "tls")


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return certified(tmp_path_factory.mktemp("theirs") / "tls")


@pytest.fixture(scope="module")
def address(ours: Path) -> Iterator[str]:
    processes = Processes(ours, tls=ours)
    try:
        processes.scheduler()
        processes.worker("a")
        yield processes.address
    finally:
        processes.close()


def dmalab(folder: Path, *arguments: str) -> Result:
    file = folder / "few.yaml"
    file.write_text(FILE)
    return CliRunner().invoke(cli.app, ["run", str(file), "--out", str(folder / "out"), "--no-report", *arguments])


@pytest.mark.slow
def test_with_a_certificate_of_the_authority_a_run_goes_through(tmp_path: Path, ours: Path, address: str) -> None:
    result = dmalab(tmp_path, "--cluster", address, "--tls", str(ours))
    assert result.exit_code == 0, result.output


def test_a_certificate_of_another_authority_is_told_in_one_sentence(
    tmp_path: Path, ours: Path, theirs: Path, address: str
) -> None:
    """Once it is the client that does not take the scheduler's, once the scheduler that does not take the client's."""
    assert dmalab(tmp_path, "--cluster", address, "--tls", str(ours)).exit_code == 0, "the scheduler is there"
    for tls in (str(theirs), f"{ours}/ca.pem,{theirs}/cert.pem,{theirs}/key.pem"):
        result = dmalab(tmp_path, "--cluster", address, "--tls", tls)
        assert result.exit_code == 3, result.output
        assert f"the scheduler at {address} and this client do not take each other's certificates" in result.output
        assert result.output.count("\n") == 1


def test_without_tls_the_way_to_it_is_told(tmp_path: Path, ours: Path, address: str) -> None:
    assert dmalab(tmp_path, "--cluster", address, "--tls", str(ours)).exit_code == 0, "the scheduler is there"
    result = dmalab(tmp_path, "--cluster", address)
    assert result.exit_code == 2
    assert f"--cluster {address}: a scheduler with certificates wants one" in result.output
    plain = address.replace("tls", "tcp")
    result = dmalab(tmp_path, "--cluster", plain)
    assert result.exit_code == 3
    assert f"use {address} and --tls" in result.output
    result = dmalab(tmp_path, "--cluster", plain, "--tls", str(ours))
    assert result.exit_code == 2
    assert f"allowed: {address}" in result.output


def test_certificates_mean_nothing_on_a_cluster_of_this_process(tmp_path: Path, ours: Path) -> None:
    result = dmalab(tmp_path, "--cluster", "local:1", "--tls", str(ours))
    assert result.exit_code == 2
    assert "leave --tls out" in result.output


def test_files_are_looked_at_before_anything_else(tmp_path: Path, ours: Path, theirs: Path) -> None:
    for tls in (str(tmp_path), f"{tmp_path}/a,{tmp_path}/b"):
        with pytest.raises(UsageError, match="give a folder with ca"):
            security_of(distributed, tls)
    with pytest.raises(UsageError, match="allowed: a certificate, its own key"):
        security_of(distributed, f"{ours}/ca.pem,{ours}/cert.pem,{theirs}/key.pem")
    security = security_of(distributed, str(ours))
    assert security.require_encryption
    assert scheduler_address("host:8786", security) == "tls://host:8786"
    assert scheduler_address("host:8786", None) == "tcp://host:8786"
