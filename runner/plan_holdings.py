"""Which buffers of a Plan are allocated and which are page-locked in place, followed from operation to operation."""

from __future__ import annotations

from runner.errors import PlanError
from runner.memory import kind_of
from runner.plan import Alloc, Free, Operation, Plan, Register, Unregister
from runner.plan_words import name_of, place


class Holdings:
    """The memory of a Plan, buffer by buffer.

    `alive` tells what is allocated, `direct` what copy engines use where it lies, `reachable` what kernels may use without being
    registered, `registered` what is page-locked in place.
    """

    __slots__ = ("alive", "direct", "plan", "reachable", "registered")

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.alive = [False] * len(plan.buffers)
        self.direct = [buffer.on_device or kind_of(buffer.memory).asynchronous for buffer in plan.buffers]
        self.reachable = [buffer.on_device or kind_of(buffer.memory).kernel_access for buffer in plan.buffers]
        self.registered: set[int] = set()

    def play(self, phase: str, operations: tuple[Operation, ...]) -> None:
        """Follow a part that runs by itself, outside what is timed; raises PlanError at what cannot be."""
        for index, operation in enumerate(operations):
            buffer = operation.buffer  # type: ignore[union-attr]  # check_bounds lets no other operation stand here
            wrong = ""
            if self.alive[buffer] is isinstance(operation, Alloc):
                wrong = "is already allocated" if self.alive[buffer] else "is not allocated"
            elif isinstance(operation, (Alloc, Free)):
                wrong = self.change_alive(buffer, isinstance(operation, Alloc))
            elif isinstance(operation, (Register, Unregister)):
                wrong = self.change_registered(buffer, isinstance(operation, Register))
            if wrong:
                raise PlanError(f"{place(self.plan, phase, index, operation)}: {name_of(self.plan, buffer)} {wrong}")

    def change_alive(self, buffer: int, alive: bool) -> str:
        """Note an allocation or its end; return what is wrong with it, empty where nothing is."""
        if alive and self.alive[buffer]:
            return "is already allocated"
        if not alive and buffer in self.registered:
            return "is freed while it is registered"
        self.alive[buffer] = alive
        return ""

    def change_registered(self, buffer: int, registered: bool) -> str:
        """Note that a buffer is page-locked in place or no more; return what is wrong with it, empty where nothing is."""
        if registered is (buffer in self.registered):
            return "is already registered" if registered else "is not registered"
        self.direct[buffer] = registered
        if registered:
            self.registered.add(buffer)
        else:
            self.registered.remove(buffer)
        return ""

    def may_use(self, buffer: int) -> bool:
        """Whether a kernel may use a buffer now."""
        return self.reachable[buffer] or buffer in self.registered

    def check_replay(self, at_rest: list[bool], registered: set[int]) -> None:
        """Refuse a play that changes what is allocated or registered: a Plan is played many times. Raises PlanError."""
        for buffer, (before, after) in enumerate(zip(at_rest, self.alive, strict=True)):
            if before != after:
                state = "leaves allocated" if after else "frees"
                raise PlanError(f"a play {state} {name_of(self.plan, buffer)}, so it could not be played twice")
        for buffer in sorted(registered ^ self.registered):
            state = "unregisters" if buffer in registered else "leaves registered"
            raise PlanError(f"a play {state} {name_of(self.plan, buffer)}, so it could not be played twice")
