"""What a search costs against plain bisection and against the library without early stop, over simulated devices with noise.

    python tests/bench/search_cost.py [--duts 1000] [--preset rfc2544] [--remembering 30]

Every device is searched three times with the same noise, trial by trial: by plain bisection with trials of 60 s, by the search with every
trial in full, and by the search as it is. The last two must give the same answers, to the last bit. Costs are seconds of sending, and the
same with 1 s and with 7 s (RFC 2544 section 23) around every trial. The bounds are for sending and for 1 s around, over all 1,000 devices:
the few that take a whole search of retries weigh too much in fewer.

Devices with memory, of which the next trial depends on what went before, are searched for a throughput as the suite does, with both bounds
tried again at the end; then five more trials of 60 s are offered at the lower bound. A plain bisection of a fresh device of the same seed is
what the answer is held against. "Said" is the share of searches whose bounds did not hold and that say so themselves.

Needs nothing; prints Markdown. Exits 1 when a bound is broken.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.search import AgainAtEnd, EarlyStop

sys.path.insert(0, str(Path(__file__).parents[1]))


from dutlab.methods.ports import Offer
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import GoalResult, SearchResult
from dutlab.spec.goals import PRESETS
from dutlab.units import Pps, Seconds
from simulated import LINE_PPS, NOISES, Bisected, Simulation, any_dut, noise_of, plain_bisection
from simulated_memory import MEMORIES, remembering

MIX = frame_mix(64)
LIBRARY_BOUND = 0.75
POPULATION = 1000
LATER = 5
"""Trials of 60 s at the lower bound of a device with memory, once the search is over."""
BISECTION_BOUNDS = {0.0: 0.15, 1.0: 0.16}
"""By seconds around a trial. The second allows for the full trial at an upper bound that rests on short ones: bisection makes none.
Our own waits are 0.5 s before and after a trial; those of RFC 2544 section 23 cost a search of short trials more than a bisection."""


@dataclass(frozen=True)
class Compared:
    """One device under all three. `bisected` is None where bisection has no such goal."""

    noise: str
    stopped: SearchResult
    full: SearchResult
    bisected: Bisected | None = None
    again: Bisected | None = None
    """Bisection of the same device with other noise: how far bisection repeats itself."""

    @property
    def same(self) -> bool:
        """Whether stopping early changed nothing: every goal's bounds, conditional throughput and irregularities."""
        return self.stopped.results == self.full.results


async def compare(seed: int, preset: str) -> Compared:
    """Device `seed` of the population."""

    def simulation(noise: int = 0) -> Simulation:
        return Simulation(any_dut(seed), seed + noise)

    stopped, full = [
        await find(simulation(), Search(("a",), MIX, PRESETS[preset], Pps(LINE_PPS), early_stop=how))
        for how in (EarlyStop.AT_ONCE, EarlyStop.NEVER)
    ]
    if preset != "rfc2544":
        return Compared(noise_of(seed), stopped, full)
    width = PRESETS[preset][0].width
    bisected, again = (plain_bisection(simulation(noise), MIX, width=width) for noise in (0, 1_000_000))
    return Compared(noise_of(seed), stopped, full, bisected, again)


def cost(found: Iterable[SearchResult | Bisected], around_s: float = 0.0) -> float:
    """Seconds of all of them, with so many around every trial."""
    return sum(f.sent_s + around_s * (f.trials if isinstance(f, Bisected) else len(f.trials)) for f in found)


def to_bisection(all_of: Sequence[Compared], around_s: float = 0.0) -> float:
    return cost((c.stopped for c in all_of), around_s) / cost((c.bisected for c in all_of if c.bisected), around_s)


def to_library(all_of: Sequence[Compared], around_s: float = 0.0) -> float:
    return cost((c.stopped for c in all_of), around_s) / cost((c.full for c in all_of), around_s)


def overlaps(compared: Compared) -> bool:
    """Whether the search's bracket and bisection's have a rate in common: then they are the same answer, as far as the width lets one tell."""
    result, bisected = next(iter(compared.stopped.results.values())), compared.bisected
    if bisected is None or result.lower_pps is None:
        return False
    return result.lower_pps <= (bisected.upper_pps or result.lower_pps) and bisected.lower_pps <= (result.upper_pps or bisected.lower_pps)


def apart(a: float | None, b: float | None) -> float:
    """(a - b) / b, or -1 when there is no a."""
    return -1.0 if not a or not b else (a - b) / b


def print_bisection(all_of: Sequence[Compared]) -> None:
    """Preset rfc2544 by kind of noise."""
    print(
        "| devices | n | search s | bisection s | ÷ bisection | +1 s | +7 s | ÷ library | +1 s | +7 s | same bracket | off bisection p50, p90 | bisection off itself p50, p90 |"
    )
    print("|-|-|-|-|-|-|-|-|-|-|-|-|-|")
    for name in ("any", *NOISES):
        some = [c for c in all_of if name in ("any", c.noise)]
        ours = sorted(abs(apart(c.stopped.results["throughput"].lower_pps, c.bisected and c.bisected.lower_pps)) for c in some)
        its = sorted(abs(apart(c.again and c.again.lower_pps, c.bisected and c.bisected.lower_pps)) for c in some)
        spread = [f"{100 * values[len(values) // 2]:.2f} %, {100 * values[len(values) * 9 // 10]:.1f} %" for values in (ours, its)]
        figures = [
            f"{cost(c.stopped for c in some) / len(some):.0f}",
            f"{cost(c.bisected for c in some if c.bisected) / len(some):.0f}",
            *(f"{to_bisection(some, around):.3f}" for around in (0, 1, 7)),
            *(f"{to_library(some, around):.3f}" for around in (0, 1, 7)),
            f"{100 * statistics.mean(map(overlaps, some)):.0f} %",
            *spread,
        ]
        print(f"| {name} | {len(some)} | {' | '.join(figures)} |")


