"""Terms of a device's watts by mode: base, ports, transceivers, frames and bits, with residuals and validity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dutlab.analysis.energy import NoModel
from dutlab.report.model.energy import ModeEnergy, energy_of, interval_text, quantity, validity
from dutlab.report.model.groups import Group
from dutlab.report.model.table import Cell, Column, Row, Table
from dutlab.report.model.words import COUNT, KPPS, MBPS, Unit

TERMS = "soak-power-energy"
"""Slug of the table of terms."""
_WATTS = Unit("W", 1.0, 2)
_TERM_COLUMNS = (Column("term"), Column("estimate", align="right"), Column("95 % interval", align="right"), Column("not known because"))
_PHASE_COLUMNS = (
    Column("phase"),
    Column("ports up", "ports_count", COUNT),
    Column("received", "received_pps", KPPS),
    Column("received", "received_bps", MBPS),
    Column("measured", "watts", _WATTS),
    Column("by the model", "model_watts", _WATTS),
    Column("residual", "residual_w", _WATTS),
)
_FRAMES = {"frame": "a frame", "bit": "a bit", "port": "a port", "transceiver": "a transceiver", "base": "base"}


def energy_tables(groups: Sequence[Group], suffix: str) -> tuple[tuple[Table, ...], tuple[str, ...]]:
    """Return the tables of terms, joules a frame and residuals, and sentences on validity; nothing if no phase has watts."""
    modes = [of for of in energy_of([("", r) for g in groups for r in g.measured]) if not isinstance(of.model, NoModel)]
    if not modes:
        return (), ()
    labels = {g.label for g in groups}
    tables = (
        Table(TERMS, f"Energy model{suffix}", _TERM_COLUMNS, tuple(row for of in modes for row in _terms(of, labels))),
        Table(f"{TERMS}-frames", f"Energy of one more frame{suffix}", (Column("frame size"), *_TERM_COLUMNS[1:]),
              tuple(row for of in modes for row in _frames(of, labels))),
        Table(f"{TERMS}-residuals", f"Watts by the energy model{suffix}", _PHASE_COLUMNS,
              tuple(row for of in modes for row in _residuals(of, labels)), folded=True),
    )  # fmt: skip
    return tables, tuple(words for of in modes for words in validity(of))


def term_rows(of: ModeEnergy) -> Iterator[tuple[str, str, str, str]]:
    """Yield (term, estimate, interval, reason) as text."""
    if isinstance(of.model, NoModel):
        return
    for e in of.model.estimates:
        value = "cannot tell" if e.value is None else quantity(e.value, e.term.unit, e.interval)
        yield _FRAMES[e.term.word], value, "" if e.value is None else interval_text(e.value, e.term.unit, e.interval), e.why


def frame_rows(of: ModeEnergy) -> Iterator[tuple[str, str, str, str]]:
    """Yield (frame size, joules of one more frame, interval, reason) as text, for each size that was measured."""
    if isinstance(of.model, NoModel):
        return
    for name, size in of.sizes.items():
        e = of.model.frame_joules(size)
        value = "cannot tell" if e.value is None else quantity(e.value, "J", e.interval)
        yield name, value, "" if e.value is None else interval_text(e.value, "J", e.interval), e.why


def _named(of: ModeEnergy, labels: set[str], cells: tuple[Cell, ...], size: str = "") -> Row:
    return Row(of.label, cells, size=size) if of.label in labels else Row("", cells, size=size, head=of.label)


def _terms(of: ModeEnergy, labels: set[str]) -> Iterator[Row]:
    return (_named(of, labels, cells) for cells in term_rows(of))


def _frames(of: ModeEnergy, labels: set[str]) -> Iterator[Row]:
    return (_named(of, labels, cells, size=cells[0]) for cells in frame_rows(of))


def _residuals(of: ModeEnergy, labels: set[str]) -> Iterator[Row]:
    if isinstance(of.model, NoModel):
        return
    for phase, watts, residual in of.model.rows:
        load = phase.load
        ports: Cell = "" if load.ports is None else load.ports
        yield _named(of, labels, (phase.name, ports, load.pps, load.bps, phase.watts, watts, residual))
