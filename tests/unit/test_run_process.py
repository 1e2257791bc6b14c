"""What a process says of a run that it leaves: whoever ends it, at any time, hears how to go on."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from dutlab.errors import TestbedError
from dutlab.events import RunEnded
from dutlab.plan.cell import Cell
from dutlab.plan.plan import Plan, Trial
from dutlab.runner.journal import Journal
from dutlab.runner.run_process import RunProcess, TimeIsOver
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted, build
from run_events import Kept


async def cut(tmp_path: Path, error: BaseException, *, begins: bool) -> list[RunEnded]:
    """The last events of a run whose work ends with `error`, before or after its first trial has begun."""
    folder = RunFolder.open(build(tmp_path, Wanted(seconds=1, repeats=1, cores=0, cut_after=0)))
    trials = tuple(
        Trial(number=of["number"], cell=Cell.model_validate(of["cell"]), group=1, estimate_s=1.0, ceilings={})
        for of in folder.plan["trials"]
    )
    plan = Plan(experiment="e", testbed="t", order="as-written", seed=1, estimate_s=9.0, trials=trials)
    heard, journal = Kept(), Journal(folder.journal)
    run = RunProcess(plan=plan, folder=folder, journal=journal, progress=heard)

    async def measure(left: Sequence[Trial], ends: float | None) -> None:
        if begins:
            run.begin_trial(left[0], ends)
        raise error

    try:
        await run.all_left(measure, how="`dutlab resume RUN` continues it")
    except type(error):
        pass
    finally:
        journal.close()
    return [event for event in heard.events if isinstance(event, RunEnded)]


@pytest.mark.parametrize("error", [asyncio.CancelledError(), TimeIsOver()])
@pytest.mark.parametrize("begins", [False, True])
async def test_a_run_that_is_interrupted_before_or_in_its_first_trial_says_how_to_go_on(
    tmp_path: Path, error: BaseException, *, begins: bool
) -> None:
    (ended,) = await cut(tmp_path, error, begins=begins)
    assert ended.status == "cut" and "`dutlab resume RUN`" in ended.remedy
    assert ("before the first trial" in ended.remedy) is not begins


async def test_an_error_before_the_first_trial_has_its_own_remedy(tmp_path: Path) -> None:
    assert await cut(tmp_path, TestbedError("no such port", remedy="name another"), begins=False) == []
    (ended,) = await cut(tmp_path / "again", TestbedError("no such port", remedy="name another"), begins=True)
    assert "`dutlab resume RUN`" in ended.remedy
