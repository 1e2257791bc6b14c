"""Runs as data: the interface of `import dutlab` for notebooks and programs. Figures are those whose medians the reports show.

Names end in their unit, as in records: `_bps`, `_pps`, `_ns`, `_w`, `_s`. Nothing here writes to a run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutlab.errors import InputError
from dutlab.events import Event
from dutlab.extras import extra_install_command
from dutlab.printable import value_text
from dutlab.store.cell_figures import counts
from dutlab.store.find import is_running, run_names
from dutlab.store.read import reading
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from dutlab.analysis.comparison import Comparison
    from dutlab.measures import Better
    from dutlab.report.model.run_report import RunReport
    from dutlab.report.questions.compared import ComparedPair

Where = str | os.PathLike[str]
Value = str | float | int | bool | None
_FIGURES = ("run", "trial", "repeat", "mode", "workload", "links", "link", "figure", "value")
_SAMPLES = ("trial", "t_s", "host", "sensor", "name", "unit", "value")
_COMPARED = ("cell", "figure", "first", "second", "ratio", "low", "high", "p", "verdict", "words")


@dataclass(frozen=True)
class DataTable:
    """Rows of values under named columns."""

    columns: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[dict[str, Value]]:
        return (dict(zip(self.columns, row, strict=True)) for row in self.rows)

    def __getitem__(self, column: str) -> list[Value]:
        """Return the values of a column. Raises KeyError for an unknown column."""
        if column not in self.columns:
            raise KeyError(f"{column!r} (columns: {', '.join(self.columns)})")
        place = self.columns.index(column)
        return [row[place] for row in self.rows]

    def where(self, **wanted: Value) -> DataTable:
        """Return the rows that have these values, as in `where(mode="nat", figure="goodput_bps")`. Raises KeyError."""
        kept = list(self.rows)
        for column, value in wanted.items():
            values = self[column]
            keep = {id(row) for row, has in zip(self.rows, values, strict=True) if has == value}
            kept = [row for row in kept if id(row) in keep]
        return DataTable(self.columns, tuple(kept))

    def to_pandas(self) -> pd.DataFrame:
        """Return the table as a DataFrame. Raises InputError without pandas."""
        try:
            import pandas as pd  # noqa: PLC0415 - optional
        except ImportError:
            raise InputError("pandas is not installed", remedy=extra_install_command("notebook")) from None
        return pd.DataFrame(list(self.rows), columns=list(self.columns))

    def to_arrow(self) -> pa.Table:
        """Return the table as an Apache Arrow table. Raises InputError without pyarrow."""
        try:
            import pyarrow as pa  # noqa: PLC0415 - optional
        except ImportError:
            raise InputError("pyarrow is not installed", remedy=extra_install_command("notebook")) from None
        return pa.table({name: self[name] for name in self.columns})

    def _repr_html_(self) -> str:
        """Return the first rows as HTML, for Jupyter."""
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join(f"<tr>{''.join(f'<td>{escape(value_text(value))}</td>' for value in row)}</tr>" for row in self.rows[:_SHOWN])
        more = f"<p>and {len(self) - _SHOWN} more rows</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


_SHOWN = 40


class Run:
    """A run folder, finished or not. An attribute is read at its first use, and then kept."""

    def __init__(self, path: Where) -> None:
        """Open the run at `path`. Raises InputError when it is not a run."""
        self._folder = RunFolder.open(Path(path))
        self.faults: list[str] = []
        """Records that could not be read."""

    @property
    def path(self) -> Path:
        """Folder of the run."""
        return self._folder.path

    @property
    def name(self) -> str:
        """Name of the run, as in `2026-11-21T0801Z-firewall-modes-3f2a`."""
        return self._folder.name

    @property
    def is_running(self) -> bool:
        """True while a process carries the run out."""
        return is_running(self.path)

    @cached_property
    def experiment(self) -> dict[str, Any]:
        """The experiment file with all defaults, as it was understood. Raises StoreError."""
        section = self._folder.resolved.get("experiment")
        return section if isinstance(section, dict) else {}

    @cached_property
    def trials(self) -> tuple[TrialRecord, ...]:
        """Records of all trials that ended, in order, also those without a result. Raises StoreError."""
        with reading(self.path):
            return tuple(self._folder.readable_records(self.faults))

    @property
    def modes(self) -> tuple[str, ...]:
        """Names of the modes, in the order in which they were first measured."""
        return tuple(dict.fromkeys(r.cell.mode for r in sorted(self.trials, key=lambda r: r.started)))

    @cached_property
    def figures(self) -> DataTable:
        """One row per figure of each trial that counts, with a column for each further factor and for each setting of the cell."""
        records = [r for r in self.trials if counts(r)]
        factors = sorted({name for r in records for name in r.cell.factors} - {"mode"} - set(_FIGURES))
        settings = sorted({name for r in records for name in r.cell.params} - set(_FIGURES) - set(factors))
        rows = []
        for r in records:
            cell = (self.name, r.trial, r.cell.repeat, r.cell.mode, r.cell.workload, r.cell.link_label)
            settings_of_cell = (*(r.cell.factors.get(f) for f in factors), *(_plain(r.cell.params.get(s)) for s in settings))
            rows += [
                (*cell, link, figure, value, *settings_of_cell) for link, of_link in r.figures.items() for figure, value in of_link.items()
            ]
        return DataTable((*_FIGURES, *factors, *settings), tuple(rows))

    def samples(self, trial: int | None = None) -> DataTable:
        """Return the sensor readings during one trial, or during all; `t_s` are seconds since the trial began. Raises StoreError."""
        from dutlab.store.samples import query_samples  # noqa: PLC0415 - loads DuckDB

        numbers = [trial] if trial is not None else [r.trial for r in self.trials]
        paths = {number: path for number in numbers if (path := self._folder.samples_path(number)) is not None}
        places = list(paths)
        rows = query_samples(list(paths.values()), "SELECT file, t_s, host, sensor, name, unit, value FROM samples ORDER BY ALL")
        return DataTable(_SAMPLES, tuple((places[file], *rest) for file, *rest in rows))

    @cached_property
    def report(self) -> RunReport:
        """The run's whole report, as data. Raises StoreError."""
        from dutlab.report.gather import gather  # noqa: PLC0415 - loads SciPy

        return gather(self.path, self.path)

    @property
    def answer(self) -> str:
        """The answer in sentences: the result, its confidence and its limit."""
        answer = self.report.answer
        return "\n".join(filter(None, (*answer.fast, *answer.sure, answer.limited)))

    @property
    def doubts(self) -> DataTable:
        """One row per reason to distrust a figure."""
        rows = ((r.trial, d.kind, d.grade, d.text, d.detail) for r in self.trials for d in r.doubts)
        return DataTable(("trial", "kind", "grade", "text", "detail"), tuple(rows))

    def events(self) -> Iterator[Event]:
        """Yield the run's events, in order. Raises OSError for a run without events."""
        from dutlab.events import EVENTS, events_in  # noqa: PLC0415 - as `report`

        return events_in(self.path / EVENTS)

    def __repr__(self) -> str:
        return f"Run({self.name!r})"

    def _repr_html_(self) -> str:
        """Return name and answer as HTML, for Jupyter."""
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.answer.splitlines())
        return f"<h3>{escape(self.name)}</h3>{lines}"


