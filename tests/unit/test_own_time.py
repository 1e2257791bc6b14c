"""Limits count the time in which this process ran: one that was stopped goes on where it was."""

from __future__ import annotations

import asyncio

import pytest

from dutlab.errors import CommandTimedOut
from dutlab.hosts.local import LocalHost
from dutlab.hosts.own_time import own_timeout
from dutlab.runner.host_power import until


class Stopped:
    """The clock of a loop whose process is stopped for `away_s` at the next look at it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._time, self.away_s = loop.time, 0.0

    def time(self) -> float:
        return self._time() + self.away_s


@pytest.fixture
async def stopped(monkeypatch: pytest.MonkeyPatch) -> Stopped:
    loop = asyncio.get_running_loop()
    clock = Stopped(loop)
    monkeypatch.setattr(loop, "time", clock.time)
    return clock


async def test_a_command_that_ran_while_we_were_stopped_has_not_timed_out(stopped: Stopped) -> None:
    process = await LocalHost("here").spawn(["cat"])
    waiting = asyncio.create_task(process.wait(20))
    for _ in range(3):
        await asyncio.sleep(0)
    stopped.away_s += 3600
    await process.close_stdin()
    assert (await waiting).status == 0


async def test_looking_for_a_host_goes_on_after_a_stop(stopped: Stopped) -> None:
    looks = []

    async def back() -> bool:
        looks.append(None)
        stopped.away_s += 3600 if len(looks) == 1 else 0
        return len(looks) == 3

    await until(back, 30, "dut")
    assert len(looks) == 3


async def test_a_limit_ends_what_takes_longer() -> None:
    with pytest.raises(TimeoutError):
        async with own_timeout(0.01):
            await asyncio.Event().wait()
    with pytest.raises(TimeoutError):
        async with own_timeout(0):
            await asyncio.Event().wait()
    with pytest.raises(CommandTimedOut):
        await LocalHost("here").run(["sleep", "1000"], timeout_s=0.05)
