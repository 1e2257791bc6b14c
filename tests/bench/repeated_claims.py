"""How often `artifact check` calls a claim different for nothing, and how often it notices a change: bench of the table in docs/reference/artifact.md.

    python tests/bench/repeated_claims.py [--rounds 300] [--seed 20261127]

Each device has 8 cells, 4 modes of 2 sizes. Each run gives all cells a level, and each cell another one; repeats spread by 1 %.
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime, timedelta
from itertools import product
from math import log
from pathlib import Path

import numpy as np

from dutlab.report.questions.claims import ClaimCard, ClaimedCell
from dutlab.report.questions.repeated import RepeatState, judged
from dutlab.report.questions.sides import ComparedRun
from dutlab.store.record import TrialRecord

sys.path[:0] = [str(Path(__file__).parents[1])]
from cells import cell_of  # noqa: E402 - found by the path above

BEGAN = datetime(2026, 11, 27, tzinfo=UTC)
MODES, SIZES = ("router", "filter", "nat", "drop"), (64, 1518)
CELLS = [(mode, size, cell_of("sweep", mode=mode, frame_size=size)) for size, mode in product(SIZES, MODES)]
SHOWN = ((0.0, 0.0), (0.02, 0.005), (0.03, 0.01), (0.05, 0.02), (0.1, 0.03))
"""Spread of the level of a run, and of each of its cells."""


def run_of(dice: np.random.Generator, number: int, repeats: int, spread: tuple[float, float], changed: float = 1.0) -> ComparedRun:
    """A run of the device; in it `changed` is the factor of the last mode."""
    of_run, records = dice.normal(0, spread[0]), list[TrialRecord]()
    for n, (mode, _, cell) in enumerate(CELLS):
        level = 13.0 - 0.1 * n + of_run + dice.normal(0, spread[1]) + (log(changed) if mode == MODES[-1] else 0)
        for repeat in range(1, repeats + 1):
            at = BEGAN + timedelta(days=number, minutes=len(CELLS) * repeat + n)
            rate = float(np.exp(level + dice.normal(0, 0.01)))
            of = cell.model_copy(update={"repeat": repeat})
            trial = len(records) + 1
            records.append(
                TrialRecord(trial=trial, cell=of, status="measured", started=at, ended=at, figures={"a": {"received_pps": rate}})
            )
    return ComparedRun(f"run-{number}", tuple(records), {})


def cards() -> list[ClaimCard]:
    """A claim for each size: all modes."""
    return [
        ClaimCard(
            claim="", about=str(size), run="", folder="", manifest_sha256="", limited_by=(), deviations=(), doubts=(), conditions={},
            cells=tuple(
                ClaimedCell(
                    label=mode, workload=cell.workload, mode=mode, factors=cell.factors, links=cell.links, params=dict(cell.params), link="a",
                    figure="received_pps", trials=(), values=(), repeats=(), median=0, low=0, high=0, interval=False,
                )
                for mode, of, cell in CELLS if of == size
            ),
        )
        for size in SIZES
    ]  # fmt: skip


def main() -> None:
    """Print the table."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--rounds", type=int, default=100)
    asked.add_argument("--seed", type=int, default=20261127)
    given = asked.parse_args()
    claims = cards()
    print(
        "| runs in the file, repeats | spread of runs, of cells | one claim or more differs for nothing | all repeated | one mode −5 % | −10 % | −20 % |"
    )
    print("|---|---|---|---|---|---|---|")
    for runs, repeats in ((1, 3), (1, 6), (4, 6), (10, 6), (20, 6)):
        for spread in SHOWN:
            shares = []
            for changed in (1.0, 0.95, 0.9, 0.8):
                dice, states = np.random.default_rng(given.seed), list[set[RepeatState]]()
                for _ in range(given.rounds):
                    past = [run_of(dice, n, repeats, spread) for n in range(runs)]
                    new = run_of(dice, runs, repeats, spread, changed)
                    states.append({of.state for of in judged(claims, past, new, same_processors=True)})
                shares.append(sum(RepeatState.DIFFERS in of for of in states) / given.rounds)
                if changed == 1.0:
                    shares.append(sum(of == {RepeatState.REPEATED} for of in states) / given.rounds)
            print(
                f"| {runs}, {repeats} | {spread[0]:.0%}, {spread[1]:.1%} | {' | '.join(f'{share:.1%}' for share in shares)} |", flush=True
            )


if __name__ == "__main__":
    main()
