"""What a report says of trials that other work disturbed."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.physics.disturbed import machine_too_busy
from dutlab.report.model.words import numbers_words, plural
from dutlab.store.cell_figures import key_of
from dutlab.store.judged import DISTURBED
from dutlab.store.record import TrialRecord


def nearly_nothing_left(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """That other work disturbed nearly every attempt, in words; empty if it did not. No answer is given of such a run."""
    attempts = [r for r in (*records, *set_aside) if r.status in ("measured", DISTURBED)]
    return machine_too_busy(attempts=len(attempts), disturbed=sum(r.status == DISTURBED for r in attempts))


def too_busy(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """The same as a sentence. Cells that alone were disturbed hide no other figure: repeated() says how many."""
    busy = nearly_nothing_left(records, set_aside)
    return f"{busy}. Rates are not known." if busy else ""


def repeated(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """How many trials were disturbed and done again, in a sentence; empty where none was."""
    again = sorted({r.trial for r in set_aside if r.status == DISTURBED})
    left = sorted(r.trial for r in records if r.status == DISTURBED)
    if not again and not left:
        return ""
    said = f"Other work on the machine disturbed {plural(len({*again, *left}), 'trial')}; figures are of undisturbed trials only."
    if again:
        said += f" Done again: {numbers_words(again)}."
    said += f" Without an undisturbed attempt: {numbers_words(left)}." if left else ""
    measured = {key_of(r.cell) for r in records if r.status == "measured"}
    without = {key_of(r.cell) for r in records if r.status == DISTURBED} - measured
    return said + (f" No figure: {plural(len(without), 'cell')}." if without else "")
