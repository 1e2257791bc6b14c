"""Judge records once all trials of their cell are known: a trial that other work disturbed has no result.

Every reader of a run goes through RunFolder.records(), which judges, so that medians and verdicts everywhere are of the same trials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from dutlab.doubts import Doubt, DoubtKind
from dutlab.physics.disturbed import VoidAttempts, disturbed
from dutlab.store.cell_figures import CellKey, key_of
from dutlab.store.record import DoubtRecord, TrialRecord

DISTURBED: Final = "disturbed"


def judged(records: Sequence[TrialRecord], *, count: bool = False) -> list[TrialRecord]:
    """The records, those that were disturbed with that status, why, and the doubt; if they `count`, with the doubt alone.

    The file of a record stays as it was written: the verdict follows from all of them.
    """
    cells: dict[CellKey, list[TrialRecord]] = defaultdict(list)
    for record in records:
        if _is_judged_here(record):
            cells[key_of(record.cell)].append(record)
    whys: dict[int, str] = {}
    for of_cell in cells.values():
        whys.update({id(r): why for r, why in zip(of_cell, disturbed([r.interference for r in of_cell]), strict=True) if why})
    whys.update({id(r): _kept(r) for r in records if r.status == "measured" and _kept(r)})
    marked = doubted if count else as_disturbed
    return [marked(r, whys[id(r)]) if id(r) in whys else r for r in records]


def as_disturbed(record: TrialRecord, why: str) -> TrialRecord:
    """The record of a trial that does not count."""
    return doubted(record, why).model_copy(update={"status": DISTURBED, "why": why})


def doubted(record: TrialRecord, why: str) -> TrialRecord:
    """The record with the doubt, once."""
    if record.doubted(DoubtKind.DISTURBED):
        return record
    return record.model_copy(update={"doubts": [*record.doubts, DoubtRecord.of(Doubt(DoubtKind.DISTURBED, why))]})


def lost_link(record: TrialRecord) -> bool:
    """Return whether it does not count because a link of the testbed went down, and not because of other work."""
    kinds = {d.kind for d in record.doubts}
    return record.status == DISTURBED and DoubtKind.LINK_WENT_DOWN.name in kinds and DoubtKind.DISTURBED.name not in kinds


def void_attempts(records: Iterable[TrialRecord]) -> VoidAttempts:
    """Return the attempts with a figure, or with a possible one, that do not count."""
    judged_ones = [r for r in records if r.status in ("measured", DISTURBED)]
    by_link = sum(map(lost_link, judged_ones))
    return VoidAttempts(len(judged_ones), sum(r.status == DISTURBED for r in judged_ones) - by_link, by_link)


def _kept(record: TrialRecord) -> str:
    """Return words that its figures are of disturbed loads."""
    if record.offers is None or not record.offers.kept:
        return ""
    details = [d.detail for d in record.doubts if d.kind == DoubtKind.DISTURBED.name and d.detail]
    return (
        details[0]
        if details
        else f"other work disturbed {record.offers.kept} of {record.offers.made} offers, which could not be made again"
    )


def _is_judged_here(record: TrialRecord) -> bool:
    """A method of many offers judges each of them and offers it again; the whole trial's reading is of those too."""
    return record.status == "measured" and (record.offers is None or record.offers.made <= 1)
