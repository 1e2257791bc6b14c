"""Carries a plan out, from an empty run folder to its manifest, or from wherever a run was cut.

Per application of a mode: undo steps into the journal → apply → verify → its trials → restore, always.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from dutlab import labs
from dutlab.doubts import Doubt, DoubtKind
from dutlab.dut.manual import question
from dutlab.dut.mode import Check, Mode, UndoStep
from dutlab.ending import ended_by
from dutlab.errors import DutlabError, InputError, LabError, MeasurementError, TestbedError
from dutlab.events import EVENTS
from dutlab.hosts.host import connections_of
from dutlab.methods.calibrate import Rig
from dutlab.plan.trials import Plan, Trial, make_plan, needs_hand
from dutlab.runner.attempts import Attempts
from dutlab.runner.command_book import CommandBook
from dutlab.runner.event_log import EventLog
from dutlab.runner.examine import doubts_of, examine, streams_of
from dutlab.runner.headroom import RigLoad, loads_of
from dutlab.runner.into_mode import as_applied, into_mode, lost_mode, lost_state, stayed_in_mode
from dutlab.runner.journal import Journal, read_journal, undo_to_json, unproven_trials
from dutlab.runner.leasing import begun, leased_by
from dutlab.runner.ports import insist_on_ports, prepared
from dutlab.runner.progress import Progress, RunResult
from dutlab.runner.recovery import STANDING_LAB, put_back, testbed_in
from dutlab.runner.rig import OpenRig, disturbed_by_environment, lab_rig
from dutlab.runner.stage import Stage, open_stage
from dutlab.runner.trial import TrialOutput, carry_out, refused
from dutlab.runner.trust import insist_on_resume
from dutlab.runner.undo import carry_out as carry_out_undo
from dutlab.spec.experiment import Experiment, LabRef
from dutlab.spec.loader import Given
from dutlab.spec.testbed import Testbed
from dutlab.store.attempts import AttemptReason
from dutlab.store.calibration import Calibration, cache_folder
from dutlab.store.judged import DISTURBED
from dutlab.store.needed import Repeats
from dutlab.store.read import reading
from dutlab.store.run_folder import RunFolder

VIRTUAL = "veth"
"""The kind of port that namespaces and containers have."""


@dataclass(frozen=True)
class RunOptions:
    """How a plan is carried out; nothing in it changes what is measured."""

    runs: Path
    engine_binary: Path
    command: tuple[str, ...]
    """The command line that asked for it, for whoever repeats the run."""
    unattended: bool = False
    standing_lab: str | None = None
    """Label of a lab that runs already; None builds one for the run."""
    take_over: bool = False
    """Use hosts that a dead run left in use, as they are."""
    trusted: bool = False
    """Resume also a run that this user did not make on this machine."""
    budget_s: float | None = None
    """After so many seconds nothing is measured any more; what is left can be resumed."""
    unknown: tuple[str, ...] = ()
    """What could not be found out before, in sentences for the report."""


class _TimeIsOver(Exception):
    """The next trial would end after the budget."""


@asynccontextmanager
async def _within(budget_s: float | None) -> AsyncIterator[float | None]:
    """Yields when it ends on the loop's clock. Raises _TimeIsOver then, or the error that had ended the work before and was cleaned up."""
    limit = asyncio.timeout(budget_s)
    try:
        async with limit:
            yield limit.when()
    except TimeoutError as error:
        if not isinstance(cut := error.__cause__, asyncio.CancelledError) or not limit.expired():
            raise
        raise cut.__cause__ or _TimeIsOver() from None


async def run(given: Given, options: RunOptions, progress: Progress) -> RunResult:
    """Plans the experiment, makes its run folder with the very bytes that were read, and carries it out. No file of the user is read here.

    A run that is refused since others have its hosts (InUse) leaves no folder. Raises InputError, TestbedError, StoreError; a trial that
    fails is not an exception but a record.
    """
    return await carry_out_work(Work.planned(given, unattended=options.unattended), options, progress)


async def carry_out_work(work: Work, options: RunOptions, progress: Progress, *, beside: Mapping[str, Any] | None = None) -> RunResult:
    """The same of what is planned already; `beside` is what else resolved.json has."""
    folder = work.new_folder(options, beside=beside)
    with begun([folder]) as (journal,):
        return await work.started(folder, journal, progress).to_its_end(options)


