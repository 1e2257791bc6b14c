"""Sentences on trials that other work disturbed, or during which a link went down."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.model.words import numbers_words, plural
from dutlab.store.cell_figures import key_of
from dutlab.store.judged import DISTURBED, lost_link, void_attempts
from dutlab.store.record import TrialRecord


def reason_without_rates(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """Return why nearly no attempt counts, in words; empty if enough do. Such a run gets no answer by rates."""
    return void_attempts((*records, *set_aside)).words


def too_busy(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """Return a sentence if other work left nearly no attempt that counts. If it disturbed only some cells, repeated() counts them."""
    busy = reason_without_rates(records, set_aside)
    return f"{busy}. Rates are not known." if busy else ""


def repeated(records: Sequence[TrialRecord], set_aside: Sequence[TrialRecord]) -> str:
    """Return sentences on trials that do not count: the reasons, and the trials that were done again. Empty if all count."""
    void = [r for r in (*set_aside, *records) if r.status == DISTURBED]
    if not void:
        return ""
    by_work = len({r.trial for r in void if not lost_link(r)})
    by_link = len({r.trial for r in void if lost_link(r)})
    work, link = f"other work on the machine disturbed {plural(by_work, 'trial')}", f"a link went down during {plural(by_link, 'trial')}"
    why = ", and ".join(text for text, number in ((work, by_work), (link, by_link)) if number)
    again, left = (sorted({r.trial for r in of if r.status == DISTURBED}) for of in (set_aside, records))
    message = f"{why[0].upper()}{why[1:]}; figures are of the other attempts only."
    message += f" Done again: {numbers_words(again)}." if again else ""
    message += f" Without an attempt that counts: {numbers_words(left)}." if left else ""
    measured = {key_of(r.cell) for r in records if r.status == "measured"}
    without = {key_of(r.cell) for r in records if r.status == DISTURBED} - measured
    return message + (f" No figure: {plural(len(without), 'cell')}." if without else "")