def runs(folder: Where = "runs") -> list[Run]:
    """Return the runs in a folder, the newest first; other entries are skipped. Raises InputError when the folder cannot be read."""
    readable = []
    for name in reversed(run_names(Path(folder))):
        with suppress(InputError):
            readable.append(Run(Path(folder) / name))
    return readable


@dataclass(frozen=True)
class RunComparison:
    """Comparison of two runs, cell by cell."""

    pair: ComparedPair
    """The whole result of `dutlab compare`."""
    table: DataTable
    """One row per result. `ratio` is second ÷ first, with its interval; None where there is none."""

    @property
    def sentences(self) -> tuple[str, ...]:
        """One sentence per result."""
        return tuple(f"{c.pair.label}: {c.words}: {c.why}" if c.why else f"{c.pair.label}: {c.words}" for c in self.pair.comparisons)

    def _repr_html_(self) -> str:
        """Return the table as HTML, for Jupyter."""
        return self.table._repr_html_()


def compare(
    first: Run | Where,
    second: Run | Where,
    *,
    margin: float | None = None,
    figures: Sequence[str] = (),
    better: Mapping[str, Better] | None = None,
) -> RunComparison:
    """Compare the cells that both runs have, as `dutlab compare` does.

    With `margin`, test whether they are equivalent within that share.
    `better` maps figures whose better direction dutlab does not know to `higher` or `lower`.

    Raises InputError where both runs are the same or have no cell in common, DirectionUnknown, StoreError.
    """
    from dutlab.report.model.contests import CompareRequest  # noqa: PLC0415 - loads SciPy
    from dutlab.report.questions.compared import compare_runs  # noqa: PLC0415 - as above
    from dutlab.report.questions.sides import open_run, require_different_runs  # noqa: PLC0415 - as above

    paths = [run.path if isinstance(run, Run) else Path(run) for run in (first, second)]
    require_different_runs(paths)
    sides = [open_run(path) for path in paths]
    pair = compare_runs(sides[:1], sides[1:], CompareRequest(figures=figures, margin=margin, better=better or {}))
    return RunComparison(pair, DataTable(_COMPARED, tuple(_row(c) for c in pair.comparisons)))


