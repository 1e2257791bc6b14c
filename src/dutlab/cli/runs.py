"""Commands `runs` and `query`: list runs, and query them in SQL."""

from __future__ import annotations

import csv
import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.choices import STATUSES
from dutlab.cli.terminal import line_width, say, table, tell
from dutlab.printable import printable, value_text

if TYPE_CHECKING:
    from dutlab.store.index import RunLine
    from dutlab.store.results import BestAndWorst

_SHOWN = 50
_ALL_COLUMNS = 140
"""Width of a terminal from which a list of runs has all columns."""
_FEW = 4
"""Number of columns on a narrower terminal."""
_MOST_MODES = 6
_MOST_ENDS = 2
"""Number of workloads of a run whose best and worst cells are listed."""
FOLDER = click.option(
    "--runs", "folder", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), help="Folder of the runs.  [runs]"
)
FLEET = click.option("--fleet", is_flag=True, help="All finished runs of campaigns, from the database in DUTLAB_FLEET_DB.")
_REBUILD = click.option("--rebuild", is_flag=True, help="Rebuild the index from the folders.")


@click.command()
@FOLDER
@FLEET
@click.option("--experiment", default="", metavar="NAME", help="Only runs of this experiment.")
@click.option("--testbed", default="", metavar="NAME", help="Only runs on this testbed.")
@click.option("--mode", default="", metavar="MODE", help="Only runs that measured this mode.")
@click.option("--status", default="", type=click.Choice(["", *STATUSES]), help="Only runs of this status.", show_choices=True)
@click.option("--since", default="", metavar="DATE", help="Only runs started at or after, as in 2026-11-01.")
@click.option("--limit", type=click.IntRange(min=1), default=_SHOWN, show_default=True, help="Number of runs, the newest first.")
@_REBUILD
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def runs(
    *,
    folder: Path,
    fleet: bool,
    experiment: str,
    testbed: str,
    mode: str,
    status: str,
    since: str,
    limit: int,
    rebuild: bool,
    as_json: bool,
) -> None:
    """\b
    Example:
      dutlab runs --experiment firewall-modes --since 2026-11-01
    """
    from dutlab.store.index import Wanted, list_runs, opened, results_in
    from dutlab.store.results import best_and_worst

    wanted, places = Wanted(experiment, testbed, mode, status, since), dict[str, str]()
    if fleet:
        from dutlab.store.fleet_index import asked_fleet

        with asked_fleet() as of_fleet:
            rows = list_runs(of_fleet, wanted, limit=limit + 1)
            places = dict(of_fleet.places([r.name for r in rows[:limit]]))
            results = results_in(of_fleet, [r.name for r in rows[:limit]])
    else:
        with opened(folder, rebuild=rebuild, note=note) as index:
            rows = list_runs(index, wanted, limit=limit + 1)
            results = results_in(index, [r.name for r in rows[:limit]])
    shown = rows[:limit]
    ends = {name: best_and_worst(of) for name, of in results.items()}
    if as_json:
        records = [
            asdict(r)
            | {"results": [{"best": asdict(of.best), "worst": asdict(of.worst), "cells": of.cells} for of in ends.get(r.name, ())]}
            | ({"place": places[r.name]} if fleet else {})
            for r in shown
        ]
        say(json.dumps({"schema_version": 1, "more": len(rows) > limit, "runs": records}, indent=1))
        return
    if not shown:
        say(f"no such run in {'the index of the fleet' if fleet else folder}")
        return
    for line in _lines(shown, places, ends):
        say(line)
    for r in shown:
        if r.fault:
            say(f"note: {printable(r.name)}: {printable(r.fault)}")
    if cut := next((r.name for r in shown if r.status == "cut"), None):
        say(f"cut: no process works on it; `dutlab resume {folder / cut}` continues it")
    if len(rows) > limit:
        say(f"and older ones; --limit {limit * 10} shows more")


