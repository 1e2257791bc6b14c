"""NDR of one lab router by our engine ÷ by the plainest sender that paces evenly, and where each of them loses its frames.

ROUNDS=3, SIZE=64, BACKEND=auto and BUSY=0 unless told otherwise: BUSY is how many processes spin beside it; OTHER_ENGINE is the path of another
build of the engine to be searched with as well. In the lab `two-port`. The engine verifies the checksum of each frame that arrives, on the core that
also carries the router; the even sender's frames are only counted. So ours is searched a second time with checksums taken on trust. The even sender is `even_sender.c`: an AF_PACKET socket and one frame a call,
each at its own instant. It is run in two ways: it ends on time as our engine does, or it stretches time as TRex does (TRex itself is not at hand, and
this stands for its pacing). All are searched the same way: a ladder of rates by bisection, a second a trial, the senders in turn. What counts is the
rate made at the highest rung without a lost frame; who ends on time must also make nearly all of the rung. A frame of the even sender has arrived
when the sink's nftables counter, which also drops it, has seen it; one of ours when the engine's receiver has. Places are those of
`tools/path_counters.py`. Needs root, cc and nft.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from dutlab import labs
from dutlab.hosts.host import Host
from dutlab.methods.ports import Offer
from dutlab.spec.links import Link
from dutlab.spec.mixes import frame_mix
from dutlab.tools.engine.agent import Agent
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.directions import direction_of
from dutlab.tools.engine.engine import Engine
from dutlab.tools.engine.load import DESTINATION_PORT
from dutlab.tools.generators.trex_words import frame_of
from dutlab.tools.path_counters import PathCount, lost_by_place, read_path
from dutlab.units import Pps, Seconds

ROUNDS, BUSY = int(os.environ.get("ROUNDS", "3")), int(os.environ.get("BUSY", "0"))
SIZE, BACKEND = int(os.environ.get("SIZE", "64")), os.environ.get("BACKEND", "auto")
BEFORE = os.environ.get("OTHER_ENGINE", "")
VERBOSE = "VERBOSE" in os.environ
SECONDS, DRAIN_S = 1.0, 0.3
LADDER = [1000 * 1.1**n for n in range(75)]
"""1 kpps to 1.2 Mpps."""
REACHED, SLOW = 0.99, "sender too slow"
"""Share of a rung that a sender that keeps time must make."""
FULL, HELD_MOST_S = "router's input ring full", 0.1
"""A stretched trial that waits longer than this for room, all in all, is above what the router takes."""
OURS, TRUSTING, OTHER = "ours", "ours, checksums on trust", "the other engine"
EVEN = {"even, keeps time": "keep", "even, stretches": "stretch"}
"""Name → what it does with late frames, as even_sender.c calls it."""
COUNTER = 'add table netdev bench; add chain netdev bench in {{ type filter hook ingress device "{}" priority 0; }}; '
COUNTER += f"add rule netdev bench in udp dport {DESTINATION_PORT} counter drop"
SENDER = Path(__file__).with_name("even_sender.c")


verifying = Agent.ask


async def trusting(agent: Agent, op: str, kind: type, **arguments: Any) -> Any:
    """`Agent.ask`, by which a receiver takes checksums on trust."""
    if receive := arguments.get("receive"):
        arguments["receive"] = receive | {"unverified": True}
    return await verifying(agent, op, kind, **arguments)


@dataclass(frozen=True)
class Tried:
    """One trial: the rate that was made, what kept the sender below its rung if it was, and the frames lost, by place."""

    pps: float
    why_short: str
    lost: Mapping[str, int]


Try = Callable[[float], Awaitable[Tried]]


def lost(before: PathCount, after: PathCount, *, sent: int, received: int) -> Mapping[str, int]:
    """Place → frames; empty if all that were sent arrived, whatever other frames the counters saw."""
    return (
        {place: n for place, n in lost_by_place(before=before, after=after, sent=sent, received=received).items() if n}
        if sent > received
        else {}
    )


async def arrived(host: Host) -> int:
    """Frames of the even sender that came to the sink since the lab was built."""
    listed = (await host.run(["nft", "list", "table", "netdev", "bench"])).text.split()
    return int(listed[listed.index("packets") + 1])


async def even(sender: str, lab: labs.Lab, hosts: Mapping[str, Host], late: str, pps: float) -> Tried:
    link = lab.testbed.links["a"]
    direction = await direction_of(hosts, lab.testbed, "a")
    source, sink = hosts[link.source.host], hosts[link.sink.host]
    mac = (await source.get(f"/sys/class/net/{link.source.interface}/address")).decode().strip()
    frame = frame_of(direction, mac, SIZE).hex()
    cpus = ",".join(map(str, lab.cpus[link.source.host]))
    before, came = await read_path(hosts, link), await arrived(sink)
    asked = [link.source.interface, frame, str(pps), str(int(pps * SECONDS)), late]
    done = await source.run(["taskset", "-c", cpus, sender, *asked], timeout_s=60)
    await asyncio.sleep(DRAIN_S)
    after, came = await read_path(hosts, link), await arrived(sink) - came
    sent, took, unsent, full, _ = map(float, done.text.split())
    why_short = FULL if (unsent if late == "keep" else full > HELD_MOST_S) else SLOW
    return Tried(sent / took, why_short, lost(before, after, sent=int(sent), received=came))


async def ours(engine: Engine, hosts: Mapping[str, Host], link: Link, pps: float) -> Tried:
    before = await read_path(hosts, link)
    offer = Offer(("a",), frame_mix(SIZE), Pps(pps), duration=Seconds(SECONDS), warmup=Seconds(0.0), drain=Seconds(DRAIN_S))
    (flow,) = (await engine.offer(offer)).flows
    after = await read_path(hosts, link)
    why_short = FULL if flow.backpressure_frames > flow.refused_frames / 2 else SLOW
    return Tried(flow.sent_frames / SECONDS, why_short, lost(before, after, sent=flow.sent_frames, received=flow.received_frames))


async def ndr(trial: Try, ended_by: Counter[str], *, on_time: bool) -> float:
    """The highest rate made without a lost frame, 0 if there is none; `ended_by` counts the trials that each place ended. With `on_time` nearly
    all of a rung must be made, whatever kept the sender from it."""
    low, high, made = -1, len(LADDER), 0.0
    while high - low > 1:
        middle = (low + high) // 2
        found = await trial(LADDER[middle])
        short = found.pps < REACHED * LADDER[middle]
        why = found.lost or ({found.why_short: 1} if short else {})
        ended_by.update(dict.fromkeys(why, 1))
        if VERBOSE:
            print(f"  {LADDER[middle] / 1e3:.1f} kpps: made {found.pps / 1e3:.1f}, {why or 'all arrived'}")
        if found.lost or (short and (on_time or found.why_short == FULL)):
            high = middle
        else:
            low, made = middle, max(made, found.pps)
    return made


async def searched(name: str, sender: str, lab: labs.Lab, ended_by: Counter[str]) -> float:
    """The NDR that one of the senders finds."""
    hosts, link = lab.hosts(), lab.testbed.links["a"]
    engine = Engine(hosts, lab.testbed, lab.cpus, BEFORE if name == OTHER else str(find_engine()), backend=BACKEND)
    try:
        await engine.offer(Offer(("a",), frame_mix(SIZE), Pps(1000.0), duration=Seconds(0.5)))  # agents started, neighbours known
        if late := EVEN.get(name):
            return await ndr(lambda pps: even(sender, lab, hosts, late, pps), ended_by, on_time=late == "keep")
        with patch.object(Agent, "ask", trusting if name == TRUSTING else verifying):
            return await ndr(lambda pps: ours(engine, hosts, link, pps), ended_by, on_time=True)
    finally:
        await engine.close()
        for host in hosts.values():
            await host.close()


async def measured(sender: str) -> None:
    senders = [OURS, TRUSTING, *EVEN, *([OTHER] if BEFORE else [])]
    label = labs.new_label()
    lab = await labs.up("two-port", label=label)
    try:
        sink = lab.testbed.links["a"].sink
        host = lab.hosts()[sink.host]
        await host.run(["nft", COUNTER.format(sink.interface)])
        await host.close()
        ended: dict[str, Counter[str]] = {name: Counter() for name in senders}
        found: dict[str, list[float]] = {name: [] for name in senders}
        for round_number in range(ROUNDS):
            for name in senders if round_number % 2 else reversed(senders):
                found[name].append(await searched(name, sender, lab, ended[name]))
        for name, rates in found.items():
            said = ", ".join(f"{place} {n}" for place, n in ended[name].most_common()) or "none"
            print(
                f"{name}: NDR {median(rates) / 1e3:.0f} kpps ({min(rates) / 1e3:.0f} to {max(rates) / 1e3:.0f}); trials that lost or fell short: {said}"
            )
        for other in senders[1:]:
            ratios = [a / b for a, b in zip(found[OURS], found[other], strict=True) if b]
            if ratios:
                print(f"ours ÷ {other}: {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
        print(f"load average {os.getloadavg()[0]:.1f}, BUSY {BUSY}, {SIZE} bytes, {ROUNDS} rounds")
    finally:
        await labs.down(label)


def main() -> None:
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        with TemporaryDirectory() as folder:
            sender = str(Path(folder) / "even_sender")
            subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-o", sender, SENDER], check=True)
            asyncio.run(measured(sender))
    finally:
        for process in spinning:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