def _row(c: Comparison) -> tuple[Value, ...]:
    levels = [None if level is None else level.value for level in (c.first, c.second)]
    interval = None if c.ratio is None else c.ratio.interval
    ratio = (
        None if c.ratio is None else c.ratio.ratio,
        None if interval is None else interval.low,
        None if interval is None else interval.high,
    )
    return (c.pair.label, c.pair.figure, *levels, *ratio, c.p, c.verdict.name.lower(), c.words)


async def run(
    experiment: Where, *, runs: Where = "runs", overrides: Sequence[str] = (), lab: str | None = None, testbed: Where | None = None
) -> AsyncIterator[Event]:
    """Carry out an experiment and yield its events; the first one names the run folder. No report is written.

    `overrides` are values of `--set`, `lab` is the label of a running lab. The run asks no questions. Closing the generator early
    (`contextlib.aclosing`) ends the run as Ctrl-C does: everything on the hosts is restored, and `dutlab resume` can continue the run.
    Raises SpecRefused, InputError, TestbedError, StoreError.
    """
    from dutlab.runner.execution import RunOptions  # noqa: PLC0415 - loads the drivers of hosts
    from dutlab.runner.run import run as carry_out  # noqa: PLC0415 - as above
    from dutlab.spec.loader import given_experiment  # noqa: PLC0415 - as above
    from dutlab.spec.yaml_source import read_file  # noqa: PLC0415 - as above
    from dutlab.tools.engine.engine import find_engine  # noqa: PLC0415 - as above

    path = Path(experiment)
    given = given_experiment(read_file(path), path, overrides, testbed=None if testbed is None else Path(testbed))
    command = (Path(sys.argv[0] or "python").name, "dutlab.run", str(path))
    options = RunOptions(runs=Path(runs), engine_binary=find_engine(), command=command, unattended=True, standing_lab=lab)
    heard: asyncio.Queue[Event | None] = asyncio.Queue()
    work = asyncio.create_task(carry_out(given, options, _Heard(heard)))
    work.add_done_callback(lambda _: heard.put_nowait(None))
    try:
        while (event := await heard.get()) is not None:
            yield event
        await work
    finally:
        if not work.done():
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work


@dataclass(frozen=True)
class _Heard:
    """Implements runner.progress.Progress."""

    events: asyncio.Queue[Event | None]

    def hear(self, event: Event) -> None:
        self.events.put_nowait(event)

    async def ask(self, question: str) -> str:
        raise InputError(f"no person can answer: {question}", remedy="run it with `dutlab run`")


def _plain(value: object) -> Value:
    return value if isinstance(value, str | int | float) or value is None else str(value)
