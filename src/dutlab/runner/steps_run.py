"""Run of steps on hosts without a testbed: it has phases, but no modes and no links. The rest is as in any run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutlab.dut.mode import UndoStep
from dutlab.ending import ended_by
from dutlab.hosts.host import Host
from dutlab.plan.cell import Cell
from dutlab.plan.plan import Plan, Trial
from dutlab.runner.command_book import CommandBook
from dutlab.runner.journal import undo_to_json
from dutlab.runner.leasing import HOSTS, begun, leased_by
from dutlab.runner.progress import Progress, RunResult
from dutlab.runner.records import TrialOutput
from dutlab.runner.run_process import RunProcess
from dutlab.spec.workloads.steps import PHASES, Phase, StepsSetting, StepsWorkload
from dutlab.store.details import TrialDetails
from dutlab.store.record import DoubtRecord, TrialRecord, measured_fields
from dutlab.store.run_folder import RunFolder
from dutlab.systems.posix import SH
from dutlab.tools.steps.account import Account, StepDone
from dutlab.tools.steps.steps import Steps

AS_IT_IS = "as-it-is"
"""Mode of these runs, since the state of the hosts is not known."""


@dataclass(frozen=True)
class StepsTrial:
    """One trial, with the output of its steps."""

    started: datetime
    ended: datetime
    account: Account


@dataclass(frozen=True)
class StepsWork:
    """Work of steps. `given` is the text of its file; `resolved` is the parsed form, for resolved.json."""

    name: str
    work: StepsWorkload
    trials: int
    given: bytes
    resolved: Mapping[str, Any]
    phases: Sequence[Phase] = PHASES
    shared: Mapping[str, str | None] = field(default_factory=dict)
    """Hosts that other users may reach, which are leased: name → ssh destination, None for this machine."""
    take_over: bool = False
    """True to take over the leases of a dead run."""
    reached: Mapping[str, str | None] = field(default_factory=dict)
    """All hosts outside of the lab, in the form of `shared`. An undo can run Reset there."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Hosts of the lab: name → name in the lab. An undo can run Reset there while the lab is up."""
    lab: str | None = None
    """Label of the lab that was built for the run and is taken down after it."""
    directories: Mapping[str, str] = field(default_factory=dict)
    """Host → folder in which its steps run, if not its default one."""

    def reset(self) -> list[UndoStep]:
        """Return the Reset steps, for an undo of a run that was killed before them."""
        return [
            UndoStep(name, SH.text(self._in_working_folder(name, step.command)), why="Reset")
            for name, steps in (self.work.reset if "reset" in self.phases else {}).items()
            for step in steps
        ]

    def _in_working_folder(self, name: str, command: str) -> str:
        folder = self.directories.get(name)
        return SH.in_directory(folder, command) if folder else command

    def plan(self) -> Plan:
        """Return the plan: one trial for each repeat."""
        cells = [
            Cell(mode=AS_IT_IS, factors={"mode": AS_IT_IS}, tool="steps", links=(), setting=StepsSetting(steps=self.work), repeat=n)
            for n in range(1, self.trials + 1)
        ]
        trials = tuple(Trial(number=c.repeat, cell=c, group=1, estimate_s=0.0, ceilings={}) for c in cells)
        return Plan(experiment=self.name, testbed="hosts", order="as-written", seed=0, estimate_s=0.0, trials=trials)


async def run_steps(
    what: StepsWork, hosts: Mapping[str, Host], book: CommandBook, progress: Progress, *, runs: Path, done: list[StepsTrial]
) -> RunResult:
    """Run all trials and append each to `done`. A failed step makes its trial `failed`. An interrupted trial is recorded and ends the run.

    Raises InputError for an unknown host, InUse, HostError for a host that cannot be leased, StoreError, LabError.
    """
    plan = what.plan()
    folder = RunFolder.create(
        runs, experiment=what.name, experiment_yaml=what.given, testbed_yaml=None,
        resolved={**what.resolved, HOSTS: dict(what.shared)}, plan=plan.to_json(), now=datetime.now(UTC),
    )  # fmt: skip
    with begun([folder]) as (journal,):
        run = StepsRun(plan=plan, folder=folder, journal=journal, progress=progress, book=book, work=what, hosts=hosts, done=done)
        return await run.all_left(run.measure, how="")


@dataclass(frozen=True, kw_only=True)
class StepsRun(RunProcess):
    """The process that works on a run of steps. Such a run cannot be resumed."""

    work: StepsWork
    hosts: Mapping[str, Host]
    done: list[StepsTrial]
    """Finished trials."""

    async def measure(self, trials: Sequence[Trial], ends: float | None) -> None:
        """Run `trials` on leased hosts. Nothing but Reset restores the hosts."""
        steps = Steps(self.hosts, directories=self.work.directories, note=self.events.note)
        if self.work.lab is not None:
            self.journal.write("lab-up", label=self.work.lab)
        shared = {name: self.hosts[name] for name in self.work.shared}
        async with leased_by(shared, self.folder, self.journal, take_over=self.work.take_over, note=self.events.note):
            facts = {
                "experiment": self.work.name,
                "trials": len(self.plan.trials),
                "hosts": dict(self.work.reached),
                "roles": dict(self.work.roles),
            }
            self.journal.write("steps-begun", reset=undo_to_json(self.work.reset()), **facts)
            async with ended_by(self._ended):
                for trial in trials:
                    await self._trial(self.begin_trial(trial, ends), steps)

    async def _trial(self, trial: Trial, steps: Steps) -> None:
        account, started = Account(), datetime.now(UTC)
        try:
            await steps.carry_out(self.work.work, account, self.work.phases)
        finally:
            self.done.append(StepsTrial(started, datetime.now(UTC), account))
            self.records.once_more(self._output(trial, self.done[-1]))

    async def _ended(self) -> None:
        self.journal.write("steps-ended")
        if self.work.lab is None:
            return
        for name in set(self.hosts) - set(self.work.reached):
            await self.hosts[name].close()
        from dutlab import labs  # noqa: PLC0415 -- only a run in a lab needs it

        await labs.down(self.work.lab)
        self.journal.write("lab-down", label=self.work.lab)

    def _output(self, trial: Trial, done: StepsTrial) -> TrialOutput:
        measured = done.account.measured()
        record = TrialRecord(
            trial=trial.number,
            status="failed" if done.account.failed or done.account.interrupted else "measured",
            why=_summary(done.account),
            cell=trial.cell,
            started=done.started,
            ended=done.ended,
            doubts=[DoubtRecord.of(d) for d in measured.doubts],
            **measured_fields(measured),
        )
        return TrialOutput(record, dict(measured.raw), [], details=TrialDetails.of(measured.flows, self.book.take()))


def _summary(account: Account) -> str:
    interrupted = f"interrupted in {account.interrupted}" if account.interrupted else ""
    failed = [d for d in account.failed if d.end != "interrupted"]
    if not failed:
        return interrupted
    first = _words(failed[0])
    text = first if len(failed) == 1 else f"{len(failed)} steps failed, the first on {first}"
    return f"{interrupted}; {text}" if interrupted else text


def _words(step: StepDone) -> str:
    return f"{step.host}, {step.phase}: `{step.step.command}` {step.why}"
