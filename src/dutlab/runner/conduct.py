"""Carries out steps on hosts that are not a testbed: no modes, no links, only phases. What it leaves is a run like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutlab.dut.mode import UndoStep
from dutlab.ending import ended_by
from dutlab.events import EVENTS
from dutlab.hosts.host import Host
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.plan.trials import Plan, Trial
from dutlab.runner.command_book import CommandBook
from dutlab.runner.event_log import EventLog
from dutlab.runner.journal import Journal, undo_to_json
from dutlab.runner.leasing import HOSTS, begun, leased_by
from dutlab.runner.progress import Progress, RunResult
from dutlab.spec.workloads.steps import PHASES, Phase, StepsSetting, StepsWorkload
from dutlab.store.record import DoubtRecord, TrialRecord, found_of
from dutlab.store.run_folder import RunFolder
from dutlab.systems.posix import SH
from dutlab.tools.steps.steps import Account, StepDone, Steps

AS_IT_IS = "as-it-is"
"""Stands for the mode: nothing is known of it."""


@dataclass(frozen=True)
class Conducted:
    """One trial, with everything that its steps said."""

    started: datetime
    ended: datetime
    account: Account


@dataclass(frozen=True)
class Conduct:
    """What is to be done. `given` is the text that asked for it; `resolved` how it was understood."""

    name: str
    work: StepsWorkload
    trials: int
    given: bytes
    resolved: Mapping[str, Any]
    phases: Sequence[Phase] = PHASES
    shared: Mapping[str, str | None] = field(default_factory=dict)
    """The hosts that others may reach too, which are leased meanwhile: name → how ssh reaches it, None for this machine."""
    take_over: bool = False
    """Leases that a run which has died left are taken."""
    reached: Mapping[str, str | None] = field(default_factory=dict)
    """All hosts but those of a lab, as `shared`: where an undo can carry Reset out."""
    lab: str | None = None
    """Label of the lab that was built for the run, and that goes with it."""
    directories: Mapping[str, str] = field(default_factory=dict)
    """Where the steps of a host run, if not where its commands run anyway."""

    def reset(self) -> list[UndoStep]:
        """Reset, for an undo of a run that was killed before it."""
        return [
            UndoStep(name, SH.text(self._in_its_folder(name, step.command)), why="Reset")
            for name, steps in (self.work.reset if "reset" in self.phases else {}).items()
            for step in steps
            if name in self.reached
        ]

    def _in_its_folder(self, name: str, command: str) -> str:
        folder = self.directories.get(name)
        return SH.in_directory(folder, command) if folder else command

    def plan(self) -> Plan:
        """One trial a repeat."""
        cells = [
            Cell(mode=AS_IT_IS, factors={"mode": AS_IT_IS}, tool="steps", links=(), setting=StepsSetting(steps=self.work), repeat=n)
            for n in range(1, self.trials + 1)
        ]
        trials = tuple(Trial(number=c.repeat, cell=c, group=1, estimate_s=0.0, ceilings={}) for c in cells)
        return Plan(experiment=self.name, testbed="hosts", order="as-written", seed=0, estimate_s=0.0, trials=trials)


async def conduct(
    what: Conduct, hosts: Mapping[str, Host], book: CommandBook, progress: Progress, *, runs: Path, done: list[Conducted]
) -> RunResult:
    """All trials, each into `done`; a step that fails makes its trial `failed`. An interrupted trial keeps what it did and ends the run.

    Raises InputError for a host that is not there, InUse, HostError for one that cannot be leased, StoreError, LabError.
    """
    plan = what.plan()
    folder = RunFolder.create(
        runs, experiment=what.name, experiment_yaml=what.given, testbed_yaml=None,
        resolved={**what.resolved, HOSTS: dict(what.shared)}, plan=plan.to_json(), now=datetime.now(UTC),
    )  # fmt: skip
    events = EventLog(folder.path / EVENTS, progress.hear, plan)
    events.begun(folder.path, set())
    steps = Steps(hosts, directories=what.directories, note=events.note)
    with begun([folder]) as (journal,):
        if what.lab is not None:
            journal.write("lab-up", label=what.lab)
        shared = {name: hosts[name] for name in what.shared}
        async with leased_by(shared, folder, journal, take_over=what.take_over, note=events.note):
            journal.write(
                "steps-begun", experiment=what.name, trials=len(plan.trials), reset=undo_to_json(what.reset()), hosts=dict(what.reached)
            )
            async with ended_by(lambda: _ended(what, hosts, journal)):
                try:
                    for trial in plan.trials:
                        await _trial(what, trial, steps, folder=folder, book=book, events=events, done=done)
                except BaseException as error:
                    events.cut(error, remedy="")
                    raise
        journal.write("run-finished")
    failed = sum(1 for o in done if o.account.failed)
    events.close("finished", {"measured": len(done) - failed, "failed": failed})
    folder.write_manifest()
    return RunResult(folder.path, len(done) - failed, failed, 0)


async def _trial(
    what: Conduct, trial: Trial, steps: Steps, *, folder: RunFolder, book: CommandBook, events: EventLog, done: list[Conducted]
) -> None:
    account, started = Account(), datetime.now(UTC)
    events.trial(trial)
    try:
        await steps.carry_out(what.work, account, what.phases)
    finally:
        done.append(Conducted(started, datetime.now(UTC), account))
        measured = account.measured()
        record = _record(trial, done[-1], measured, book)
        folder.write_trial(record, measured.raw)
        events.ended(record)


async def _ended(what: Conduct, hosts: Mapping[str, Host], journal: Journal) -> None:
    journal.write("steps-ended")
    if what.lab is None:
        return
    for name in set(hosts) - set(what.reached):
        await hosts[name].close()
    from dutlab import labs  # noqa: PLC0415 -- only a run in a lab needs it

    await labs.down(what.lab)
    journal.write("lab-down", label=what.lab)


def _record(trial: Trial, done: Conducted, measured: Measured, book: CommandBook) -> TrialRecord:
    has_failed = done.account.failed or done.account.interrupted
    return TrialRecord(
        trial=trial.number,
        status="failed" if has_failed else "measured",
        why=_summary(done.account),
        cell=trial.cell,
        started=done.started,
        ended=done.ended,
        doubts=[DoubtRecord.of(d) for d in measured.doubts],
        commands=book.take(),
        **found_of(measured),
    )


def _summary(account: Account) -> str:
    interrupted = f"interrupted in {account.interrupted}" if account.interrupted else ""
    failed = [d for d in account.failed if d.end != "interrupted"]
    if not failed:
        return interrupted
    first = _words(failed[0])
    said = first if len(failed) == 1 else f"{len(failed)} steps failed, the first on {first}"
    return f"{interrupted}; {said}" if interrupted else said


def _words(step: StepDone) -> str:
    return f"{step.host}, {step.phase}: `{step.step.command}` {step.why}"
