"""One process's work on a run: open and examine the stage, measure its rig, then apply, verify and restore each mode around its trials.

Steps for each mode: set the levels of factors (levels.py) → write the undo steps to the journal → apply → verify → measure its trials →
restore, also after an error.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from dutlab import labs
from dutlab.choices import Rig
from dutlab.doubts import Doubt, DoubtKind
from dutlab.dut.manual import question
from dutlab.dut.mode import Check, Mode, UndoStep
from dutlab.ending import cancelled, ended_by
from dutlab.errors import DutlabError, LabError, MeasurementError, TestbedError
from dutlab.hosts.host import connections_of
from dutlab.hosts.local import LocalHost
from dutlab.plan.plan import Trial
from dutlab.runner.at_rest import DutAtRest, may_start_programs, measure_at_rest
from dutlab.runner.examine import doubts_of, examine, streams_of
from dutlab.runner.guest_watch import MOST_LOST, GuestLost
from dutlab.runner.headroom import RigLoad, loads_of
from dutlab.runner.into_mode import Look, as_applied, into_mode, lost_mode, lost_state, require_same_mode, unless_killed
from dutlab.runner.journal import undo_to_json
from dutlab.runner.leasing import leased_by
from dutlab.runner.levels import SetLevels, started_by
from dutlab.runner.ports import insist_on_ports, prepared
from dutlab.runner.progress import RunResult
from dutlab.runner.records import TrialOutput
from dutlab.runner.rig import OpenRig, lab_rig
from dutlab.runner.run_process import RunProcess, TimeIsOver
from dutlab.runner.stage import Stage, open_stage
from dutlab.runner.trial import carry_out, lost_with, refused
from dutlab.runner.undo import carry_out as carry_out_undo
from dutlab.sensors.quiet import Neighbours
from dutlab.spec.experiment import Experiment
from dutlab.spec.links import DUT
from dutlab.spec.testbed import Testbed
from dutlab.spec.untried import untried
from dutlab.store.calibration import Calibration, cache_folder
from dutlab.store.cell_figures import CellKey, key_of
from dutlab.subject import joined
from dutlab.workloads import plug_of

QUIET_WAIT = "quiet"
VIRTUAL = "veth"
"""Kind of port in namespaces and containers."""


@dataclass(frozen=True)
class RunOptions:
    """Options for carrying out a plan. None of them changes what is measured."""

    runs: Path
    engine_binary: Path
    command: tuple[str, ...]
    """Command line that started the run, for a person who repeats it."""
    unattended: bool = False
    standing_lab: str | None = None
    """Label of an existing lab; None builds one for the run."""
    take_over: bool = False
    """True to take over hosts that a dead run still holds."""
    trusted: bool = False
    """True to resume even a run that another user or machine made."""
    budget_s: float | None = None
    """Time in seconds after which measuring stops; the rest can be resumed."""
    wait_quiet_s: float = 0.0
    """Longest total wait in seconds for a quiet machine: before the first trial and before each repeat of a disturbed trial."""
    unknown: tuple[str, ...] = ()
    """Open questions from before the run, as sentences for the report."""


def move_shortest_to_front(left: deque[Trial]) -> None:
    """Move the shortest trial to the front; the others keep their order."""
    shortest = min(left, key=lambda trial: trial.estimate_s)
    left.remove(shortest)
    left.appendleft(shortest)


@dataclass(frozen=True, kw_only=True)
class Execution(RunProcess):
    """One process's work on a run at a testbed."""

    experiment: Experiment
    testbed: Testbed
    noted: set[str] = field(default_factory=set)
    """Notes and findings that the user has seen; a stage that is opened again finds them again."""
    losses: Counter[CellKey] = field(default_factory=Counter)
    """Cell → number of guest losses in it."""
    neighbours: Neighbours = field(default_factory=Neighbours)
    waited: Counter[str] = field(default_factory=Counter)
    """Whole seconds spent waiting for a quiet machine."""

    async def run_to_end(self, options: RunOptions) -> RunResult:
        """Run the remaining trials."""

        async def measure(left: Sequence[Trial], ends: float | None) -> None:
            await self.measure(left, options, ends=ends)

        return await self.all_left(measure, how=f"`dutlab resume {self.folder.path}` continues it", budget_s=options.budget_s)

    async def measure(self, trials: Sequence[Trial], options: RunOptions, *, ends: float | None = None) -> None:
        """Run `trials` on a stage that is opened and closed for them. After the run's last trial, repeat trials found disturbed by then.

        `ends` is the deadline of the last trial (event-loop time). Raises TimeIsOver before a trial that would miss it, and TestbedError
        if a tool fails outside of a trial, so that the run cannot continue.
        """
        try:
            await self._on_stage(trials, options, ends)
        except MeasurementError as error:
            raise TestbedError(error.what, remedy=error.remedy) from error

    async def _on_stage(self, trials: Sequence[Trial], options: RunOptions, ends: float | None) -> None:
        await self._quiet(options)
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
            ask=self._ask_person,
            lease=lambda hosts: leased_by(hosts, self.folder, self.journal, take_over=options.take_over, note=self.events.note),
        ) as bare:
            for text in bare.notes:
                if text not in self.noted:
                    self.events.note(text)
                self.noted.add(text)
            if self.testbed.lab is None:
                await insist_on_ports(self.testbed, bare.hosts)
            levels = SetLevels(
                self.experiment, bare.testbed, bare.hosts, self.journal, cores=bare.site.cpus.get(bare.testbed.dut or DUT, ())
            )
            async with prepared(bare.hosts, self.testbed, self.journal), ended_by(levels.leave):
                await levels.insist_on_knobs(self.plan, bare.modes, bare.dut)
                stage = await self._calibrated(await self._examined(bare), options)
                set_by_hand: dict[str, str] = {}
                while rest := self.records.left(trials):  # again if a record that made a trial needless was set aside
                    for _, group in groupby(rest, key=lambda t: t.group):
                        if needed := self.records.needed(group):
                            set_by_hand = await self._ask(needed[0], set_by_hand)
                            await self._group(stage, levels, needed, options, ends)
                    while not self.records.left() and (late := self.records.disturbed_within_cell()):
                        for _, group in groupby(late, key=lambda t: t.group):
                            await self._group(stage, levels, list(group), options, ends)
                if "mode" in set_by_hand:
                    await self._ask_person("restore the DUT to its state before the run")

    async def _ask(self, trial: Trial, stands: dict[str, str]) -> dict[str, str]:
        """Ask the person to set each factor set by hand whose level changes. A resumed run asks for all, as their levels are unknown."""
        wanted = {name: level for name, level in trial.cell.factors.items() if name in self.plan.hand_factors}
        for name, level in wanted.items():
            if stands.get(name) != level:
                await self._ask_person(question(name, level), before_trial=trial.number)
        return wanted

    async def _ask_person(self, asked: str, **facts: object) -> str:
        self.journal.write("answered", question=asked, answer=(answer := await self.progress.ask(asked)), **facts)
        return answer

    async def _examined(self, bare: Stage) -> Stage:
        """Examine the stage, store facts and findings, report findings to the user, and return the stage with doubts from them as marks.

        Virtual ports outside of an embedded lab also make a doubt.
        """
        self.events.preparing("examining the hosts")
        examination = await examine(bare.testbed, bare.hosts, pinned=bare.site.cpus, loads=streams_of(self.experiment))
        for name, facts in examination.facts.items():
            self.folder.write_host(name, {**facts, "tools": dict(bare.versions)})
        if all(plug_of(trial.cell.workload).undisturbed for trial in self.plan.trials):
            return bare
        self.folder.write_findings([f.to_json() for f in examination.findings])
        for finding in examination.findings:
            text = f"{', '.join(finding.where)}: {finding.what}; expected cost: {finding.price.words}"
            if text not in self.noted:
                self.events.note(text)
            self.noted.add(text)
        ends = [facts for name, facts in examination.facts.items() if name in bare.testbed.ends]
        kinds = {card.get("kind") for facts in ends for card in facts.get("interfaces", {}).values()}
        virtual = [] if bare.marks or VIRTUAL not in kinds else [Doubt(DoubtKind.VIRTUAL_PORTS)]
        unknown = [Doubt(DoubtKind.UNTRIED, words) for words in untried(bare.testbed, self.plan.generators)]
        return replace(bare, marks=(*bare.marks, *virtual, *unknown, *doubts_of(examination.findings)))

    async def _calibrated(self, stage: Stage, options: RunOptions) -> Stage:
        """Return the stage with its rig's calibration. If calibration fails, results have no headroom, and the user gets a note."""
        through = stage.dut_testbed.links
        loads = loads_of(trial.cell for trial in self.plan.trials if all(name in through for name in trial.cell.links))
        if not loads:
            return stage
        self.events.preparing("measuring the rig without the DUT")
        try:
            if stage.lab is not None and stage.lab.ends_here:
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
        """Return the calibration of the lab's rig. The journal has the undo of its cables, since the lab may exist longer than the run."""
        steps = [UndoStep(host, argv, why="removes a cable of the rig without the DUT") for host, argv in labs.cable_undo(lab)]
        self.journal.write("rig-cabling", application="rig", undo=undo_to_json(steps))
        disturbed = self.experiment.disturbed
        try:
            async with lab_rig(lab, str(options.engine_binary), versions=stage.versions, disturbed=disturbed) as rig:
                calibration, _ = await rig.measure(Rig.LOOPED, loads, cache_folder(), failed=self._no_headroom)
        finally:
            self.journal.write("rig-removed", application="rig")
        return calibration

    def _no_headroom(self, load: RigLoad, why: MeasurementError) -> None:
        what = f"{load.generator.text()}, {load.mix.name} on link {joined(load.links)}"
        self.events.note(f"headroom unknown: {what}: the rig could not be measured without the DUT: {why}")

    async def _quiet(self, options: RunOptions) -> None:
        """Wait for a quiet machine, for the rest of `wait_quiet_s`, if a host of the testbed is this machine."""
        left_s = options.wait_quiet_s - self.waited[QUIET_WAIT]
        if left_s < 1 or not (self.testbed.lab or any(host.local for host in self.testbed.hosts.values())):
            return
        began = self.neighbours.clock()
        self.events.preparing("waiting for a quiet machine")
        busy = await self.neighbours.until_quiet(left_s, lambda what: self.events.note(f"waiting for a quiet machine: {what}"))
        self.waited[QUIET_WAIT] += max(1, round(self.neighbours.clock() - began))
        if busy:
            self.events.note(f"the machine did not become quiet: {busy}; measuring all the same")

    async def _shortest_first(self, stage: Stage, left: deque[Trial]) -> None:
        """Move the shortest trial to the front if trials were disturbed and the machine is quiet now."""
        if stage.shares_this_machine and len(left) > 1 and self.records.any_disturbed and await self.neighbours.is_calm():
            move_shortest_to_front(left)

    async def _group(self, stage: Stage, levels: SetLevels, trials: Sequence[Trial], options: RunOptions, ends: float | None) -> None:
        """Apply a mode in the levels of its trials and measure these; apply it again if a guest was lost."""
        left = trials
        while left:
            try:
                await self._applied(stage, levels, left, options, ends)
            except GuestLost:
                left = self.records.left(trials)
            else:
                return

    async def _applied(self, stage: Stage, levels: SetLevels, trials: Sequence[Trial], options: RunOptions, ends: float | None) -> None:
        mode = await levels.around(stage.modes[trials[0].cell.mode], trials[0].cell)
        application = f"{trials[0].number}-{mode.name}"
        steps = await mode.undo(stage.dut, stage.dut_testbed)
        self.journal.write("mode-applying", application=application, mode=mode.name, undo=undo_to_json(steps))
        async with ended_by(lambda: self._restored(stage, steps, application)), self._with_guests(stage, levels, trials):
            await self._in_mode(stage, mode, application, trials, options, ends)

    @asynccontextmanager
    async def _with_guests(self, stage: Stage, levels: SetLevels, trials: Sequence[Trial]) -> AsyncIterator[None]:
        """Raise GuestLost if the loss of a guest caused an error. Before that, start it again, set its levels, and set void trials aside.

        Raises LabError if it does not start again or was lost too often.
        """
        try:
            yield
        except DutlabError as error:
            if (guest_loss := await stage.guests.behind(error)) is None:
                raise
            words = "; ".join(loss.words for loss in guest_loss.losses)
            begun = self.records.void_lost(words, trials, partial(lost_with, stage, self.book, guest_loss.losses)) or trials[0]
            for loss in guest_loss.losses:
                self.events.lost(loss.host, loss.why)
                self.events.note(f"{loss.host} was started again; its settings are set again")
            await levels.apply_again()
            self.losses[key_of(begun.cell)] += 1
            if (times := self.losses[key_of(begun.cell)]) >= MOST_LOST:
                raise LabError(
                    f"{words}; the cell of trial {begun.number} has lost guests {times} times",
                    remedy=f"read the consoles in {self.folder.path}/trials/*.host-lost-*/raw, or leave this cell out",
                ) from error
            raise guest_loss from error

    async def _restored(self, stage: Stage, steps: Sequence[UndoStep], application: str) -> None:
        try:
            await stage.device.put_back()
        finally:
            await carry_out_undo(steps, stage.hosts)
        self.journal.write("mode-restored", application=application)

    async def _in_mode(  # noqa: PLR0917 -- all belong to one application
        self, stage: Stage, mode: Mode, application: str, trials: Sequence[Trial], options: RunOptions, ends: float | None
    ) -> None:
        unproven = list[Trial]()
        stage.device.mode = mode
        try:
            self.events.applying(mode.name, len(trials))
            checks, why = await self._unless_killed(partial(into_mode, stage, mode), itemgetter(1))
            self.journal.write("mode-refused" if why else "mode-verified", application=application, why=why)
            self.events.verified(mode.name, checks, holds=not why)
            stage = replace(stage, at_rest=DutAtRest() if why else await self._at_rest(stage, mode))
            left, applied_state = deque(trials), await as_applied(stage)
            while left:
                await self._shortest_first(stage, left)
                trial = self.begin_trial(left[0], ends)
                if why:
                    carried = refused(stage, checks, self.book, trial, why)
                else:
                    connections = connections_of(stage.dut)
                    asked = self.experiment
                    measuring = carry_out(
                        stage, trial, checks, self.book, watch=asked.watch, profile=asked.profile, tell=self.events.reading
                    )
                    carried = await stage.guests.during(self._while_programs_run(stage, trial, checks, measuring))
                    await require_same_mode(stage, mode, connections)
                if again := self.records.once_more(carried):
                    left.rotate(-1)  # to the end: the disturbance may be over by then
                    await self._quiet(options)
                else:
                    unproven.append(left.popleft())
                switched, changed = stage.device.restarted, await stage.device.put_back()
                if not why and not changed and (lost := await lost_state(stage, mode, applied_state)):
                    left.extendleft([] if again else self.records.void([unproven.pop()], lost, partial(refused, stage, checks, self.book)))
                    changed = True
                elif not why and not left:
                    # A power cut of ours took the mode away.
                    if lost := "" if switched else await self._unless_killed(partial(lost_mode, stage, mode), str):
                        left.extend(self.records.void(unproven, lost, partial(refused, stage, checks, self.book)))
                        changed = True
                    self.journal.write("mode-lost" if lost else "mode-held", application=application, why=lost)
                    unproven.clear()
                if changed and left:
                    checks, why = await self._unless_killed(partial(into_mode, stage, mode), itemgetter(1))
                    self.journal.write("mode-refused" if why else "mode-verified", application=application, why=why)
                    applied_state = await as_applied(stage)
        except (asyncio.CancelledError, TimeIsOver):
            if unproven and not why:
                await self._prove(stage, mode, application, applied_state)
            raise

    async def _while_programs_run(
        self, stage: Stage, trial: Trial, checks: Sequence[Check], measuring: Coroutine[Any, Any, TrialOutput]
    ) -> TrialOutput:
        """Measure the trial; refuse it as soon as a program that is the DUT ends."""
        if (device := started_by(stage.device.mode)) is None:
            return await measuring
        work, end = asyncio.ensure_future(measuring), asyncio.ensure_future(device.program_ended())
        try:
            await asyncio.wait([work, end], return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                return work.result()
            return refused(stage, checks, self.book, trial, f"mode {trial.cell.mode}: {end.result()}")
        finally:
            await cancelled(work, end)

    async def _at_rest(self, stage: Stage, mode: Mode) -> DutAtRest:
        # A device of this machine that is a program, as VPP, polls in any mode; examine.py tells so only of other machines.
        program = isinstance(stage.dut, LocalHost) and not stage.dut.system.kernel_tables
        looked_at = (program or may_start_programs(mode)) and stage.dut.name in stage.hosts
        return await measure_at_rest(stage.dut, stage.accounts) if looked_at else DutAtRest()

    async def _unless_killed(self, look: Callable[[], Awaitable[Look]], why: Callable[[Look], str]) -> Look:
        return await unless_killed(look, why, self.book, self.events.note)

    async def _prove(self, stage: Stage, mode: Mode, application: str, stands: Mapping[str, str]) -> None:
        """Check, in a run that is cut, whether the mode held until now, so that a resume need not repeat its trials."""
        with suppress(DutlabError):
            switched, changed = stage.device.restarted, await stage.device.put_back()
            lost = "" if changed else await lost_state(stage, mode, stands)
            if switched or (not lost and not await lost_mode(stage, mode)):
                self.journal.write("mode-held", application=application, why="")
