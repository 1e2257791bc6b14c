"""How far repeats of one cell of the embedded lab lie apart, with one factor at a time fixed or drawn again, and what goes along with it.

    scripts/isolated .venv/bin/python tests/bench/lab_spread.py [--repeats 20] [--seconds 2] [--seed 1] [--only NAME…] [--out FILE]

All labs exist at once. In each round every lab has one TCP test (iperf3, 4 streams) and one sweep of 64-byte frames at full speed, in an order that
is drawn for the round. So a slow minute of the machine falls on all of them. Beside each figure stand the speed of a loop on the DUT's core just
before, and what threads did meanwhile. Takes about 14 minutes on an idle machine. Needs root, iperf3 and the built engine. Prints Markdown; figures
are of this machine alone, and the load average says how busy it was.
"""

from __future__ import annotations

import argparse
import asyncio
import csv
import json
import math
import os
import random
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dutlab import labs
from dutlab.hosts.host import Host
from dutlab.hosts.local import THIS_MACHINE
from dutlab.labs import lab as labs_lab
from dutlab.methods.ports import Offer
from dutlab.sensors.cpu_account import LocalAccount
from dutlab.spec.mixes import frame_mix
from dutlab.stats.rank import mann_whitney
from dutlab.systems.linux_proc import cpu_times
from dutlab.tools.engine.engine import Engine, find_engine
from dutlab.units import Seconds

STREAMS = 4
CLIENT_PORT = 40_000
AIM = 0.10
FORWARD = ["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"]


@dataclass(frozen=True)
class Variant:
    """A lab with one factor that is not as in the usual one."""

    name: str
    layout: str | None = None
    is_new: bool = False
    """It is built again for each repeat: rings, queues and tables get other memory."""
    keeps_metrics: bool = False
    """TCP remembers of earlier connections to the same address (tcp_no_metrics_save 0)."""
    fixed_ports: bool = False
    """iperf3 sends from the same ports each time, so that flows have the same hashes."""
    server_with_dut: bool = False
    """iperf3's server on the DUT's core."""
    swapped: bool = False
    """Source and DUT change cores."""
    realtime: bool = False
    """NAPI threads are never interrupted by iperf3 (SCHED_FIFO)."""
    nice: int | None = None


VARIANTS = (
    Variant("as it is"),
    Variant("new for each repeat", is_new=True),
    Variant("TCP remembers", keeps_metrics=True),
    Variant("same ports of TCP", fixed_ports=True),
    Variant("sink has NAPI threads", layout="all-threaded"),
    Variant("server on the DUT's core", server_with_dut=True),
    Variant("cores swapped", swapped=True),
    Variant("NAPI threads in real time", realtime=True),
    Variant("no priority", nice=0),
)
USUAL = [v.name for v in VARIANTS if v.nice is None]


@dataclass(frozen=True)
class Repeat:
    """One figure, and what went along with it."""

    variant: str
    cell: str
    round: int
    value: float
    speed: float
    """Turns of a loop on the DUT's core just before, a microsecond."""
    ksoftirqd_share: float
    """Of the time that threads of the lab ran."""
    wait_share: float
    """They waited ÷ (ran + waited)."""
    switches: float
    """How often a thread that forwards got a CPU, a second."""
    softirq_share: float
    """Of all cores, time outside of any thread."""
    retransmits: float
    load: float


