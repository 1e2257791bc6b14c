"""What became of the load of a trial (store/loads.py), as a value of a report."""

from __future__ import annotations

from dutlab.report.model.figures import computed_value
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.value import Missing, Value
from dutlab.store.loads import DELIVERED, load_of

_LOST = "loss_ratio"
"""Doubts that touch it touch what was delivered too."""


def load_value(group: Group | None, link: str, figure: str, book: NoteBook) -> Value:
    """BACKPRESSURE or DELIVERED of a link or of several together."""
    if group is None:
        return Missing("not part of the plan")
    doubted = _LOST if figure == DELIVERED else figure
    return computed_value(group, link, doubted, lambda record: load_of(record, link, figure), book)
