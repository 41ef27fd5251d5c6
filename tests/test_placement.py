"""Nodes, processors and pages, on a machine of files and a system that only notes what it is told."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest

from runner.errors import CaseUnsupported
from runner.placement import (
    BIND,
    Linux,
    Placement,
    Policy,
    Topology,
    format_list,
    node_of_pages,
    node_of_pci,
    nodes_of_pages,
    parse_list,
    placed,
    read_topology,
)

TWO = Topology({0: frozenset({0, 1}), 1: frozenset({2, 3}), 2: frozenset()})
ONE = Topology({0: frozenset({0, 1})})


class Noting(Linux):
    """A system that keeps what it is told; `refuse` is the error with which memory policies are refused."""

    def __init__(self, refuse: int = 0) -> None:
        self.cpus, self.pages, self.refuse = frozenset({0, 1, 2}), Policy(1, frozenset({0})), refuse
        self.said: list[object] = []

    def affinity(self) -> frozenset[int]:
        return self.cpus

    def set_affinity(self, cpus: Collection[int]) -> None:
        self.cpus = frozenset(cpus)
        self.said.append(self.cpus)

    def policy(self) -> Policy:
        return self.pages

    def set_policy(self, policy: Policy) -> None:
        if self.refuse:
            raise OSError(self.refuse, os.strerror(self.refuse))
        self.pages = policy
        self.said.append(policy)


@pytest.mark.parametrize(("placement", "node", "cpus"), [("local", 1, {2}), ("remote", 0, {0, 1})])
def test_thread_and_pages_are_on_the_node_inside_and_as_before_afterwards(
    placement: Placement, node: int, cpus: set[int]
) -> None:
    system = Noting()
    with placed(placement, 1, TWO, system) as taken:
        assert taken == node
        assert system.cpus == cpus  # only what the process might use before
        assert system.pages == Policy(BIND, frozenset({node}))
    assert (system.cpus, system.pages) == (frozenset({0, 1, 2}), Policy(1, frozenset({0})))


def test_an_error_inside_undoes_the_placement() -> None:
    system = Noting()
    with pytest.raises(ZeroDivisionError), placed("local", 0, TWO, system):
        raise ZeroDivisionError
    assert (system.cpus, system.pages) == (frozenset({0, 1, 2}), Policy(1, frozenset({0})))


@pytest.mark.parametrize(("placement", "topology"), [("any", TWO), ("any", ONE), ("local", ONE), ("local", Topology())])
def test_where_nothing_is_to_choose_nothing_is_touched(placement: Placement, topology: Topology) -> None:
    system = Noting()
    with placed(placement, None, topology, system) as taken:
        assert taken is None
    assert system.said == []


@pytest.mark.parametrize(
    ("placement", "gpu", "topology", "words"),
    [
        ("remote", 0, ONE, "placement: remote needs a second NUMA node, and this machine has one"),
        ("local", None, TWO, "placement: local needs the GPU's NUMA node, which this machine does not tell"),
        ("remote", None, TWO, "placement: remote needs the GPU's NUMA node"),
        ("local", 2, TWO, "needs processors on the GPU's NUMA node 2, which has none"),
        (
            "remote",
            0,
            Topology({0: frozenset({0}), 1: frozenset({9})}),
            "a processor of NUMA node 1, and this process may use none",
        ),
    ],
)
def test_a_placement_that_cannot_be_had_is_unsupported(
    placement: Placement, gpu: int | None, topology: Topology, words: str
) -> None:
    system = Noting()
    with pytest.raises(CaseUnsupported, match=words), placed(placement, gpu, topology, system):
        pytest.fail("nothing may run on the wrong node")
    assert system.said == []


def test_a_container_that_forbids_memory_policies_leaves_first_touch_to_the_thread() -> None:
    system = Noting(refuse=errno.EPERM)
    with placed("local", 1, TWO, system):
        assert system.cpus == {2}
    assert system.cpus == {0, 1, 2}


def test_memory_that_is_refused_for_another_reason_is_told() -> None:
    system = Noting(refuse=errno.EINVAL)
    with (
        pytest.raises(CaseUnsupported, match="memory of NUMA node 1 was refused: Invalid argument"),
        placed("local", 1, TWO, system),
    ):
        pytest.fail("nothing may run without its memory")
    assert system.cpus == {0, 1, 2}


@pytest.mark.parametrize(
    ("text", "numbers"), [("0-3,8\n", {0, 1, 2, 3, 8}), ("5", {5}), ("\n", set()), ("0-1, 4-5", {0, 1, 4, 5})]
)
def test_lists_are_read_and_written_as_the_kernel_does(text: str, numbers: set[int]) -> None:
    assert parse_list(text) == numbers
    assert parse_list(format_list(numbers)) == numbers


def test_lists_are_written_short() -> None:
    assert format_list({3, 1, 2, 8, 10, 11}) == "1-3,8,10-11"


def machine(root: Path, gpu_node: str | None = "1\n") -> Path:
    for node, cpus in {"node0": "0-1\n", "node1": "2-3\n", "node9": "broken\n"}.items():
        (root / "sys/devices/system/node" / node).mkdir(parents=True)
        (root / "sys/devices/system/node" / node / "cpulist").write_text(cpus)
    (root / "sys/bus/pci/devices/0000:1a:00.0").mkdir(parents=True)
    if gpu_node is not None:
        (root / "sys/bus/pci/devices/0000:1a:00.0/numa_node").write_text(gpu_node)
    return root


def test_nodes_are_read_from_files(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path))
    assert topology == Topology({0: frozenset({0, 1}), 1: frozenset({2, 3})})
    assert topology.nodes_of({1, 2}) == {0, 1}
    assert read_topology(tmp_path / "nowhere") == Topology()


@pytest.mark.parametrize("bus_id", ["0000:1a:00.0", "0000:1A:00.0", "00000000:1A:00.0"])
def test_the_node_of_a_card_is_found_by_any_spelling_of_its_bus_id(tmp_path: Path, bus_id: str) -> None:
    assert node_of_pci(bus_id, machine(tmp_path)) == 1


@pytest.mark.parametrize("node", ["-1\n", None, "words\n"])
def test_an_unknown_node_is_none(tmp_path: Path, node: str | None) -> None:
    assert node_of_pci("0000:1a:00.0", machine(tmp_path, node)) is None
    assert node_of_pci("no bus id", tmp_path) is None


def test_pages_that_were_touched_lie_on_a_node_of_this_machine_if_it_tells() -> None:
    pages = np.ones(1 << 20, dtype=np.uint8)
    found = nodes_of_pages(pages.ctypes.data, pages.size, sample=16)
    assert set(found) <= set(read_topology().cpus) | {0}
    assert sum(found.values()) in (0, 16)
    assert node_of_pages(pages.ctypes.data, pages.size) in {None, *found}


def test_this_thread_can_be_kept_where_it_is() -> None:
    system = Linux()
    before = system.affinity()
    system.set_affinity(before)
    assert system.affinity() == before
