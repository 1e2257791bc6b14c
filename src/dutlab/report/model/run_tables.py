"""Tables for every writer: limits, results of verification, facts of hosts, trials without a result."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import quote

from dutlab.report.model.course import CheckLine, FactRow
from dutlab.report.model.run_report import MOST_LISTED, LimitRow, TrialLine
from dutlab.report.model.table import Column, Links, Row, Table
from dutlab.report.model.words import Unit, plural, unit_for

MOST_OPEN = 24
"""Largest number of verdicts that are shown unfolded."""
MOST_NAMED = 12
"""Largest number of trials that one row names."""


def limit_tables(rows: Sequence[LimitRow], trials: Sequence[TrialLine]) -> tuple[Table, ...]:
    """Return a table with a verdict per result and its evidence; none without rows. `trials` have the settings that tell results apart."""
    abouts = _told_apart(rows, trials)
    units = {name: unit_for(name, [row.value for row in rows if row.figure == name]) for name in {row.figure for row in rows}}
    columns = (Column("what"), Column("figure", align="right"), *map(Column, ("verdict", "sure", "because", "next experiment")))
    return _one(
        "limits",
        f"{plural(len(rows), 'verdict')} with evidence",
        columns,
        [_limit(row, about, units[row.figure]) for row, about in zip(rows, abouts, strict=True)],
        folded=len(rows) > MOST_OPEN,
    )


def _told_apart(rows: Sequence[LimitRow], trials: Sequence[TrialLine]) -> list[str]:
    """Return what each row is about; rows that would be alike have the settings in which they differ."""
    abouts, alike = [_about(row) for row in rows], dict[tuple[str, str], list[int]]()
    for n, (row, about) in enumerate(zip(rows, abouts, strict=True)):
        alike.setdefault((row.label, about), []).append(n)
    asked = {t.number: t.asked.split(", ") for t in trials}
    for places in (of for of in alike.values() if len(of) > 1):
        settings = [asked.get(rows[n].trials[0], []) if rows[n].trials else [] for n in places]
        shared = set[str]().union(*settings).intersection(*settings)
        for n, words in zip(places, settings, strict=True):
            abouts[n] = ", ".join([abouts[n], *(w for w in words if w not in shared and w.lower() != rows[n].size.lower())])
    return abouts


def _about(row: LimitRow) -> str:
    size = f"{row.size} bytes" if row.size.isdigit() else row.size
    return ", ".join(filter(None, (row.workload, size, row.where if row.links else "")))


def _limit(row: LimitRow, what: str, unit: Unit) -> Row:
    verdict = f"{row.words} (also fits: {', '.join(row.others)})" if row.others else row.words
    return Row(row.label, (what, unit.text(row.value), verdict, row.confidence, row.because, row.next_experiment))


def check_tables(checks: Sequence[CheckLine]) -> tuple[Table, ...]:
    """Return a table of each mode's checks before its trials, with how often each held; checks that failed at least once are marked."""
    broken = sum(check.broken for check in checks)
    title = f"{plural(len(checks), 'check')}, {f'{broken} did not hold' if broken else 'all held'}"
    columns = (Column("what was checked"), Column("held", align="right"), Column("found"))
    rows = (Row(c.mode, (c.what, f"{c.passed} of {c.total}", c.found), broken=c.broken) for c in checks)
    return _one("checks", title, columns, rows, folded=not broken)


def fact_tables(facts: Sequence[FactRow], hosts: Sequence[str]) -> tuple[Table, ...]:
    """Return tables of facts with a column per host: one of the key facts, then one of all others."""
    columns = (Column("fact"), *map(Column, hosts))
    files = Row("", ("everything that was read", *(Links.of([(f"{host}.json", f"hosts/{quote(host)}.json")]) for host in hosts)))
    first, others = ([_fact(row, hosts) for row in facts if row.key is key] for key in (True, False))
    return (
        *_one("facts", "Facts of the hosts", columns, [*first, files] if first else (), first=""),
        *_one("other-facts", f"All other facts ({len(others)})", columns, others, first="", folded=True),
    )


def _fact(row: FactRow, hosts: Sequence[str]) -> Row:
    values = [row.by_host.get(host, "") for host in hosts]
    return Row("", (row.name, *values), alike=len(values) > 1 and len(set(values)) == 1)


def unsuccessful_tables(trials: Sequence[TrialLine]) -> tuple[Table, ...]:
    """Return a table of trials without a result: a row for those of a cell with one reason; of very many trials, one for each status."""
    columns = (Column("trial", align="right"), Column("what"), Column("status", coded=True), Column("why"))
    alike = dict[tuple[int, str, str], list[TrialLine]]()
    for t in trials:
        alike.setdefault((t.group, t.status, t.why if len(trials) <= MOST_LISTED else ""), []).append(t)
    most = MOST_NAMED if len(trials) <= MOST_LISTED else 0
    rows = (_unsuccessful(same, most) for same in alike.values())
    return _one("unsuccessful", f"{plural(len(trials), 'trial')}, each with its reason", columns, rows)


def _unsuccessful(same: Sequence[TrialLine], most: int) -> Row:
    first = same[0]
    named = same[: max(most, 1)]
    more = len(same) - len(named)
    why = f"{first.why}; and {more} more" if more else first.why
    return Row(first.label, (Links.of([(str(t.number), f"#t{t.number}") for t in named]), first.what, first.status, why))


def _one(
    slug: str, title: str, columns: tuple[Column, ...], rows: Iterable[Row], *, first: str = "mode", folded: bool = False
) -> tuple[Table, ...]:
    table_rows = tuple(rows)
    return (Table(slug, title, columns, table_rows, first=first, folded=folded, again=True),) if table_rows else ()
