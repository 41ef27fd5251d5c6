"""The strict, frozen models of a whole experiment file, except the scenarios' own fields, which each kind's model holds."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, WithJsonSchema, model_validator
from pydantic_core import PydanticCustomError

from runner.device.simulated.profile_files import profile_names
from runner.placement import Placement, Wait
from runner.scenarios.base import Clock, StrictModel, field_error
from runner.spec.answers import Fastest
from runner.spec.clauses import Expectation
from runner.spec.places import nearest

MOST_SAMPLES: Final = 100_000
ALLOWED_NAME: Final = "a lower-case letter, then up to 63 lower-case letters, digits, _ or -"
MOST_SIMULATED: Final = 1024
"""Devices that can be simulated side by side."""
ALLOWED_DEVICE: Final = "auto, cuda, cuda:N, all, simulated, simulated:PROFILE, simulated:PROFILE*N"

_NAME = re.compile(r"[a-z][a-z0-9_-]{0,63}", re.ASCII)
_DEVICE = re.compile(
    r"auto|all|cuda(?::(?:0|[1-9][0-9]{0,3}))?|simulated(?::[a-z0-9][a-z0-9_.-]{0,63})?(?:\*[1-9][0-9]{0,3})?", re.ASCII
)
_RESERVED: Final = frozenset({"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)})


def check_name(text: str) -> str:
    """Return a name that is safe as a folder on every system; raises a Pydantic error that tells what is allowed."""
    if not _NAME.fullmatch(text):
        lower = re.sub(r"[^a-z0-9_-]+", "-", text.lower()).strip("-")
        hint = f"write {lower}" if _NAME.fullmatch(lower) and lower not in _RESERVED else ""
        raise PydanticCustomError("name", "not a name", {"message": "not a name", "allowed": ALLOWED_NAME, "hint": hint})
    if text in _RESERVED or text == "reference":
        windows = "the name of a device on Windows, where no folder can have it"
        message = windows if text in _RESERVED else "the folder of the published results"
        raise PydanticCustomError("name", "{message}", {"message": message, "hint": "take another name"})
    return text


def check_device(text: str) -> str:
    """Return the name of a device as a file or `--device` may give it; raises a Pydantic error that tells what is allowed."""
    if not _DEVICE.fullmatch(text):
        hint = nearest(text, ("auto", "cuda", "all", "simulated"))
        raise PydanticCustomError("device", "not a device", {"message": "not a device", "allowed": ALLOWED_DEVICE, "hint": hint})
    name, _, count = text.partition("*")
    if count and int(count) > MOST_SIMULATED:
        message, allowed = "too many devices", f"at most {MOST_SIMULATED:,}"
        raise PydanticCustomError("device", "not a device", {"message": message, "allowed": allowed, "hint": ""})
    kind, _, profile = name.partition(":")
    if kind == "simulated" and profile and profile not in profile_names():
        message, allowed = "not a device that can be simulated", ", ".join(f"simulated:{name}" for name in profile_names())
        hint = nearest(profile, profile_names())
        raise PydanticCustomError("device", "not a device", {"message": message, "allowed": allowed, "hint": hint})
    return text


def why_no_device(text: str) -> str:
    """Say why `text` is no device and what is allowed, empty where it is one: for what is no file."""
    try:
        check_device(text)
    except PydanticCustomError as error:
        said = error.context or {}
        words = (said.get("message"), said.get("allowed") and f"allowed: {said['allowed']}", said.get("hint"))
        return f"{text!r} is {'; '.join(str(each) for each in words if each)}"
    return ""


Spread = Literal["machines", "cases"]
Alone = Literal["host", "gpu"]
Name = Annotated[str, AfterValidator(check_name), WithJsonSchema({"type": "string", "pattern": f"^(?:{_NAME.pattern})$"})]
DeviceName = Annotated[
    str, AfterValidator(check_device), WithJsonSchema({"type": "string", "pattern": f"^(?:{_DEVICE.pattern})$"})
]


class Until(StrictModel):
    """When a case has enough samples: as soon as its median is known well enough, or at a limit, which then flags the row."""

    ci_percent: float = Field(
        gt=0, le=100, description="How wide the 95 % interval of the median of the case's clock may be, in percent of the median."
    )
    samples: int = Field(200, ge=10, le=MOST_SAMPLES, description="Samples after which a case ends all the same.")
    seconds: float = Field(20, gt=0, le=86_400, description="Seconds of its own plays after which a case ends all the same.")


class Measure(StrictModel):
    """How often each case is measured, and by which clock."""

    warmup: int = Field(
        3,
        ge=0,
        le=MOST_SAMPLES,
        description="Least plays before the first sample; more follow until two in a row agree within 5 %, at most "
        "3 * warmup + 5 in all. 0 means none at all. Their times are kept, not counted.",
    )
    samples: int = Field(10, ge=1, le=MOST_SAMPLES, description="Samples of each case.")
    until: Until | None = Field(None, description="Instead of samples: sample until the median is known well enough.")
    clock: Clock | None = Field(
        None,
        description="The clock whose time gives the rates: the host's, CUDA events, or the engines' own, for which every sample "
        "is recorded; by kind where omitted.",
    )

    placement: Placement = Field(
        "any",
        description="NUMA node of the thread and its memory: the GPU's own (local), another one (remote), or as the system likes "
        "(any).",
    )
    wait: Wait = Field(
        "spin",
        description="How the host waits for the GPU: asking again and again (spin), letting others run (yield), asleep (block).",
    )

    deadline_s: float | None = Field(
        None,
        gt=0,
        le=86_400,
        description="Seconds after which a case that has not ended counts as hung, and costs its process; where omitted a minute "
        "and 20 times what it will likely take.",
    )

    @model_validator(mode="after")
    def _one_end(self) -> Self:
        if self.until is not None and "samples" in self.model_fields_set:
            raise field_error("samples", "samples and until cannot both be given", "exactly one of them")
        return self

    def most_samples(self) -> int:
        """Return the most samples that a case gets."""
        return self.samples if self.until is None else self.until.samples

    def most_warmups(self) -> int:
        """Return the most plays before the first sample, where two in a row never agree."""
        return 3 * self.warmup + 5 if self.warmup else 0


class Exclude(StrictModel):
    """Cases that stay in the table with a reason but are not run."""

    because: str = Field(min_length=1, max_length=500, description="The reason, as the table shall show it.")
    where: dict[str, Any] = Field(
        min_length=1, description="A field to a value, a list of values, or at_least, at_most, above, below, not; all must hold."
    )


class Experiment(StrictModel):
    """A whole file: a question, how to measure, and the scenarios whose grids of cases answer it.

    `scenarios` holds the mappings as read: `runner.spec.scenario` reads each with the model of its kind, and `runner.spec.load`
    checks what refers to them, `baseline`, `expect` and `fastest`.
    """

    name: Name = Field(description="Name of the experiment and of its folder of results.")
    question: str = Field(min_length=1, max_length=2000, description="What the experiment shall answer.")
    device: DeviceName = Field(
        "auto",
        description="auto, cuda, cuda:N, simulated or simulated:PROFILE; of many GPUs all, those of this machine, or "
        "simulated:PROFILE*N.",
    )
    spread: Spread = Field(
        "machines",
        description="Of many GPUs: each runs the whole file (machines), or they share its grid (cases), for which they must be "
        "equal.",
    )
    alone: Alone = Field(
        "host",
        description="Of many GPUs: one of a host at a time, so that they do not disturb each other (host), or all at once, so "
        "that it shows how they do (gpu).",
    )
    measure: Measure = Field(Measure(), description="How often each case is measured, and by which clock.")
    baseline: str | None = Field(None, description="The scenario against which every other case gets a speedup.")
    scenarios: dict[Name, dict[str, Any]] = Field(
        min_length=1, description="What is measured: name → kind and fields; a list of values is an axis of the grid."
    )
    expect: tuple[Expectation, ...] = Field((), strict=False, description="What the results are expected to show.")
    fastest: tuple[Fastest, ...] = Field(
        (), strict=False, description="Jobs that several scenarios do; the run ends with a sentence on the fastest of each."
    )
