"""Runs of made-up rates, without traffic: modes that differ much, little or not at all, with many or few repeats."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from cells import cell_of
from dutlab.doubts import Doubt, DoubtKind
from dutlab.plan.cell import Cell
from dutlab.store.record import DoubtRecord, TrialRecord
from dutlab.store.write import Sync
from run_records import new_run

NOW = datetime(2026, 11, 21, 8, tzinfo=UTC)
MODES = ("router", "filter", "nat", "drop")
SIZES = (64, 1518)


@cache
def _cell(mode: str, size: int) -> Cell:
    return cell_of("sweep", mode=mode, frame_size=size)


@dataclass(frozen=True)
class SimulatedRun:
    """What is simulated: `spread` and `steps` (each mode over the first) are shares."""

    seed: int
    repeats: int
    spread: float
    steps: tuple[float, ...]
    """Of each mode after the first: its rate over that of the first."""
    sizes: tuple[int, ...] = (64,)
    in_turn: bool = True
    disturbed: bool = False
    missing: bool = False
    """The last repeat of the last mode has no result."""
    modes: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "modes", MODES[: 1 + len(self.steps)])

    @classmethod
    def drawn(cls, seed: int) -> SimulatedRun:
        """One of a kind that its seed chooses."""
        dice = random.Random(seed)
        return cls(
            seed=seed,
            repeats=dice.choice((1, 2, 3, 4, 5, 6, 8)),
            spread=dice.choice((0.0, 0.002, 0.01, 0.05)),
            steps=tuple(dice.choice((1.0, 1.0, 0.995, 0.97, 0.6)) for _ in range(dice.choice((1, 1, 2, 3)))),
            sizes=SIZES[: dice.choice((1, 1, 2))],
            in_turn=dice.random() < 0.8,
            disturbed=dice.random() < 0.2,
            missing=dice.random() < 0.2,
        )

    def records(self) -> list[TrialRecord]:
        """Every trial, in the order of time."""
        dice = random.Random(self.seed)
        places = [(mode, size, n) for n in range(1, self.repeats + 1) for mode in self.modes for size in self.sizes]
        if not self.in_turn:
            places.sort(key=lambda of: self.modes.index(of[0]))
        rates = dict(zip(self.modes, (1.0, *self.steps), strict=True))
        found = []
        for trial, (mode, size, n) in enumerate(places, 1):
            at = NOW + timedelta(minutes=trial)
            absent = self.missing and self.repeats > 1 and (mode, n) == (self.modes[-1], self.repeats)
            rate = round(6e5 * rates[mode] / (1 if size == 64 else 1.2) * (1 + dice.gauss(0, self.spread)), 3)
            doubts = [DoubtRecord.of(Doubt(DoubtKind.DISTURBED, "by 9 %"))] if self.disturbed and trial == 1 else []
            found.append(
                TrialRecord(
                    trial=trial, status="failed" if absent else "measured", why="the link went down" if absent else "",
                    cell=_cell(mode, size).model_copy(update={"repeat": n}), started=at, ended=at + timedelta(seconds=50),
                    figures={} if absent else {"a": {"offered_pps": 1e6, "received_pps": rate}}, doubts=doubts,
                )
            )  # fmt: skip
        return found

    @property
    def resolved(self) -> dict[str, Any]:
        """Experiment and testbed as understood."""
        return {
            "experiment": {"name": f"simulated-{self.seed}", "order": "shuffled", "repeats": self.repeats, "factors": {"mode": list(self.modes)}},
            "testbed": {"name": "simulated", "links": {"a": {"speed": 1e9, "mtu": 1500, "path": ["source:a", "dut:a", "dut:b", "sink:a"]}}},
            "command": ["dutlab", "run", "simulated.yaml"],
        }  # fmt: skip

    def written(self, runs: Path) -> Path:
        """The run as a folder, finished and with a manifest."""
        records = self.records()
        run = new_run(
            runs, (r.cell for r in records), experiment=f"simulated-{self.seed}", resolved=self.resolved, now=NOW, sync=Sync.AT_END
        )
        for record in records:
            run.write_trial(record, {}, [])
        run.write_manifest()
        return run.path
