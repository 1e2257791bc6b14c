"""Keys that choose the loads of a search: `loads_by` and `expected`, for each workload with a search of the throughput."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import FrameRate, text_of
from dutlab.spec.mixes import Mix
from dutlab.spec.model import fault
from dutlab.spec.workloads.setting import PositiveRate, Words
from dutlab.units import Pps

EACH = "each"
"""Key of a rate for all sizes."""


class LoadsBy(enum.Enum):
    """Rule that chooses the load of the next trial, in the words of the experiment file."""

    LIBRARY = "library"
    """The MLRsearch library."""
    FIT = "fit"
    """Short trials show the device's rate and buffers; full trials just below and above the limit follow."""


LoadsBySaid = Annotated[LoadsBy, Words("loads by {}", {LoadsBy.LIBRARY.value: ""}, place=1)]
ExpectedSaid = Annotated[PositiveRate | None, Words("{:pps} expected", place=1)]
CHOICE_OF_LOADS = frozenset({"loads_by", "expected_pps"})
"""Fields of a setting that are left out of its parameters while they have their default."""


def _by_size(written: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(written, Mapping):
        return {str(size): rate for size, rate in written.items()}
    return {EACH: written}


def _as_written(rates: Mapping[str, Pps]) -> str | dict[str, str]:
    texts = {size: text_of(rate, "pps") for size, rate in rates.items()}
    return texts[EACH] if [*texts] == [EACH] else texts


ExpectedRates = Annotated[
    dict[str, FrameRate],
    BeforeValidator(_by_size, json_schema_input_type=FrameRate | dict[str, FrameRate]),
    PlainSerializer(_as_written, return_type=str | dict[str, str]),
    Field(min_length=1),
]
"""Expected rate of a link: one for all sizes, or one for each by its name; written `1.2Mpps` or `{64: 1.2Mpps, 1518: 400kpps}`."""


def expected_of(rates: Mapping[str, Pps] | None, mix: Mix) -> Pps | None:
    """Return the expected rate for frames of a size; None if none is given."""
    return None if rates is None else rates.get(mix.name, rates.get(EACH))


def expectation_faults(rates: Mapping[str, Pps] | None, sizes: Sequence[Mix], loads_by: LoadsBy) -> Iterator[InitErrorDetails]:
    """Yield faults of expected rates: sizes that are not measured, or loads that are not chosen by a fit."""
    if rates is None:
        return
    if loads_by is not LoadsBy.FIT:
        yield fault(("expected",), "is for loads by a fit; add loads_by: fit", FaultKind.CONFLICT)
    known = {mix.name for mix in sizes}
    if unknown := sorted(rates.keys() - known - {EACH}):
        yield fault(("expected",), f"{', '.join(unknown)}: not a frame size of this workload ({', '.join(sorted(known))})")