async def resume(path: Path, options: RunOptions, progress: Progress) -> RunResult:
    """Goes on with a run that was cut: first the undo of the DUT, then every trial that has no record.

    Raises as run() does, NotOurs for a run of somebody else unless it is trusted, and InputError when another process has the run, or it
    ended and its files were changed since.
    """
    folder, work = to_go_on_with(path, trusted=options.trusted)
    journal = Journal(folder.journal)
    try:
        return await (await work.resumed(folder, journal, progress)).to_its_end(options)
    finally:
        journal.close()


def to_go_on_with(path: Path, *, trusted: bool) -> tuple[RunFolder, Work]:
    """The folder of a run, and what it was to do. Nothing is touched. Raises NotOurs unless `trusted`, InputError, StoreError."""
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
    """What a run is to do. The files as given are empty for a run that goes on: its folder has them."""

    experiment: Experiment
    testbed: Testbed
    plan: Plan
    experiment_yaml: bytes = b""
    testbed_yaml: bytes | None = None

    @classmethod
    def planned(cls, given: Given, *, unattended: bool) -> Work:
        """Every trial of an experiment; nothing is touched. Raises InputError, TestbedError."""
        experiment = with_environment(given.experiment)
        testbed = testbed_of(given)
        plan = make_plan(experiment, testbed)
        if unattended and (by_hand := needs_hand(plan)):
            raise InputError(
                f"the plan needs a person: {'; '.join(by_hand)}",
                remedy="run it without --unattended, or give the factor commands as a mode",
            )
        return cls(experiment, testbed, plan, given.text, given.testbed_text)

    def new_folder(
        self, options: RunOptions, *, now: datetime | None = None, token: str | None = None, beside: Mapping[str, Any] | None = None
    ) -> RunFolder:
        """`now` begins its name and `token` ends it; `beside` is what else resolved.json has. Raises StoreError."""
        return RunFolder.create(
            options.runs,
            experiment=self.experiment.name,
            experiment_yaml=self.experiment_yaml,
            testbed_yaml=self.testbed_yaml,
            resolved={
                "experiment": self.experiment.model_dump(mode="json"),
                "testbed": self.testbed.model_dump(mode="json"),
                "command": list(options.command),
                **({STANDING_LAB: options.standing_lab} if options.standing_lab else {}),
                **({"unknown": list(options.unknown)} if options.unknown else {}),
                **(beside or {}),
            },
            plan=self.plan.to_json(),
            now=now or datetime.now(UTC),
            token=token,
        )

    def started(self, folder: RunFolder, journal: Journal, progress: Progress) -> Execution:
        """The first process at it."""
        journal.write("run-started", experiment=self.experiment.name, trials=len(self.plan.trials), seed=self.plan.seed)
        return Execution(self.experiment, self.testbed, self.plan, folder, journal, progress)

    async def resumed(self, folder: RunFolder, journal: Journal, progress: Progress) -> Execution:
        """A later process at it, once everything is put back that the one before had changed."""
        await put_back(folder, journal)
        journal.write("run-resumed")
        execution = Execution(self.experiment, self.testbed, self.plan, folder, journal, progress)
        if not folder.is_closed:
            execution.void_unproven()
        return execution


def with_environment(experiment: Experiment) -> Experiment:
    """With what the environment says of disturbed trials."""
    return experiment.model_copy(update={"disturbed": "count"}) if disturbed_by_environment() == "count" else experiment


def testbed_of(given: Given) -> Testbed:
    """The testbed that an experiment names, without touching it. Raises LabError."""
    named = given.experiment.testbed
    if isinstance(named, LabRef):
        return labs.description(named.lab).testbed
    assert given.testbed is not None  # noqa: S101 - the loader reads every testbed file that an experiment names
    return given.testbed


