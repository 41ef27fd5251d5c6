"""dmalab: declarative experiments on how bytes cross between host and GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runner.plots import plot_grid, plot_overlap, plot_rate
    from runner.results import Results, read_results

__version__ = "0.1.0"

__all__ = ["Results", "__version__", "plot_grid", "plot_overlap", "plot_rate", "read_results"]


def __getattr__(name: str) -> Any:
    """Import what reads tables or draws only when it is asked for: pandas takes longer to import than most commands to run."""
    if name in ("Results", "read_results"):
        from runner import results

        return getattr(results, name)
    if name in ("plot_rate", "plot_grid", "plot_overlap"):
        from runner import plots

        return getattr(plots, name)
    raise AttributeError(f"module 'runner' has no attribute {name!r}")
