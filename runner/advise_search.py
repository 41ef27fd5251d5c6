"""The search for the best way to do a job: settings of a pipeline, tried on a simulated device from a coarse grid to a fine one.

Each method is searched by itself: three chunks at its middle numbers, and from the best of those one step after another along one
number while that gains.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final

from pydantic import ValidationError

from runner.advise_job import FROM_LOCKED, FROM_ORDINARY, Axis, Job, Method, Setting
from runner.device.contract import Device
from runner.errors import CaseError, UsageError
from runner.expand import Case
from runner.measure.companions import CompanionBook
from runner.plan_check import check_plan
from runner.scenarios.pipeline import LARGEST_PASSES, LARGEST_RATIO, Pipeline
from runner.spec.experiment import Measure

KIB: Final = 2**10
MIB: Final = 2**20
CHUNKS: Final = tuple(64 * KIB << step for step in range(11))
STREAMS: Final = (1, 2, 3, 4, 6, 8)
LANES: Final = (2, 3, 4, 6, 8, 16)
THREADS: Final = (1, 2, 4, 5, 8, 16)
"""Powers of two, and what 16 processors have for each of three lanes."""
COARSE: Final = ((32 * MIB, 8), (8 * MIB, 32), (2 * MIB, 128))
COARSE_LANES: Final = (2, 4, 8)
"""Chunks (so many bytes, or one part in so many of all, whichever is less) and lanes that each method is tried with first."""
MIDDLE_STREAMS: Final = 3
NAIVE_CHUNK: Final = 32 * MIB
GAIN: Final = 0.005
"""What a step must gain: less is not worth the tries that it takes, nor the larger number."""
_PROBE_RATIO: Final = 4.0


@dataclass(slots=True)
class Search:
    """Tries settings on a simulated device; `times_ms` are all that were tried, inf for those that cannot be.

    `operations` counts what the plays of all tries consisted of, which is what they cost.
    """

    device: Device
    job: Job
    most_threads: int
    passes: int = 0
    operations: int = 0
    times_ms: dict[Setting, float] = field(default_factory=dict)
    methods: tuple[Method, ...] = ()

    def __post_init__(self) -> None:
        self.methods = FROM_LOCKED if self.job.page_locked else FROM_ORDINARY
        self.passes = self._passes()

    def run(self) -> list[Setting]:
        """Search every method; return the best setting of each that can be done, the fastest first.

        Raises UsageError where there is none.
        """
        found = [setting for setting in map(self._best_of, self.methods) if self.time_ms(setting) < math.inf]
        if not found:
            raise self._impossible()
        return sorted(found, key=self.time_ms)

    def naive(self) -> dict[str, Any]:
        """Return the fields of the loop that most people write first, whose buffers are fresh for every chunk of a round trip.

        In one direction the whole array stays on the device, so that there is one buffer for all chunks.
        """
        both_ways = self.job.in_bytes and self.job.out_bytes
        fresh = {} if self.job.page_locked else {"allocate": "per_chunk" if both_ways else "once"}
        return {**self.methods[0].fields, "chunk": min(NAIVE_CHUNK, self._total())} | fresh

    def exhaustive(self) -> Iterator[Setting]:
        """Yield every setting of the grid in which the search goes."""
        for method in self.methods:
            for numbers in product(*(self._values(method, axis) for axis in method.axes)):
                setting = Setting(method, **dict(zip(method.axes, numbers, strict=True)))
                if setting.lanes * setting.threads <= self.most_threads:
                    yield setting

    def model(self, fields: Mapping[str, Any]) -> Pipeline | None:
        """Return the pipeline that does the job by these fields, None where there is none such."""
        try:
            return Pipeline.model_validate({**self.all_fields(fields), "kind": "pipeline"})
        except ValidationError:
            return None

    def all_fields(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a scenario in a file: how it works, the job, and the work on each chunk."""
        # A file cannot say 0 passes, but that the kernels take no time.
        compute = {"passes": self.passes} if self.passes else {"ratio": 0.0}
        return {**fields, **self.job.fields(), "compute": compute}

    def time_ms(self, setting: Setting) -> float:
        """Return the wall time of a setting in ms, inf where it cannot be or page-locks more than it may."""
        if setting not in self.times_ms:
            self.times_ms[setting] = math.inf if self._idle(setting) else self.play_ms(setting.fields())
        return self.times_ms[setting]

    def play_ms(self, fields: Mapping[str, Any]) -> float:
        """Return the wall time of a pipeline of these fields in ms, inf as in `time_ms`."""
        model = self.model(fields)
        if model is None or not self._may_pin(model):
            return math.inf
        try:
            plan = model.model_copy(update={"compute": model.compute.model_copy(update={"passes": self.passes})}).plan()
            check_plan(plan)
            self.operations += sum(len(lane) for lane in plan.lanes)
            with closing(self.device.open(plan)) as session:
                trace = session.play(0)
        except CaseError:
            return math.inf
        return model.figures(plan, trace).get("wall_ms", math.inf)

    def around(self, setting: Setting) -> list[Setting]:
        """Return the settings that lie one step from a setting, those that the profile gives the least time first.

        A step to more lanes, or fewer, is there with as many streams of each, and with about as many of all, which is how much of
        the stagers stays in the caches. What cannot be is left out.
        """
        steps = [self._beside(setting, axis, step) for axis in setting.method.axes for step in (1, -1)]
        spread = [self._spread_over(setting, each.lanes) for each in steps if each is not None and each.lanes != setting.lanes]
        return self._possible(setting, [*steps, *spread])

    def further(self, setting: Setting) -> list[Setting]:
        """Return the settings that lie two steps of chunk or lanes from a setting, in the same order."""
        axes = [axis for axis in setting.method.axes if axis in ("chunk", "lanes")]
        return self._possible(setting, [self._beside(setting, axis, step) for axis in axes for step in (2, -2)])

    def _possible(self, setting: Setting, others: Sequence[Setting | None]) -> list[Setting]:
        found = {each: self.time_ms(each) for each in others if each is not None and each != setting}
        return sorted((each for each, time_ms in found.items() if time_ms < math.inf), key=found.__getitem__)

    def _spread_over(self, setting: Setting, lanes: int) -> Setting:
        """Return a setting with other lanes, which have about as many streams together."""
        streams = min(STREAMS, key=lambda each: (abs(each * lanes - setting.streams * setting.lanes), each))
        return replace(setting, lanes=lanes, threads=self._most_threads(lanes), streams=streams)

    def _best_of(self, method: Method) -> Setting:
        """Return the best setting of a method that is found from a coarse grid over chunks and lanes."""
        chunks = sorted({self._nearest(min(size, self._total() / parts)) for size, parts in COARSE}, reverse=True)
        streams = MIDDLE_STREAMS if "streams" in method.axes else 1
        lanes = [each for each in COARSE_LANES if each <= self.most_threads] if "lanes" in method.axes else []
        threads = {each: self._most_threads(each) if "threads" in method.axes else 1 for each in lanes or [1]}
        coarse = [Setting(method, chunk, streams, *each) for chunk in chunks for each in threads.items()]
        # Lanes and threads together have more than one summit.
        begins = sorted(coarse, key=self.time_ms)[: 2 if lanes else 1]
        return min(map(self._climbed, begins), key=self.time_ms)

    def _climbed(self, setting: Setting) -> Setting:
        """Go from a setting to better ones, along one number after another, until no step gains."""
        moved = True
        while moved:
            moved = False
            for axis in reversed(setting.method.axes):
                step = min((1, -1), key=lambda step: self._beside_ms(setting, axis, step))
                while (other := self._beside(setting, axis, step)) is not None and self._gains(other, setting):
                    setting, moved = other, True
        return setting

    def _beside_ms(self, setting: Setting, axis: Axis, step: int) -> float:
        other = self._beside(setting, axis, step)
        return math.inf if other is None else self.time_ms(other)

    def _gains(self, other: Setting, than: Setting) -> bool:
        return self.time_ms(other) < self.time_ms(than) * (1 - GAIN)

    def _beside(self, setting: Setting, axis: Axis, step: int) -> Setting | None:
        """Return the setting so many steps along an axis; lanes share the threads, and fewer chunks the streams."""
        values = self._values(setting.method, axis)
        place = values.index(getattr(setting, axis)) + step
        if not 0 <= place < len(values):
            return None
        changed: dict[str, int] = {axis: values[place]}
        other = replace(setting, **changed)  # type: ignore[arg-type]
        if axis == "chunk" and self._idle(other):
            fitting = [each for each in STREAMS if not self._idle(replace(other, streams=each))]
            other = replace(other, streams=max(fitting, default=1))
        if axis == "lanes" and setting.threads == self._most_threads(setting.lanes):
            return replace(other, threads=self._most_threads(other.lanes))
        if other.lanes * other.threads <= self.most_threads:
            return other
        return None if axis == "threads" else replace(other, threads=self._most_threads(other.lanes))

    def _most_threads(self, lanes: int) -> int:
        return max(each for each in THREADS if each == 1 or each * lanes <= self.most_threads)

    def _values(self, method: Method, axis: Axis) -> list[int]:
        if axis == "chunk":
            total = self._total()
            return [*(chunk for chunk in CHUNKS if chunk < total), *([total] if total <= CHUNKS[-1] else [])]
        if axis == "streams":
            return list(STREAMS)
        if axis == "lanes":
            return [each for each in LANES if each <= self.most_threads] or [1]
        # Threads are what one method has more than another: a ring of one thread is the method before it.
        least = 1 if "lanes" in method.axes else 2
        return [each for each in THREADS if least <= each <= self.most_threads] or [1]

    def _nearest(self, chunk: float) -> int:
        return min(self._values(self.methods[0], "chunk"), key=lambda each: abs(math.log2(each / chunk)))

    def _total(self) -> int:
        return int(self.job.fields()["total"])

    def _idle(self, setting: Setting) -> bool:
        """Whether some slots would never see a chunk, so that fewer are the same."""
        return setting.streams * setting.lanes > max(1, -(-self._total() // setting.chunk))

    def _may_pin(self, model: Pipeline) -> bool:
        limit = self.job.pin_bytes
        return self.job.page_locked or limit is None or model.demand().pinned_bytes <= limit

    def _passes(self) -> int:
        """Return the passes of the kernel over each chunk that are the job's work on this device."""
        work = self.job.work
        if work.passes is not None:
            return work.passes
        self.passes = 1
        chunk = self._nearest(8 * MIB)
        if self.model({**self.methods[0].fields, "chunk": chunk}) is None:
            raise self._impossible()
        ratio = _PROBE_RATIO if work.ratio is None else work.ratio
        if not 0 <= ratio <= LARGEST_RATIO:
            raise UsageError(f"the ratio of compute {ratio} is not between 0 and {LARGEST_RATIO:.0f}")
        probe = {"schedule": "serialized", "compute": {"ratio": ratio}, "chunk": chunk}
        model = Pipeline.model_validate({"kind": "pipeline", **self.job.fields(), **probe})
        book = CompanionBook(self.device, self.device.facts().host_bytes or 0, Measure())
        prepared = book.prepare(Case("c_advise", "advise", 0, model, "", {}))
        resolved = prepared.case.model
        assert isinstance(resolved, Pipeline), "a pipeline resolves to a pipeline"
        passes = resolved.compute.passes or 0
        if work.kernel_ms is not None:
            passes = round(work.kernel_ms / (prepared.known.times_ms["leg_kernel"] / passes))
        if passes > LARGEST_PASSES:
            raise UsageError(f"the work is {passes:,} passes of the kernel; at most {LARGEST_PASSES:,}")
        return passes

    def _impossible(self) -> UsageError:
        why = self.job.why_not(self.device.facts().free_bytes)
        return UsageError(f"no pipeline can do this job ({self.job.describe()}): {why}")
