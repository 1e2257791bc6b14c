"""Events of a run that goes on, as its folder has them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from dutlab.events import EVENTS, Event, Reading, RunBegun, TrialBegun, TrialEnded

NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
HOSTILE = 'a "link"\\ of\nmany, words='
BEGUN = RunBegun(at=NOW, folder="runs/x", experiment=HOSTILE, cells=2, trials=4, done=0, estimate_s=60, seed=1)


class Kept:
    """Observer of a run that keeps the events and answers no question."""

    def __init__(self) -> None:
        self.events = list[Event]()

    def hear(self, event: Event) -> None:
        self.events.append(event)

    async def ask(self, question: str) -> str:
        raise AssertionError(question)


def begun(trial: int) -> TrialBegun:
    return TrialBegun(
        at=NOW, trial=trial, what="nat", mode="nat", workload="sweep", tool="engine", links=("a", "b"), repeat=1, estimate_s=5, done=trial - 1,
        trials=4, left_s=20 - 5 * (trial - 1),
    )  # fmt: skip


def ended(trial: int, status: str = "measured", rate: float = 1e6) -> TrialEnded:
    return TrialEnded(
        at=NOW + timedelta(seconds=9), trial=trial, what="nat", workload="sweep", status=status, why="", seconds=5,
        figures={"a": {"received_pps": rate}}, main="a", backpressure_ratio=None, done=trial, trials=4,
    )  # fmt: skip


def reading(value: float) -> Reading:
    return Reading(at=NOW, trial=1, where=HOSTILE, who="engine", values={"received_pps": value})


def tell(run: Path, *events: object) -> None:
    run.mkdir(exist_ok=True)
    with (run / EVENTS).open("ab") as f:
        for event in events:
            f.write(event if isinstance(event, bytes) else event.model_dump_json().encode() + b"\n")
