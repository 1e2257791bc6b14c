"""One-line summary of a trial, during and after its measurement."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.events import TrialEnded
from dutlab.report.model.words import grouped
from dutlab.subject import by_part, is_step
from dutlab.units import si

_HEADLINES = (
    ("goodput_bps", "b/s"),
    ("received_pps", "pps"),
    ("max_received_pps", "pps"),
    ("throughput_pps", "pps"),
    ("critical_pps", "pps"),
    ("iops.read", "IOPS read"),
    ("iops.write", "IOPS written"),
    ("peak/iops", "IOPS at most"),
    ("steady/iops", "IOPS"),
    ("made_pps", "pps made"),
)
_COUNTS = (("connections_lower_per_s", "connections/s"), ("concurrent_connections", "connections at once"))

_OF_STEPS = (("goodput_bps", "b/s"), ("received_pps", "pps"), ("offered_pps", "pps"), ("transactions_per_s", "/s"))

LIVE_RATES = (
    ("offered_pps", "pps", "offered"),
    ("received_pps", "pps", "received"),
    ("lost_pps", "pps", "lost"),
    ("goodput_bps", "b/s", "goodput"),
    ("wire_bps", "b/s", "arriving"),
    ("iops.read", "IOPS", "read"),
    ("iops.write", "IOPS", "written"),
)
"""Rates of tools: name, unit and word."""


def ended_words(ended: TrialEnded, severe: Sequence[str]) -> str:
    """Return the result of a trial in a line: its main figures, and the severe doubts in `severe`."""
    if ended.status != "measured":
        return f"{ended.status}: {ended.why}"
    figures = ended.figures.get(ended.main, {})
    counted = [f"{grouped(f'{figures[name]:.0f}')} {unit}" for name, unit in _COUNTS if name in figures]
    parts = by_part(figures)
    of_steps = [(host, own) for host, of in ended.figures.items() for part, own in by_part(of).items() if is_step(part)]
    phrases = [si(figures[name], unit) for name, unit in _HEADLINES if name in figures] + counted
    phrases += [f"{host} {si(own[name], unit)}" for host, own in of_steps for name, unit in _OF_STEPS if name in own][:6]
    phrases += [f"{part} {si(of['lower_pps'], 'pps')}" for part, of in parts.items() if part and "lower_pps" in of]
    outages = ((part, of["outage_max_ns"]) for part, of in parts.items() if "outage_max_ns" in of)
    phrases += [f"{way}: out of service for {si(value / 1e9, 's')} at most" for way, value in outages]
    losses = ((part, of["route_loss_max_ns"]) for part, of in parts.items() if "route_loss_max_ns" in of)
    phrases += [f"{part}: a flow had no way for {si(value / 1e9, 's')} at most" for part, value in losses]
    if "path_mtu_bytes" in figures:
        payload = f", payload {figures['payload_bytes']:.0f}" if "payload_bytes" in figures else ""
        phrases.append(f"MTU {figures['path_mtu_bytes']:.0f} bytes{payload}")
    if "loss_ratio" in figures:
        if backpressure := ended.backpressure_ratio:  # with backpressure, zero loss says little
            phrases.append(f"backpressure {backpressure:.1%}")
        phrases.append(f"loss {figures['loss_ratio']:.3%}")
    return ", ".join([*phrases, *severe]) or "measured"
