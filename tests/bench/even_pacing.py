"""NDR of one lab router by our engine ÷ by the plainest sender that paces evenly, and where each of them loses its frames.

ROUNDS=3, SIZE=64 and BUSY=0 unless told otherwise: BUSY is how many processes spin beside it. In the lab `two-port`. The even sender
stands for TRex's pacing (TRex itself is not at hand): an AF_PACKET socket, one frame a call, each sent at its own instant while the process
spins, and a late frame is not made up for, so time is stretched as TRex does. Both are searched the same way: a ladder of rates by
bisection, a second a trial, the two in turn; what counts is the rate that was made at the highest rung without a lost frame. Loss of the even
sender is between the counters of its card and of the sink's; that of the engine is its own account, in which its receiver counts too.
Places are those of `tools/path_counters.py`. Needs root.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from statistics import median

from dutlab import labs
from dutlab.hosts.host import Host
from dutlab.methods.ports import Offer
from dutlab.spec.links import Link
from dutlab.spec.mixes import frame_mix
from dutlab.spec.testbed import Testbed
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.directions import direction_of
from dutlab.tools.engine.engine import Engine
from dutlab.tools.generators.trex_words import frame_of
from dutlab.tools.path_counters import PathCount, read_path
from dutlab.units import Pps, Seconds

ROUNDS, BUSY = int(os.environ.get("ROUNDS", "3")), int(os.environ.get("BUSY", "0"))
SIZE = int(os.environ.get("SIZE", "64"))
SECONDS, DRAIN_S = 1.0, 0.3
LADDER = [1000 * 1.15**n for n in range(40)]
"""1 to 233 kpps."""
EVEN = """
import socket, sys, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
s.bind((sys.argv[1], 0))
frame, gap, n = bytes.fromhex(sys.argv[2]), 1e9 / float(sys.argv[3]), int(sys.argv[4])
clock, send, sent, refused = time.perf_counter_ns, s.send, 0, 0
began = due = clock()
while sent + refused < n:
    while (now := clock()) < due:
        pass
    due = max(due + gap, now)
    try:
        send(frame)
        sent += 1
    except OSError:
        refused += 1
print(sent, (clock() - began) / 1e9)
"""


@dataclass(frozen=True)
class Tried:
    """One trial: the rate that was made, what was lost, and where as far as the ports' counters tell."""

    pps: float
    lost: int
    places: Mapping[str, int]


Try = Callable[[float], Awaitable[Tried]]


def places(before: PathCount, now: PathCount) -> dict[str, int]:
    """Between one counter and the next on the path."""
    source, dut_in, dut_out, sink = (b and a and a.since(b) for b, a in zip(before, now, strict=True))
    if not (source and dut_in and dut_out and sink):
        return {}
    return {
        "into the router": source.sent - dut_in.received,
        "in the router": dut_in.received - dut_out.sent,
        "to the sink": dut_out.sent - sink.received,
    }


async def even(hosts: Mapping[str, Host], testbed: Testbed, link: Link, pps: float) -> Tried:
    direction = await direction_of(hosts, testbed, "a")
    host = hosts[link.source.host]
    mac = (await host.get(f"/sys/class/net/{link.source.interface}/address")).decode().strip()
    frame = frame_of(direction, mac, SIZE).hex()
    before = await read_path(hosts, link)
    done = await host.run([sys.executable, "-c", EVEN, link.source.interface, frame, str(pps), str(int(pps * SECONDS))], timeout_s=60)
    await asyncio.sleep(DRAIN_S)
    of_places = places(before, await read_path(hosts, link))
    sent, took = done.text.split()
    return Tried(int(sent) / float(took), sum(of_places.values()), of_places)


async def ours(engine: Engine, hosts: Mapping[str, Host], link: Link, pps: float) -> Tried:
    before = await read_path(hosts, link)
    offer = Offer(("a",), frame_mix(SIZE), Pps(pps), duration=Seconds(SECONDS), warmup=Seconds(0.0), drain=Seconds(DRAIN_S))
    (flow,) = (await engine.offer(offer)).flows
    of_places = places(before, await read_path(hosts, link))
    lost = flow.sent_frames - flow.received_frames
    of_places["after the sink's card"] = max(0, lost - sum(of_places.values()))
    return Tried(flow.sent_frames / SECONDS, lost, of_places)


async def ndr(trial: Try, lost_at: Counter[str]) -> float:
    """The highest rate made without loss, 0 if there is none; `lost_at` adds up where frames went."""
    low, high, made = -1, len(LADDER), 0.0
    while high - low > 1:
        middle = (low + high) // 2
        found = await trial(LADDER[middle])
        lost_at.update({place: n for place, n in found.places.items() if n > 0})
        if found.lost <= 0:
            low, made = middle, max(made, found.pps)
        else:
            high = middle
    return made


async def measured() -> None:
    label = labs.new_label()
    lab = await labs.up("two-port", label=label)
    try:
        hosts, link = lab.hosts(), lab.testbed.links["a"]
        engine = Engine(hosts, lab.testbed, lab.cpus, str(find_engine()))
        lost: dict[str, Counter[str]] = {"ours": Counter(), "even": Counter()}
        found: dict[str, list[float]] = {"ours": [], "even": []}
        tries: dict[str, Try] = {
            "ours": lambda pps: ours(engine, hosts, link, pps),
            "even": lambda pps: even(hosts, lab.testbed, link, pps),
        }
        try:
            await engine.offer(Offer(("a",), frame_mix(SIZE), Pps(1000.0), duration=Seconds(0.5)))  # agents started, neighbours known
            for _ in range(ROUNDS):
                for name, trial in tries.items():
                    found[name].append(await ndr(trial, lost[name]))
        finally:
            await engine.close()
            for host in hosts.values():
                await host.close()
        for name, rates in found.items():
            said = ", ".join(f"{place} {n}" for place, n in lost[name].most_common()) or "nothing: no more than it can send"
            print(f"{name}: NDR {median(rates) / 1e3:.0f} kpps ({min(rates) / 1e3:.0f} to {max(rates) / 1e3:.0f}); lost {said}")
        ratios = [a / b for a, b in zip(found["ours"], found["even"], strict=True) if b]
        if ratios:
            print(
                f"ours ÷ even {median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f}); load average {os.getloadavg()[0]:.1f}, BUSY {BUSY}"
            )
    finally:
        await labs.down(label)


def main() -> None:
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY)]
    try:
        asyncio.run(measured())
    finally:
        for process in spinning:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