def print_saved(preset: str, all_of: Sequence[Compared]) -> None:
    """What stopping early saves, and that it changes nothing."""
    saved = 1 - to_library(all_of)
    trials = statistics.mean(len(c.stopped.trials) for c in all_of)
    irregular = sum(any(not r.regular for r in c.stopped.results.values()) for c in all_of)
    print(
        f"{preset}: same answers {sum(c.same for c in all_of)} of {len(all_of)}; {trials:.1f} trials, "
        f"{cost(c.stopped for c in all_of) / len(all_of):.1f} s instead of {cost(c.full for c in all_of) / len(all_of):.1f} s: "
        f"{100 * saved:.0f} % saved; {irregular} irregular"
    )


@dataclass(frozen=True)
class Remembered:
    """What a search of a device with memory found, and what became of it afterwards."""

    found: SearchResult
    bisected: Bisected
    later_lossy: int
    """Of LATER trials of 60 s at the lower bound."""
    later_clean_above: bool
    """Whether a trial of 60 s at the upper bound lost nothing afterwards."""

    @property
    def result(self) -> GoalResult:
        return self.found.results["throughput"]

    @property
    def moved(self) -> bool:
        """Whether a bound did not hold afterwards."""
        return self.later_lossy > 0 or self.later_clean_above

    @property
    def said(self) -> bool:
        return bool(self.result.disagreements or self.result.irregular)


async def remember(kind: str, seed: int) -> Remembered:
    """Device `seed` of a kind."""
    (goal,) = PRESETS["rfc2544"]
    device = remembering(kind, seed, line_pps=LINE_PPS)
    found = await find(device, Search(("a",), MIX, (goal,), Pps(LINE_PPS), again_at_end=AgainAtEnd.BOTH))
    bisected = plain_bisection(remembering(kind, seed, line_pps=LINE_PPS), MIX, width=goal.width)
    result, lossy, clean = found.results[goal.name], 0, False
    if result.lower_pps is not None:
        offers = [Offer(("a",), MIX, result.lower_pps, Seconds(60.0), Seconds(2.0))] * LATER
        lossy = sum(device.trial(offer).flows[0].lost_frames > 0 for offer in offers)
    if result.upper_pps is not None:
        (flow,) = device.trial(Offer(("a",), MIX, result.upper_pps, Seconds(60.0), Seconds(2.0))).flows
        clean = flow.lost_frames == 0 and flow.sent_frames >= flow.intended_frames
    return Remembered(found, bisected, lossy, clean)


def print_remembered(kind: str, some: Sequence[Remembered]) -> None:
    """A row of devices of one kind."""
    off = sorted(apart(r.result.lower_pps, r.bisected.lower_pps) for r in some)
    moved = [r for r in some if r.moved]
    steady = [r for r in some if not r.moved]
    cells = [
        kind,
        str(len(some)),
        f"{100 * off[len(off) // 10]:+.1f} / {100 * off[len(off) // 2]:+.1f} / {100 * off[len(off) * 9 // 10]:+.1f} %",
        str(sum(r.later_lossy > 0 for r in some)),
        str(sum(r.later_clean_above for r in some)),
        f"{sum(r.said for r in moved)} of {len(moved)}",
        f"{sum(r.said for r in steady)} of {len(steady)}",
        f"{cost(r.found for r in some) / len(some):.0f} s",
        f"{cost(r.bisected for r in some) / len(some):.0f} s",
    ]
    print(f"| {' | '.join(cells)} |")


async def print_memories(each: int) -> None:
    print(
        "| device | n | off bisection p10 / p50 / p90 | lossy later at lower | clean later at upper | said, of moved | said, of steady | search | bisection |"
    )
    print("|-|-|-|-|-|-|-|-|-|")
    for kind in MEMORIES:
        print_remembered(kind, [await remember(kind, seed) for seed in range(each)])


async def main() -> int:
    """Prints, and says whether every bound holds."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--duts", type=int, default=POPULATION)
    arguments.add_argument("--preset", action="append", choices=list(PRESETS))
    arguments.add_argument("--remembering", type=int, default=30, help="devices of each kind with memory")
    given = arguments.parse_args()
    duts, broken = given.duts, []
    for preset in (given.preset or PRESETS) if duts else ():
        all_of = [await compare(seed, preset) for seed in range(duts)]
        print_saved(preset, all_of)
        if not all(c.same for c in all_of):
            broken.append(f"{preset}: stopping early changed {sum(not c.same for c in all_of)} answers")
        if preset == "rfc2544":
            print_bisection(all_of)
            for around in BISECTION_BOUNDS if duts >= POPULATION else ():
                costs = to_bisection(all_of, around), to_library(all_of, around)
                if costs[0] > BISECTION_BOUNDS[around] or costs[1] > LIBRARY_BOUND:
                    broken.append(
                        f"{preset}, {around:g} s around a trial: costs {costs[0]:.3f} of bisection, {costs[1]:.3f} of the library"
                    )
    await print_memories(given.remembering)
    for fault in broken:
        print(fault)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
