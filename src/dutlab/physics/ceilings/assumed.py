"""Figures above a ceiling: either the ceiling rests on an assumption, or the figure is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dutlab.physics.ceilings.ethernet import Ip, tcp_goodput
from dutlab.subject import subject_of
from dutlab.units import BpsL1, si

ABOVE_FRAMES = 1.02
"""Frames of a second, as a ramp counts them, are cut by clocks that are a few milliseconds apart: up to here it is the line rate."""
ABOVE_BITS = 1.005
"""Goodput is a mean over the whole trial. TCP without timestamps exceeds its ceiling with them by 0.8 % at 1500 bytes."""
USUAL_MTU = 1500
JUMBO_MTU = 9000
"""The largest that most cards and switches are set to; some take 9216, which adds 0.01 % more."""
COUNTED = {f"{of}_{kind}": f"received_{kind}" for of in ("sent", "received", "max_received") for kind in ("pps", "bps_l1", "bps_l2")}
COUNTED["goodput_bps"] = "goodput_bps"
"""Figures of frames that were counted, and goodput → the ceiling that they have."""
OFFERED = {f"{of}{kind}": f"received_{kind}" for of in ("offered_", "rate_", "") for kind in ("pps", "bps_l1", "bps_l2")}
"""Figures that a generator may report of a ring that is not yet sent; they have another doubt."""


def exceeds(value: float, line: float, unit: str) -> bool:
    """Return whether a figure in `pps` or `b/s` exceeds its ceiling by more than the way of counting explains."""
    return value > line * (ABOVE_FRAMES if unit == "pps" else ABOVE_BITS)


def other_goodputs(line: float, *, mtu: int | None, ip: Ip = Ip.V4) -> dict[str, float]:
    """Return what TCP reaches on a link where `line` is its ceiling with timestamps, if something else holds: words → bits a second.

    An `mtu` that is None was assumed to be 1500: then a larger one is possible too.
    """

    def share(of: int, *, timestamps: bool) -> float:
        return tcp_goodput(BpsL1(1.0), mtu=of, ip=ip, timestamps=timestamps)

    speed = line / share(mtu or USUAL_MTU, timestamps=True)
    out = {"without TCP timestamps": speed * share(mtu or USUAL_MTU, timestamps=False)}
    if mtu is None:
        out |= {f"with MTU {JUMBO_MTU}": speed * share(JUMBO_MTU, timestamps=True)}
        out |= {f"with MTU {JUMBO_MTU} without TCP timestamps": speed * share(JUMBO_MTU, timestamps=False)}
    return out


def above_line(
    figures: Mapping[str, Mapping[str, float]], ceilings: Mapping[str, Mapping[str, float]], counted: Mapping[str, str] = COUNTED
) -> Iterator[tuple[str, str]]:
    """(link, what is above what it can carry, in words) for every rate of frames in `counted`, and for goodput that no MTU explains."""
    for link, of_link in figures.items():
        for name, value in of_link.items():
            if (like := counted.get(name)) is None:
                continue
            line = _line_of(link, like, ceilings)
            if line and like == name == "goodput_bps":
                line = max(other_goodputs(line, mtu=None).values())
            unit = "b/s" if "bps" in like else "pps"
            if line and exceeds(value, line, "b/s" if like == "goodput_bps" else "pps"):
                yield link, f"{name} {si(value, unit, 4)}, the link carries {si(line, unit, 4)}"


def _line_of(link: str, figure: str, ceilings: Mapping[str, Mapping[str, float]]) -> float | None:
    """Return the line rate of a link; of a link that has none (`a+a.back`) the sum of its directions."""
    if (own := ceilings.get(link, {}).get(figure)) is not None:
        return own
    of_directions = [ceilings.get(place, {}).get(figure) for place in subject_of(link).place_of_flows]
    return None if any(line is None for line in of_directions) else sum(line for line in of_directions if line is not None)
