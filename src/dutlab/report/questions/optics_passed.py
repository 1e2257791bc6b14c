"""Modules of several runs, with a row for each result of each run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dutlab.errors import InputError
from dutlab.report.gather import read_run
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.run_report import ReadRun
from dutlab.report.model.table import Cell, Column, Figure, Row, Table
from dutlab.report.model.words import name_words
from dutlab.report.sections.optics import OpticRow, optic_rows

_BY_HAND = frozenset({"module", "optic", "transceiver", "sfp"})
"""Names of factors whose levels are modules that a person plugs in."""
_UNREAD = "plugged in during the run, not read"


def passed_table(runs: Sequence[Path], ports: Sequence[str]) -> Table:
    """Return a row for each result of each run, with the modules that were read before it; `ports` limits the modules.

    A factor with the name of a module is a column, since a person changed the module after it was read. Raises InputError if no run has
    a module or such a factor, StoreError.
    """
    reads = [read_run(path) for path in dict.fromkeys(p.resolve() for p in runs)]
    names = _names(reads)
    tables = [
        (read, name, [row for row in optic_rows(read.facts) if not ports or row.port in ports])
        for read, name in zip(reads, names, strict=True)
    ]
    by_hand = dict.fromkeys(f for read, _, _ in tables for g in read.groups for f in g.cell.factors if f.lower() in _BY_HAND)
    if not by_hand and not any(rows for _, _, rows in tables):
        raise InputError(
            f"no module was read in {', '.join(read.run.name for read in reads)}", remedy="`dutlab optics HOST` reads them now"
        )
    groups = [(read, name, rows, g) for read, name, rows in tables for g in read.groups if g.measured and g.main[0]]
    figures = list(dict.fromkeys(g.main[0] for *_, g in groups))
    loss = any("loss_ratio" in r.figures.get(g.main[1], {}) for *_, g in groups for r in g.measured)
    heads = [
        Column("run"),
        *(Column(f) for f in by_hand),
        Column("module"),
        Column("rx power, dBm"),
        Column("within its limits"),
        Column("asked"),
    ]
    columns = [*heads, *(Column(name_words(f), f) for f in figures), *([Column("lost", "loss_ratio")] if loss else [])]
    rows = []
    for read, name, modules, g in groups:
        levels = [g.cell.factors.get(f, "") for f in by_hand]
        read_before = _module_cells(modules) if not any(levels) else (_UNREAD, "", "")
        after: list[Cell] = [_value(g, f, read) for f in (*figures, *(["loss_ratio"] if loss else []))]
        rows.append(Row("", (name, *levels, *read_before, _asked(g), *after)))
    title = "What passed through each module: the main figure of each result, with the modules that were read before the run"
    return Table("optics-passed", title, tuple(columns), tuple(rows), first="")


def _names(reads: Sequence[ReadRun]) -> list[str]:
    names = [str(read.experiment.get("name") or "") for read in reads]
    return [name if name and names.count(name) == 1 else read.run.name for name, read in zip(names, reads, strict=True)]


def _module_cells(rows: Sequence[OpticRow]) -> tuple[str, str, str]:
    """Return the modules, their received power and verdicts; a module of each port, in the order of the facts."""
    words = [row.words() for row in rows]
    modules = (" ".join(filter(None, (f"{w['host']}:{w['port']}", w["vendor"], w["part"], w["serial"]))) for w in words)
    return "; ".join(modules), "; ".join(w["rx_power_dbm"] or "–" for w in words), "; ".join(dict.fromkeys(w["verdict"] for w in words))


def _asked(group: Group) -> str:
    return ", ".join(
        filter(None, (group.cell.mode, group.cell.workload, group.size, f"link {group.cell.link_label}" if group.cell.links else ""))
    )


def _value(group: Group, figure: str, read: ReadRun) -> Cell:
    value = value_of(group, group.main[1], figure, read.book)
    return value if isinstance(value, Figure) else ""
