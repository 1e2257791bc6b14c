"""Repeats of each cell of an experiment: a fixed number, or until its interval is narrow enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, Strict, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import Share
from dutlab.spec.model import SpecModel, ValueFault, fault
from dutlab.stats.repeats import RepeatRule

LARGEST_REPEATS = 1000


class RepeatUntil(SpecModel):
    """Repeats of each cell until its interval is narrow enough, at most `most` times."""

    until: Share
    """Half-width of the 95 % interval of the median, as a share of the median."""
    most: Annotated[int, Strict(), Field(le=LARGEST_REPEATS)]

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that `most` repeats are enough for an interval."""
        try:
            _ = self.rule
        except ValueError as e:
            yield fault((), str(e))

    @property
    def rule(self) -> RepeatRule:
        """The rule in the form of the analysis. Raises ValueError."""
        return RepeatRule(self.until, self.most)


def _repeats(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, RepeatUntil):
        return value
    if isinstance(value, Mapping):
        return RepeatUntil.model_validate(value, context=info.context)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_REPEATS:
        return value
    raise ValueFault(f"must be a whole number from 1 to {LARGEST_REPEATS}, or {{until: 2%, most: 12}}", FaultKind.RANGE)


Repeats = Annotated[int | RepeatUntil, BeforeValidator(_repeats)]
