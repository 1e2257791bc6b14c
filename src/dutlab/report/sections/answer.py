"""Answer of a run, from its cells, verdicts and doubts."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence

from dutlab.doubts import DoubtKind
from dutlab.measures import is_exact
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import DoubtNote, NoteBook
from dutlab.report.model.run_report import Answer, LimitRow, NextStep, RunReport
from dutlab.report.model.table import Cell, Figure, Missing, Row, Table, Value, figure_text
from dutlab.report.model.words import plural
from dutlab.report.sections.answer_tables import OF_WHICH, answer_tables
from dutlab.report.sections.headline import counted, overall_words, spread_sentence
from dutlab.stats.ratio import FEWEST
from dutlab.subject import figure_name, share_of
from dutlab.workloads import settable

MOST_SENTENCES = 4
"""Largest number of comparisons that are listed; more are counted, and the table has them all."""
REPEATS = 5
"""Repeats suggested after a single one; fewer say little about the spread."""
_PAIRS = " from the host of the row to the host of the column"
_COUNTED = "Instructions are counted: the same guest gives the same figures, so one trial is enough."
_TAKE_REPEATS = ("test", "measure", *settable())


def answer_of(report: RunReport, groups: Sequence[Group], book: NoteBook) -> Answer:
    """Return the answer of a report that is otherwise complete."""
    of = list(answer_tables(report, groups, book))
    tables = tuple(table for _, table in of)
    cells = [of for table in tables for row in table.rows for of in zip(table.columns, row.cells, strict=True)]
    values = [cell for column, cell in cells if isinstance(cell, Figure | Missing) and not is_exact(column.figure)]
    counts = any(isinstance(cell, Figure) and is_exact(column.figure) for column, cell in cells)
    at_head = tuple(_at_head(report))
    return Answer(
        fast=tuple(_fast(report, of, book)),
        sure=(*((_COUNTED,) if counts else ()), *_sure(report, tables, values)),
        at_head=at_head,
        limited="" if report.busy else _limited(report.limits, groups),
        next=tuple(_next(report, values)),
        tables=tables,
    )


def _fast(report: RunReport, tables: Sequence[tuple[str, Table]], book: NoteBook) -> Iterator[str]:
    if report.busy:
        yield report.busy
        if report.cpu_cost is not None:
            yield report.cpu_cost.words
        return
    yield from (sentence for section in report.sections for sentence in section.answer)
    if len(report.headlines) > MOST_SENTENCES:
        yield from _many(report, tables)
    else:
        yield from (f"{h.about}: {h.sentence}" for h in report.headlines)
    if report.headlines:
        yield from overall_words(book.answers.overall)
    spoken = {section.workload for section in report.sections if section.headlines and report.headlines}
    for workload, table in tables:
        if any(c.figure == "knee/iops" for c in table.columns):
            yield from _knees(table)
        elif workload not in spoken:
            yield from _ranges(table)
    yield from _without_rank(tables)
    yield from (f"{of.what}." for of in report.findings if of.kind == "both-ways" and of.price.percent)
    greyed = any(isinstance(c, Missing) and c.greyed is not None for _, t in tables for r in t.rows for c in r.cells)
    if (cost := report.cpu_cost) is not None and (greyed or cost.at_equal_speed):
        yield cost.words
    if not report.headlines and not any(isinstance(c, Figure) for _, t in tables for r in t.rows for c in r.cells):
        done = sum(1 for t in report.trials if t.status == "measured")
        yield f"{plural(done, 'trial')} measured, none with a figure to rank." if done else "No trial has a result."


def _without_rank(tables: Sequence[tuple[str, Table]]) -> Iterator[str]:
    """Yield a sentence naming results of 0 where more is better: nothing was received, so they have no rank."""
    results = dict.fromkeys(
        " ".join(filter(None, ("" if table.same_figure else table.columns[i].head, _row_words(table, row, i))))
        for _, table in tables
        for row in table.rows
        for i, cell in enumerate(row.cells)
        if _is_nothing(table, i, cell)
    )
    if results:
        named, more = list(results)[:MOST_SENTENCES], len(results) - MOST_SENTENCES
        yield f"{plural(len(results), 'result')} of 0, without a rank: {', '.join(named)}{f' and {more} more' if more > 0 else ''}."


def _is_nothing(table: Table, i: int, cell: Cell) -> bool:
    return isinstance(cell, Figure) and not cell.median and table.columns[i].better == "higher"


def _many(report: RunReport, tables: Sequence[tuple[str, Table]]) -> Iterator[str]:
    """Yield a summary of many comparisons: how often each mode was the fastest, and the range of each table."""
    yield f"Of {len(report.headlines)} comparisons: {', '.join(counted(report.headlines))}."
    yield from (sentence for _, table in tables for sentence in _ranges(table))


def _is_of_load(figure: str) -> bool:
    """Return whether a figure is a latency at a share of the rate, up to 100 %."""
    part, measure, _ = figure_name(figure)
    return measure == "tl_ns" and (share_of(part) or 0.0) <= 100  # noqa: PLR2004 -- percent


def _ranges(table: Table) -> Iterator[str]:
    """Yield ranges of the table's first figure; for latencies over the load, those without load and at full load."""
    places = [i for i, c in enumerate(table.columns) if c.figure and (c.group != OF_WHICH or len(table.rows) == 1)]
    loads = [i for i in places if _is_of_load(table.columns[i].figure)]
    if len(loads) > 1 and len(table.rows) > 1:
        yield from filter(None, (_range(table, [i]) for i in (loads[0], loads[-1])))
    elif sentence := _range(table, places):
        yield sentence


