"""Every exception that the runner raises on purpose, with the exit code that the command line gives it.

    DmalabError                      exit 70 unless a subclass says otherwise
    ├── InputError                   exit 2: the user can mend it
    │   ├── SpecError                a YAML file is wrong; carries all its problems, each with its place
    │   └── UsageError               a command was called wrongly
    ├── EnvironmentProblem           exit 3: this machine lacks something
    │   ├── DeviceUnavailable        the device that was asked for cannot be opened
    │   └── NotKept                  what was measured cannot be written down
    ├── CaseError                    exit 4: one case of a grid went wrong; it becomes a row and the sweep goes on
    │   ├── CaseFailed               status `failed`
    │   └── CaseUnsupported          status `unsupported`: this device cannot do that
    └── PlanError                    exit 70: a scenario built a Plan that contradicts itself (our own fault)

Exceptions take the values of their domain and write their own sentence: the place, the value, what is allowed, the next step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


class DmalabError(Exception):
    """Root of all errors raised on purpose."""

    exit_code = 70


class InputError(DmalabError):
    """Something the user wrote is wrong; nothing was run or written."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with a file.

    `line` and `column` count from 1, 0 where there is no place. `path` is the dotted way to the key, `value` the text as the
    file has it, `message` what is wrong, `allowed` what would be right, `hint` the next step.
    """

    file: str
    message: str
    line: int = 0
    column: int = 0
    path: str = ""
    value: str = ""
    allowed: str = ""
    hint: str = ""

    def sentence(self) -> str:
        """Return `file:line:column: path: message; allowed; hint` in one line."""
        place = self.file + (f":{self.line}:{self.column}" if self.line else "")
        return f"{place}: {self.path + ': ' if self.path else ''}{self.reason()}"

    def reason(self) -> str:
        """Return `message; allowed; hint`, without the place."""
        told = not self.value or re.search(rf"(?<!\w){re.escape(self.value)}(?!\w)", self.message)
        parts = [self.message if told else f"{self.message}, got {self.value}"]
        if self.allowed:
            parts.append(f"allowed: {self.allowed}")
        if self.hint:
            parts.append(self.hint)
        return "; ".join(parts)


class SpecError(InputError):
    """A YAML file cannot be an experiment; `problems` holds everything that is wrong with it."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(problem.sentence() for problem in self.problems))


class UsageError(InputError):
    """A command was called in a way that cannot work."""


class EnvironmentProblem(DmalabError):
    """This machine lacks something that the work needs."""

    exit_code = 3


class DeviceUnavailable(EnvironmentProblem):
    """The device that was asked for cannot be opened here."""

    def __init__(self, device: str, why: str, remedy: str) -> None:
        self.device, self.why, self.remedy = device, why, remedy
        super().__init__(f"device {device} cannot be used: {why}; {remedy}")


class NotKept(EnvironmentProblem):
    """What was measured cannot be written down, so that measuring more would be in vain."""


class CaseError(DmalabError):
    """One case went wrong; the sweep goes on and the case becomes a row with `status` and a reason."""

    exit_code = 4
    status: Literal["failed", "unsupported"] = "failed"


class CaseFailed(CaseError):
    """The case was tried and broke."""


class CaseUnsupported(CaseError):
    """The device cannot do what the case asks for."""

    status = "unsupported"


class PlanError(DmalabError):
    """A Plan contradicts itself: it leaves its buffers, deadlocks, or races where it did not declare a race."""


def house_words(message: str) -> tuple[str, str]:
    """Return what a validating library says of a value in our own form: what is wrong, and what is allowed, either may be empty.

    `Input should be 1 or 2` gives `a value that is not allowed` and `1 or 2`; what our own rules say loses only its lead.
    """
    for lead in ("Value error, ", "Assertion failed, "):
        if message.startswith(lead):
            return message.removeprefix(lead), ""
    if message.startswith("Input should be "):
        return "a value that is not allowed", message.removeprefix("Input should be ").replace("'", "")
    return message[:1].lower() + message[1:], ""