class SpreadLab:
    """A lab, and how its two cells are measured."""

    def __init__(self, variant: Variant, lab: labs.Lab) -> None:
        self.variant, self.lab = variant, lab
        self.hosts: Mapping[str, Host] = lab.hosts()
        self.account = LocalAccount(lab.napi_threads, dut_threads=("napi/in-", "napi/out-"))

    async def prepare(self) -> None:
        await self.hosts["dut"].run(FORWARD)
        for role in ("source", "sink"):
            await self.hosts[role].run(["sysctl", "-q", "-w", f"net.ipv4.tcp_no_metrics_save={int(not self.variant.keeps_metrics)}"])
        for pid in self.lab.napi_threads if self.variant.realtime else ():
            os.sched_setscheduler(pid, os.SCHED_FIFO, os.sched_param(1))

    async def tcp(self, seconds: float) -> tuple[float, float]:
        """Goodput in Gb/s, and retransmissions."""
        to = str(self.lab.testbed.links["a"].sink_address.ip)
        at = {"client": self.lab.cpus["source"], "server": self.lab.cpus["dut" if self.variant.server_with_dut else "sink"]}
        client, server = (["taskset", "-c", ",".join(map(str, at[end])), "iperf3"] for end in ("client", "server"))
        listening = await self.hosts["sink"].spawn([*server, "-s", "-1", "--forceflush", "-B", to])
        while b"listening" not in await listening.readline():
            pass
        fixed = ["--cport", str(CLIENT_PORT)] if self.variant.fixed_ports else []
        done = await self.hosts["source"].run(
            [*client, "-c", to, "-P", str(STREAMS), "-O", "1", "-t", f"{seconds:.0f}", "-J", *fixed], timeout_s=seconds + 30
        )
        await listening.end()
        end = json.loads(done.stdout)["end"]
        return end["sum_received"]["bits_per_second"] / 1e9, float(end["sum_sent"].get("retransmits", 0))

    async def frames(self, seconds: float) -> tuple[float, float]:
        """Mpps of 64-byte frames."""
        generator = Engine(self.hosts, self.lab.testbed, self.lab.cpus, str(find_engine()))
        try:
            outcome = await generator.offer(Offer(("a",), frame_mix(64), None, Seconds(seconds), warmup=Seconds(0.2), drain=Seconds(0.2)))
        finally:
            await generator.close()
        (flow,) = outcome.flows
        return flow.received_frames / flow.sent_seconds / 1e6, 0.0

    async def repeat(self, cell: str, number: int, seconds: float) -> Repeat:
        speed = turns_per_us(self.lab.cpus["dut"][0])
        before, cores = (await self.account.read())[THIS_MACHINE], Path("/proc/stat").read_text()
        async with self.account.running():
            value, retransmits = await (self.tcp(seconds) if cell == "TCP" else self.frames(seconds / 2))
        found = (await self.account.read())[THIS_MACHINE].since(before)
        shares = [s for n, t in cpu_times(Path("/proc/stat").read_text()).items() if (s := t.percent_since(cpu_times(cores)[n]))]
        soft_s = sum(t.run_s for name, t in found.threads.items() if name.startswith("ksoftirqd/"))
        return Repeat(
            self.variant.name, cell, number, value, speed,
            ksoftirqd_share=soft_s / found.run_s if found.run_s else 0.0,
            wait_share=found.wait_share,
            switches=0.0 if found.forwarding is None else found.forwarding.switches / found.seconds,
            softirq_share=statistics.fmean(s["softirq"] for s in shares) / 100,
            retransmits=retransmits,
            load=os.getloadavg()[0],
        )  # fmt: skip


