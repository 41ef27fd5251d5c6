"""Parameters of a profile that can be fitted, in the form that a profile's file gives them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final

Path = tuple[str, ...]
Node = dict[str, Any]
_TABLES: Final[dict[str, tuple[float, bool]]] = {"by_threads": (1e-6, True), "by_bytes": (1, False), "ns_by_threads": (0, False)}
"""The tables that a node can have: the least value of each, and whether it has more than whole numbers."""
_ONCE: Final = ("first_h2d", "first_d2h")
"""Curves of what only the first operation of a play takes longer: nothing for no bytes, and no more beyond the last point, since
cases of larger ones do not tell it from what each of them takes."""
_DIGITS: Final = 8
"""Significant digits of a rate in a file: more than any clock tells."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One number of a profile: a value, or a point of a curve or a table.

    `path` leads to the node that holds it, `at` is the point: bytes of a curve or of a table of work, threads of a table of
    rates. Values are in ns, millionths, or GB/s, as the file has them.
    """

    path: Path
    at: int | None = None

    def value(self, data: Node) -> float:
        """Return the number that a profile has now; of a point that its curve does not name, what lies on its lines."""
        node = node_at(data, self.path)
        if "value" in node:
            return float(node["value"])
        assert self.at is not None, "curves and tables have points"
        return _on_lines(node, self.at)


def with_values(data: Node, parameters: Sequence[Parameter], values: Iterable[float]) -> Node:
    """Return a profile's data with other numbers; a curve then has these points and no others, a table these, too."""
    changed = deepcopy(data)
    points: dict[Path, list[tuple[int, float]]] = {}
    for parameter, value in zip(parameters, values, strict=True):
        if parameter.at is None:
            node_at(changed, parameter.path)["value"] = max(0, round(value))
        else:
            points.setdefault(parameter.path, []).append((parameter.at, value))
    for path, found in points.items():
        node = node_at(changed, path)
        if path[-1] in _ONCE:
            _set_step(node, sorted(found))
        else:
            _set_points(node, sorted(found))
    return changed


def with_source(data: Node, paths: Iterable[Path], how: str, source: str) -> Node:
    """Return a profile's data with another origin of some nodes."""
    changed = deepcopy(data)
    for path in paths:
        node_at(changed, path).update(how=how, source=source)
    return changed


def node_at(data: Node, path: Path) -> Node:
    """Return the node at a path; raises KeyError where there is none."""
    node: Any = data
    for name in path:
        node = node[name]
    return node  # type: ignore[no-any-return]


def has_node(data: Node, path: Path) -> bool:
    """Whether a profile has a node."""
    try:
        return node_at(data, path) is not None
    except KeyError:
        return False


def table_of(node: Node) -> str:
    """Return the name under which a node has its table."""
    return next(name for name in _TABLES if name in node)


def _set_points(node: Node, points: list[tuple[int, float]]) -> None:
    if "points" in node:
        _set_curve(node, points)
    else:
        name = table_of(node)
        least, digits = _TABLES[name]
        node[name] |= {key: max(least, _rounded(value) if digits else round(value)) for key, value in points}


def _set_curve(node: Node, points: list[tuple[int, float]]) -> None:
    """Write a curve through points: before the first one and after the last one it goes on as between their neighbours."""
    sizes = [size for size, _ in points]
    times = [round(time) for time in accumulate((max(0.0, time) for _, time in points), max)]
    if len(points) > 1 and times[-1] > times[-2]:
        node["then_gb_per_s"] = _rounded((sizes[-1] - sizes[-2]) / (times[-1] - times[-2]))
    elif len(points) > 1 or node.get("then_gb_per_s") is None:
        node.pop("then_gb_per_s", None)
    if sizes[0] > 0:
        slope = (times[1] - times[0]) / (sizes[1] - sizes[0]) if len(points) > 1 else 0.0
        sizes, times = [0, *sizes], [max(0, round(times[0] - slope * sizes[0])), *times]
    node["points"] = [[size, time] for size, time in zip(sizes, times, strict=True)]


def _set_step(node: Node, points: list[tuple[int, float]]) -> None:
    """Write a curve through points that begins with nothing and stays as it is after the last one."""
    times = accumulate((max(0.0, time) for _, time in points), max)
    node.pop("then_gb_per_s", None)
    node["points"] = [[0, 0], *([size, round(time)] for (size, _), time in zip(points, times, strict=True))]


def _on_lines(node: Node, at: int) -> float:
    """Return what a curve or a table says at a point."""
    if "points" in node:
        rows = [(int(size), float(time)) for size, time in node["points"]]
        rate = node.get("then_gb_per_s")
        beyond = (at - rows[-1][0]) / rate if rate else 0.0
    else:
        rows = sorted((int(key), float(value)) for key, value in node[table_of(node)].items())
        beyond = 0.0
    if at >= rows[-1][0]:
        return rows[-1][1] + beyond
    index = next(place for place, row in enumerate(rows) if row[0] > at)
    if index == 0:
        return rows[0][1]
    (key_0, value_0), (key_1, value_1) = rows[index - 1], rows[index]
    return value_0 + (value_1 - value_0) * (at - key_0) / (key_1 - key_0)


def _rounded(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
