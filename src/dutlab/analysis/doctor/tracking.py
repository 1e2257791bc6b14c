"""Findings about the connection tracking table: nearly full, or with a hash so small that each packet searches a long list."""

from __future__ import annotations

from collections.abc import Iterator

from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, shell, unknown_price
from dutlab.analysis.doctor.inventory import Inventory, whole

NEARLY_FULL = 0.9
LONG_LIST = 8.0
"""List length of a full table with four times as many connections as buckets, the default of older kernels."""
_MAX, _BUCKETS = "net.netfilter.nf_conntrack_max", "net.netfilter.nf_conntrack_buckets"
_COUNT = "/proc/sys/net/netfilter/nf_conntrack_count"


def conntrack_full(p: Inventory) -> Iterator[Finding]:
    """Find tables that are nearly full before anything is measured. Packets of connections without an entry are dropped."""
    for host in p.facts:
        most, tracked = _number(p, host, _MAX), whole(p.fact(host, "firewall", "tracked_connections"))
        if not most or tracked is None or tracked < NEARLY_FULL * most:
            continue
        share = 100 * tracked / most
        yield Finding(
            "conntrack-full",
            f"the connection table is {share:.4g} % full; once it is full, packets of new connections are dropped",
            Price(share, "the table of connections", f"read: {tracked} of {most} entries; the rest is left for the flows of a measurement"),
            (host,),
            (Evidence(host, _COUNT, str(tracked)), Evidence(host, f"sysctl {_MAX}", str(most))),
            (CureStep(host, _set(p, host, _MAX, 4 * most)),),
            (CureStep(host, _set(p, host, _MAX, most)),),
        )


def conntrack_hash(p: Inventory) -> Iterator[Finding]:
    """Find tables with too few buckets for their largest number of connections.

    Each connection is in the table twice (nf_conntrack-sysctl.rst).
    """
    for host in p.facts:
        most, buckets = _number(p, host, _MAX), _number(p, host, _BUCKETS)
        if not most or not buckets or 2 * most / buckets <= LONG_LIST:
            continue
        tracked = whole(p.fact(host, "firewall", "tracked_connections")) or 0
        full, now = 2 * most / buckets, 2 * tracked / buckets
        yield Finding(
            "conntrack-hash",
            f"the hash of tracked connections has {buckets} buckets for {most} connections: lists of {full:.3g} entries when it is full",
            unknown_price(f"each packet searches half a list, of {now:.3g} entries now; most entries are cache misses"),
            (host,),
            (Evidence(host, f"sysctl {_BUCKETS} {_MAX}", f"{buckets}, {most}"),),
            (CureStep(host, _set(p, host, _BUCKETS, most)),),
            (CureStep(host, _set(p, host, _BUCKETS, buckets)),),
        )


def _number(p: Inventory, host: str, name: str) -> int | None:
    text = p.text(host, "sysctls", name)
    return int(text) if text.isdigit() else None


def _set(p: Inventory, host: str, name: str, value: int) -> str:
    """Return the command that sets a size of the table. The kernel has one size, set in its first network namespace only."""
    command = shell("sysctl", f"{name}={value}")
    kernel = p.fact(host, "kernel")
    in_namespace = p.one_machine and any(other != host and p.fact(other, "kernel") == kernel for other in p.facts)
    return f"by hand: on the machine itself, outside of its namespaces: {command}" if in_namespace else command
