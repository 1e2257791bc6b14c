"""Proof by real frames that a mode is in force, on DUTs of all systems."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from dutlab.dut.mode import Check, Prober, SeenProbe, UdpFlow
from dutlab.spec.links import Link
from dutlab.spec.testbed import Testbed
from dutlab.systems.modes import Behaviour

Tracked = Callable[[UdpFlow], Awaitable[bool | None]]
"""Function that returns whether the DUT tracks a flow; None when it cannot be read. Raises HostError."""


_MOST_AGAIN = 20
"""Most repeats of a probe: at a loss of 10 %, one third of all flows of ten frames lose none."""


async def frame_checks(testbed: Testbed, prober: Prober, behaviour: Behaviour, tracked: Tracked | None) -> list[Check]:
    """Check both directions of every link, the source address at the sink, and connection tracking (only with `tracked`).

    Raises ToolFailed, HostError.
    """
    links = testbed.links
    there = zip(links, await passed(prober, links), strict=True)
    checks = [await _permitted(name, links[name], seen, behaviour, tracked) for name, seen in there]
    if behaviour.admits_unsolicited:
        back = await passed(prober, links, reverse=True)
    else:
        back = await prober.probe(list(links), reverse=True)
    return [check for of, name, seen in zip(checks, links, back, strict=True) for check in (*of, _unsolicited(name, seen, behaviour))]


async def passed(prober: Prober, links: Mapping[str, Link], *, reverse: bool = False) -> list[SeenProbe]:
    """Return probes that should pass. Repeat those that lost frames: the first may have waited for a neighbour to answer.

    On a link with configured loss they are repeated until all frames of a flow arrive.
    """
    probes = dict(zip(links, await prober.probe(list(links), reverse=reverse), strict=True))
    for again in range(_MOST_AGAIN):
        short = [name for name, of in probes.items() if not everything_came(of) and (not again or (links[name].loss and of.received))]
        if not short:
            break
        probes |= zip(short, await prober.probe(short, reverse=reverse), strict=True)
    return list(probes.values())


@dataclass
class ProbeRecorder:
    """Prober that keeps what it saw."""

    prober: Prober
    seen: list[SeenProbe] = field(default_factory=list)

    async def probe(self, links: Sequence[str], *, reverse: bool = False) -> list[SeenProbe]:
        """Probe, and keep the results."""
        probes = await self.prober.probe(links, reverse=reverse)
        self.seen += probes
        return probes


def everything_came(seen: SeenProbe) -> bool:
    """Return whether frames were sent and all of them arrived."""
    return seen.sent > 0 and seen.received == seen.sent


async def _permitted(name: str, link: Link, seen: SeenProbe, behaviour: Behaviour, tracked: Tracked | None) -> list[Check]:
    if seen.flow is None:  # pings show neither the source address at the sink nor what is tracked
        return [arrived(f"link {name}: a permitted flow passes", seen)]
    expected = str((link.dut_out_address if behaviour.translates else link.source_address).ip)
    translated = behaviour.translates or seen.flow.source.version != link.source_address.version
    how = f"translated to {expected}" if translated else f"untranslated from {expected}"
    checks = [
        arrived(f"link {name}: a permitted flow passes", seen),
        Check(f"link {name}: it arrives {how}", seen.source_seen == expected, f"the sink saw {seen.source_seen or 'nothing'}"),
    ]
    if tracked is not None:
        is_tracked = await tracked(seen.flow)
        checks.append(
            Check(
                f"link {name}: the flow is {'' if behaviour.tracks else 'not '}tracked",
                is_tracked is behaviour.tracks,
                "connection tracking cannot be read"
                if is_tracked is None
                else f"connection tracking is {'on' if is_tracked else 'off'} for {seen.flow}",
            )
        )
    return checks


def _unsolicited(name: str, seen: SeenProbe, behaviour: Behaviour) -> Check:
    if behaviour.admits_unsolicited:
        return arrived(f"link {name}: a new flow from outside passes", seen)
    what = f"link {name}: a new flow from outside is dropped"
    return Check(what, seen.sent > 0 and seen.received == 0, words_of(seen), by_ping=seen.flow is None)


def arrived(what: str, seen: SeenProbe) -> Check:
    """Check that all frames of a probe arrived."""
    return Check(what, everything_came(seen), words_of(seen), by_ping=seen.flow is None)


def words_of(seen: SeenProbe) -> str:
    """Return the result of a probe in words; for pings they also name the level of proof."""
    if seen.flow is None:
        return f"{'answered' if seen.received else 'not answered'} (proof: ping, since an end of the link does not run the engine)"
    return f"{seen.received} of {seen.sent} probe frames arrived"
