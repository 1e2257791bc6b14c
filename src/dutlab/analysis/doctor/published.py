"""Prices that reviewers measured and published. Each holds for that machine; on another it is a hint."""

from __future__ import annotations

from dutlab.analysis.doctor.finding import Price

_APU2 = "OpenBSD on a PC Engines APU2, 1 Gb/s, MTU 1500, CPU boost on"


def _lost(bad: float, good: float) -> float:
    return 100 * (good - bad) / good


PF_RULE = Price(_lost(46.8, 55.7), "TCP goodput", f"published: {_APU2}: 46.8 MB/s with one pass rule of pf, 55.7 MB/s with pf skipped")
SETPERF = Price(_lost(38.9, 55.7), "TCP goodput", f"published: {_APU2}, pf skipped: 38.9 MB/s with hw.setperf 0, 55.7 MB/s with 100")
BOOST_AND_PCIE = (
    "of neither alone; published: OpenBSD on a PC Engines APU2, pf skipped, changed CPU boost and PCIe power management together: "
    f"36.5 MB/s became 55.7, so both cost {_lost(36.5, 55.7):.1f} % there"
)
