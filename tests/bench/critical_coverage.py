"""How often the 95 % interval of a soak's critical rate holds the true one, and how wide it is, over simulated devices of nine kinds.

    python tests/bench/critical_coverage.py [--devices 324] [--kind spread] [--processes 2] [--first 100]

Each device is soaked by the method itself, 45 trials of 1 s each, at the rates that it asks for. A width is the interval's, relative to the true
rate; the error is that of the middle. The cost is processor time for each estimate, mean over a soak. Needs nothing; prints Markdown.
Exits 1 when the intervals of all hold the truth less often than 92 % or more often than 98 %.
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

from cells import cell_of
from dutlab.spec.mixes import frame_mix

sys.path.insert(0, str(Path(__file__).parents[1]))

from dutlab.methods.critical_rate import measure
from dutlab.methods.ports import Bench, Offer
from dutlab.units import Pps, Seconds
from simulated_losses import KINDS, LossyDut

BOUNDS = (0.92, 0.98)
CELL = cell_of("soak")


@dataclass(frozen=True)
class Soaked:
    """What the soak of one device said, in true rates."""

    kind: str
    low: float
    middle: float
    high: float
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
    figures = asyncio.run(measure(Bench(dut), CELL, offer, dut.target)).figures["a"]
    cost_s = (time.process_time() - began) / dut.trials
    low, middle, high = (figures[f"critical_{name}pps"] / dut.true_pps for name in ("low_", "", "high_"))
    return Soaked(dut.kind, low, middle, high, cost_s)


def row(name: str, some: Sequence[Soaked]) -> str:
    """One line of the table."""
    cells = [
        name,
        str(len(some)),
        f"{100 * statistics.mean(s.holds for s in some):.1f} %",
        f"{sum(s.low > 1 for s in some)} / {sum(s.high < 1 for s in some)}",
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
        "--first", type=int, default=100, help="seed of the first device of each kind; those below 20 set the interval's level"
    )
    given = arguments.parse_args()
    kinds = given.kind or KINDS
    devices = [(kinds[n % len(kinds)], given.first + n // len(kinds)) for n in range(given.devices)]
    with multiprocessing.Pool(given.processes) as pool:
        found = pool.map(soaked, devices, chunksize=1)
    print("| devices | n | hold the truth | truth below / above | width p50 | error mean | error p50 | an estimate |")
    print("|-|-|-|-|-|-|-|-|")
    for kind in kinds:
        print(row(kind, [s for s in found if s.kind == kind]))
    print(row("all", found))
    covered = statistics.mean(s.holds for s in found)
    if not BOUNDS[0] <= covered <= BOUNDS[1]:
        print(f"{covered:.1%} of the intervals hold the truth; bounds are {BOUNDS[0]:.0%} and {BOUNDS[1]:.0%}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
