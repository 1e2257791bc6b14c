"""Parts of a table of arrays: one column for an array in all of its states, its useful capacity, and the processor time at its maximum."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from dutlab.measures import MeasureUnit, measure_unit
from dutlab.report.model.groups import Group
from dutlab.stats.summary import median
from dutlab.systems.modes import ARRAYS

HEALTHY = ""
_STATES = {mode.name: mode.array.state for mode in ARRAYS if mode.array is not None}
_CAPACITY = ":array_size_bytes"
"""End of the fact with the size of a host's array (tools/fio/program.py, facts_of)."""
_CORES = "host_cpu_cores"


def column_of(group: Group, labels: Collection[str]) -> tuple[str, str]:
    """Return the column of an array's figures, and its state: empty if it is healthy.

    The figures of an array that lost a drive are rows in the column of the healthy array, if the run has that column.
    """
    mode, state = group.cell.mode, _STATES.get(group.cell.mode, HEALTHY)
    healthy = group.label.replace(mode, mode.removesuffix(f"-{state}"), 1)
    return (healthy, state) if state and healthy in labels else (group.label, HEALTHY)


def summary_rows(columns: Mapping[str, Sequence[Group]], facts: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, tuple[str, ...], str]]:
    """Return parameter, text of each column, and unit, of capacity and processor time. `columns` has the healthy groups of each column."""
    capacities = [_capacity_bytes(groups) for groups in columns.values()]
    scale, unit = (1e12, "TB") if max((size or 0 for size in capacities), default=0) >= 1e12 else (1e9, "GB")  # noqa: PLR2004 -- tera
    loads = [load_at_maximum(groups, facts) for groups in columns.values()]
    rows = [
        ("useful capacity", tuple("" if size is None else f"{size / scale:.4g}" for size in capacities), unit),
        ("mean CPU at maximum", tuple("" if load is None else f"{load * 100:.3g}" for load in loads), "%"),
    ]
    return [row for row in rows if any(row[1])]


def load_at_maximum(groups: Sequence[Group], facts: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the share of its hosts' cores that were busy in the cell with the most I/Os a second; None if either is not known."""
    loads = [(rate, share) for group in groups if (rate := _rate(group)) and (share := load_of(group, facts)) is not None]
    return max(loads)[1] if loads else None


def load_of(group: Group, facts: Mapping[str, Mapping[str, Any]]) -> float | None:
    """Return the share of the hosts' cores that were busy in a cell, the median of its repeats; None if it is not known."""
    hosts = dict.fromkeys(name.partition(":")[0] for name in group.cell.links)
    cores = [_mapping(facts.get(host, {}).get("cpu")).get("cores") for host in hosts]
    known = [n for n in cores if isinstance(n, int) and n > 0]
    busy = [of[_CORES] for r in group.measured if _CORES in (of := r.figures.get(group.cell.link_label, {}))]
    if not busy or not known or len(known) < len(cores):
        return None
    return min(median(busy) / sum(known), 1.0)  # a host counts busy time in ticks, which may round up to more than its clock shows


def _capacity_bytes(groups: Sequence[Group]) -> float | None:
    sizes = [
        sum(int(text) for name, text in r.tool_facts.items() if name.endswith(_CAPACITY) and text.isdecimal())
        for group in groups
        for r in group.measured
    ]
    return max(sizes, default=0) or None


def _rate(group: Group) -> float:
    """Return the I/Os a second of all directions together, of the best repeat; 0 if there are none."""
    return max(
        (
            sum(value for name, value in r.figures.get(group.cell.link_label, {}).items() if measure_unit(name) is MeasureUnit.IOPS)
            for r in group.measured
        ),
        default=0.0,
    )


def _mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 - JSON may be any type
    return value if isinstance(value, Mapping) else {}
