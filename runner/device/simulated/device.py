"""The simulated device: it plays a Plan in simulated time, by the figures of a profile and without noise."""

from __future__ import annotations

from hashlib import sha256

from runner.device.contract import DeviceFacts, Mismatch, Trace
from runner.device.simulated.contents import expected, in_words
from runner.device.simulated.groups import making_ns
from runner.device.simulated.kernels import IllegalAddress
from runner.device.simulated.memory import Memory
from runner.device.simulated.play import Play, bind
from runner.device.simulated.profile import Profile
from runner.device.simulated.recording import Calls, activities_of, noting
from runner.errors import CaseFailed, DmalabError
from runner.plan import Plan


class SimulatedDevice:
    """A device of `runner.device.contract` made of a profile; every play of a Plan gives the same Trace.

    `member` names one of several that are simulated side by side, and gives it a UUID and a bus id of its own; empty for one
    alone.
    """

    deterministic = True
    recording = ""

    def __init__(self, profile: Profile, member: str = "") -> None:
        self.profile = profile
        self.member = member
        self.lost = False

    def facts(self) -> DeviceFacts:
        """Return the profile's name, memory, host and engines; all of the memory is free between sessions."""
        profile = self.profile
        identity = {"uuid": f"SIM-{profile.name}-{self.member}", "pci_bus_id": f"simulated:{self.member}"} if self.member else {}
        return DeviceFacts(
            name=f"simulated:{profile.name}",
            kind="simulated",
            memory_bytes=profile.memory_bytes.value,
            free_bytes=profile.memory_bytes.value,
            copy_engines=profile.copy_engines,
            environment={
                "profile": profile.name,
                "profile_description": profile.description,
                "profile_source": profile.source,
                "profile_sha256": sha256(profile.model_dump_json().encode()).hexdigest(),
                "link_gb_per_s": profile.link_gb_per_s,
                **identity,
            },
            link_gb_per_s=profile.link_gb_per_s,
            host_bytes=profile.host.memory_bytes.value,
            processors=None if profile.host.processors is None else profile.host.processors.value,
        )

    def open(self, plan: Plan) -> SimulatedSession:
        """Open a Plan that `runner.plan_check` has passed; raises CaseFailed or CaseUnsupported."""
        self.require_usable()
        return SimulatedSession(self, plan)

    def require_usable(self) -> None:
        """Raise CaseFailed where an illegal address has made the device useless, as it makes a real one."""
        if self.lost:
            raise CaseFailed("the simulated device was lost by an error before this case; nothing measured on it would count")

    def close(self) -> None:
        """Do nothing: there is nothing to give back."""


class SimulatedSession:
    """One opened Plan; the memory lives until it is closed."""

    def __init__(self, device: SimulatedDevice, plan: Plan) -> None:
        self.device, self.plan = device, plan
        self.memory: Memory | None = Memory(device.profile, plan)
        self.memory.apply(plan.setup, 0)
        self.bound = bind(plan)
        self.making_ns = making_ns(device.profile, plan)
        self.sample = 0
        threads = plan.copying_threads()
        # As on a real device, one thread alone copies by memcpy.
        self._host_copier = "" if not threads else device.profile.host.host_copier if plan.shared_copier() else "numpy"
        self.failed = False

    def play(self, sample: int, *, record: bool = False) -> Trace:
        """Play the Plan once; times are in ns of simulated time from the start of the lanes. Raises CaseFailed.

        Engines and processor are always recorded; `record` adds the calls and the waits.
        """
        memory = self._memory()
        self.device.require_usable()
        if self.failed:
            raise CaseFailed("an earlier play of this case failed, so no other can be trusted")
        self.sample, self.failed = sample, True
        memory.apply(self.plan.prepare, sample)
        calls: Calls | None = [[] for _ in self.bound] if record else None
        steps = self.bound if calls is None else noting(self.bound, calls)
        play = Play(self.device.profile, self.plan, memory, steps, sample)
        play.making_ns = self.making_ns
        try:
            play.run()
        except IllegalAddress:
            self.device.lost = True
            raise
        self.failed = False
        facts = memory.driver_says()
        return Trace(
            host_ns=tuple(play.marks),
            event_ns=play.event_times(),
            buffer_facts=facts,
            activities=activities_of(self.plan, play.engines.activities, facts, calls),
            cpu_ns=tuple(play.cpu_ns),
            memory_bytes=tuple(play.memory_bytes),
            host_copier=self._host_copier,
            instantiate_ns=play.making_ns,
        )

    def verify(self) -> tuple[Mismatch, ...]:
        """Compare the expects with what lay in the buffers when the last lane ended."""
        memory = self._memory()
        self.device.require_usable()
        wrong = []
        for expect in self.plan.expects:
            tag = expected(expect, self.sample)
            difference = memory.contents[expect.buffer].differences(expect.offset, expect.size, tag)
            if difference is not None:
                offset, wrong_bytes, actual = difference
                name = self.plan.buffers[expect.buffer].name
                wrong.append(Mismatch(name, offset, wrong_bytes, in_words(tag), in_words(actual)))
        return tuple(wrong)

    def close(self) -> None:
        """Free everything; safe to call twice and after a failure."""
        if self.memory is not None:
            self.memory.apply(self.plan.teardown, self.sample)
            self.memory = None

    def _memory(self) -> Memory:
        if self.memory is None:
            raise DmalabError("the session is closed")
        return self.memory
