"""Carries out steps on hosts that are no testbed: no modes, no links, only phases. What it leaves is a run like any other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutlab.hosts.host import Host
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.plan.trials import Plan, Trial
from dutlab.runner.cut import HOSTS
from dutlab.runner.leasing import begun, leased_by
from dutlab.runner.progress import Progress
from dutlab.runner.run import RunResult
from dutlab.runner.trial import CommandBook
from dutlab.spec.workloads.steps import PHASES, Phase, StepsWorkload
from dutlab.store.record import DoubtRecord, TrialRecord, found_of
from dutlab.store.run_folder import RunFolder
from dutlab.tools.steps import Account, StepDone, Steps

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

    def plan(self) -> Plan:
        """One trial a repeat."""
        cells = [
            Cell(mode=AS_IT_IS, factors={"mode": AS_IT_IS}, workload="steps", tool="steps", links=(), params=self.work.params, repeat=n)
            for n in range(1, self.trials + 1)
        ]
        trials = tuple(Trial(number=c.repeat, cell=c, group=1, estimate_s=0.0, ceilings={}) for c in cells)
        return Plan(experiment=self.name, testbed="hosts", order="as-written", seed=0, estimate_s=0.0, trials=trials)


async def conduct(
    what: Conduct, hosts: Mapping[str, Host], runs: Path, book: CommandBook, progress: Progress
) -> tuple[RunResult, list[Conducted]]:
    """All trials; a step that fails makes its trial `failed`. An interrupted trial keeps what it did and ends the run.

    Raises InputError for a host that is not there, InUse, HostError for one that cannot be leased, StoreError.
    """
    plan = what.plan()
    folder = RunFolder.create(
        runs, experiment=what.name, experiment_yaml=what.given, testbed_yaml=None,
        resolved={**what.resolved, HOSTS: dict(what.shared)}, plan=plan.to_json(), now=datetime.now(UTC),
    )  # fmt: skip
    progress.began(folder.path, plan, 0)
    out: list[Conducted] = []
    with begun(folder) as journal:
        journal.write("run-started", experiment=what.name, trials=len(plan.trials))
        shared = {name: hosts[name] for name in what.shared}
        async with leased_by(shared, folder, journal, take_over=what.take_over, note=progress.note):
            for trial in plan.trials:
                account, started = Account(), datetime.now(UTC)
                try:
                    await Steps(hosts).carry_out(what.work, account, what.phases)
                finally:
                    out.append(Conducted(started, datetime.now(UTC), account))
                    measured = account.measured()
                    record = _record(trial, out[-1], measured, book)
                    folder.write_trial(record, measured.raw)
                    progress.trial(trial, record)
        journal.write("run-finished")
    folder.write_manifest()
    failed = sum(1 for o in out if o.account.failed)
    return RunResult(folder.path, len(out) - failed, failed, 0), out


def _record(trial: Trial, done: Conducted, measured: Measured, book: CommandBook) -> TrialRecord:
    return TrialRecord(
        trial=trial.number,
        status="failed" if done.account.failed else "measured",
        why=_summary(done.account.failed),
        cell=trial.cell,
        started=done.started,
        ended=done.ended,
        doubts=[DoubtRecord.of(d) for d in measured.doubts],
        commands=book.take(),
        **found_of(measured),
    )


def _summary(failed: Sequence[StepDone]) -> str:
    if not failed:
        return ""
    first = f"{failed[0].host}, {failed[0].phase}: `{failed[0].step.command}` {failed[0].why}"
    return first if len(failed) == 1 else f"{len(failed)} steps failed, the first on {first}"
