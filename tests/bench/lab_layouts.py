"""Which CPU layout of the embedded lab repeats best: all layouts exist at once and are measured in turn.

    python tests/bench/lab_layouts.py [--repeats 8] [--layouts shared,dut-core] [--loads tcp,engine]

Three loads through the DUT as a plain router, over link a: TCP (iperf3, 4 streams), 64-byte frames as fast as trafgen can with nobody
reading at the sink, and 64-byte frames as fast as our own engine can, which also reads each of them.
The order of layouts is shuffled in each round, so that a slow minute of the machine does not fall on one of them alone.
Needs root, iperf3, netsniff-ng and the built engine. A measurement from which other processes took CPU time does not count. Prints a Markdown table; figures are of this machine alone.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import statistics
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from dutlab import labs
from dutlab.hosts.host import Host
from dutlab.labs.napi import napi_threads
from dutlab.methods.ports import Offer
from dutlab.sensors.totals import difference, read_counters
from dutlab.spec.mixes import frame_mix
from dutlab.systems.linux_proc import cpu_times
from dutlab.tools.engine.engine import Engine, find_engine
from dutlab.units import Seconds

SECONDS = 2.0
FOREIGN = 0.1
"""Part of a core that other processes may take from a measurement."""
FRAME = "{{ {dst}, {src}, c16(0x0800), 0x45, 0, c16(46), 0, 0, 0, 0, 64, 17, csumip(14, 33), {sip}, {dip}, c16(9), c16(9), c16(26), 0, 0, fill(0x42, 18) }}"


def pinned(cpus: tuple[int, ...], *argv: str) -> list[str]:
    return ["taskset", "-c", ",".join(map(str, cpus)), *argv]


async def tcp(lab: labs.Lab, hosts: Mapping[str, Host]) -> dict[str, float]:
    """Four streams of iperf3."""
    sink = str(lab.testbed.links["a"].sink_address.ip)
    server = await hosts["sink"].spawn(pinned(lab.cpus["sink"], "iperf3", "-s", "-1", "--forceflush", "-B", sink))
    while b"listening" not in await server.readline():
        pass
    done = await hosts["source"].run(
        pinned(lab.cpus["source"], "iperf3", "-c", sink, "-P", "4", "-O", "1", "-t", str(int(SECONDS)), "-J"), timeout_s=SECONDS + 20
    )
    await server.end()
    return {"iperf3 TCP goodput, Gb/s": float(json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"]) / 1e9}


async def frames(lab: labs.Lab, hosts: Mapping[str, Host]) -> dict[str, float]:
    """trafgen as fast as it can; nobody reads at the sink, its interface counts."""
    link = lab.testbed.links["a"]
    dotted = [", ".join(str(address.ip).split(".")) for address in (link.source_address, link.sink_address)]
    text = FRAME.format(dst="0x02, 0, 0, 0, 0, 0x02", src="0x02, 0, 0, 0, 0, 0x01", sip=dotted[0], dip=dotted[1])
    sender = await hosts["source"].spawn(
        pinned(lab.cpus["source"], "trafgen", "-o", link.source.interface, "-P", "1", "-Q", "-C", "-q", text)
    )
    await asyncio.sleep(0.7)
    before, began = await read_counters(hosts["sink"]), time.monotonic()
    await asyncio.sleep(SECONDS)
    after, ended = await read_counters(hosts["sink"]), time.monotonic()
    await sender.end()
    received = difference(before, after)[f"{link.sink.interface}_rx_packets"]
    return {"trafgen, 64-byte frames at the sink, kpps": received / (ended - began) / 1e3}


async def engine(lab: labs.Lab, hosts: Mapping[str, Host]) -> dict[str, float]:
    """Our own engine, sending as fast as it can and accounting for each frame: what the method `sweep` will see."""
    generator = Engine(hosts, lab.testbed, lab.cpus, str(find_engine()))
    try:
        outcome = await generator.offer(Offer(("a",), frame_mix(64), None, Seconds(SECONDS), warmup=Seconds(0.5)))
    finally:
        await generator.close()
    (flow,) = outcome.flows
    return {
        "engine, 64-byte frames received, kpps": flow.received_frames / flow.sent_seconds / 1e3,
        "engine, 64-byte frames sent, kpps": flow.sent_frames / flow.sent_seconds / 1e3,
    }


LOADS = {"tcp": tcp, "trafgen": frames, "engine": engine}


def foreign_ticks(lab: labs.Lab) -> dict[str, int]:
    """CPU time of each process that is neither ours, nor in the lab, nor one of the kernel's."""
    inside = {Path(f"/run/netns/{n}").stat().st_ino for n in lab.namespaces.values()}
    found = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
            own = int(stat.parent.name) == os.getpid() or (stat.parent / "ns" / "net").stat().st_ino in inside
        except OSError:
            continue
        if not own and fields[1] not in ("0", "2"):
            found[stat.parent.name] = sum(map(int, fields[11:13]))
    return found


