"""Queues before the ports of a Linux host, by tc(8): how they are set, read and removed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from dutlab.dut.mode import UndoStep
from dutlab.hosts.host import Host
from dutlab.reason import reason_in
from dutlab.spec.mixes import ETH_FRAME_OVERHEAD

_OF_KERNEL = "0:"
"""Handle of a queue that the kernel sets automatically (net/sched/sch_generic.c), and sets again when ours is deleted."""
_BURST_S = 0.001
"""Least depth of a token bucket, in seconds at its rate: the millisecond of sqm-scripts."""


def bucket_bytes(rate_bps: float, mtu: int) -> int:
    """Return the depth of a token bucket in bytes; a frame longer than this would never pass."""
    return max(round(rate_bps / 8 * _BURST_S), 2 * (mtu + ETH_FRAME_OVERHEAD))


async def queues_of(host: Host, port: str) -> list[dict[str, Any]]:
    """Return a port's queues from `tc -s -j qdisc`, the root first. Raises CommandFailed, HostError."""
    queues: list[dict[str, Any]] = json.loads((await host.run(["tc", "-s", "-j", "qdisc", "show", "dev", port])).text or "[]")
    egress = [of for of in queues if of["kind"] not in {"ingress", "clsact"}]
    return sorted(egress, key=lambda of: not of.get("root"))


async def taken(host: Host, ports: Iterable[str]) -> list[str]:
    """Return faults of ports with a queue that could not be restored. Raises HostError."""
    roots = {port: (await queues_of(host, port))[:1] for port in ports}
    return [
        f"{host.name}: {port} has a queue already, {root['kind']}, which could not be restored: `tc qdisc del dev {port} root`"
        for port, queues in roots.items()
        for root in queues
        if root["handle"] != _OF_KERNEL
    ]


async def unknown(host: Host, scripts: Iterable[str]) -> str:
    """Return why the kernel cannot have the queues of these scripts for port `lo`; empty if it can. Raises HostError."""
    done = await host.run(["unshare", "--net", "sh", "-e"], stdin="".join(scripts).encode(), check=False)
    return reason_in(done.errors) or f"tc ended with {done.status}" if done.status else ""


def script_of(port: str, lines: Sequence[str]) -> str:
    """Return a script for `sh -e` that replaces the port's queues; each line is arguments of `tc` with `{port}`."""
    return "".join([f"tc qdisc del dev {port} root 2>/dev/null || true\n", *(f"tc {line.format(port=port)}\n" for line in lines)])


def undo_of(host: Host, ports: Iterable[str], why: str) -> UndoStep:
    """Return the step that sets the kernel's default queues again."""
    return UndoStep(host.name, ("sh",), "".join(script_of(port, ()) for port in ports), why)
