"""Records of a run while it is measured: which trials are left, which count, and which are set aside and repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from dutlab.plan.plan import Plan, Trial
from dutlab.runner.attempts import Attempts
from dutlab.runner.event_log import EventLog
from dutlab.runner.journal import Journal, killed_trials, open_trial, read_journal, unproven_trials
from dutlab.sensors.sensor import Sample
from dutlab.store.attempts import AttemptReason
from dutlab.store.details import TrialDetails
from dutlab.store.judged import DISTURBED
from dutlab.store.needed import Repeats
from dutlab.store.read import reading
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

MOST_KILLED = 5
"""Number of attempts whose programs were killed, after which a trial has failed."""


@dataclass(frozen=True)
class TrialOutput:
    """All output of a trial, ready for the store."""

    record: TrialRecord
    raw: dict[str, bytes]
    samples: list[Sample]
    killed: tuple[str, ...] = ()
    """Programs that were killed during the trial, if it failed."""
    details: TrialDetails | None = None


@dataclass(frozen=True)
class Records:
    """Records of one run. All records are written and set aside here."""

    plan: Plan
    folder: RunFolder
    journal: Journal
    events: EventLog

    def left(self, among: Sequence[Trial] | None = None) -> list[Trial]:
        """Return trials of `among` (default: the plan) without a record that the plan's rule for repeats still needs."""
        done = self.folder.finished()
        return self.needed(t for t in (self.plan.trials if among is None else among) if t.number not in done)

    @cached_property
    def _repeats(self) -> Repeats | None:
        """The plan's rule for repeats, applied to the records so far; None without a rule."""
        rule = self.plan.repeat_rule
        return None if rule is None else Repeats({t.number: t.cell for t in self.plan.trials}, self.folder.records(), rule.rule)

    def needed(self, trials: Iterable[Trial]) -> list[Trial]:
        """Return `trials` without those that the plan's rule for repeats no longer needs. Report and index use the same rule."""
        return [t for t in trials if self._repeats is None or not self._repeats.needless(t.number)]

    def void_unproven(self) -> None:
        """Set aside the trials of a cut run since the last check of its mode, which may have been lost during them. Raises StoreError."""
        with reading(self.folder.journal):
            trials = unproven_trials(read_journal(self.folder.journal))
        self._attempts.void(trials)

    def killed(self) -> dict[int, str]:
        """Return trial → programs of the rig that were killed in its attempts, for trials without a result that a resume repeats.

        After MOST_KILLED such attempts a trial counts as failed and is left out. Raises StoreError.
        """
        with reading(self.folder.journal):
            programs_by_trial = killed_trials(read_journal(self.folder.journal))
        times = Counter(a.trial for a in self.folder.attempts() if a.reason is AttemptReason.TOOL_ENDED)
        return {
            trial: programs
            for trial, programs in programs_by_trial.items()
            if times[trial] < MOST_KILLED and trial in self.folder.finished()
        }

    def void_killed(self) -> None:
        """Set the trials of killed() aside. Raises StoreError."""
        for trial, programs in self.killed().items():
            self._attempts.void([trial], AttemptReason.TOOL_ENDED, f"killed: {programs}")

    def void_lost(self, lost: str, waiting: Sequence[Trial], without_result: Callable[[Trial, str], TrialOutput]) -> Trial | None:
        """Set aside the trials that the loss of a host made void: the running one, and those since the last check of the mode.

        Return the running trial; `without_result` makes its record, which keeps the host's console output. If no trial was running, use
        the first of `waiting` without a record instead; None if all have one. Raises StoreError.
        """
        with reading(self.folder.journal):
            entries = read_journal(self.folder.journal)
        number = open_trial(entries)
        continued_after_errors = next((t for t in self.plan.trials if t.number == number), None)
        trial = continued_after_errors or next(iter(self.left(waiting)), None)
        if trial is not None:
            self._keep(without_result(trial, lost))
            self._attempts.void([trial.number], AttemptReason.HOST_LOST, lost)
        for unproven in self._attempts.void(unproven_trials(entries), why=f"{lost}, before the mode was verified again"):
            if self._repeats is not None:
                self._repeats.set_aside(unproven)
        return trial

    def void(self, trials: Sequence[Trial], lost: str, without_result: Callable[[Trial, str], TrialOutput]) -> list[Trial]:
        """Set aside trials whose mode was lost; return those to be repeated.

        For the others, `without_result` makes a record with the reason.
        """
        again = []
        for trial in trials:
            if self._repeats is not None:
                self._repeats.set_aside(trial.number)
            if self._attempts.once_more(trial.number, AttemptReason.MODE_LOST, lost):
                again.append(trial)
            else:
                self.folder.set_aside(trial.number, AttemptReason.MODE_LOST)
                self.once_more(without_result(trial, f"{lost}, also when repeated"))
        return again

    def once_more(self, carried: TrialOutput) -> bool:
        """Write a trial's record; return True if it was disturbed or its tool was killed, and it is set aside to be repeated."""
        record = self._keep(carried)
        if record.status == DISTURBED and self._attempts.once_more(record.trial, AttemptReason.DISTURBED, record.why):
            return True
        if carried.killed and self._attempts.once_more(record.trial, AttemptReason.TOOL_ENDED, f"killed: {', '.join(carried.killed)}"):
            return True
        if self._repeats is not None:
            self._repeats.add(record)
        self.events.ended(record)
        return False

    def _keep(self, carried: TrialOutput) -> TrialRecord:
        record = self._attempts.verdict(carried.record)
        self.folder.write_trial(record, carried.raw, carried.samples, carried.details)
        self.journal.write("trial-finished", trial=record.trial, status=record.status, killed=carried.killed)
        self._attempts.written(record)
        return record

    def disturbed_within_cell(self) -> list[Trial]:
        """Set aside trials that their whole cell shows as disturbed, and return them. None if a person would have to set factors again."""
        if self.plan.hand_factors:
            return []
        late = self._attempts.disturbed_within_cell(list(self.folder.records()))
        again = [
            t for t in self.plan.trials if t.number in late and self._attempts.once_more(t.number, AttemptReason.DISTURBED, late[t.number])
        ]
        if self._repeats is not None:
            for trial in again:
                self._repeats.set_aside(trial.number)
        return again

    @property
    def any_disturbed(self) -> bool:
        """True if an attempt of this process was disturbed."""
        return self._attempts.any_disturbed

    @cached_property
    def _attempts(self) -> Attempts:
        return Attempts(self.folder, self.journal, self.plan.repeat_disturbed, self.events.note, self.events.set_aside)