@contextmanager
def favoured() -> Iterator[None]:
    """We, what we start and the labs' NAPI threads go before everybody else's processes, at equal weight among themselves."""
    before = {pid: os.getpriority(os.PRIO_PROCESS, pid) for pid in (0, *napi_threads())}
    try:
        for pid in before:
            os.setpriority(os.PRIO_PROCESS, pid, -20)
        yield
    finally:
        for pid, nice in before.items():
            with suppress(ProcessLookupError):
                os.setpriority(os.PRIO_PROCESS, pid, nice)


async def quiet(patience_s: float) -> None:
    """Returns when all cores together were idle for a third of a second, or patience is over."""
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        before = cpu_times(Path("/proc/stat").read_text())
        await asyncio.sleep(0.3)
        after = cpu_times(Path("/proc/stat").read_text())
        if all((after[cpu].percent_since(before[cpu]) or {"idle": 0})["idle"] > 93 for cpu in after):
            return


async def undisturbed(lab: labs.Lab, load: str, tries: int) -> dict[str, float] | None:
    """One measurement, repeated while other processes took more than a tenth of a core from it; None when they always did."""
    for _ in range(tries):
        await quiet(20)
        hosts, before, began = lab.hosts(), foreign_ticks(lab), time.monotonic()
        found = await LOADS[load](lab, hosts)
        await asyncio.gather(*(host.close() for host in hosts.values()))
        after, took = foreign_ticks(lab), time.monotonic() - began
        foreign = sum(ticks - before.get(pid, 0) for pid, ticks in after.items()) / os.sysconf("SC_CLK_TCK") / took
        if foreign < FOREIGN:
            return found
        print(f"{lab.layout}, {load}: others took {foreign:.0%} of a core", flush=True)
    return None


async def measure(
    layouts: list[str], loads: list[str], repeats: int, tries: int, seed: int, favour: AbstractContextManager[None], keep: Path | None
) -> dict[str, dict[str, list[float]]]:
    """Load → layout → one figure a repeat."""
    found: dict[str, dict[str, list[float]]] = {}
    standing = {layout: await labs.up("three-node", label=f"bench{os.getpid()}-{i}", layout=layout) for i, layout in enumerate(layouts)}
    order = random.Random(seed)
    task = asyncio.current_task()
    if task:  # `timeout` and `kill` take the labs down too
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        for lab in standing.values():
            await lab.hosts()["dut"].run(["sysctl", "-w", "net.ipv4.ip_forward=1"])
        with favour:
            for repeat in range(repeats):
                for layout in order.sample(layouts, len(layouts)):
                    for load in loads:
                        for name, value in (await undisturbed(standing[layout], load, tries) or {}).items():
                            found.setdefault(name, {known: [] for known in layouts})[layout].append(value)
                last = {load: {k: round(v[-1], 2) for k, v in of.items() if v} for load, of in found.items()}
                print(f"round {repeat + 1} of {repeats}", last, flush=True)
                if keep:
                    keep.write_text(json.dumps(found, indent=1))
    finally:
        for lab in standing.values():
            await labs.down(lab.label)
    return found


def table(found: dict[str, dict[str, list[float]]]) -> str:
    """Markdown: median, coefficient of variation and range over the median."""
    lines = ["| load | layout | repeats | median | CV | range / median |", "|---|---|---|---|---|---|"]
    for load, by_layout in found.items():
        for layout, values in by_layout.items():
            if not values:
                continue
            median, mean = statistics.median(values), statistics.fmean(values)
            spread = statistics.stdev(values) / mean if len(values) > 1 and mean else 0.0
            reach = (max(values) - min(values)) / median if median else 0.0
            lines.append(f"| {load} | {layout} | {len(values)} | {median:.3g} | {spread:.1%} | {reach:.1%} |")
    return "\n".join(lines)


def main() -> None:
    known = sorted(labs.description("three-node").settings.layouts)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--layouts", default=",".join(known), help=f"comma-separated, of {', '.join(known)}")
    parser.add_argument("--loads", default=",".join(LOADS), help=f"comma-separated, of {', '.join(LOADS)}")
    parser.add_argument("--tries", type=int, default=4, help="of each measurement, while others use the machine")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--favour", action="store_true", help="with nice -20, on a machine that others use too")
    parser.add_argument("--json", type=Path, help="also write every figure here, after each round")
    args = parser.parse_args()
    found = asyncio.run(
        measure(
            args.layouts.split(","),
            args.loads.split(","),
            args.repeats,
            args.tries,
            args.seed,
            favoured() if args.favour else nullcontext(),
            args.json,
        )
    )
    print(f"{os.cpu_count()} cores, kernel {os.uname().release}, {args.repeats} repeats, seed {args.seed}, {SECONDS:g} s each\n")
    print(table(found))


if __name__ == "__main__":
    main()
