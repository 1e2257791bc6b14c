"""Generator that offers a disturbed load again, a limited number of times, so that its outcomes are not disturbed.

A load is also repeated if a link of the generator went down during it: then losses are not the DUT's.

It wraps any generator, so all methods use it. Discarded outcomes are part of the outcome that counts (`Outcome.thrown_away`), with their
raw output; MachineTooBusy has the raw output of every load. physics.disturbed decides which offers are disturbed: those from which other
work took too much, and those whose loss is explained by the waiting of the testbed's threads. Loss at full speed needs no explanation,
because it is not a verdict.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import LinkUnsteady, MachineTooBusy
from dutlab.methods.ledger import failed_frames, made_frames
from dutlab.methods.ports import CpuAccounts, Generator, Measured, Offer, OfferCount, Outcome
from dutlab.physics.disturbed import VoidAttempts, disturbed_load, explains_loss
from dutlab.physics.interference import Interference

MOST_AGAIN = 5
"""Most repeats of a load. Loads of searches are short, and a search has dozens: each must succeed with a high probability."""
FIRST_PAUSE_S = 0.5
LONGEST_PAUSE_S = 4.0
"""Longest pause before a repeat in seconds. Pauses double, since the disturbance may last."""
RIG_PLACES = frozenset({"sender's card", "sink"})
"""Places of the testbed, outside the DUT, where frames may be lost (tools.path_counters)."""
LAB_RIG_PLACES = RIG_PLACES | {"DUT out", "sink's card"}
"""Such places in a lab. There the DUT sends into our own veth, whose ring fills while the thread that empties it waits for a CPU."""

Sleep = Callable[[float], Awaitable[None]]


@dataclass
class Undisturbed:
    """A methods.ports.Generator around another. With `most_again` 0 no load is repeated: a disturbed outcome is marked and counted."""

    generator: Generator
    accounts: CpuAccounts
    most_again: int = MOST_AGAIN
    rig_places: frozenset[str] = RIG_PLACES
    sleep: Sleep = asyncio.sleep
    _made: int = field(default=0, init=False)
    _disturbed: int = field(default=0, init=False)
    _kept: int = field(default=0, init=False)
    _links_lost: int = field(default=0, init=False)
    _raw: dict[str, bytes] = field(default_factory=dict, init=False)
    """Raw output of all loads so far, because a method that ends with MachineTooBusy has no result to hold it."""

    async def offer(self, offer: Offer) -> Outcome:
        """Offer the load; see methods.ports. Raises MachineTooBusy, and the errors of the generator."""
        thrown_away: list[Outcome] = []
        while True:
            outcome = await self._judged(offer)
            lost = "" if offer.once else outcome.link_lost  # an action on the DUT during the load may take its links down
            if lost and len(thrown_away) == MOST_AGAIN:
                self._noted(_with(outcome, thrown_away))
                raise LinkUnsteady(f"a link went down in each of {len(thrown_away) + 1} attempts; the last time {lost}", raw=self._raw)
            if not lost and not outcome.disturbed:
                return self._noted(_with(outcome, thrown_away))
            if not lost and (self.most_again == 0 or offer.once):
                self._kept += 1
                marked = replace(outcome, doubts=(*outcome.doubts, Doubt(DoubtKind.DISTURBED, outcome.disturbed)))
                return self._noted(_with(marked, thrown_away))
            busy = not lost and VoidAttempts(self._made, self._disturbed).words
            if busy or (not lost and len(thrown_away) >= self.most_again):
                what = busy or f"machine too busy: other work disturbed the same load {len(thrown_away) + 1} times"
                self._noted(_with(outcome, thrown_away))
                raise MachineTooBusy(f"{what}; the last time: {outcome.disturbed}", raw=self._raw)
            thrown_away.append(outcome)
            await self.sleep(min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (len(thrown_away) - 1)))

    def counted(self, measured: Measured) -> Measured:
        """Return a method's result with the number of its disturbed offers; unchanged if it made none."""
        if not self._made:
            return measured
        again = self._disturbed - self._kept
        note = f"other work disturbed {again} of {self._made} offers; these changed no bound, and were repeated"
        lost = f"a link went down in {self._links_lost} of {self._made} offers; these changed no bound, and were repeated"
        offers = OfferCount(self._made, self._disturbed, self._kept, self._links_lost)
        return replace(measured, offers=offers, notes=[*measured.notes, *([note] if again else []), *([lost] if self._links_lost else [])])

    def _noted(self, outcome: Outcome) -> Outcome:
        for name, output in outcome.raw.items():
            self._raw[name] = self._raw.get(name, b"") + output
        return outcome

    async def _judged(self, offer: Offer) -> Outcome:
        before = await self.accounts.read()
        outcome = await self.generator.offer(offer)
        after = await self.accounts.read()
        account_by_host = {host: after[host].since(before[host]) for host in after.keys() & before.keys()}
        lost = bool(outcome.link_lost) and not offer.once
        why = "" if lost else self._why(offer, outcome, account_by_host)
        self._links_lost += lost
        self._made += 1
        self._disturbed += bool(why)
        return replace(outcome, disturbed=why)

    def _why(self, offer: Offer, outcome: Outcome, interference: Mapping[str, Interference]) -> str:
        if (why := disturbed_load(interference)) or offer.lossy or (offer.rate is None and not offer.profile):
            return why
        flows = outcome.flows
        seconds = max((f.sent_seconds for f in flows), default=0.0)
        lost, refused = sum(max(0, f.lost_frames) for f in flows), sum(f.backpressure_frames for f in flows)
        by_rig = sum(n for f in flows for place, n in f.places.items() if place in self.rig_places)
        return explains_loss(
            interference,
            failed_frames=max(0, sum(map(failed_frames, flows))),
            made_pps=sum(map(made_frames, flows)) / seconds if seconds else 0.0,
            by_rig=lost > 0 and by_rig >= lost and not refused,
        )


def _with(outcome: Outcome, thrown_away: Sequence[Outcome]) -> Outcome:
    """Return the outcome with the discarded ones before it; their raw output has separate names."""
    raw = {f"disturbed-{n}-{name}": output for n, earlier in enumerate(thrown_away, 1) for name, output in earlier.raw.items()}
    return replace(outcome, thrown_away=tuple(thrown_away), raw={**raw, **outcome.raw})
