"""Sentences on trials in which a host was lost and started again."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.report.model.words import numbers_words, plural
from dutlab.store.record import TrialRecord


def hosts_lost(lost: Sequence[TrialRecord]) -> str:
    """Return sentences on trials that lost a host, with the reasons; empty without any. `lost` are their records, which were set aside."""
    if not lost:
        return ""
    trials = sorted({record.trial for record in lost})
    causes = "; ".join(dict.fromkeys(record.why for record in lost))
    return f"A host was lost in {plural(len(trials), 'trial')}, started again, and the trial done again: {numbers_words(trials)}. {causes}."