@click.command()
@click.argument("question", metavar="SQL")
@FOLDER
@FLEET
@_REBUILD
@click.option("--format", "form", type=click.Choice(["table", "csv", "json"]), default="table", show_default=True, help="Output format.")
@click.option("--json", "as_json", is_flag=True, help="As --format json.")
def query(*, question: str, folder: Path, fleet: bool, rebuild: bool, form: str, as_json: bool) -> None:
    """Tables: runs, trials, figures, results, samples, doubts; `SHOW TABLES` lists their columns.

    \b
    Example:
      dutlab query "SELECT mode, frame_size, median(value) FROM trials JOIN figures USING (run, trial)
        WHERE figure = 'received_pps' GROUP BY ALL ORDER BY ALL"
      dutlab query "SELECT kind, grade, count(*) FROM doubts GROUP BY ALL ORDER BY 3 DESC"
    """
    from dutlab.store.ask import ask, ask_source
    from dutlab.store.index import opened

    if fleet:
        from dutlab.store.fleet_index import asked_fleet

        with asked_fleet() as of_fleet:
            answer = ask_source(of_fleet, question)
    else:
        with opened(folder, rebuild=rebuild, note=note) as index:
            answer = ask(index, folder, question, note)
    for left_out in answer.notes:
        note(left_out)
    if as_json or form == "json":
        say(json.dumps([dict(zip(answer.columns, row, strict=True)) for row in answer.rows], indent=1, default=str))
    elif form == "csv":
        writer = csv.writer(sys.stdout, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
    else:
        numbers = {n for n, _ in enumerate(answer.columns) if all(isinstance(row[n], (int, float)) for row in answer.rows)}
        for line in table(answer.columns, [[value_text(v) for v in row] for row in answer.rows], right=numbers):
            say(line)


def note(text: str) -> None:
    """Print a note, for example about a slow step or an incomplete answer."""
    tell(f"note: {text}")


def _lines(shown: Sequence[RunLine], places: Mapping[str, str], ends: Mapping[str, Sequence[BestAndWorst]]) -> Iterator[str]:
    """Yield a table with a line for each run, and its best and worst cells: on a terminal below it, elsewhere in columns.

    A narrow terminal gets only the first columns, but the full name of the folder.
    """
    from dutlab.report.model.ends import end_words

    width, head = line_width(), ("run", "trials", "status", "doubts", "experiment", "testbed", "modes")
    most = len(head) if width is None or width >= _ALL_COLUMNS else _FEW
    words = {r.name: [end_words(of) for of in ends.get(r.name, ())] for r in shown}
    in_columns = {name: (f"{of[0].about}: {of[0].best}", of[0].worst) if of else ("", "") for name, of in words.items()}
    rows = [(*_row(r)[:most], *(in_columns[r.name] if width is None else ()), *([places[r.name]] if places else [])) for r in shown]
    lines = list(table((*head[:most], *(["best", "worst"] if width is None else []), *(["place"] if places else [])), rows, right={1}))
    if width is None or len(lines) != len(shown) + 2:  # the head and its line; a row of several lines has no place below it
        yield from lines
        return
    yield from lines[:2]
    for r, line in zip(shown, lines[2:], strict=True):
        yield line
        for of in words[r.name][:_MOST_ENDS]:
            yield from textwrap.wrap(printable(of.text), width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _row(r: RunLine) -> tuple[str, ...]:
    done = r.measured + r.failed + r.refused + r.disturbed
    trials = f"{r.measured}/{r.planned}" if done == r.measured else f"{r.measured}/{r.planned} ({done - r.measured} without a result)"
    testbed = f"{r.testbed}{' (lab)' if r.lab else ''}"
    modes = [*r.modes[:_MOST_MODES], *([f"{len(r.modes) - _MOST_MODES} more"] if len(r.modes) > _MOST_MODES else [])]
    return (r.name, trials, r.status, r.worst_doubt, r.experiment, testbed, ", ".join(modes))