def turns_per_us(core: int, seconds: float = 0.05) -> float:
    """What a loop without memory gets of a core now: its clock, less what others take."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        ends, turns = time.perf_counter() + seconds, 0
        while time.perf_counter() < ends:
            for _ in range(1000):
                pass
            turns += 1000
    finally:
        os.sched_setaffinity(0, allowed)
    return turns / seconds / 1e6


@asynccontextmanager
async def built(variant: Variant) -> AsyncIterator[SpreadLab]:
    """The lab of a variant, ready."""
    label = f"spread{os.getpid()}-{VARIANTS.index(variant)}"
    usual, usable = labs_lab.PRIORITY, os.sched_getaffinity
    if variant.nice is not None:
        labs_lab.PRIORITY = variant.nice
    try:
        lab = await labs.up("three-node", label=label, layout=variant.layout)
    finally:
        labs_lab.PRIORITY = usual
    if variant.swapped:
        one, other = lab.cpus["source"][0], lab.cpus["dut"][0]
        turned = {one: other, other: one}
        for pid in lab.napi_threads:
            os.sched_setaffinity(pid, {turned.get(core, core) for core in usable(pid)})
        lab = replace(lab, cpus={role: tuple(turned.get(core, core) for core in cores) for role, cores in lab.cpus.items()})
    made = SpreadLab(variant, lab)
    try:
        await made.prepare()
        yield made
    finally:
        await labs.down(label)


async def main(asked: argparse.Namespace) -> int:
    variants = [v for v in VARIANTS if v.name in (asked.only or USUAL)]
    order, found, began = random.Random(asked.seed), list[Repeat](), time.monotonic()
    async with AsyncExitStack() as stack:
        standing = {v.name: await stack.enter_async_context(built(v)) for v in variants if not v.is_new}
        for number in range(1, asked.repeats + 1):
            for variant in order.sample(variants, len(variants)):
                async with AsyncExitStack() as once:
                    lab = standing.get(variant.name) or await once.enter_async_context(built(variant))
                    found += [await lab.repeat(cell, number, asked.seconds) for cell in order.sample(("TCP", "64 bytes"), 2)]
            print(f"round {number} of {asked.repeats}, {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
            if asked.out:
                written(found, asked.out)
    print("\n".join(tables(found)))
    return 0


def written(found: Sequence[Repeat], path: Path) -> None:
    with path.open("w", newline="") as out:
        lines = csv.DictWriter(out, list(asdict(found[0])))
        lines.writeheader()
        lines.writerows(asdict(of) for of in found)


def tables(found: Sequence[Repeat]) -> Iterator[str]:
    cells: dict[tuple[str, str], list[Repeat]] = defaultdict(list)
    for of in found:
        cells[of.cell, of.variant].append(of)
    yield "| cell | lab | repeats | median | spread (sd of logs) | of four repeats: range ÷ median, median and nine in ten | against the usual lab, p |"
    yield "|---|---|---|---|---|---|---|"
    for (cell, variant), repeats in sorted(cells.items()):
        values = [of.value for of in repeats]
        ranges = fours(values)
        usual = [of.value for of in cells.get((cell, VARIANTS[0].name), [])]
        p = brown_forsythe(usual, values) if usual and variant != VARIANTS[0].name else None
        yield (
            f"| {cell} | {variant} | {len(values)} | {statistics.median(values):.3g} | {spread(values):.1%} | "
            f"{statistics.median(ranges):.0%}, {sorted(ranges)[math.ceil(0.9 * len(ranges)) - 1]:.0%} | {'' if p is None else f'{p:.2f}'} |"
        )
    yield ""
    names = ("speed", "ksoftirqd_share", "wait_share", "switches", "softirq_share", "retransmits", "load")
    yield f"| rank correlation with the figure | {' | '.join(names)} |"
    yield f"|---|{'---|' * len(names)}"
    for (cell, variant), repeats in sorted(cells.items()):
        row = [correlation([of.value for of in repeats], [getattr(of, name) for of in repeats]) for name in names]
        yield f"| {cell}, {variant} | {' | '.join('' if r is None else f'{r:+.2f}' for r in row)} |"


def spread(values: Sequence[float]) -> float:
    return statistics.stdev(map(math.log, values)) if len(values) > 1 else 0.0


def fours(values: Sequence[float], draws: int = 2000) -> list[float]:
    """What four repeats of a cell, as a demo has them, would have shown."""
    dice = random.Random(1)
    picked = [dice.sample(list(values), min(4, len(values))) for _ in range(draws)]
    return [(max(of) - min(of)) / statistics.median(of) for of in picked]


def brown_forsythe(first: Sequence[float], second: Sequence[float]) -> float:
    """Whether distances from the median differ (by ranks): p, of no difference in spread."""
    away = [[abs(math.log(v / statistics.median(of))) for v in of] for of in (first, second)]
    return mann_whitney(*away).p


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's; None where one of them is always the same."""
    ranks = [[sorted(of).index(v) + sorted(of).count(v) / 2 for v in of] for of in (first, second)]
    return None if any(len(set(of)) < 2 for of in ranks) else statistics.correlation(*ranks)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", nargs="+", choices=[v.name for v in VARIANTS])
    parser.add_argument("--out", type=Path, help="each repeat as CSV")
    sys.exit(asyncio.run(main(parser.parse_args())))