def _range(table: Table, places: Sequence[int]) -> str:
    """Return a range, as `NDR: from 346.3 kpps (nat) to 603.7 kpps (router).`; for a single result, all its figures."""
    results = [
        (row, i, cell) for row in table.rows for i in places if isinstance(cell := row.cells[i], Figure) and not _is_nothing(table, i, cell)
    ]
    if not results:
        return ""

    def text(i: int, cell: Figure) -> str:
        return _with_unit(table, i, cell)

    if len({id(row) for row, _, _ in results}) == 1:
        phrases = [f"{table.columns[i].head} {text(i, cell)}" for row, i, cell in results]
        return ": ".join(filter(None, (_row_words(table, results[0][0]), ", ".join(phrases)))) + "."
    first = places[0] if not table.same_figure or len(places) == 1 else None
    of = [f for f in results if first is None or f[1] == first]
    low, high = min(of, key=lambda f: f[2].median), max(of, key=lambda f: f[2].median)
    words = [_row_words(table, row, i) for row, i, _ in (low, high)]
    ends = [text(*end[1:]) + (f" ({of})" if of else "") for end, of in zip((low, high), words, strict=True)]
    about = table.columns[places[0]].head if first is not None else table.title.replace(_PAIRS, "")
    if low is high:
        return f"{about}: {ends[0]}."
    return f"{about}: from {ends[0]} to {ends[1]}."


def _knees(table: Table) -> Iterator[str]:
    """Yield the knee and the peak of each set of drives and mix. Sums, single drives and mixes are never merged into one range."""
    for row in table.rows:
        of = {c.figure: _with_unit(table, i, cell) for i, c in enumerate(table.columns) if isinstance(cell := row.cells[i], Figure)}
        if not {"peak/iops", "peak/depth", "knee/iops", "knee/depth"} <= of.keys():
            continue
        latency = f", mean latency {of[name]}" if (name := "knee/clat_mean_ns") in of else ""
        knee = f"{of['knee/iops']} at the knee (depth {of['knee/depth']}{latency})"
        where = _row_words(table, row)
        sentence = f"{knee}, at most {of['peak/iops']} (depth {of['peak/depth']})."
        yield f"{where[:1].upper()}{where[1:]}: {sentence}" if where else sentence


def _with_unit(table: Table, i: int, cell: Figure) -> str:
    return figure_text(cell, table.units[i])


def _row_words(table: Table, row: Row, place: int | None = None) -> str:
    words = [
        cell
        for c, cell in zip(table.columns, row.cells, strict=True)
        if c.head in {"link", "drive", "frames", "of", "asked", "client"} and isinstance(cell, str) and cell
    ]
    if any(c.name == "mode" for c in table.columns):  # a factor experiment: the mode alone, and other factors with their names
        at_figure = next(n for n, c in enumerate(table.columns) if c.figure)
        named = [(c, str(cell)) for c, cell in zip(table.columns[:at_figure], row.cells, strict=False) if cell]
        return ", ".join(cell if c.name == "mode" else f"{c.head} {cell}" for c, cell in named)
    by_column = table.same_figure and not any(c.group == OF_WHICH for c in table.columns)
    at = [table.columns[place].head] if place is not None and by_column else []
    if at and words and any(c.head == "client" for c in table.columns):  # of a matrix: client and server
        words, at = words[:-1], [f"{words[-1]} {at[0]}"]
    sized = [f"{word} bytes" if word.isdigit() else word for word in (*words, *at)]
    label = row.label or row.head
    alone = sized and all((other.label or other.head) == label for other in table.rows)
    return ", ".join(filter(None, ("" if alone else label, *sized)))


def _sure(report: RunReport, tables: Sequence[Table], values: Sequence[Value]) -> Iterator[str]:
    if any(isinstance(v, Figure) for v in values) and (sentence := spread_sentence(values)):
        yield sentence
    without, lab, simulated = _without_result(report), _of_lab(report), _of_simulation(report)
    yield from filter(None, (without, report.repeated if not report.busy else "", lab, simulated))
    common = {mark for t in tables for mark in t.common_marks}
    marks = {mark for v in values if isinstance(v, Figure) for mark in v.marks}
    bare = not any(isinstance(v, Figure) for v in values)
    for note in report.notes:
        is_marked = note.number in marks and (note.grade != "note" or note.number not in common)
        if is_marked or note.grade == "severe" or (bare and note.grade == "warning"):
            yield _of_note(report, note)


