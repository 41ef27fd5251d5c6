"""What all pictures share: matplotlib, imported only when something is drawn, axes, titles, and files."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from runner.errors import EnvironmentProblem, UsageError

FORMATS: Final = (".svg", ".png", ".pdf")


def save_picture(draw: Callable[[Any], object], path: Path) -> None:
    """Let `draw(axes)` fill a picture and write it; the ending of `path` names the format (svg, png, pdf).

    Raises UsageError for another ending, EnvironmentProblem where it cannot be written or matplotlib is missing.
    """
    check_picture(path)
    figure_type = matplotlib_module("figure").Figure
    figure = figure_type(figsize=(9, 5), layout="constrained")
    draw(figure.subplots())
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be written: {error.strerror}") from error


def check_picture(path: Path) -> None:
    """Raise UsageError where the ending of `path` names no format that can be drawn."""
    if path.suffix not in FORMATS:
        raise UsageError(f"{path} names no format that can be drawn; allowed: {', '.join(FORMATS)}")


def matplotlib_module(module: str) -> Any:
    """Return a module of matplotlib; raises EnvironmentProblem where it cannot be imported."""
    try:
        return importlib.import_module(f"matplotlib.{module}")
    except ImportError as error:
        raise EnvironmentProblem(f"pictures need matplotlib ({error}); install it by pip install 'dmalab[plot]'") from error


def axes_or_new(axes: Any, height: float | None = None) -> Any:
    """Return the axes to draw into, new ones where there are none, made `height` inches high where that is more than they are."""
    if axes is None:
        axes = matplotlib_module("pyplot").subplots(figsize=(9, 5), layout="constrained")[1]
    figure = axes.figure
    if height is not None and len(figure.axes) == 1 and height > figure.get_figheight():
        figure.set_figheight(height)
    return axes


def titled(drawn: Any, title: str, *, simulated: bool, legend: bool = True) -> Any:
    """Give axes their title, which says if the numbers are simulated, and a legend where something has a label; return them."""
    drawn.set_title(f"SIMULATED, not measured\n{title}" if simulated else title, color="#a03020" if simulated else "black")
    handles, labels = drawn.get_legend_handles_labels()
    if legend and labels:
        drawn.legend(handles, labels, fontsize="small")
    return drawn
