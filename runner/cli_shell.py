"""Where the command line prints, and where an error becomes a sentence and an exit code; all verbs stand on it."""

from __future__ import annotations

import functools
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError
from typer.core import TyperGroup

from runner import __version__
from runner.errors import DmalabError, EnvironmentProblem, house_words

CLOSED_PIPE: Final = 141
"""What a shell gives for a command whose reader went away, as in `dmalab list | head`."""

JsonOption = Annotated[bool, typer.Option("--json", help="Write one JSON object instead of text, for a script.")]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Write nothing but errors; the exit code tells.")]
_hushed: ContextVar[bool] = ContextVar("hushed", default=False)


class Verbs(TyperGroup):
    """All verbs; what they refuse of their options is told by the same sentences as what is refused in a file."""

    def invoke(self, ctx: Any) -> Any:
        """Run the verb that was typed; raises typer.BadParameter where a value is none."""
        try:
            return super().invoke(ctx)
        except typer.BadParameter as error:
            error.message = refusal(error)
            raise


def refusal(error: typer.BadParameter) -> str:
    """Return what is wrong with a value and what is allowed, without the words of the library that found it."""
    if not isinstance(error.__cause__, ValidationError):
        return error.message
    found = error.__cause__.errors()[0]
    what, allowed = house_words(found["msg"])
    if not allowed:
        return what.rstrip(".")
    return f"{found['input']!r} is not allowed; allowed: {allowed.partition(', unable')[0]}"


def guarded(verb: Callable[..., int]) -> Callable[..., None]:
    """Turn what a verb returns or raises into an exit code, and an error into its own sentence on stderr."""

    @functools.wraps(verb)
    def command(*arguments: Any, **options: Any) -> None:
        try:
            code = verb(*arguments, **options)
        except DmalabError as error:
            say_error(str(error))
            code = error.exit_code
        except KeyboardInterrupt as error:
            say_error(str(error) or "interrupted")
            code = 130
        except BrokenPipeError:
            silence_stdout()
            code = CLOSED_PIPE
        except Exception as error:
            say_error(own_fault(error))
            code = 70
        raise typer.Exit(code)

    return command


@contextmanager
def hushed(hush: bool = True) -> Iterator[None]:
    """Let `say` print nothing within, where `hush` is true."""
    before = _hushed.set(hush or is_hushed())
    try:
        yield
    finally:
        _hushed.reset(before)


def is_hushed() -> bool:
    """Tell whether `say` prints nothing now, so that nobody needs to draw anything either."""
    return _hushed.get()


def say_json(content: Any) -> None:
    """Print one JSON object."""
    say([json.dumps(content, indent=2, ensure_ascii=False)])


def say(lines: Sequence[str]) -> None:
    """Print lines at once, so that a pipe sees each as it comes; raises EnvironmentProblem where they cannot be written."""
    if is_hushed():
        return
    try:
        print("\n".join(lines), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        silence_stdout()
        raise EnvironmentProblem(f"the standard output cannot be written: {error.strerror}") from None


def coloured(lines: Sequence[str]) -> Sequence[str]:
    """Return the lines of a diagnosis with their levels in colour where they go to a terminal that wants any (NO_COLOR)."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return lines
    colours = {"ok  ": "32", "warn": "33", "bad ": "31"}
    return [f"\x1b[{colours[line[:4]]}m{line[:4]}\x1b[0m{line[4:]}" if line[:4] in colours else line for line in lines]


def silence_stdout() -> None:
    """Let what is still to be written go nowhere, so that closing the stream at the end stays silent too."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say_error(sentence: str) -> None:
    """Print a sentence where errors belong; where it cannot be written the exit code tells."""
    with suppress(OSError):
        print(sentence, file=sys.stderr, flush=True)


def own_fault(error: Exception) -> str:
    """Return the sentence for an error that nobody foresaw, with the whole traceback only where it is asked for."""
    if os.environ.get("DMALAB_TRACEBACK") == "1":
        return "".join(traceback.format_exception(error)).rstrip()
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if Path(frame.filename).is_relative_to(Path(__file__).parent)]
    place = (
        f"{Path(ours[-1].filename).relative_to(Path(__file__).parent.parent)}:{ours[-1].lineno}" if ours else "an unknown place"
    )
    said = " ".join(str(error).split())
    return (
        f"dmalab stopped by a fault of its own: {type(error).__name__}{f' ({said})' if said else ''} in {place}; please report "
        f"this sentence with the experiment's file and what dmalab {__version__} says when run again with DMALAB_TRACEBACK=1"
    )
