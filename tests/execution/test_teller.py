"""When plays are told to the supervisor, and that a round is noted before the next begins."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from multiprocessing.connection import Connection

import pytest

from runner.execution import teller as tellers
from runner.execution.messages import GO, Begins, Message, Played, connection
from runner.execution.stopping import StoppedAtOnce
from runner.execution.supervisor import _Drive
from runner.execution.teller import MOST_UNANSWERED, Teller
from runner.execution.work import Work
from runner.expand import Case
from runner.measure.result import Sample
from runner.spec.experiment import Measure
from tests.execution.hostile import case_of

A, B = case_of(case_id="a"), case_of(case_id="b")
PATIENCE_S = 30


class Supervisor:
    """The other end: `heard` is what it was told, each message answered only when asked for by `answer`."""

    def __init__(self, wire: Connection) -> None:
        self.wire = wire

    def heard(self) -> list[tuple[str, ...]]:
        """Return what has come: the case that begins, or the roles of the plays."""
        found: list[tuple[str, ...]] = []
        while self.wire.poll():
            message: Message = self.wire.recv()
            if isinstance(message, Begins):
                found.append((message.case_id,))
            elif isinstance(message, Played):
                found.append(tuple(f"{case_id} {sample.role} {sample.index}" for case_id, sample in message.plays))
        return found

    def answer(self) -> None:
        self.wire.send(GO)


@pytest.fixture
def ends() -> Iterator[tuple[Teller, Supervisor]]:
    mine, theirs = socket.socketpair()
    with closing(connection(mine.detach())) as near, closing(connection(theirs.detach())) as far:
        yield Teller(near), Supervisor(far)


@pytest.fixture(autouse=True)
def slow_clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [0.0]
    monkeypatch.setattr(tellers, "monotonic", lambda: now[0])
    return now


def sample(index: int, role: str = "sample") -> Sample:
    return Sample(role, index, {"wall_ms": 1.0})


def waits(teller: Teller, supervisor: Supervisor, case: str) -> bool:
    """Whether `begins` of a case returns only once an answer has come."""
    begun = threading.Event()

    def begin() -> None:
        teller.begins({"a": A, "b": B}[case])
        begun.set()

    thread = threading.Thread(target=begin)
    thread.start()
    early = begun.wait(0.2)
    if not early:
        supervisor.answer()
    thread.join(PATIENCE_S)
    assert begun.is_set()
    return not early


def test_a_round_is_told_at_once_and_noted_before_the_next_begins(ends: tuple[Teller, Supervisor]) -> None:
    teller, supervisor = ends
    for case in (A, B):
        teller.begins(case)
        teller.played(case, sample(0))
    assert supervisor.heard() == [("a",), ("b",)], "nothing of a round is told while it goes on"
    assert waits(teller, supervisor, "b"), "b has played in this round, so this is the next one"
    assert supervisor.heard() == [("a sample 0", "b sample 0")]


def test_a_case_that_ends_within_a_round_does_not_hide_where_the_next_begins(ends: tuple[Teller, Supervisor]) -> None:
    teller, supervisor = ends
    teller.begins(A)
    teller.played(A, sample(0))
    supervisor.answer()
    teller.settle()  # as before the result of some case is told
    teller.begins(B)
    teller.played(B, sample(0))
    supervisor.heard()
    assert waits(teller, supervisor, "a")
    assert supervisor.heard() == [("b sample 0",), ("a",)]


def test_what_is_not_quoted_is_told_at_once_and_noted_before_the_first_sample(ends: tuple[Teller, Supervisor]) -> None:
    teller, supervisor = ends
    teller.begins(A)
    teller.played(A, sample(0, "warmup"))
    teller.played(A, sample(1, "warmup"))
    assert supervisor.heard() == [("a",), ("a warmup 0",), ("a warmup 1",)]
    supervisor.answer()
    assert waits(teller, supervisor, "a"), "one of the two has no answer yet"


def test_long_plays_are_told_before_the_next_begins(ends: tuple[Teller, Supervisor], slow_clock: list[float]) -> None:
    teller, supervisor = ends
    teller.begins(A)
    slow_clock[0] = 2 * tellers.HELD_S
    teller.played(A, sample(0))
    assert waits(teller, supervisor, "b")
    assert supervisor.heard() == [("a",), ("a sample 0",), ("b",)]


def test_no_more_messages_are_without_an_answer_than_the_sockets_hold(ends: tuple[Teller, Supervisor]) -> None:
    teller, supervisor = ends
    for _ in range(MOST_UNANSWERED):
        supervisor.answer()
    for index in range(MOST_UNANSWERED):
        teller.played(A, sample(index, "warmup"))
    assert len(supervisor.heard()) == MOST_UNANSWERED
    assert not waits(teller, supervisor, "a"), "all were answered"


def test_a_wire_tells_what_has_come_and_what_has_not(ends: tuple[Teller, Supervisor]) -> None:
    teller, supervisor = ends
    assert not supervisor.wire.poll()
    assert not supervisor.wire.poll(0.001)
    teller.begins(A)
    assert supervisor.wire.poll(None)
    supervisor.wire.close()
    with pytest.raises(OSError, match="closed"):
        supervisor.wire.poll()


class Book:
    """Notes plays; `ends_with` is raised at the first of them, as where somebody wants the run to end."""

    def __init__(self, ends_with: BaseException | None = None) -> None:
        self.noted: list[str] = []
        self._ends_with = ends_with

    def begins(self, case: Case) -> None:
        raise AssertionError("no case begins here")

    def played(self, case: Case, sample: Sample) -> None:
        self.noted.append(case.case_id)
        if self._ends_with is not None:
            raise self._ends_with


class GoneWorker:
    """The supervisor's side of a process that told these things, and was gone before it had read any answer."""

    def __init__(self, *told: Played) -> None:
        mine, theirs = socket.socketpair()
        self.wire = connection(mine.detach())
        with closing(connection(theirs.detach())) as far:
            for message in told:
                far.send(message)


def drive(book: Book, *told: Played) -> None:
    """Let the supervisor hear these messages, and then that the process is gone."""
    worker = GoneWorker(*told)
    with closing(worker.wire):
        driven = _Drive(worker, Work([A, B], Measure(), listener=book), {"a": A, "b": B})  # type: ignore[arg-type]  # in its stead
        with suppress(EOFError, ConnectionResetError):
            while (message := driven._next()) is not None:
                assert not list(driven._heard(message))


def test_all_plays_of_a_message_are_noted_although_the_run_shall_end_at_the_first() -> None:
    book = Book(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        drive(book, Played((("a", sample(0)), ("b", sample(0)))))
    assert book.noted == ["a", "b"]


def test_a_run_that_is_stopped_at_once_notes_nothing_more() -> None:
    book = Book(StoppedAtOnce())
    with pytest.raises(StoppedAtOnce):
        drive(book, Played((("a", sample(0)), ("b", sample(0)))))
    assert book.noted == ["a"]


def test_what_a_process_told_before_it_was_gone_is_noted_though_nobody_reads_the_answers() -> None:
    book = Book()
    drive(book, Played((("a", sample(0)),)), Played((("b", sample(0)),)))
    assert book.noted == ["a", "b"]
