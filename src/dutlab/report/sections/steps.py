"""Results of the user's own commands: the figures in their outputs, and each step of each host with its status, time and output."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from urllib.parse import quote

from dutlab.report.model.figures import figure_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import ReadRun, Section
from dutlab.report.model.table import Column, Links, Missing, Row, Table, Value
from dutlab.store.record import TrialRecord
from dutlab.subject import figure_name, part_figure, run_of

_Key = tuple[str, ...]
_Row = Mapping[str, int | float | str | None]
_Found = list[tuple[TrialRecord, _Row]]
_STARTS = (
    Column("host"),
    Column("phase"),
    Column("no sooner than", "earliest_ns"),
    Column("no later than", "latest_ns"),
    Column("its clock was ahead by", "clock_ahead_ns"),
    Column("known within", "clock_error_ns"),
)
_STEP = (
    Column("phase"),
    Column("step"),
    Column("command"),
    Column("ended with"),
    Column("took", "duration_s"),
    Column("output, by trial"),
)
_MOST_TRIALS = 12
"""Largest number of trials with a column each; the records have them all."""
_FIRST = ("goodput_bps", "received_pps", "transactions_per_s", "sent_bps", "offered_pps")
STEPS = "steps"
"""Name of the workload."""
_FOUND = "figures-"
"""Prefix of the slugs of tables of figures found in outputs."""
_COUNT = "count"
_SLUG = str.maketrans("_/.", "---")
_WORDS = {
    "goodput_bps": "Goodput", "sent_bps": "Sent", "received_pps": "Packets received", "offered_pps": "Packets sent",
    "transactions_per_s": "Transactions per second", "retransmits": "Retransmissions", "jitter_ns": "Jitter", "loss_ratio": "Loss",
    "rtt_min_ns": "Shortest round trip", "rtt_avg_ns": "Mean round trip", "rtt_max_ns": "Longest round trip",
    "real_s": "Time, real", "user_s": "Time, user", "sys_s": "Time, system",
}  # fmt: skip


def section(read: ReadRun, groups: Sequence[Group], labels: Sequence[str], book: NoteBook) -> Section:
    """Return the section: figures in outputs, then each host's steps; values are medians over trials."""
    failed = dict.fromkeys(note for g in groups for r in g.records for note in r.notes)
    has_steps = any(g.records for g in groups)
    return Section(
        slug="steps",
        workload=STEPS,
        title="Steps",
        lead="Commands in four phases. Hosts begin a phase together; each host runs its steps in sequence.",
        tables=(
            *_figures(groups),
            *_hosts(groups),
            Table(
                "starts",
                "Start of each host after the agreed instant, and its clock",
                _STARTS,
                tuple(row for g in groups for row in _starts(g)),
                folded=True,
            ),
        ),
        words=tuple(failed) or (("Every step succeeded.",) if has_steps else ()),
    )


def found_in_outputs(section: Section) -> Table | None:
    """Return a table of the first figure in outputs, a row per step; None if no output has a figure."""
    table = next((t for t in section.tables if t.slug.startswith(_FOUND)), None)
    if table is None:
        return None
    median = next(i for i, column in enumerate(table.columns) if column.figure)
    name = table.columns[median].figure
    rows = [Row(row.label, (", ".join(map(str, row.cells[:3])), row.cells[median])) for row in table.rows]
    title = f"steps: {_words(name)}"
    return Table("answer-steps", title, (Column("of"), Column(_words(name), name)), tuple(rows), table.common_marks, again=True)