@dataclass(frozen=True)
class Execution:
    """One process's work on a run: everything that has no record yet."""

    experiment: Experiment
    testbed: Testbed
    plan: Plan
    folder: RunFolder
    journal: Journal
    progress: Progress
    book: CommandBook = field(default_factory=CommandBook)
    said: set[str] = field(default_factory=set)
    """Notes and findings that the user was told of: a stage that is opened anew finds them again."""

    def void_unproven(self) -> None:
        """Sets aside the trials of a cut run since its mode was verified last: it may have been lost during them. Raises StoreError."""
        with reading(self.folder.journal):
            trials = unproven_trials(read_journal(self.folder.journal))
        self._attempts.void(trials)

    async def to_its_end(self, options: RunOptions) -> RunResult:
        """All that is left, at a stretch."""
        self.begin()
        if left := self.left():
            how = f"`dutlab resume {self.folder.path}` continues it"
            try:
                async with _within(options.budget_s) as ends:
                    await self.measure(left, options, ends=ends)
            except _TimeIsOver as error:
                if self.left():
                    self.say_cut(error, how)
                    return self.partial()
            except BaseException as error:
                self.say_cut(error, how)
                raise
            self.journal.write("run-finished")
        return self.result()

    def begin(self) -> None:
        """Tells the user what there is to do."""
        self.events.begun(self.folder.path, self.folder.finished())

    def say_cut(self, error: BaseException, how: str) -> None:
        """Tells the user `how` the run can go on, if a trial of it is there."""
        finished = len(self.folder.finished())
        self.events.cut(error, f"interrupted after {finished} of {len(self.plan.trials)} trials: {how}" if finished else "")

    def left(self, among: Sequence[Trial] | None = None) -> list[Trial]:
        """Those of `among` (of the plan) that have no record yet and that the plan's rule for repeats still needs."""
        done = self.folder.finished()
        return self._needed(t for t in (self.plan.trials if among is None else among) if t.number not in done)

    def result(self) -> RunResult:
        """Closes the run, of which nothing is left."""
        made = self.partial()
        of = {"measured": made.measured, "failed": made.failed, "refused": made.refused, "disturbed": made.disturbed}
        self.events.close("finished", of)
        self.folder.write_manifest()
        return made

    def partial(self) -> RunResult:
        """What there is by now; a run that was cut can go on."""
        status = Counter(r.status for r in self.folder.records())
        left = len(self.left())
        return RunResult(self.folder.path, status["measured"], status["failed"], status["refused"], status[DISTURBED], left)

    async def measure(self, trials: Sequence[Trial], options: RunOptions, *, ends: float | None = None) -> None:
        """`trials` on a stage that is opened and closed for them; with the last ones of the run, also those that hindsight sets aside.

        `ends` is the moment of the loop's clock by which the last trial is to have ended. Raises _TimeIsOver before one that would not, and
        TestbedError where a tool fails outside of any trial: then the run cannot go on.
        """
        try:
            await self._on_stage(trials, options, ends)
        except MeasurementError as error:
            raise TestbedError(error.what, remedy=error.remedy) from error

    async def _on_stage(self, trials: Sequence[Trial], options: RunOptions, ends: float | None) -> None:
        is_built = self.testbed.lab and not options.standing_lab
        self.events.preparing(f"building lab {self.testbed.lab}" if is_built else "connecting to the hosts")
        async with open_stage(
            self.experiment,
            self.testbed,
            [trial.cell for trial in self.plan.trials],
            standing=options.standing_lab,
            journal=self.journal,
            log=self.book.note,
            engine_binary=options.engine_binary,
            tell=self.events.reading,
            lease=lambda hosts: leased_by(hosts, self.folder, self.journal, take_over=options.take_over, note=self.events.note),
        ) as bare:
            for text in bare.notes:
                if text not in self.said:
                    self.events.note(text)
                self.said.add(text)
            if self.testbed.lab is None:
                await insist_on_ports(self.testbed, bare.hosts)
            async with prepared(bare.hosts, self.testbed, self.journal):
                stage = await self._calibrated(await self._examined(bare), options)
                set_by_hand: dict[str, str] = {}
                while rest := self.left(trials):  # again, when what had made a trial needless was set aside since
                    for _, group in groupby(rest, key=lambda t: t.group):
                        if needed := self._needed(group):
                            set_by_hand = await self._ask(needed[0], set_by_hand)
                            await self._group(stage, needed, ends)
                    while not self.left() and (late := self._disturbed_in_hindsight()):
                        for _, group in groupby(late, key=lambda t: t.group):
                            await self._group(stage, list(group), ends)
                if "mode" in set_by_hand:
                    await self._ask_person("restore the DUT to its state before the run")

    @cached_property
    def _repeats(self) -> Repeats | None:
        """What the plan's rule makes of the records; each is read or written here once."""
        rule = self.plan.repeat_rule
        return None if rule is None else Repeats({t.number: t.cell for t in self.plan.trials}, self.folder.records(), rule.rule)

    def _needed(self, trials: Iterable[Trial]) -> list[Trial]:
        """Without those that the plan's rule for repeats has made needless by now; the report and the index ask the same."""
        return [t for t in trials if self._repeats is None or not self._repeats.needless(t.number)]

    async def _ask(self, trial: Trial, stands: dict[str, str]) -> dict[str, str]:
        """Pauses for each factor set by hand whose level changes; a resumed run asks for all, since nobody knows how things stand."""
        wanted = {name: level for name, level in trial.cell.factors.items() if name in self.plan.hand_factors}
        for name, level in wanted.items():
            if stands.get(name) != level:
                await self._ask_person(question(name, level), before_trial=trial.number)
        return wanted

    async def _ask_person(self, asked: str, **facts: object) -> None:
        self.journal.write("answered", question=asked, answer=await self.progress.ask(asked), **facts)

    async def _examined(self, bare: Stage) -> Stage:
        """The stage whose records carry what distorts results on it; facts and findings are stored, and the user is told.

        Ports that are not hardware although the testbed is not a lab of ours are among the doubts too.
        """
        self.events.preparing("examining the hosts")
        found = await examine(bare.testbed, bare.hosts, pinned=bare.site.cpus, loads=streams_of(self.experiment))
        for name, facts in found.facts.items():
            self.folder.write_host(name, {**facts, "tools": dict(bare.versions)})
        self.folder.write_findings([f.to_json() for f in found.findings])
        for finding in found.findings:
            text = f"{', '.join(finding.where)}: {finding.what}; expected cost: {finding.price.words}"
            if text not in self.said:
                self.events.note(text)
            self.said.add(text)
        ends = [facts for name, facts in found.facts.items() if name in bare.testbed.ends]
        kinds = {card.get("kind") for facts in ends for card in facts.get("interfaces", {}).values()}
        virtual = [] if bare.marks or VIRTUAL not in kinds else [Doubt(DoubtKind.VIRTUAL_PORTS)]
        return replace(bare, marks=(*bare.marks, *virtual, *doubts_of(found.findings)))

    async def _calibrated(self, stage: Stage, options: RunOptions) -> Stage:
        """The stage with what its rig does without the DUT. Where that fails, results have no headroom, and the user is told."""
        through = stage.dut_testbed.links
        loads = loads_of(trial.cell for trial in self.plan.trials if all(name in through for name in trial.cell.links))
        if not loads:
            return stage
        self.events.preparing("measuring the rig without the DUT")
        try:
            if stage.lab is not None and stage.lab.ssh_config is None:
                calibration = await self._of_lab(stage, stage.lab, loads, options)
            else:
                rig = OpenRig(stage.site, stage.versions, self.experiment.disturbed)
                calibration = await rig.best(loads, cache_folder(), self.events.note, self._no_headroom)
        except (LabError, MeasurementError) as e:
            self.events.note(f"headroom unknown: the rig could not be measured without the DUT: {e}")
            return stage
        self.folder.write_calibration(calibration.model_dump(mode="json"))
        return replace(stage, calibration=calibration)

    async def _of_lab(self, stage: Stage, lab: labs.Lab, loads: Sequence[RigLoad], options: RunOptions) -> Calibration:
        """What the lab's rig does; its cables are in the journal while they may be there, for a lab that outlives the run."""
        steps = [UndoStep(host, argv, why="removes a cable of the rig without the DUT") for host, argv in labs.cable_undo(lab)]
        self.journal.write("rig-cabling", application="rig", undo=undo_to_json(steps))
        disturbed = self.experiment.disturbed
        try:
            async with lab_rig(lab, str(options.engine_binary), versions=stage.versions, disturbed=disturbed) as rig:
                found, _ = await rig.measure(Rig.LOOPED, loads, cache_folder(), failed=self._no_headroom)
        finally:
            self.journal.write("rig-removed", application="rig")
        return found

    def _no_headroom(self, load: RigLoad, why: MeasurementError) -> None:
        what = f"{load.generator.text()}, {load.mix.name} on {'+'.join(load.links)}"
        self.events.note(f"headroom of {what} unknown: the rig could not be measured without the DUT: {why}")

    async def _group(self, stage: Stage, trials: Sequence[Trial], ends: float | None) -> None:
        """One application of a mode and the trials measured in it."""
        mode = stage.modes[trials[0].cell.mode]
        application = f"{trials[0].number}-{mode.name}"
        steps = await mode.undo(stage.dut, stage.dut_testbed)
        self.journal.write("mode-applying", application=application, mode=mode.name, undo=undo_to_json(steps))
        async with ended_by(lambda: self._restored(stage, steps, application)):
            await self._in_mode(stage, mode, application, trials, ends)

    async def _restored(self, stage: Stage, steps: Sequence[UndoStep], application: str) -> None:
        try:
            await stage.device.put_back()
        finally:
            await carry_out_undo(steps, stage.hosts)
        self.journal.write("mode-restored", application=application)

    async def _in_mode(self, stage: Stage, mode: Mode, application: str, trials: Sequence[Trial], ends: float | None) -> None:
        unproven = list[Trial]()
        try:
            self.events.applying(mode.name, len(trials))
            checks, why = await into_mode(stage, mode)
            self.journal.write("mode-refused" if why else "mode-verified", application=application, why=why)
            self.events.verified(mode.name, checks, holds=not why)
            left, stands = deque(trials), await as_applied(stage)
            while left:
                trial = self._begin_trial(left[0], ends)
                if why:
                    carried = refused(stage, trial, checks, self.book, why)
                else:
                    connections = connections_of(stage.dut)
                    carried = await carry_out(stage, trial, checks, self.book, watch=self.experiment.watch, tell=self.events.reading)
                    await stayed_in_mode(stage, mode, connections)
                if not (again := self._once_more(carried)):
                    unproven.append(left.popleft())
                changed = await stage.device.put_back()
                if not why and not changed and (lost := await lost_state(stage, mode, stands)):
                    left.extendleft([] if again else self._void(stage, [unproven.pop()], checks, lost))
                    changed = True
                elif not why and not left:
                    if lost := await lost_mode(stage, mode):
                        left.extend(self._void(stage, unproven, checks, lost))
                        changed = True
                    self.journal.write("mode-lost" if lost else "mode-held", application=application, why=lost)
                    unproven.clear()
                if changed and left:
                    checks, why = await into_mode(stage, mode)
                    self.journal.write("mode-refused" if why else "mode-verified", application=application, why=why)
                    stands = await as_applied(stage)
        except (asyncio.CancelledError, _TimeIsOver):
            if unproven and not why:
                await self._prove(stage, mode, application, stands)
            raise

    def _begin_trial(self, trial: Trial, ends: float | None) -> Trial:
        """The first trial of a run is begun whatever it is expected to take."""
        if ends is not None and self.folder.finished() and asyncio.get_running_loop().time() + trial.estimate_s > ends:
            raise _TimeIsOver
        self.folder.discard_incomplete(trial.number)
        self.journal.write("trial-started", trial=trial.number)
        self.events.trial(trial)
        return trial

    async def _prove(self, stage: Stage, mode: Mode, application: str, stands: Mapping[str, str]) -> None:
        """Of a run that somebody ends: whether the mode held until now, so that a resume need not do its trials again."""
        with suppress(DutlabError):
            changed = await stage.device.put_back()
            lost = "" if changed else await lost_state(stage, mode, stands)
            if not lost and not await lost_mode(stage, mode):
                self.journal.write("mode-held", application=application, why="")

    def _void(self, stage: Stage, trials: Sequence[Trial], checks: Sequence[Check], lost: str) -> list[Trial]:
        """Sets aside trials whose mode nobody can vouch for; returns those to be done again. The others have no result."""
        again = []
        for trial in trials:
            if self._repeats is not None:
                self._repeats.set_aside(trial.number)
            if self._attempts.once_more(trial.number, AttemptReason.MODE_LOST, lost):
                again.append(trial)
            else:
                self.folder.set_aside(trial.number, AttemptReason.MODE_LOST)
                self._once_more(refused(stage, trial, checks, self.book, f"{lost}, also when repeated"))
        return again

    def _once_more(self, carried: TrialOutput) -> bool:
        """Keeps a trial; whether it was disturbed, or its tool was killed, and is set aside to be done again."""
        record = self._attempts.verdict(carried.record)
        self.folder.write_trial(record, carried.raw, carried.samples)
        self.journal.write("trial-finished", trial=record.trial, status=record.status)
        self._attempts.written(record)
        if record.status == DISTURBED and self._attempts.once_more(record.trial, AttemptReason.DISTURBED, record.why):
            return True
        if carried.killed and self._attempts.once_more(record.trial, AttemptReason.TOOL_ENDED, f"killed: {', '.join(carried.killed)}"):
            return True
        if self._repeats is not None:
            self._repeats.add(record)
        self.events.ended(record)
        return False

    def _disturbed_in_hindsight(self) -> list[Trial]:
        """Trials that their whole cell shows to have been disturbed, set aside. None where a person would have to set factors again."""
        if self.plan.hand_factors:
            return []
        late = self._attempts.disturbed_in_hindsight(list(self.folder.records()))
        again = [
            t for t in self.plan.trials if t.number in late and self._attempts.once_more(t.number, AttemptReason.DISTURBED, late[t.number])
        ]
        if self._repeats is not None:
            for trial in again:
                self._repeats.set_aside(trial.number)
        return again

    @cached_property
    def events(self) -> EventLog:
        """What happens, for whoever looks on; in the run's folder until that is closed."""
        return EventLog(None if self.folder.is_closed else self.folder.path / EVENTS, self.progress.hear, self.plan)

    @cached_property
    def _attempts(self) -> Attempts:
        return Attempts(self.folder, self.journal, self.plan.repeat_disturbed, self.events.note, self.events.set_aside)
