"""What advice says on the screen: the best setting, the simplest that is nearly as good, and what else was run."""

from __future__ import annotations

import math

from runner.advise import Advice, Choice
from runner.units import counted, digits, format_size


def advice_lines(advice: Advice) -> list[str]:
    """Return what was found, for the screen."""
    search, best, simplest = advice.search, advice.best, advice.simplest
    searched = counted(len(search.times_ms), "setting")
    on_device = f", {len(advice.tried_ms)} on the device" if advice.tried_ms else ""
    rest = [choice for choice in (*advice.choices, advice.naive) if choice is not best and choice is not simplest]
    return [
        f"{search.job.describe()}, {counted(search.passes, 'pass') if search.passes == 1 else f'{search.passes:,} passes'} of "
        f"the kernel, on {advice.outcome.facts.name}.",
        f"{searched} were tried on profile {advice.profile}{on_device}, and the best were run.",
        "",
        *_told("Best", best, advice.naive),
        *(["It is the simplest within 3 %, too."] if simplest is best else _told("Simplest within 3 %", simplest, advice.naive)),
        "",
        *(f"{choice.name}: {_setup(choice)}; {_times(choice)}" for choice in rest),
        "",
        f"The run is in {advice.outcome.folder}.",
    ]


def _told(head: str, choice: Choice, naive: Choice) -> list[str]:
    bound = choice.figure("bound_full_ms")
    gain = (
        f"{digits(naive.median_ms / choice.median_ms, 3)} times as fast as the naive loop" if naive.median_ms < math.inf else ""
    )
    distance = f"{digits(choice.median_ms / bound, 3)} times its bound of {digits(bound)} ms" if bound else ""
    return [f"{head}: {choice.name}", f"  {_setup(choice)}", f"  {'; '.join(filter(None, (_times(choice), gain, distance)))}"]


def _setup(choice: Choice) -> str:
    """Say chunk, streams, staging, lanes, threads and submission in words."""
    fields = choice.fields
    words = "the loop that most people write first" if choice.setting is None else choice.setting.method.words
    several = [
        counted(int(fields[field]), noun)
        for field, noun in (("streams", "stream"), ("staging_lanes", "lane"), ("staging_threads", "thread"))
        if field in fields
    ]
    each = " each" if "staging_lanes" in fields and "staging_threads" in fields else ""
    return ", ".join([words, f"chunks of {format_size(int(fields['chunk']))}", *several]) + each


def _times(choice: Choice) -> str:
    expected = f"{digits(choice.expected_ms)} ms expected" if choice.expected_ms < math.inf else "not expected to run"
    if choice.median_ms == math.inf:
        return f"{expected}, {choice.row['status']}: {choice.row['reason']}"
    low, high = choice.figure("ci_low_wall_ms"), choice.figure("ci_high_wall_ms")
    interval = "" if low is None or high is None else f" ({digits(low)} … {digits(high)})"
    word = "simulated" if choice.row["device_kind"] == "simulated" else "measured"
    return f"{expected}, {digits(choice.median_ms)} ms{interval} {word}"