def _figures(groups: Sequence[Group]) -> Iterator[Table]:
    """Yield a table per figure with a row per step: its median with its interval, and the value of each trial."""
    entries = [
        (g, key, rows) for g in groups for key, rows in _table(g, "step_figures", ("figure", "host", "phase", "step", "command")).items()
    ]
    names = dict.fromkeys(key[0] for _, key, _ in entries)
    for name in sorted(names, key=lambda n: (_FIRST.index(n) if n in _FIRST else len(_FIRST), list(names).index(n))):
        own = [(g, key, rows) for g, key, rows in entries if key[0] == name]
        most = max(len(g.records) for g, _, _ in own)
        each = most if 1 < most <= _MOST_TRIALS else 0
        heads = (Column("host"), Column("phase"), Column("step"), Column("command"), Column("median", name))
        columns = (*heads, *(Column(f"trial {n}", name) for n in range(1, each + 1)))
        cells = [Row(g.label, (*key[1:], _median(rows, "value"), *_each(g, rows, each))) for g, key, rows in own]
        yield Table(f"{_FOUND}{name.translate(_SLUG)}", f"{_words(name)}, by step and trial", columns, tuple(cells))


def _words(name: str) -> str:
    """Return the words of a figure; the second and later runs of a program in a step have a number."""
    part, measure, way = figure_name(name)
    if way is not None:
        return f"{_words(part_figure(part, measure))}, the other direction"
    run, rest = run_of(part)
    if run > 1:
        return f"{_words(part_figure(rest, measure))} of run {run} in a step"
    return part.replace("_", " ") if measure == _COUNT else _WORDS.get(name, name.replace("_", " "))


def _each(group: Group, rows: _Found, many: int) -> list[Value]:
    """Return the value of each of the group's trials."""
    by_trial = {record.trial: row["value"] for record, row in rows}
    out: list[Value] = []
    for record in sorted(group.records, key=lambda r: r.trial)[:many]:
        value = by_trial.get(record.trial)
        is_there = isinstance(value, int | float)
        out.append(figure_of({record.trial: float(value)}, 1) if is_there and value is not None else Missing("not found", (record.trial,)))
    return out + [Missing("no such trial")] * (many - len(out))


def _hosts(groups: Sequence[Group]) -> Iterator[Table]:
    """Yield a table per host."""
    entries = [(g, key, rows) for g in groups for key, rows in _table(g, "steps", ("host", "phase", "step", "command")).items()]
    for number, host in enumerate(dict.fromkeys(key[0] for _, key, _ in entries)):
        cells = [
            Row(g.label, (*key[1:], _ends(rows), _median(rows, "duration_s"), _outputs(rows))) for g, key, rows in entries if key[0] == host
        ]
        yield Table(f"steps-{number + 1}", f"{host}: each step, and how it ended", _STEP, tuple(cells))


def _outputs(rows: _Found) -> str:
    """Return links to each trial's output of the step, and to its errors."""
    links = []
    for record, row in rows:
        for ending, words in (("out", f"{record.trial}"), ("err", f"{record.trial} errors")):
            file = f"raw/{row.get('file') or ''}.{ending}"
            if file in record.raw:
                links.append((words, quote(os.fsencode(f"trials/{record.trial:04d}/{file}"))))
    return Links.of(links) if links else "none"


def _starts(group: Group) -> list[Row]:
    rows_by_key = _table(group, "starts", ("host", "phase"))
    return [Row(group.label, (*key, *(_median(rows, c.figure) for c in _STARTS if c.figure))) for key, rows in rows_by_key.items()]


def _table(group: Group, name: str, keys: Sequence[str]) -> dict[_Key, _Found]:
    """Return the rows of all trials by their values of `keys`."""
    rows_by_key: dict[_Key, _Found] = {}
    for record in group.records:
        for row in record.tables.get(name, ()):
            rows_by_key.setdefault(tuple(str(row.get(key, "")) for key in keys), []).append((record, row))
    return rows_by_key


def _ends(rows: _Found) -> str:
    return "; ".join(dict.fromkeys(_end(row) for _, row in rows))


def _end(row: _Row) -> str:
    by = {"time-out": "its time-out, as asked", "trial": "the end of its trial"}.get(str(row.get("ended_by", "")), "")
    return str(row["why"] or by or row["status"])


def _median(rows: _Found, column: str) -> Value:
    known = {record.trial: float(value) for record, row in rows if (value := row.get(column)) is not None}
    return figure_of(known, len(rows)) if known else Missing("not known", tuple(record.trial for record, _ in rows))
