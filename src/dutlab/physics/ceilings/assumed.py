"""Figures above a ceiling: either the ceiling depends on a wrong assumption, or the figure is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dutlab.physics.ceilings.ethernet import Ip, tcp_goodput
from dutlab.subject import subject_of
from dutlab.units import BpsL1, si

ABOVE_FRAMES = 1.02
"""Largest ratio of counted frames to the line rate: a ramp counts seconds by clocks that differ by a few milliseconds."""
ABOVE_BITS = 1.005
"""Largest ratio of goodput to its ceiling.

Goodput is a mean over the trial. TCP without timestamps exceeds its ceiling by 0.8 % at 1500 bytes.
"""
USUAL_MTU = 1500
JUMBO_MTU = 9000
"""Largest usual MTU of cards and switches; some take 9216, which adds 0.01 % more."""
COUNTED = {f"{of}_{kind}": f"received_{kind}" for of in ("sent", "received", "max_received") for kind in ("pps", "bps_l1", "bps_l2")}
COUNTED["goodput_bps"] = "goodput_bps"
"""Names of counted rates of frames, and of goodput, with their ceilings."""
OFFERED = {f"{of}{kind}": f"received_{kind}" for of in ("offered_", "rate_", "") for kind in ("pps", "bps_l1", "bps_l2")}
"""Names of offered rates with their ceilings. They have a separate doubt: a generator may count frames not yet sent from a ring."""


def exceeds(value: float, line: float, unit: str) -> bool:
    """Return True if a figure in `pps` or `b/s` exceeds its ceiling by more than its error of counting."""
    return value > line * (ABOVE_FRAMES if unit == "pps" else ABOVE_BITS)


def other_goodputs(line: float, *, mtu: int | None, ip: Ip = Ip.V4) -> dict[str, float]:
    """Return other possible TCP goodputs in bits a second, by their condition; `line` is the ceiling of the link with timestamps.

    If `mtu` is None, `line` assumes 1500; then a larger MTU is possible too.
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
    """Yield (link, message) for each rate of frames in `counted` above its ceiling, and for goodput that no MTU explains."""
    for link, of_link in figures.items():
        for name, value in of_link.items():
            if (ceiling_name := counted.get(name)) is None:
                continue
            line = _line_of(link, ceiling_name, ceilings)
            if line and ceiling_name == name == "goodput_bps":
                line = max(other_goodputs(line, mtu=None).values())
            unit = "b/s" if "bps" in ceiling_name else "pps"
            if line and exceeds(value, line, "b/s" if ceiling_name == "goodput_bps" else "pps"):
                yield link, f"{name} {si(value, unit, 4)}, the link carries {si(line, unit, 4)}"


def _line_of(link: str, figure: str, ceilings: Mapping[str, Mapping[str, float]]) -> float | None:
    """Return the line rate of a link; for a link without one (`a+a.back`), the sum of its directions."""
    if (own := ceilings.get(link, {}).get(figure)) is not None:
        return own
    of_directions = [ceilings.get(place, {}).get(figure) for place in subject_of(link).place_of_flows]
    return None if any(line is None for line in of_directions) else sum(line for line in of_directions if line is not None)
