"""Judge records when all trials of their cell are known: a trial that other work disturbed has no result.

Every reader of a run uses RunFolder.records(), which judges. So all medians and verdicts use the same trials.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

from dutlab.doubts import Doubt, DoubtKind
from dutlab.physics.disturbed import VoidAttempts, disturbed
from dutlab.store.cell_figures import CellKey, KeyMemory
from dutlab.store.record import DoubtRecord, TrialRecord

DISTURBED: Final = "disturbed"


def judged(records: Sequence[TrialRecord], *, count: bool = False) -> list[TrialRecord]:
    """Return the records. Disturbed ones get the status, the reason and the doubt; with `count`, they get only the doubt.

    The file of a record never changes: the verdict is computed from all records.
    """
    cells, keys = defaultdict[CellKey, list[TrialRecord]](list), KeyMemory()
    for record in records:
        if _is_judged_here(record):
            cells[keys.key_of(record.cell)].append(record)
    whys: dict[int, str] = {}
    for of_cell in cells.values():
        whys.update({id(r): why for r, why in zip(of_cell, disturbed([r.interference for r in of_cell]), strict=True) if why})
    whys.update({id(r): _kept(r) for r in records if r.status == "measured" and _kept(r)})
    marked = doubted if count else as_disturbed
    return [marked(r, whys[id(r)]) if id(r) in whys else r for r in records]


def as_disturbed(record: TrialRecord, why: str) -> TrialRecord:
    """Return the record as that of a disturbed trial, which does not count."""
    return doubted(record, why).model_copy(update={"status": DISTURBED, "why": why})


def doubted(record: TrialRecord, why: str) -> TrialRecord:
    """Return the record with the doubt DISTURBED, unless it has it already."""
    if record.doubted(DoubtKind.DISTURBED):
        return record
    return record.model_copy(update={"doubts": [*record.doubts, DoubtRecord.of(Doubt(DoubtKind.DISTURBED, why))]})


def lost_link(record: TrialRecord) -> bool:
    """Return whether the record does not count because a link went down, and not because of other work."""
    return record.status == DISTURBED and record.doubted(DoubtKind.LINK_WENT_DOWN) and not record.doubted(DoubtKind.DISTURBED)


def void_attempts(records: Iterable[TrialRecord]) -> VoidAttempts:
    """Return the counts of measured attempts, and of those that do not count."""
    judged_ones = [r for r in records if r.status in ("measured", DISTURBED)]
    by_link = sum(map(lost_link, judged_ones))
    return VoidAttempts(len(judged_ones), sum(r.status == DISTURBED for r in judged_ones) - by_link, by_link)


def _kept(record: TrialRecord) -> str:
    """Return why the record's figures are from disturbed loads; empty if they are not."""
    if record.offers is None or not record.offers.kept:
        return ""
    details = [d.detail for d in record.doubts if d.kind == DoubtKind.DISTURBED.name and d.detail]
    return (
        details[0]
        if details
        else f"other work disturbed {record.offers.kept} of {record.offers.made} offers, which could not be made again"
    )


def _is_judged_here(record: TrialRecord) -> bool:
    """Return whether the trial is judged as a whole. A method of many offers judges and repeats each offer itself."""
    return record.status == "measured" and (record.offers is None or record.offers.made <= 1)
