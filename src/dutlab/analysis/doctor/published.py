"""Published costs, measured by others. Each is valid for their machine; on another it is a hint."""

from __future__ import annotations

from dutlab.analysis.doctor.finding import Price

_APU2 = "OpenBSD on a PC Engines APU2, 1 Gb/s, MTU 1500, CPU boost on"
_HOST_STACK = (
    "Cai et al., Understanding Host Network Stack Overheads, SIGCOMM 2021, section 3.1 (Linux 5.4, Xeon Gold 6128 at 3.4 GHz, 100 Gb/s)"
)
ONE_CORE_BPS = 42e9
"""TCP goodput of one core with every offload in use, in bits a second."""
_RULE_SHARE = (6e6 / 250e3 - 1) / 1000
"""Time that each evaluated rule adds, as a share of a packet's time without rules: from 6 Mpps without and 250 kpps with 1000 rules."""


def _lost(bad: float, good: float) -> float:
    return 100 * (good - bad) / good


PF_RULE = Price(_lost(46.8, 55.7), "TCP goodput", f"published: {_APU2}: 46.8 MB/s with one pass rule of pf, 55.7 MB/s with pf skipped")
PF_FREEBSD = Price(
    _lost(6.99, 9.40),
    "TCP goodput",
    "published: pfSense 2.4.5 on a Supermicro E302-9D (Xeon D-2123IT), 10 Gb/s, four streams: 6.99 Gb/s with pf on and without rules, "
    "9.40 Gb/s with it off",
)
SETPERF = Price(_lost(38.9, 55.7), "TCP goodput", f"published: {_APU2}, pf skipped: 38.9 MB/s with hw.setperf 0, 55.7 MB/s with 100")
BOOST_AND_PCIE = (
    "not known for each alone; published: OpenBSD on a PC Engines APU2, pf skipped, CPU boost and PCIe power management "
    f"changed together: 36.5 MB/s became 55.7, so both cost {_lost(36.5, 55.7):.1f} % there"
)
FAR_NODE = Price(20.0, "TCP goodput of a core", f"published: {_HOST_STACK}: a flow served by a core of another node than its card's")
NO_TSO = Price(
    _lost(10, 40),
    "TCP goodput sent",
    "published: documentation of PyTorch's Gloo (docs/latency.md): a core sent 10 Gb/s without TSO, 40 Gb/s with it",
)
NO_GRO = Price(
    _lost(5, 9),
    "TCP goodput received",
    "published: FreeBSD r293719 (hn(4), 40 Gb/s): 5 Gb/s received without merging segments (LRO), 9 Gb/s with; Linux merges them in GRO",
)
SLOW_CLOCK = Price(
    _lost(1 / 1.3, 1.0),
    "a program that reads the clock all the time",
    "published: B. Gregg, The Speed of Time, 2021: a database took over 30 % more CPU with the clock source xen than with tsc",
)


def linux_rules(count: int) -> Price:
    """Return the cost of `count` rules that every packet passes."""
    return Price(
        100 * (1 - 1 / (1 + _RULE_SHARE * count)),
        "packets a second, at most",
        "published: Universitat de València, nftables vs pf IPv4 filtering tests: Linux forwarded 6 Mpps without rules and 250 kpps past "
        f"1000, so a rule adds {100 * _RULE_SHARE:.1f} % to a packet's time: 1 - 1 / (1 + {_RULE_SHARE:.3f} x {count})",
    )


def one_stream(speed_bps: float) -> Price:
    """Return the cost of using one TCP stream on a link of `speed_bps`."""
    known = f"published: {_HOST_STACK}: one stream reached {ONE_CORE_BPS / 1e9:g} Gb/s"
    if speed_bps <= ONE_CORE_BPS:
        return Price(None, "", f"what a core carries here is not known until it is measured (--prove one-stream); {known}")
    return Price(_lost(ONE_CORE_BPS, speed_bps), "line rate, at least", f"{known} of {speed_bps / 1e9:g}; slower cores less")
