"""What a search costs against plain bisection and against the library without early stop, over simulated devices with noise.

    python tests/bench/search_cost.py [--duts 1000] [--first 0] [--preset rfc2544] [--remembering 30]

Every device is searched three times with the same noise, trial by trial: by plain bisection with trials of 60 s, by the search with every
trial in full, and by the search as it is. The last two must give the same answers, to the last bit. Costs are seconds of sending, and the
same with 1 s and with 7 s (RFC 2544 section 23) around every trial. The bounds are for sending and for 1 s around, over all 1,000 devices:
the few that take a whole search of retries weigh too much in fewer.

For RFC 2544 two more searches follow, whose loads a fit chooses: one without knowledge, and one of the same device with other noise that
expects the first one's lower bound. Every answer must be within the declared precision: the bounds are a width apart, the lower one has a
full trial without loss and no lossy trial below it, the upper one a lossy trial, and the limit of a device without noise is between them.
The constants of the fit were chosen on the even devices, and on those from 40000 to 40799. The odd ones have a row of their own; those from
30000 to 30499 (`--first 30000 --duts 500`) were looked at only at the end.

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
from dataclasses import dataclass, replace
from pathlib import Path

from dutlab.spec.mixes import frame_mix
from dutlab.spec.workloads.search import AgainAtEnd, EarlyStop
from dutlab.spec.workloads.search_loads import LoadsBy

sys.path.insert(0, str(Path(__file__).parents[1]))


from dutlab.methods.ports import Offer
from dutlab.methods.search.method import find
from dutlab.methods.search.request import Search
from dutlab.methods.search.result import GoalResult, SearchResult
from dutlab.spec.goals import PRESETS
from dutlab.units import Pps, Seconds
from simulated import LINE_PPS, NOISES, Bisected, Dut, Simulation, any_dut, noise_of, plain_bisection
from simulated_memory import MEMORIES, remembering

MIX = frame_mix(64)
LIBRARY_BOUND = 0.75
POPULATION = 1000
FIT_BOUNDS = {0.0: 0.12, 1.0: 0.127}
"""The same for loads by a fit."""
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
    fitted: SearchResult | None = None
    expected: SearchResult | None = None
    """The search by a fit that expects the lower bound of `fitted`, with other noise. None if there was none."""
    seed: int = 0

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
    by_fit = Search(("a",), MIX, PRESETS[preset], Pps(LINE_PPS), loads_by=LoadsBy.FIT)
    fitted = await find(simulation(), by_fit)
    lower_pps, expected = fitted.results["throughput"].lower_pps, None
    if lower_pps is not None:
        expected = await find(simulation(1_000_000), replace(by_fit, expected=lower_pps))
    return Compared(noise_of(seed), stopped, full, bisected, again, fitted, expected, seed)


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


def imprecise(found: SearchResult, dut: Dut) -> str:
    """What of a search for the throughput is not within the declared precision; empty if all is."""
    (result,) = found.results.values()
    lower, upper, final_s = result.lower_pps, result.upper_pps, result.goal.final_s
    bad = [t.load_pps for t in found.trials if t.counts and t.loss_ratio > result.goal.loss_ratio]
    faults = []
    if upper is None and (lower != found.highest_pps or bad):
        faults.append("no upper bound")
    if upper is not None and upper != min(bad):
        faults.append("an upper bound that is not the lowest lossy load")
    if lower is None and upper != found.lowest_pps:
        faults.append("no lower bound")
    if lower is not None and not any(
        t.load_pps == lower and t.duration_s >= final_s and not t.failed_frames for t in found.trials if t.counts
    ):
        faults.append("a lower bound without a full trial")
    if result.width is not None and result.width > result.goal.width:
        faults.append(f"bounds {result.width:.3%} apart")
    noisy = dut.capacity_spread or dut.random_loss or dut.stalls_per_s or dut.slow_share
    limit = dut.limit_pps(final_s)
    if not noisy and not ((lower or 0.0) <= limit * (1 + 1e-6) and limit * (1 - 1e-6) <= (upper or float("inf"))):
        faults.append(f"{limit:.0f} is not between {lower} and {upper}")
    return "; ".join(faults)


def trials_each(found: Sequence[SearchResult | Bisected]) -> float:
    return statistics.mean(f.trials if isinstance(f, Bisected) else len(f.trials) for f in found)


def print_fitted(all_of: Sequence[Compared]) -> None:
    """Loads by a fit beside the library and bisection: cost, and how likely a trial at its bounds repeats its result."""
    print(
        "| devices | n | library ÷ bisection | fit ÷ bisection | +1 s | +7 s | trials: bisection, library, fit | off bisection p10, p50, p90 ",
        end="",
    )
    print("| lower bound good again: bisection, library, fit | upper bound bad again | bounds moved: library, fit |")
    print("|-|-|-|-|-|-|-|-|-|-|-|")
    for name in ("any", "odd", *NOISES):
        some = [c for c in all_of if name in ("any", c.noise) or (name == "odd" and c.seed % 2)]
        searches = {"bisection": [c.bisected for c in some], "library": [c.stopped for c in some], "fit": [c.fitted for c in some]}
        costs = {kind: [cost(of, around) for around in (0.0, 1.0, 7.0)] for kind, of in searches.items()}
        off = sorted(apart(bounds_of(c.fitted)[0], bounds_of(c.bisected)[0]) for c in some)
        again = {kind: [chances(of, some, side) for side in (0, 1)] for kind, of in searches.items()}
        moved = [sum(bool(f.results["throughput"].disagreements) for f in searches[kind]) for kind in ("library", "fit")]
        cells = [
            name,
            f"{len(some)}",
            f"{costs['library'][0] / costs['bisection'][0]:.3f}",
            *(f"{ours / theirs:.3f}" for ours, theirs in zip(costs["fit"], costs["bisection"], strict=True)),
            ", ".join(f"{trials_each(of):.1f}" for of in searches.values()),
            ", ".join(f"{100 * off[len(off) * tenth // 10]:+.1f} %" for tenth in (1, 5, 9)),
            *(", ".join(f"{100 * again[kind][side]:.1f} %" for kind in searches) for side in (0, 1)),
            ", ".join(map(str, moved)),
        ]
        print(f"| {' | '.join(cells)} |")


def bounds_of(found: SearchResult | Bisected) -> tuple[float | None, float | None]:
    of = found if isinstance(found, Bisected) else found.results["throughput"]
    return of.lower_pps or None, of.upper_pps


def chances(found: Sequence[SearchResult | Bisected], some: Sequence[Compared], side: int) -> float:
    """Mean probability that a trial of 60 s at the lower bound (side 0) is good, or at the upper one (side 1) bad."""
    values = []
    for one, compared in zip(found, some, strict=True):
        if (rate := bounds_of(one)[side]) is not None:
            good = any_dut(compared.seed).chance_of_no_loss(rate, 60.0)
            values.append(1 - good if side else good)
    return statistics.mean(values)


def print_expected(all_of: Sequence[Compared]) -> None:
    """Searches that expect the lower bound of the first one, beside it."""
    print("| devices | n | fit ÷ bisection | expected ÷ bisection | +1 s | +7 s | trials: fit, expected |")
    print("|-|-|-|-|-|-|-|")
    for name in ("any", *NOISES):
        some = [c for c in all_of if c.expected is not None and name in ("any", c.noise)]
        first, second, bisected = ([getattr(c, of) for c in some] for of in ("fitted", "expected", "bisected"))
        ratios = [f"{cost(second, around) / cost(bisected, around):.3f}" for around in (0.0, 1.0, 7.0)]
        trials = f"{trials_each(first):.1f}, {trials_each(second):.1f}"
        print(f"| {name} | {len(some)} | {cost(first) / cost(bisected):.3f} | {' | '.join(ratios)} | {trials} |")


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


async def remember(kind: str, seed: int, loads_by: LoadsBy) -> Remembered:
    """Device `seed` of a kind."""
    (goal,) = PRESETS["rfc2544"]
    device = remembering(kind, seed, line_pps=LINE_PPS)
    found = await find(device, Search(("a",), MIX, (goal,), Pps(LINE_PPS), again_at_end=AgainAtEnd.BOTH, loads_by=loads_by))
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


async def print_memories(each: int, loads_by: LoadsBy) -> None:
    print(f"loads by {loads_by.value}")
    print(
        "| device | n | off bisection p10 / p50 / p90 | lossy later at lower | clean later at upper | said, of moved | said, of steady | search | bisection |"
    )
    print("|-|-|-|-|-|-|-|-|-|")
    for kind in MEMORIES:
        print_remembered(kind, [await remember(kind, seed, loads_by) for seed in range(each)])


async def main() -> int:
    """Prints, and says whether every bound holds."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--duts", type=int, default=POPULATION)
    arguments.add_argument("--first", type=int, default=0, help="the first device; no constant was chosen with those from 30000 to 30499")
    arguments.add_argument("--preset", action="append", choices=list(PRESETS))
    arguments.add_argument("--remembering", type=int, default=30, help="devices of each kind with memory")
    given = arguments.parse_args()
    duts, broken = given.duts, []
    for preset in (given.preset or PRESETS) if duts else ():
        all_of = [await compare(seed, preset) for seed in range(given.first, given.first + duts)]
        print_saved(preset, all_of)
        if not all(c.same for c in all_of):
            broken.append(f"{preset}: stopping early changed {sum(not c.same for c in all_of)} answers")
        if preset == "rfc2544":
            print_bisection(all_of)
            print_fitted(all_of)
            print_expected(all_of)
            for c in all_of:
                searches = {"library": c.stopped, "fit": c.fitted, "expected": c.expected}
                faults = {kind: what for kind, found in searches.items() if found and (what := imprecise(found, any_dut(c.seed)))}
                broken += [f"{preset}, device {c.seed}, {kind}: {what}" for kind, what in faults.items()]
            for around in FIT_BOUNDS if duts >= POPULATION else ():
                ratio = cost((c.fitted for c in all_of), around) / cost((c.bisected for c in all_of), around)
                if ratio > FIT_BOUNDS[around]:
                    broken.append(f"{preset}, {around:g} s around a trial: loads by a fit cost {ratio:.3f} of bisection")
            for around in BISECTION_BOUNDS if duts >= POPULATION else ():
                costs = to_bisection(all_of, around), to_library(all_of, around)
                if costs[0] > BISECTION_BOUNDS[around] or costs[1] > LIBRARY_BOUND:
                    broken.append(
                        f"{preset}, {around:g} s around a trial: costs {costs[0]:.3f} of bisection, {costs[1]:.3f} of the library"
                    )
    for loads_by in LoadsBy if given.remembering else ():
        await print_memories(given.remembering, loads_by)
    for fault in broken:
        print(fault)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
