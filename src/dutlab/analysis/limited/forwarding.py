"""Limit of a box that forwards: rules over facts that were measured with the figure. Each rule returns a finding or None.

Thresholds come from the field's practice, not from a standard. The evidence of each rule has the number that met its threshold.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dutlab.analysis.limited.facts import BUSY, FULL_CALLS, NO_LOSS, Facts
from dutlab.analysis.limited.finding import Confidence, LimitCause, LimitFinding, best_of, no_verdict
from dutlab.physics.ceilings.assumed import exceeds
from dutlab.units import si

AT_LINE, NEAR_LINE = 0.97, 0.90
NEARLY_BUSY, IDLE = 90.0, 80.0
"""Busy percent of a core."""
FEW_REFUSED = 0.05
ALL_TAKEN, MOSTLY_TAKEN = 0.999, 0.9
"""Shares of a set rate."""
SAME_PPS = 1.6
"""Factor within which frame rates count as the same. If frame sizes differ by BYTES_APART or more, the cost is then per packet."""
BYTES_APART = 2.0
OTHER_IS_FASTER = 1.05
MOST = 0.5
"""Share of the lost frames above which one place counts as the cause."""
_AT_CARD = {"DUT in", "DUT out"}
_INSIDE = _AT_CARD | {"DUT stack"}
"""Places inside the DUT at which frames are lost (dutlab.tools.path_counters)."""


def limit_of_result(facts: Facts) -> LimitFinding:
    """Return the limit of a result, with its evidence. Rules are in the order in which a tester excludes causes: the rig, then the DUT.

    A doubtful figure or ceiling gets no verdict. If the rig is the limit, no verdict names the DUT.
    """
    if facts.void:
        return no_verdict(facts.void, "remove what the doubts name, then repeat")
    corrected, refuted = _with_valid_ceiling(replace(facts, dut_cores=[c for c in facts.dut_cores if c.number not in facts.polling]))
    if corrected.line and exceeds(corrected.value, corrected.line, corrected.unit):
        of_line = f"{corrected.value / corrected.line:.1%} of the {corrected.text(corrected.line)}"
        sentence = f"{corrected.text(corrected.value)} is {of_line} that the link carries"
        sentence += f" with {facts.assumed}" if facts.assumed else ""
        return no_verdict(
            (f"{sentence}: the link's speed or the count is wrong",), "check the speed of the link and the counters of the sink's port"
        )
    if corrected.rig:
        return best_of([_line(corrected, refuted), _rig(corrected)], ())
    if corrected.untested:
        return best_of([_line(corrected, refuted), no_verdict((corrected.untested,), "offer more")], ())
    if _follows_load(corrected, ALL_TAKEN) and corrected.lossless:
        sentence = f"all of the {corrected.text(corrected.asked or 0.0)} that was asked for was forwarded"
        return best_of([_line(corrected, refuted), no_verdict((sentence,), "offer more")], ())
    return best_of([_line(corrected, refuted), *(rule(corrected) for rule in RULES)], _missing(corrected))


def _with_valid_ceiling(f: Facts) -> tuple[Facts, str]:
    """Return the facts with the lowest ceiling that no measured value exceeds, and a reason; the reason is empty for the same ceiling."""
    highest = max(f.value, f.most_seen or 0.0)
    if not f.line or not exceeds(highest, f.line, f.unit):
        return f, ""
    words, line = next(
        ((w, c) for w, c in sorted(f.other_lines.items(), key=lambda of: of[1]) if not exceeds(highest, c, f.unit)), ("", None)
    )
    if line is None:
        return f, ""
    which = "" if highest == f.value else f" ({f.text(highest)} passed the same link)"
    named = f"{f.assumed or 'the ceiling does not hold'}, a ceiling of {f.text(f.line)}, which is exceeded{which}"
    return replace(f, line=line, assumed=""), f"{named}; {words} the ceiling is {f.text(line)}"


def _line(f: Facts, refuted: str) -> LimitFinding | None:
    """Return a finding if the result is near the line rate. If the assumed ceiling was refuted, its confidence is one step lower."""
    if not f.line or f.value < NEAR_LINE * f.line:
        return None
    share = f.value / f.line
    sure = Confidence.SHOWN if share >= AT_LINE else Confidence.LIKELY
    sentence = f"{f.text(f.value)} is {share:.1%} of the {f.text(f.line)} that the link carries"
    next_ = "drive more links at once, or smaller frames, to find the next limit"
    if refuted:
        return LimitFinding(LimitCause.LINE, Confidence(sure - 1), (refuted, sentence), "give the MTU of the path, then compare again")
    return LimitFinding(LimitCause.LINE, sure, (f"{sentence}, {f.assumed}" if f.assumed else sentence,), next_)


def _follows_load(f: Facts, share: float) -> bool:
    """Return True if a load of a set rate was offered and the result reaches `share` of that rate."""
    return f.asked is not None and f.loss_ratio is not None and f.unit == "pps" and f.value >= share * f.asked


def _rig(f: Facts) -> LimitFinding:
    return LimitFinding(LimitCause.RIG, Confidence.SHOWN, (f.rig,), "use a faster generator or sink; the DUT's own limit may be higher")


def _generator(f: Facts) -> LimitFinding | None:
    busy = f.generator_core is not None and f.generator_core >= BUSY
    at_core = f", its busiest core at {f.generator_core:.0f} %" if f.generator_core is not None else ""
    if f.sent is None or not f.lossless or (f.refused_ratio or 0.0) > FEW_REFUSED:
        return None
    if f.asked is not None and f.sent < 0.97 * f.asked:
        sentence = f"it sent {f.text(f.sent)} of {f.text(f.asked)} asked, and the DUT forwarded all of it{at_core}"
    elif f.asked is None and f.generator_best is not None and f.sent >= 0.97 * f.generator_best:
        sentence = f"nothing was lost at {f.text(f.sent)}, the most it ever sent{at_core}"
    elif busy:
        sentence = f"nothing was lost at {f.text(f.sent)}{at_core}"
    else:
        return None
    return LimitFinding(LimitCause.GENERATOR, Confidence.SHOWN if busy else Confidence.LIKELY, (sentence,),
                   "use a faster generator or larger packets; the DUT's own limit is higher")  # fmt: skip


def _sink(f: Facts) -> LimitFinding | None:
    at_sink = sum(share for place, share in f.places.items() if "sink" in place)
    if not f.lossless and at_sink > MOST:
        return LimitFinding(
            LimitCause.SINK, Confidence.SHOWN, (f"{at_sink:.0%} of the lost frames had left the DUT",), "give the sink more cores or queues"
        )
    cool = f.is_cool(NEARLY_BUSY) or not (f.dut_cores or f.polling)
    if f.sink_core is not None and f.sink_core >= BUSY and cool:
        evidence = (f"its busiest core was at {f.sink_core:.0f} %, no core of the DUT near that",)
        return LimitFinding(LimitCause.SINK, Confidence.LIKELY, evidence, "give the sink more cores or queues")
    return None


def _table(f: Facts) -> LimitFinding | None:
    if not f.table_size or f.table_entries is None or f.table_entries < 0.95 * f.table_size:
        return None
    sentence = f"{f.table_entries:,.0f} of {f.table_size:,.0f} entries were taken".replace(",", " ")
    return LimitFinding(LimitCause.STATE_TABLE, Confidence.SHOWN, (sentence,), "increase its size, or drive fewer flows")


def _fragments(f: Facts) -> LimitFinding | None:
    if not f.fragments or not f.pps or f.fragments < 0.5 * f.pps:
        return None
    return LimitFinding(
        LimitCause.FRAGMENTS,
        Confidence.LIKELY,
        (f"{si(f.fragments, 'pps')} were fragmented or reassembled",),
        "lower the MSS or the packet size",
    )


def _heat(f: Facts) -> LimitFinding | None:
    if f.throttled:
        return LimitFinding(LimitCause.HEAT, Confidence.SHOWN, (f.throttled,), "improve its cooling, then soak it for an hour", "heat")
    if f.power_limited:
        return LimitFinding(LimitCause.HEAT, Confidence.LIKELY, (f.power_limited,), "raise the processor's power limit, or measure at its "
                            "base frequency", "power")  # fmt: skip
    if f.frequency_drop is None or f.frequency_drop < 0.05:  # noqa: PLR2004 - a twentieth
        return None
    return LimitFinding(LimitCause.HEAT, Confidence.LIKELY, (f"its processor lost {f.frequency_drop:.0%} of its frequency meanwhile",),
                   "improve its cooling, then soak it for an hour")  # fmt: skip


def _pcie(f: Facts) -> LimitFinding | None:
    if not f.pcie_bps or f.unit != "b/s" or f.value < 0.85 * f.pcie_bps:
        return None
    return LimitFinding(LimitCause.PCIE, Confidence.LIKELY, (f"{f.text(f.value)} is {f.value / f.pcie_bps:.0%} of what its slot passes",),
                   "move the card to a wider or newer slot")  # fmt: skip


def _memory(f: Facts) -> LimitFinding | None:
    if f.memory_share is None or f.memory_share < 0.7:  # noqa: PLR2004 - DRAM seldom reaches more of its peak
        return None
    return LimitFinding(
        LimitCause.MEMORY, Confidence.LIKELY, (f"{f.memory_share:.0%} of the memory's peak was moved",), "fill more channels"
    )


def _allowance(f: Facts) -> LimitFinding | None:
    if f.lossless or f.over_allowance <= MOST:
        return None
    sentence = f"the hypervisor held back or dropped frames above its allowance, as many as {f.over_allowance:.0%} of the lost ones"
    return LimitFinding(LimitCause.ALLOWANCE, Confidence.LIKELY, (sentence,), "use a larger instance, or measure on your own machine")


def _card(f: Facts) -> LimitFinding | None:
    at_ports = sum(share for place, share in f.places.items() if place in _AT_CARD)
    by_cards = min(1.0, sum(f.at_cards.values()))
    if f.lossless or max(at_ports, by_cards) <= MOST or not f.is_cool(IDLE):
        return None
    cool = f"while no core was above {max(c.busy for c in f.dut_cores):.0f} %"
    if by_cards > MOST:
        what = max(f.at_cards, key=lambda of: f.at_cards[of])
        evidence = (f"the DUT's cards counted {by_cards:.0%} of the lost frames {cool}", f"{f.at_cards[what]:.0%}: {what}")
        return LimitFinding(LimitCause.NIC, Confidence.SHOWN, evidence, "enlarge the rings, add queues, check the slot")
    sentences = (f"{at_ports:.0%} of the lost frames were lost at the DUT's ports {cool}",)
    return LimitFinding(LimitCause.NIC, Confidence.LIKELY, sentences, "enlarge the rings, add queues, check pause frames")


def _cores(f: Facts) -> LimitFinding | None:
    if not f.dut_cores:
        return None
    hottest = max(f.dut_cores, key=lambda c: c.busy)
    least = min(c.busy for c in f.dut_cores)
    if hottest.busy < NEARLY_BUSY:
        return None
    why = [f"core {hottest.number} was busy {hottest.busy:.0f} % of the time, mostly in {hottest.mostly}", *_pressure(f)]
    detail = f"core {hottest.number}, {hottest.mostly}"
    if f.shared_cores:
        sure = Confidence.POSSIBLE if _pressure(f) else Confidence.LIKELY
        return LimitFinding(LimitCause.SHARED_CORES, sure, (*why, f.shared_cores), "give the DUT its own cores, or a machine", detail)
    sure = Confidence.SHOWN if _pressure(f) and hottest.busy >= BUSY else Confidence.LIKELY
    if len(f.dut_cores) > 1 and least >= NEARLY_BUSY:
        return LimitFinding(
            LimitCause.ALL_CORES, sure, (*why, f"and no core less than {least:.0f} %"), "use a faster processor, or a mode with less work"
        )
    return LimitFinding(
        LimitCause.ONE_CORE, sure, tuple(why), "spread the flows over more queues and cores; the rate should follow", detail
    )


def _polling(f: Facts) -> LimitFinding | None:
    """Judge a DUT that polls. Its cores are always busy, so only the frames found per poll show whether they keep up."""
    if not f.polling or not f.polls_are_full:
        return None
    cores = ", ".join(map(str, sorted(f.polling)))
    full = f.call_share is not None and f.call_share >= FULL_CALLS
    took = f"found {f.call_share:.0%} of its largest batch in each poll" if full else f"had frames in {f.cycle_share:.0%} of its cycles"
    why = (f"the DUT polls on core {cores}, and {took}", *_pressure(f))
    sure = Confidence.SHOWN if _pressure(f) else Confidence.LIKELY
    if f.shared_cores:  # its cycles also count time in which other programs have the core
        return LimitFinding(
            LimitCause.SHARED_CORES, Confidence.POSSIBLE, (*why, f.shared_cores), "give the DUT its own cores, or a machine"
        )
    limit = LimitCause.ONE_CORE if len(f.polling) == 1 else LimitCause.ALL_CORES
    return LimitFinding(limit, sure, why, "give it more cores that poll; the rate should follow", f"core {cores}, polling")


def _pressed_dut(f: Facts) -> LimitFinding | None:
    """Judge a DUT whose cores are not known. If it loses or refuses frames that the rig delivers, it is at its own limit."""
    inside = sum(share for place, share in f.places.items() if place in _INSIDE)
    at_line = f.line is not None and f.value >= NEAR_LINE * f.line
    if f.imported or (f.dut_cores and not f.shared_cores) or at_line or (f.places and inside <= MOST) or not _pressure(f):
        return None
    sure = Confidence.LIKELY if f.shared_cores and f.dut_cores and max(c.busy for c in f.dut_cores) >= NEARLY_BUSY else Confidence.POSSIBLE
    return LimitFinding(LimitCause.PER_PACKET, sure, _pressure(f), "give the DUT its own cores and watch them")


def _pressure(f: Facts) -> tuple[str, ...]:
    """Return signs that the DUT was offered more than it could forward."""
    refused = f.refused_ratio or 0.0
    signs = [f"backpressure: {refused:.0%} of the frames were refused"] if refused > FEW_REFUSED else []
    return (*signs, *([f"{f.loss_ratio:.2%} of the frames were lost"] if f.loss_ratio is not None and not f.lossless else []))


def _tcp(f: Facts) -> LimitFinding | None:
    if f.streams is None or (f.line and f.value >= NEAR_LINE * f.line):
        return None
    if f.window_bytes and f.rtt_s:
        most = f.streams * f.window_bytes * 8 / f.rtt_s
        if 0.8 * most <= f.value <= 1.1 * most:
            sentence = f"{f.streams} windows of {f.window_bytes:,.0f} bytes over {f.rtt_s * 1e3:g} ms carry {si(most, 'b/s')}".replace(
                ",", " "
            )
            return LimitFinding(LimitCause.TCP, Confidence.SHOWN, (sentence,), "raise the window", "window")
    idle = f.is_cool(IDLE)
    if f.streams == 1 and idle:
        return LimitFinding(
            LimitCause.TCP, Confidence.POSSIBLE, ("one stream, and no core of the DUT was busy",), "drive four streams", "one stream"
        )
    if idle and f.retransmits_per_s and f.pps and f.retransmits_per_s > NO_LOSS * f.pps:
        sentence = f"{f.retransmits_per_s / f.pps:.2%} of the segments were retransmitted, and no core of the DUT was busy"
        return LimitFinding(
            LimitCause.TCP, Confidence.LIKELY, (sentence,), "find where segments are lost, or try another congestion control", "retransmits"
        )
    return None


def _per_packet(f: Facts) -> LimitFinding | None:
    """Find a cost per packet: packets of a very different size have nearly the same rate, or larger packets are near line rate."""
    if not f.one_testbed or not f.pps or not f.mean_bytes or (f.line and f.value >= NEAR_LINE * f.line) or _follows_load(f, MOSTLY_TAKEN):
        return None
    for other in sorted(f.neighbours, key=lambda n: -n.mean_bytes):
        apart = other.mean_bytes / f.mean_bytes
        same = other.same_mode and 1 / SAME_PPS <= other.pps / f.pps <= SAME_PPS and not 1 / BYTES_APART < apart < BYTES_APART
        at_line = apart >= BYTES_APART and other.share_of_line is not None and other.share_of_line >= NEAR_LINE
        if not same and not at_line:
            continue
        here = f"{f.value / f.line:.1%} of the line at {si(f.pps, 'pps')}" if f.line else si(f.pps, "pps")
        there = f" and {other.share_of_line:.1%} of the line" if other.share_of_line is not None else ""
        why = f"{here} here, {si(other.pps, 'pps')}{there} with {other.name}: the cost is per packet, not per byte"
        return LimitFinding(
            LimitCause.PER_PACKET, Confidence.LIKELY, (why,), "watch its cores; then use a mode with less work per packet, or more queues"
        )
    return None


def _mode(f: Facts) -> LimitFinding | None:
    faster = {name: v for name, v in f.other_modes.items() if v >= OTHER_IS_FASTER * f.value}
    idle = f.is_cool(IDLE)  # a delay or a shaper slows traffic without CPU load
    if not faster or idle or (f.line and f.value >= NEAR_LINE * f.line):
        return None
    name = max(faster, key=lambda n: faster[n])
    why = [f"the same load through the same testbed reaches {f.text(faster[name])} in mode {name}, {f.text(f.value)} here"]
    if f.together is not None and f.together >= 1.5 * f.value:
        why.append(f"with all links driven at once it carries {f.text(f.together)}, so one link does not need all of its cores")
    return LimitFinding(LimitCause.MODE, Confidence.LIKELY, tuple(why), "watch its cores: is one at its limit, or all?")


RULES: tuple[Callable[[Facts], LimitFinding | None], ...] = (
    _generator, _sink, _table, _allowance, _fragments, _heat, _pcie, _memory,
    _card, _cores, _polling, _tcp, _per_packet, _mode, _pressed_dut,
)  # fmt: skip


def _missing(f: Facts) -> list[str]:
    """Return the open questions about this result, most important first."""
    known = {
        "how full the polls of the DUT's cores are": not f.polling or f.polls_are_full is not None,
        "load of the DUT's cores": bool(f.dut_cores) or bool(f.polling),
        "speed of the link": f.line is not None,
        "other packet sizes": bool(f.neighbours),
        "other modes": bool(f.other_modes),
        "loss": f.loss_ratio is not None or f.streams is not None,
    }
    return [what for what, there in known.items() if not there]
