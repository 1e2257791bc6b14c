"""A run can wait for a quiet machine, and says what keeps it busy."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from pathlib import Path

import pytest

from cells import cell_of
from dutlab.plan.plan import Trial
from dutlab.runner.execution import shortest_to_front
from dutlab.sensors.quiet import CALM_S, GLANCE_S, Neighbours


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
    of, now = neighbours(tmp_path, lambda at: 2 if at < 30 else 0, {7: ("stress-ng", 2.0), 8: ("sshd", 0.0), 9: ("cc1", 0.5)})
    told: list[str] = []
    assert await of.until_quiet(600.0, told.append) == ""
    assert 30 + CALM_S <= now[0] <= 32 + CALM_S
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
    shortest_to_front(left)
    assert [trial.number for trial in left] == [3, 1, 2, 4]
