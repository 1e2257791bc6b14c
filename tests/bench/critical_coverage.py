"""How often the 95 % interval of a soak's critical rate holds the true one, and how wide it is, over simulated devices of eleven kinds.

    python tests/bench/critical_coverage.py [--devices 396] [--kind spread] [--processes 2] [--first 400]

Each device is soaked by the method itself, 45 trials of 1 s each, at the rates that it asks for. A width is the interval's, relative to the true
rate; the error is that of the middle. The cost is processor time for each estimate, mean over a soak. Needs nothing; prints Markdown.
Exits 1 when the intervals of all hold the truth less often than 92 % or more often than 99 %, those of rare bursts or of slow states of
seconds in fewer than 85 % (90 %, less what 36 devices scatter by), or when more than 5 % of the devices that are alike from trial to trial
are doubted.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dutlab.spec.mixes import frame_mix

sys.path.insert(0, str(Path(__file__).parents[1]))

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.methods.critical_rate import measure
from dutlab.methods.ports import Bench, Offer
from dutlab.units import Pps, Seconds
from simulated_losses import CLAIMED, KINDS, LossyDut

BOUNDS = (0.92, 0.99)
CLUSTERED, LEAST_CLUSTERED, MOST_DOUBTED = ("rare-bursts", "dwell"), 0.85, 0.05
CELL = cell_of("soak")


@dataclass(frozen=True)
class Soaked:
    """What the soak of one device said, in true rates."""

    kind: str
    low: float
    middle: float
    high: float
    doubted: bool
    """Whether the soak says that losses cluster."""
    cost_s: float
    """Processor time of an estimate."""

    @property
    def holds(self) -> bool:
        """Whether the true rate lies in the interval."""
        return self.low <= 1 <= self.high


def soaked(device: tuple[str, int]) -> Soaked:
    """Soaks device `seed` of a kind."""
    dut = LossyDut(*device)
    offer = Offer(("a",), frame_mix(64), Pps(dut.highest_pps), Seconds(float(dut.trials)))
    began = time.process_time()
    measured = asyncio.run(measure(Bench(dut), CELL, offer, dut.target))
    figures, doubted = measured.figures["a"], any(d.kind is DoubtKind.LOSSES_CLUSTER for d in measured.doubts)
    cost_s = (time.process_time() - began) / dut.trials
    low, middle, high = (figures[f"critical_{name}pps"] / dut.true_pps for name in ("low_", "", "high_"))
    return Soaked(dut.kind, low, middle, high, doubted, cost_s)


def row(name: str, some: Sequence[Soaked]) -> str:
    """One line of the table."""
    cells = [
        name,
        str(len(some)),
        f"{100 * statistics.mean(s.holds for s in some):.1f} %",
        f"{sum(s.low > 1 for s in some)} / {sum(s.high < 1 for s in some)}",
        f"{100 * statistics.mean(s.doubted for s in some):.1f} %",
        f"{100 * statistics.median(s.high - s.low for s in some):.2f} %",
        f"{100 * statistics.mean(s.middle - 1 for s in some):+.2f} %",
        f"{100 * statistics.median(abs(s.middle - 1) for s in some):.2f} %",
        f"{1000 * statistics.mean(s.cost_s for s in some):.0f} ms",
    ]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    """Prints, and says whether the coverage is within its bounds."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--devices", type=int, default=36 * len(KINDS))
    arguments.add_argument("--kind", action="append", choices=KINDS)
    arguments.add_argument("--processes", type=int, default=2)
    arguments.add_argument(
        "--first",
        type=int,
        default=400,
        help="seed of the first device of each kind; those below 20 set the interval's level, 100 to 335 the rest",
    )
    given = arguments.parse_args()
    kinds = given.kind or KINDS
    devices = [(kinds[n % len(kinds)], given.first + n // len(kinds)) for n in range(given.devices)]
    with multiprocessing.Pool(given.processes) as pool:
        found = pool.map(soaked, devices, chunksize=1)
    print("| devices | n | hold the truth | truth below / above | doubted | width p50 | error mean | error p50 | an estimate |")
    print("|-|-|-|-|-|-|-|-|-|")
    for kind in kinds:
        print(row(kind, [s for s in found if s.kind == kind]))
    print(row("all", found))
    faults = broken(found)
    print(*faults, sep="\n")
    return 1 if faults else 0


def broken(found: Sequence[Soaked]) -> list[str]:
    """A sentence on each bound that does not hold."""
    held = {kind: [s.holds for s in found if s.kind == kind] for kind in CLUSTERED}
    out = [f"{k}: {statistics.mean(of):.1%} hold the truth" for k, of in held.items() if of and statistics.mean(of) < LEAST_CLUSTERED]
    covered = statistics.mean(s.holds for s in found)
    if not BOUNDS[0] <= covered <= BOUNDS[1]:
        out.append(f"{covered:.1%} of the intervals hold the truth; bounds are {BOUNDS[0]:.0%} and {BOUNDS[1]:.0%}")
    if (alike := [s.doubted for s in found if s.kind in CLAIMED]) and statistics.mean(alike) > MOST_DOUBTED:
        out.append(
            f"{statistics.mean(alike):.1%} of the devices that are alike from trial to trial are doubted, more than {MOST_DOUBTED:.0%}"
        )
    return out


if __name__ == "__main__":
    sys.exit(main())
