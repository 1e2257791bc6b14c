"""Carry out a test of `conductor run`, and write Conductor's own report, even after an interruption."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from dutlab.bounds import INPUT
from dutlab.cli.loop import run_in_order
from dutlab.cli.manner import CommonOptions
from dutlab.cli.places import TestPlace, hosts_at, lab_of
from dutlab.cli.terminal import say, tell
from dutlab.cli.userns import become_root
from dutlab.interop.conductor import plain_name
from dutlab.interop.conductor_report import ERROR, SPAWNED, StepRow, TrialRows, conductor_report, conductor_text, timed_out
from dutlab.outside import read_given
from dutlab.runner.command_book import CommandBook
from dutlab.runner.progress import RunResult
from dutlab.runner.steps_run import StepsTrial, StepsWork, run_steps
from dutlab.spec.workloads.steps import Phase, StepsWorkload
from dutlab.tools.steps.account import StepDone


@dataclass(frozen=True)
class ConductRequest:
    """Arguments of `conductor run`, and the trials so far."""

    file: Path
    work: StepsWorkload
    trials: int
    phases: Sequence[Phase]
    places: Mapping[str, TestPlace]
    directories: Mapping[str, str]
    runs: Path
    take_over: bool
    report: tuple[str, Path] | None
    """Format and file of Conductor's own report."""
    manner: CommonOptions
    done: list[StepsTrial] = field(default_factory=list)
    """Finished trials."""


def carry_out(asked: ConductRequest) -> None:
    """Carry out the test, and end the command with the run's exit status."""
    if asked.trials == 0:
        say("0 trials: nothing to run", err=asked.manner.form != "text")
        _write(asked)
        return
    label = lab_of(asked.places)
    if label is not None:
        become_root()
    what = StepsWork(
        name=plain_name(asked.file.stem),
        work=asked.work,
        trials=asked.trials,
        given=read_given(asked.file, INPUT),
        resolved={
            "command": ["dutlab", *sys.argv[1:]],
            "experiment": {"name": asked.file.stem, "order": "as-written"},
            "testbed": {"name": ", ".join(f"{name} is {place.text}" for name, place in asked.places.items())},
            "work": asked.work.model_dump(mode="json"),
            "directories": dict(asked.directories),
        },
        phases=asked.phases,
        shared={name: place.ssh for name, place in asked.places.items() if place.is_shared},
        take_over=asked.take_over,
        reached={name: place.ssh for name, place in asked.places.items() if not place.lab},
        roles={name: place.role for name, place in asked.places.items() if place.lab},
        lab=label,
        directories=asked.directories,
    )
    try:
        result = run_in_order(_conduct(what, asked))
    finally:
        _write(asked)
    asked.manner.finish([result])


async def _conduct(what: StepsWork, asked: ConductRequest) -> RunResult:
    book = CommandBook()
    async with hosts_at(asked.places, book.note, what.lab) as hosts:
        return await run_steps(what, hosts, book, asked.manner.console(), runs=asked.runs, done=asked.done)


def _write(asked: ConductRequest) -> None:
    """Write Conductor's own report, if one was asked for and there are trials, or none were to be made."""
    if asked.report is None or not (asked.done or asked.trials == 0):
        return
    form, target = asked.report
    report = conductor_report(list(asked.places), [_rows(d) for d in asked.done], datetime.now(UTC), asked.phases)
    text = json.dumps(report, indent=2) + "\n" if form == "json" else conductor_text(report)
    target.write_text(text, encoding="utf-8", errors="surrogateescape")
    tell(f"Conductor's own report: {target}")


def _rows(done: StepsTrial) -> TrialRows:
    return TrialRows(done.started, done.ended, [_row(d) for d in done.account.done])


def _row(done: StepDone) -> StepRow:
    """Return a row as Conductor prints it: a spawned step has no duration, a failed step shows its command."""
    started, ended = (datetime.fromtimestamp(s, UTC) for s in (done.started_s, done.started_s + done.seconds))
    if done.step.spawn is not None:
        code, message, ended = 0, SPAWNED, started
    elif done.end == "time-out":
        code, message = ERROR, timed_out(done.step.timeout or 0.0)
    elif done.failed:
        code, message = done.status or ERROR, done.step.command
    else:
        output = done.stdout.decode("utf-8", "replace")
        code, message = 0, output.replace("\r\n", "\n").replace("\r", "\n")
    return StepRow(done.host, done.phase, done.place, started, ended, code, message)