def _at_head(report: RunReport) -> Iterator[str]:
    """Yield the sentences of `_sure()` whose content is in the banner of a page too."""
    yield from filter(None, (_without_result(report), _of_lab(report), _of_simulation(report)))
    yield from (_of_note(report, note) for note in report.severe)


def _without_result(report: RunReport) -> str:
    without = Counter(t.status for t in report.unsuccessful)
    if not without:
        return ""
    counts = ", ".join(f"{n} {status}" for status, n in sorted(without.items()))
    n = sum(without.values())
    return f"{n} of {plural(len(report.trials), 'trial')} {'has' if n == 1 else 'have'} no result: {counts}."


def _of_lab(report: RunReport) -> str:
    return "" if report.lab is None else "Measured in an embedded lab: compare these figures with one another, not with hardware."


def _of_simulation(report: RunReport) -> str:
    words = "these and figures from them are made up"
    return f"Simulated: the readings of {', '.join(report.simulated)}; {words}." if report.simulated else ""


def _of_note(report: RunReport, note: DoubtNote) -> str:
    every = len(report.trials) > 1 and len(note.trials) == len(report.trials)
    return f"[{note.number}] {note.grade}: {note.text} ({'all ' if every else ''}{plural(len(note.trials), 'trial')})."


def _limited(limits: Sequence[LimitRow], groups: Sequence[Group]) -> str:
    """Return the limits, as `Limited by line rate (shown): 4 of 6 results; not known: 2`. Results without a verdict count too."""
    counted = Counter(row.verdict for row in limits)
    if not counted:
        return ""
    judged = {(row.label, trial) for row in limits for trial in row.trials}
    without = sum(1 for g in groups if g.measured and not any((g.label, r.trial) in judged for r in g.measured))
    (first, n), *rest = counted.most_common()
    if not rest and not without:
        return "What limited it is not known." if first == "not known" else f"Limited by {first}."
    causes = [(words, n) for words, n in [(first, n), *rest] if words != "not known"]
    if not causes:
        return "What limited it is not known."
    (words, n), *more = causes
    clauses = [f"Limited by {words}: {n} of {plural(len(limits) + without, 'result')}", *(f"{w}: {m}" for w, m in more)]
    if counted["not known"]:
        clauses.append(f"not known: {counted['not known']}")
    if without:
        clauses.append(f"not judged: {without}")
    return "; ".join(clauses) + "."


def _next(report: RunReport, values: Sequence[Value]) -> Iterator[NextStep]:
    """Yield next steps: first for missing results, then for more evidence."""
    run, rest = shlex.quote(report.name), Counter(t.status for t in report.trials)
    measured = [v for v in values if isinstance(v, Figure)]
    if rest["not done"]:
        yield NextStep(f"Measure the remaining {plural(rest['not done'], 'trial')}.", f"dutlab resume {run}")
    elif report.busy or rest["disturbed"]:
        yield from _calmer(report)
    elif measured and max(v.n for v in measured) == 1 and (again := with_repeats(report.course.command)):
        yield NextStep("Repeat it, to learn how well it repeats.", again)
    elif len({row.label for row in report.limits}) > 1:
        intervals = max((v.n for v in measured), default=1) >= FEWEST
        yield NextStep(f"Compare the modes{', each with its interval' if intervals else ''}.", f"dutlab compare {run}")
    experiments = Counter(row.next_experiment for row in report.limits if row.next_experiment and not report.busy)
    yield from (NextStep(f"To find out more: {words}{'' if words.endswith('?') else '.'}") for words, _ in experiments.most_common(1))
    yield NextStep("Read every table and doubt.", f"dutlab report {run} --print --verbose")


def _waiting(command: str) -> str:
    """Return the command with the option that waits for a quiet machine."""
    return command if "--wait-quiet" in command or not command.startswith("dutlab ") else f"{command} --wait-quiet 10min"


def with_repeats(command: str) -> str:
    """Return the command with repeats; empty if it takes none."""
    words = shlex.split(command)
    if len(words) < 3 or words[0] != "dutlab" or any(w.startswith(("--repeats", "repeats=")) for w in words):  # noqa: PLR2004 -- dutlab, what, of what
        return ""
    if words[1] == "run":
        return shlex.join([*words, "--set", f"repeats={REPEATS}"])
    return shlex.join([*words, "--repeats", str(REPEATS)]) if words[1] in _TAKE_REPEATS else ""


def _calmer(report: RunReport) -> Iterator[NextStep]:
    """Yield steps that give a result to trials without one."""
    kinds = {note.kind for note in report.notes}
    if unsteady := DoubtKind.LINK_WENT_DOWN.name in kinds:
        yield NextStep("Find out why a link goes down: its cable, its transceivers, its ports. Then measure again.", report.course.command)
    if not unsteady or DoubtKind.DISTURBED.name in kinds:
        waiting = _waiting(report.course.command)
        yield NextStep("Stop other programs on these machines, then measure again; this waits until they are quiet.", waiting)
        yield NextStep("Or count disturbed trials, each with its doubt.", f"DUTLAB_DISTURBED=count {report.course.command}")
