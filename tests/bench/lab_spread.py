"""How far repeats of one TCP cell of the embedded lab lie apart: the lab as it is, and without its queues and its priority.

    python tests/bench/lab_spread.py [--repeats 20] [--seconds 3]

Both labs exist at once and are measured in turn, the order shuffled in each round. Needs root and iperf3. Prints a Markdown table; figures are of
this machine alone, and the load average says how busy it was.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass

from dutlab import labs
from dutlab.hosts.host import Host
from dutlab.labs import lab as labs_lab

STREAMS, FORWARD = "4", ["sysctl", "-q", "-w", "net.ipv4.ip_forward=1"]


@dataclass(frozen=True)
class Tested:
    """One TCP test."""

    goodput_gbps: float
    retransmits: int


async def main(repeats: int, seconds: int, seed: int) -> None:
    bare = await without_priority(f"spread{os.getpid()}-bare")
    standing = {"as it is": await labs.up("three-node", label=f"spread{os.getpid()}"), "no queue, no priority": bare}
    found: dict[str, list[Tested]] = {name: [] for name in standing}
    order = random.Random(seed)
    try:
        hosts = {name: lab.hosts() for name, lab in standing.items()}
        for name, lab in standing.items():
            await hosts[name]["dut"].run(FORWARD)
            if lab is bare:
                for role in ("source", "sink"):
                    for port in ("eth-a", "eth-b"):
                        await hosts[name][role].run(["tc", "qdisc", "del", "dev", port, "root"])
        for number in range(repeats):
            for name in order.sample(list(standing), len(standing)):
                found[name].append(await tcp(standing[name], hosts[name], seconds))
            print(
                f"round {number + 1} of {repeats}, load {os.getloadavg()[0]:.1f}:",
                {k: round(v[-1].goodput_gbps, 2) for k, v in found.items()},
                flush=True,
            )
    finally:
        for lab in standing.values():
            await labs.down(lab.label)
    print(table(found))


async def without_priority(label: str) -> labs.Lab:
    """A lab whose programs and threads are like any other."""
    usual, labs_lab.PRIORITY = labs_lab.PRIORITY, 0
    try:
        return await labs.up("three-node", label=label)
    finally:
        labs_lab.PRIORITY = usual


async def tcp(lab: labs.Lab, hosts: Mapping[str, Host], seconds: int) -> Tested:
    """Four streams over link a."""
    to = str(lab.testbed.links["a"].sink_address.ip)
    client, server = (["taskset", "-c", ",".join(map(str, lab.cpus[role])), "iperf3"] for role in ("source", "sink"))
    listening = await hosts["sink"].spawn([*server, "-s", "-1", "--forceflush", "-B", to])
    while b"listening" not in await listening.readline():
        pass
    done = await hosts["source"].run([*client, "-c", to, "-P", STREAMS, "-O", "1", "-t", str(seconds), "-J"], timeout_s=seconds + 30)
    await listening.end()
    end = json.loads(done.stdout)["end"]
    return Tested(end["sum_received"]["bits_per_second"] / 1e9, int(end["sum_sent"].get("retransmits", 0)))


def table(found: Mapping[str, list[Tested]]) -> str:
    """Markdown: what was reached, and how far apart the repeats lie."""
    lines = [
        "| lab | repeats | goodput, median, Gb/s | least | greatest | range ÷ median | retransmits, median |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, tests in found.items():
        rates = [test.goodput_gbps for test in tests]
        median = statistics.median(rates)
        cells = [
            name,
            str(len(rates)),
            f"{median:.2f}",
            f"{min(rates):.2f}",
            f"{max(rates):.2f}",
            f"{(max(rates) - min(rates)) / median:.0%}",
        ]
        lines.append(f"| {' | '.join([*cells, f'{statistics.median(test.retransmits for test in tests):.0f}'])} |")
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    asyncio.run(main(args.repeats, args.seconds, args.seed))
