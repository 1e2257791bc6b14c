"""Findings about loads that show less than a path can carry: one TCP stream, and both directions at once."""

from __future__ import annotations

from collections.abc import Iterator

from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price
from dutlab.analysis.doctor.inventory import Inventory
from dutlab.analysis.doctor.published import one_stream as price_of_one_stream

_FAST_BPS = 10e9


def one_stream(p: Inventory) -> Iterator[Finding]:
    """Find loads of one TCP stream on a fast link. One queue and one core at each end handle such a stream."""
    fast = [link for link in p.links if (p.speed(link.ports[0]) or 0) >= _FAST_BPS]
    for load in p.loads:
        if load.streams == 1 and fast:
            yield Finding(
                "one-stream",
                f"workload {load.workload} sends one TCP stream, which one queue and one core at each end must handle",
                price_of_one_stream(max(p.speed(link.ports[0]) or 0.0 for link in fast)),
                tuple(f"link {link.name}" for link in fast),
                (Evidence(fast[0].ports[0].host, "the experiment file", f"{load.workload}: streams: 1"),),
                (CureStep(fast[0].ports[0].host, f"by hand: write `streams: 4` or more for {load.workload} into the experiment file"),),
                (CureStep(fast[0].ports[0].host, "by hand: write `streams: 1` again"),),
            )


def both_ways(p: Inventory) -> Iterator[Finding]:
    """Find loads in both directions at once. A card, slot or core that both directions share may slow each of them."""
    for load in p.loads:
        if load.both_ways and p.links:
            source = p.links[0].ports[0].host
            yield Finding(
                "both-ways",
                f"workload {load.workload} sends in both directions at once: a card, a slot or a core that both share makes each slower",
                Price(None, "", "measure it: forward, reverse and both together; none of them predicts another"),
                tuple(f"link {link.name}" for link in p.links),
                (Evidence(source, "the experiment file", f"{load.workload}: direction: bidir"),),
                (CureStep(source, f"by hand: measure {load.workload} also with `direction: forward` and with `direction: reverse`"),),
                (CureStep(source, "by hand: write `direction: bidir` alone again"),),
            )
