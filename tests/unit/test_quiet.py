"""A run can wait for a quiet machine, and says what keeps it busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import closing
from dataclasses import make_dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from cells import cell_of
from disturbance import record
from dutlab.hosts.local import LocalHost
from dutlab.plan.plan import Trial
from dutlab.runner import execution
from dutlab.runner.execution import RunOptions, move_shortest_to_front
from dutlab.runner.journal import Journal
from dutlab.runner.records import TrialOutput
from dutlab.runner.run import Work
from dutlab.sensors.quiet import CALM_S, GLANCE_S, Neighbours
from dutlab.spec.loader import given_experiment

if TYPE_CHECKING:
    from dutlab.dut.mode import Mode
    from dutlab.runner.stage import Stage


def neighbours(proc: Path, running: Callable[[float], int], programs: dict[int, tuple[str, float]]) -> tuple[Neighbours, list[float]]:
    """A machine with `running` threads beside the reader by the second, and programs: process → name and share of a core."""
    now = [0.0]

    def write() -> None:
        (proc / "loadavg").write_text(f"0.00 0.00 0.00 {1 + running(now[0])}/100 4711\n")
        for pid, (name, share) in programs.items():
            (proc / str(pid)).mkdir(exist_ok=True)
            (proc / str(pid) / "stat").write_text(f"{pid} ({name}) R {'0 ' * 10}{round(100 * share * now[0])} 0 0 0\n")

    async def sleep(seconds: float) -> None:
        now[0] += seconds
        write()

    write()
    return Neighbours(proc, sleep, lambda: now[0]), now


async def test_a_run_waits_until_the_machine_was_quiet_for_some_seconds_and_names_what_is_busy(tmp_path: Path) -> None:
    of, now = neighbours(tmp_path, lambda at: 2 if at < 4 else 0, {7: ("stress-ng", 2.0), 8: ("sshd", 0.0), 9: ("cc1", 0.5)})
    told: list[str] = []
    assert await of.until_quiet(600.0, told.append) == ""
    assert 3.9 + CALM_S <= now[0] <= 6 + CALM_S
    assert len(told) == 1 and told[0].endswith("stress-ng, cc1") and told[0].startswith("2.0 ")


async def test_a_machine_that_stays_busy_is_waited_for_no_longer_than_asked(tmp_path: Path) -> None:
    of, now = neighbours(tmp_path, lambda _: 1, {7: ("stress-ng", 1.0)})
    assert "stress-ng" in await of.until_quiet(10.0, lambda _: None)
    assert now[0] == pytest.approx(10.0, abs=1.1)
    began = now[0]
    assert not await of.is_calm()
    assert now[0] - began < GLANCE_S / 2, "a busy machine is not looked at for longer than it takes to see it"
    # One that does not tell is not waited for, and is not calm.
    (tmp_path / "loadavg").unlink()
    blind = Neighbours(tmp_path / "none", of.sleep, of.clock)
    assert await blind.until_quiet(10.0, lambda _: None) == ""
    assert not await blind.is_calm()


async def test_a_quiet_machine_is_calm_at_a_glance(tmp_path: Path) -> None:
    of, _ = neighbours(tmp_path, lambda _: 0, {})
    assert await of.is_calm()


def test_the_shortest_trial_goes_first_and_the_others_keep_their_order() -> None:
    left = deque(
        Trial(number=n, cell=cell_of("iperf3"), group=1, estimate_s=s, ceilings={}) for n, s in ((1, 3.0), (2, 2.0), (3, 1.0), (4, 1.0))
    )
    move_shortest_to_front(left)
    assert [trial.number for trial in left] == [3, 1, 2, 4]


FILE = b"""\
experiment: x
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64, 512], duration: 2s, links: [[a]]}
  - sweep: {frame_sizes: [1518], duration: 1s, links: [[a]]}
order: as-written
repeat_disturbed: 1
"""


class Silent:
    """Looks on and says nothing."""

    def hear(self, event: object) -> None:
        pass

    async def ask(self, question: str) -> str:
        raise AssertionError(question)


class Glances(Neighbours):
    """Calm at these glances, from 1."""

    def __init__(self, calm: set[int]) -> None:
        super().__init__()
        object.__setattr__(self, "left", [n in calm for n in range(1, 100)])

    async def is_calm(self) -> bool:
        return self.left.pop(0)  # type: ignore[attr-defined,no-any-return]


@pytest.mark.parametrize(
    ("calm", "order"),
    [
        (set[int](), [1, 2, 3, 1]),  # the disturbed trial waits until the others had their turn
        ({1}, [1, 3, 2, 1]),  # while it is quiet after that, the shortest goes first
        ({2}, [1, 2, 3, 1]),
    ],
)
async def test_a_disturbed_trial_is_done_again_after_the_others_and_the_shortest_goes_first_in_a_calm_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, calm: set[int], order: list[int]
) -> None:
    monkeypatch.setenv("DUTLAB_DISTURBED", "repeat")
    work = Work.planned(given_experiment(FILE, Path("e.yaml")), unattended=True)
    options = RunOptions(runs=tmp_path, engine_binary=Path("/absent"), command=("dutlab",))
    folder = work.new_folder(options)
    with closing(Journal(folder.journal)) as journal:
        run = replace(work.started(folder, journal, Silent()), neighbours=Glances(calm))
        made: list[int] = []

        async def carried(_: object, trial: Trial, *_more: object, **_words: object) -> TrialOutput:
            made.append(trial.number)
            taken = 0.5 if len(made) == 1 else 0.0
            told = record(trial.number, taken)
            return TrialOutput(told.model_copy(update={"cell": trial.cell, "figures": {"a": {"received_pps": 1e6}}}), {}, [])

        async def said(value: object, *_: object) -> object:
            return value

        for name, value in {"into_mode": ((), ""), "as_applied": {}, "require_same_mode": None, "lost_state": "", "lost_mode": ""}.items():
            monkeypatch.setattr(execution, name, partial(said, value))
        monkeypatch.setattr(execution, "carry_out", carried)
        device = SimpleNamespace(mode=None, restarted=False, put_back=partial(said, False))
        guests = SimpleNamespace(during=lambda awaited: awaited)
        stage = make_dataclass("StandIn", ["device", "guests", "dut", "shares_this_machine", "at_rest"])(
            device, guests, LocalHost("dut"), True, None
        )
        await run._in_mode(
            cast("Stage", stage), cast("Mode", SimpleNamespace(name="router")), "1-router", work.plan.trials[:3], options, None
        )
    assert made == order
