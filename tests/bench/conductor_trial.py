"""A conducted trial of three hosts, four phases and one trivial step each, over network namespaces: its time, and how far apart hosts begin.

ROUNDS=9 unless told otherwise. The peer is the least that could be done: the same twelve steps by `ip netns exec`, one after the other,
without barriers, outputs kept or hosts of their own. Conductor itself is not part of the project: its figures below are text, measured once on
two machines beside dutlab, and say nothing of the machine that this runs on. Each step prints its host's clock, so the
spread within a phase is what the steps saw, not what dutlab believes. Its floor is that of as many plain shells, in the same minute, that
wait for one word on their input. HOSTS=200 takes so many hosts. Needs root.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from dutlab.events import Event
from dutlab.hosts.host import Host
from dutlab.hosts.netns import NetnsMachine
from dutlab.runner.command_book import CommandBook
from dutlab.runner.progress import Progress
from dutlab.runner.steps_run import StepsTrial, StepsWork, run_steps
from dutlab.spec.workloads.steps import PHASES, StepsWorkload

ROUNDS = int(os.environ.get("ROUNDS", "9"))
HOSTS = tuple(f"h{i}" for i in range(int(os.environ.get("HOSTS", "3"))))
STEP = "date +%s%N"
AIM_MS = 5.0
CONDUCTOR = """Conductor itself, on another machine: a trial of 3 hosts and 4 phases 24 ms, the command 117 ms, 10 trials 320 ms;
with 10 steps a phase 10.5 s; dutlab then, there: 137 ms, 1390 ms, 3700 ms, 2.7 s.
On one of 2 busy cores, CPU time: a trial 41 to 54 ms, dutlab 57 to 60; the command 0.13 s, dutlab 0.76; 10 trials 0.20 s, dutlab 1.28"""


class Quiet(Progress):
    """Watched by nobody."""

    def hear(self, event: Event) -> None:
        del event


@contextmanager
def namespaces() -> Iterator[dict[str, str]]:
    """Host → a network namespace of its own."""
    made = {host: f"dutlab-bench{os.getpid()}-{host}" for host in HOSTS}
    try:
        for name in made.values():
            subprocess.run(["ip", "netns", "add", name], check=True)
        yield made
    finally:
        for name in made.values():
            subprocess.run(["ip", "netns", "del", name], check=True)


async def conducted(places: dict[str, str], runs: Path) -> list[StepsTrial]:
    work = StepsWorkload.model_validate({phase: {host: [STEP] for host in HOSTS} for phase in PHASES})
    hosts: dict[str, Host] = {host: await NetnsMachine.open(host, place) for host, place in places.items()}
    try:
        what = StepsWork("bench", work, ROUNDS, b"# a bench\n", {})
        done = list[StepsTrial]()
        await run_steps(what, hosts, CommandBook(), Quiet(), runs=runs, done=done)
    finally:
        for host in hosts.values():
            await host.close()
    return done


def plain_s(places: dict[str, str]) -> float:
    began = time.perf_counter()
    for _ in PHASES:
        for place in places.values():
            subprocess.run(["ip", "netns", "exec", place, "sh", "-c", STEP], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def floor_ms() -> float:
    """How far apart plain shells, that have begun and wait for a word, do what a step does."""
    shells = [subprocess.Popen(["sh", "-c", f"read -r word; {STEP}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for _ in HOSTS]
    time.sleep(1)  # not a bound: a shell that has not begun by then begins late, as it may in a trial
    for shell in shells:
        os.write(shell.stdin.fileno(), b"go\n")
    stamps = [int(shell.communicate()[0]) for shell in shells]
    return (max(stamps) - min(stamps)) / 1e6


def spreads_ms(done: StepsTrial) -> list[float]:
    """Of each phase: from the first host's clock to the last's."""
    began = [[int(step.stdout) for step in done.account.done if step.phase == phase] for phase in PHASES]
    return [(max(of_phase) - min(of_phase)) / 1e6 for of_phase in began]


def main() -> None:
    with namespaces() as places, tempfile.TemporaryDirectory() as runs:
        done = asyncio.run(conducted(places, Path(runs)))
        peer = median(plain_s(places) for _ in range(ROUNDS))
        floors = sorted(floor_ms() for _ in range(ROUNDS))
    walls = [(d.ended - d.started).total_seconds() for d in done]
    spreads = sorted(spread for d in done for spread in spreads_ms(d))
    print(
        f"a trial of {len(HOSTS)} hosts, {len(PHASES)} phases, one step each: {median(walls) * 1e3:.0f} ms (median of {ROUNDS}; "
        f"{min(walls) * 1e3:.0f} to {max(walls) * 1e3:.0f}); plain `ip netns exec` {len(HOSTS) * len(PHASES)} times {peer * 1e3:.0f} ms, "
        f"ratio {median(walls) / peer:.1f}"
    )
    print(
        f"hosts of a phase begin within {median(spreads):.2f} ms (median of {len(spreads)} phases), {spreads[-1]:.2f} at most; aim {AIM_MS:g};\n"
        f"as many plain shells that wait for a word: {median(floors):.2f} ms (median of {ROUNDS}), {floors[-1]:.2f} at most; "
        f"ratio {median(spreads) / median(floors):.2f}"
    )
    print(CONDUCTOR)


if __name__ == "__main__":
    main()
