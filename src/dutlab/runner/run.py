"""Start and resume of a run, up to its manifest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutlab import labs
from dutlab.errors import InputError
from dutlab.plan.plan import Plan
from dutlab.plan.trials import make_plan, needs_hand
from dutlab.release import release
from dutlab.runner.execution import Execution, RunOptions
from dutlab.runner.journal import Journal, read_journal
from dutlab.runner.leasing import begun
from dutlab.runner.progress import Progress, RunResult
from dutlab.runner.recovery import STANDING_LAB, existing_lab_of, put_back, testbed_in
from dutlab.runner.rig import disturbed_by_environment
from dutlab.runner.trust import insist_on_resume
from dutlab.spec.experiment import Experiment
from dutlab.spec.loader import LoadedExperiment, testbed_of
from dutlab.spec.testbed import Testbed
from dutlab.store.read import reading
from dutlab.store.run_folder import RunFolder


async def run(given: LoadedExperiment, options: RunOptions, progress: Progress) -> RunResult:
    """Plan the experiment, make its run folder with the bytes of its files as they were read, and carry it out.

    A run that is refused because its hosts are in use (InUse) leaves no folder. Raises InputError, TestbedError, StoreError. A failed
    trial raises nothing: it becomes a record.
    """
    return await carry_out_work(Work.planned(given, unattended=options.unattended), options, progress)


async def carry_out_work(work: Work, options: RunOptions, progress: Progress, *, additions: Mapping[str, Any] | None = None) -> RunResult:
    """Carry out planned work; `additions` is added to resolved.json."""
    folder = work.new_folder(options, additions=additions)
    with begun([folder]) as (journal,):
        return await work.started(folder, journal, progress).run_to_end(options)


async def resume(path: Path, options: RunOptions, progress: Progress) -> RunResult:
    """Resume a cut run: undo its changes of the DUT, then run every trial without a record.

    Raises as run() does, NotOurs if another user made the run and it is not trusted, and InputError if another process has the run
    or its files were changed after its end.
    """
    folder, work = resumable_work(path, trusted=options.trusted)
    journal = Journal(folder.journal)
    try:
        return await (await work.resumed(folder, journal, progress)).run_to_end(options)
    finally:
        journal.close()


def resumable_work(path: Path, *, trusted: bool) -> tuple[RunFolder, Work]:
    """Return the folder of a run and its work, without changes on disk. Raises NotOurs unless `trusted`, InputError, StoreError."""
    folder = RunFolder.open(path)
    if folder.is_closed and not (changed := folder.verify_manifest()).none:
        what = f"{path}: has ended, and its files were changed since: {changed}"
        raise InputError(what, remedy="restore them from a copy, or start a new run")
    with reading(path):
        if not trusted:
            insist_on_resume(folder, read_journal(folder.journal))
        testbed = testbed_in(folder)
        return folder, Work(Experiment.model_validate(folder.resolved["experiment"]), testbed, Plan.from_json(folder.plan))


@dataclass(frozen=True)
class Work:
    """Work of a run. The input files are empty for a resumed run, whose folder has them."""

    experiment: Experiment
    testbed: Testbed
    plan: Plan
    experiment_yaml: bytes = b""
    testbed_yaml: bytes | None = None

    @classmethod
    def planned(cls, given: LoadedExperiment, *, unattended: bool) -> Work:
        """Plan every trial of an experiment; nothing is changed on disk. Raises InputError, TestbedError."""
        experiment = with_environment(given.experiment)
        testbed = testbed_of(given)
        plan = make_plan(experiment, testbed)
        if unattended and (by_hand := needs_hand(plan)):
            raise InputError(
                f"the plan needs a person: {'; '.join(by_hand)}",
                remedy="run it without --unattended, or give each level commands under `levels:` and leave verify_traffic out",
            )
        return cls(experiment, testbed, plan, given.text, given.testbed_text)

    def new_folder(
        self, options: RunOptions, *, now: datetime | None = None, token: str | None = None, additions: Mapping[str, Any] | None = None
    ) -> RunFolder:
        """Make the run folder. Its name begins with `now` and ends with `token`; `additions` go into resolved.json. Raises StoreError."""
        return RunFolder.create(
            options.runs,
            experiment=self.experiment.name,
            experiment_yaml=self.experiment_yaml,
            testbed_yaml=self.testbed_yaml,
            resolved={
                "experiment": self.experiment.model_dump(mode="json"),
                "testbed": self.testbed.model_dump(mode="json"),
                "command": list(options.command),
                "dutlab": release(),
                **({STANDING_LAB: options.standing_lab} if options.standing_lab else {}),
                **({"unknown": list(options.unknown)} if options.unknown else {}),
                **(additions or {}),
            },
            plan=self.plan.to_json(),
            now=now or datetime.now(UTC),
            token=token,
        )

    def started(self, folder: RunFolder, journal: Journal, progress: Progress) -> Execution:
        """Return the run's first execution."""
        journal.write("run-started", experiment=self.experiment.name, trials=len(self.plan.trials), seed=self.plan.seed)
        return self._execution(folder, journal, progress)

    def _execution(self, folder: RunFolder, journal: Journal, progress: Progress) -> Execution:
        return Execution(
            experiment=self.experiment, testbed=self.testbed, plan=self.plan, folder=folder, journal=journal, progress=progress
        )

    async def resumed(self, folder: RunFolder, journal: Journal, progress: Progress) -> Execution:
        """Undo the changes of the previous process, and return the run's next execution."""
        label = existing_lab_of(folder.path)
        restarted = [] if label is None else await labs.revive(label)
        undone = await put_back(folder, journal, revive=True)
        journal.write("run-resumed")
        execution = self._execution(folder, journal, progress)
        for note in (*restarted, *undone.revived):
            execution.events.note(note)
        if not folder.is_closed:
            execution.records.void_unproven()
            execution.records.void_killed()
        return execution


def with_environment(experiment: Experiment) -> Experiment:
    """Return `experiment` with `disturbed: count` if the environment asks for it (DISTURBED_VARIABLE)."""
    return experiment.model_copy(update={"disturbed": "count"}) if disturbed_by_environment() == "count" else experiment
