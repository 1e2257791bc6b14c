"""Attempts: trials that are repeated. Every attempt keeps its record; the number of repeats for each reason is limited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from dutlab.runner.journal import Journal
from dutlab.store.attempts import AttemptReason
from dutlab.store.judged import DISTURBED, judged, void_attempts
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder

MOST_FAULTS = 1
"""Repeats of a trial whose tool was killed or whose mode was lost. A second such failure is probably no accident."""
_CUT = "the run was interrupted before its mode was verified again"


@dataclass
class Attempts:
    """One process's attempts at the trials of a run. `note` informs the user; `aside` is called with trial, attempt, reason and why."""

    folder: RunFolder
    journal: Journal
    most_disturbed: int
    """Most repeats of a trial that other work disturbed."""
    note: Callable[[str], None]
    aside: Callable[[int, int, str, str], None]
    _known: dict[int, list[TrialRecord]] = field(default_factory=dict)
    """Trial → its records, starting with those set aside."""
    _judged: list[TrialRecord] = field(default_factory=list)
    """This process's attempts that were measured or disturbed."""
    _said_void: bool = False

    def __post_init__(self) -> None:
        for record in (
            *(record for _, record in self.folder.set_aside_records()),
            *(self.folder.record(n) for n in sorted(self.folder.finished())),
        ):
            self._known.setdefault(record.trial, []).append(record)

    @property
    def reason_not_to_repeat(self) -> str:
        """Reason why disturbed trials are no longer repeated, in words; empty if they are repeated."""
        return void_attempts(self._judged).words

    @property
    def any_disturbed(self) -> bool:
        """True if other work disturbed an attempt of this process."""
        return void_attempts(self._judged).by_other_work > 0

    def verdict(self, record: TrialRecord) -> TrialRecord:
        """Return the record to write, with its attempt number and judged together with all earlier records."""
        earlier = [r for of_trial in self._known.values() for r in of_trial]
        numbered = record.model_copy(update={"attempt": 1 + len(self._known.get(record.trial, []))})
        result = judged([numbered, *earlier], count=self.folder.counts_disturbed)[0]
        if result.status in ("measured", DISTURBED):
            self._judged.append(result)
        return result

    def written(self, record: TrialRecord) -> None:
        """Add a record that has been written to disk."""
        self._known.setdefault(record.trial, []).append(record)

    def once_more(self, trial: int, reason: AttemptReason, why: str) -> bool:
        """Set the written attempt aside if the trial may be repeated for this reason; return whether it was. Raises StoreError."""
        if reason is AttemptReason.DISTURBED and (why_none := self.reason_not_to_repeat):
            if not self._said_void:
                self.note(f"{why_none}; such trials are no longer repeated")
                self._said_void = True
            return False
        most = {AttemptReason.DISTURBED: self.most_disturbed}.get(reason, MOST_FAULTS)
        if sum(a.trial == trial and a.reason is reason for a in self.folder.attempts()) >= most:
            return False
        self._set_aside(trial, reason, why)
        return True

    def void(self, trials: Iterable[int], reason: AttemptReason = AttemptReason.UNPROVEN, why: str = _CUT) -> list[int]:
        """Set aside those of `trials` that have a record, without a limit; return their numbers. Raises StoreError."""
        recorded = sorted(self.folder.finished().intersection(trials))
        for trial in recorded:
            self._set_aside(trial, reason, why)
        return recorded

    def disturbed_within_cell(self, finished: Sequence[TrialRecord]) -> Mapping[int, str]:
        """Return trial → reason, for trials that are disturbed when their whole cell is known, with those known as disturbed before."""
        return {r.trial: r.why for r in finished if r.status == DISTURBED}

    def _set_aside(self, trial: int, reason: AttemptReason, why: str) -> None:
        attempt = self.folder.set_aside(trial, reason)
        self.journal.write("attempt-set-aside", trial=trial, attempt=attempt.number, reason=reason.value, why=why)
        self.aside(trial, attempt.number, reason.value, why)
