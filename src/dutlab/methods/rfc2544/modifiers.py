"""Modifiers of a test (RFC 2544 section 11): broadcast frames, management queries, routing updates during the test frames."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dutlab.ending import cancelled
from dutlab.methods.dut_ports import ConcurrentWork
from dutlab.methods.ports import Bench, Row
from dutlab.spec.workloads.rfc2544 import Modifier

BROADCAST_RATIO = 0.01  # RFC 2544 section 11.1
QUERY_S = 1.0  # RFC 2544 section 11.2
ROUTING_S = 30.0
"""Interval of RIP's updates in seconds (RFC 1058 section 3.3)."""
LEAST_PERIOD_S = 0.5
"""Least interval in seconds, for any scale: a command takes time."""


@dataclass
class Modifiers:
    """Modifiers of a suite that the testbed supports, and their results so far."""

    link: str
    steps: Mapping[Modifier, ConcurrentWork]
    broadcast: bool = False
    scale: float = 1.0
    missing: Sequence[Modifier] = ()
    """Modifiers that were asked for and that this testbed does not support."""
    outcomes: Counter[tuple[Modifier, str]] = field(default_factory=Counter)
    _numbers: Counter[Modifier] = field(default_factory=Counter)

    @property
    def broadcast_ratio(self) -> float:
        """Broadcast frames as a share of an offer."""
        return BROADCAST_RATIO if self.broadcast else 0.0

    @asynccontextmanager
    async def running(self) -> AsyncIterator[asyncio.Event]:
        """Run the modifiers in this context, once the yielded event is set: when the trial's frames are being sent."""
        begun = asyncio.Event()
        tasks = [asyncio.create_task(self._go_on(kind, step, begun)) for kind, step in self.steps.items()]
        try:
            yield begun
        finally:
            await cancelled(*tasks)

    def rows(self) -> list[Row]:
        """Return the rows of the record's table."""
        entries = sorted(self.outcomes.items(), key=str)
        return [{"modifier": kind.value, "outcome": what, "count": float(count)} for (kind, what), count in entries]

    def notes(self) -> Iterator[str]:
        """Yield notes on the results."""
        for kind, words in ((Modifier.MANAGEMENT, "management queries to the DUT's own address"), (Modifier.ROUTING, "routing updates")):
            if parts := [f"{count} {what}" for (of, what), count in self.outcomes.items() if of is kind]:
                yield f"{words}: {', '.join(parts)}"
        for kind in self.missing:
            yield f"{kind.value}: left out, this testbed cannot do it"

    async def _go_on(self, kind: Modifier, step: ConcurrentWork, begun: asyncio.Event) -> None:
        await begun.wait()
        clock = asyncio.get_running_loop()
        due, period_s = clock.time(), QUERY_S if kind is Modifier.MANAGEMENT else routing_s(self.scale)
        while True:
            number = self._numbers[kind]
            self._numbers[kind] += 1
            self.outcomes[kind, await step.step(self.link, number)] += 1
            due = max(due + period_s, clock.time())
            await asyncio.sleep(due - clock.time())


def routing_s(scale: float) -> float:
    """Return the seconds between two routing updates; scaled like trials, so that each trial has some."""
    return max(ROUTING_S * scale, LEAST_PERIOD_S)


def modifiers_of(bench: Bench, link: str, asked: Sequence[Modifier], scale: float) -> Modifiers:
    """Return those of `asked` that the bench supports, on `link`."""
    can = {Modifier.MANAGEMENT: bench.management, Modifier.ROUTING: bench.updates}
    steps = {kind: step for kind in asked if (step := can.get(kind)) is not None}
    missing = [kind for kind in asked if kind is not Modifier.BROADCAST and kind not in steps]
    return Modifiers(link, steps, Modifier.BROADCAST in asked, scale, missing)
