"""Distance between the ends of a link, as keys of the link: a machine on its path delays, drops or limits packets in each direction.

a: {path: […], addresses: […], delay: 20ms, jitter: 2ms, loss: 0.1%, rate: 100Mbit/s, queue: 100ms}
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import BitRate, Duration, Share
from dutlab.spec.model import SpecModel, ValueFault, fault
from dutlab.units import Seconds

LONGEST_S = 10.0
MOST_LOSS = 0.1
"""Largest loss: with more, verification cannot show that a mode lets all frames pass."""
QUEUE_S = Seconds(0.1)
"""Default of `queue` where a rate is given."""


def _time(value: Seconds) -> Seconds:
    if not 0 < value <= LONGEST_S:
        raise ValueFault(f"must be more than 0 and at most {LONGEST_S:g}s", FaultKind.RANGE)
    return value


def _share(value: float) -> float:
    if not 0 < value <= MOST_LOSS:
        raise ValueFault(f"must be more than 0% and at most {MOST_LOSS:.0%}", FaultKind.RANGE)
    return value


Time = Annotated[Duration, AfterValidator(_time)]
LossShare = Annotated[Share, AfterValidator(_share)]


class Distance(SpecModel):
    """Delay, loss and rate limit that are added in each direction; nothing where all are None."""

    delay: Time | None = None
    """Added delay of each packet, one way."""
    jitter: Time | None = None
    """Variation of the delay: it is between `delay` − `jitter` and `delay` + `jitter`, and packets may overtake one another."""
    loss: LossShare | None = None
    """Share of the packets that are dropped, at random."""
    rate: BitRate | None = None
    """Rate limit, in bits of Ethernet frames without FCS per second."""
    queue: Time | None = None
    """Longest time that a packet waits for the line of this `rate`; packets that would wait longer are dropped."""

    @property
    def is_distant(self) -> bool:
        """True if anything is added."""
        return any(value is not None for value in (self.delay, self.loss, self.rate))

    @property
    def distance_words(self) -> str:
        """Description of the added delay, loss and limits, for people."""
        times = {"delay": self.delay, "jitter": self.jitter, "queue": self.queue}
        parts = [f"{key} {value * 1000:g} ms" for key, value in times.items() if value is not None]
        parts += [] if self.loss is None else [f"loss {self.loss * 100:g} %"]
        return ", ".join([*parts, *([] if self.rate is None else [f"rate {self.rate / 1e6:g} Mbit/s"])])

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check for keys that have no meaning without another."""
        if made is not None and made.jitter is not None and (made.delay is None or made.jitter > made.delay):
            yield fault(("jitter",), "is more than the delay that it varies; write delay too, at least as long", FaultKind.CONFLICT)
        if made is not None and made.queue is not None and made.rate is None:
            yield fault(("queue",), "without a rate there is no queue; write rate too", FaultKind.CONFLICT)
