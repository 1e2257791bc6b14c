"""Tool `steps`: the user's own commands on the hosts of a testbed, in phases with a barrier before each.

All hosts of a phase begin together: the first step of each is started behind a gate (`gate.py`), and once every gate is ready they agree on
an instant. The steps of one host follow one another (`lane.py`). A spawned step runs until it ends, at the latest until its trial ends.
The same holds for processes that a step leaves in the background (`background.py`). `reset` always runs; after an interruption in `run`,
`collect` runs too. Output, errors, status and times of every step are kept (`account.py`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dutlab.ending import run_to_end
from dutlab.errors import InputError
from dutlab.hosts.host import Host
from dutlab.methods.ports import Measured
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.steps import PHASES, Phase, StepsSetting, StepsWorkload
from dutlab.tools.gate import AT_ONCE, can_be_here, lead_ns
from dutlab.tools.steps.account import Account
from dutlab.tools.steps.lane import Lane, Left

if TYPE_CHECKING:  # it loads the engine, which no step needs
    from dutlab.tools.generator_tool import GeneratorSite

FIRST_WORD_S = 10.0
"""Time after which a running step is reported to observers, and again each time that its duration has doubled."""

Note = Callable[[str], None]


class Steps:
    """Runner of a StepsWorkload on `hosts`."""

    def __init__(self, hosts: Mapping[str, Host], *, directories: Mapping[str, str] | None = None, note: Note | None = None) -> None:
        """`directories` is host → folder for its steps, if not that of its commands. `note` gets a sentence about long steps."""
        self._hosts, self._directories, self._note = hosts, directories or {}, note

    async def carry_out(self, work: StepsWorkload, account: Account, phases: Sequence[Phase] = PHASES) -> None:
        """Carry out `phases` of `work` in order, and fill `account`. Raises InputError for an unknown host."""
        if unknown := sorted({host for by_host in work.phases.values() for host in by_host} - set(self._hosts)):
            raise InputError(f"no host {', '.join(unknown)}", remedy=f"there are {', '.join(sorted(self._hosts))}")
        left: list[Left] = []
        try:
            for phase in phases:
                if phase != "reset" and not (account.failed and work.on_failure == "stop"):
                    await self._phase(phase, work, account, left)
        except asyncio.CancelledError:
            account.interrupted = next(reversed(account.began), "startup")
            if account.interrupted == "run" and "collect" in phases:  # the results of `run` can still be collected
                await self._phase("collect", work, account, left)
            raise
        finally:
            try:
                await run_to_end(self._end(work, account, left, phases))
            except asyncio.CancelledError:
                account.interrupted = account.interrupted or "reset"
                raise

    async def _end(self, work: StepsWorkload, account: Account, left: list[Left], phases: Sequence[Phase]) -> None:
        """Run `reset`, and end all that was left running; nothing interrupts it."""
        for thing in left:
            thing.early = thing.waiting.done()
            thing.by_step = thing.early and any(thing.was_ended_by(step) for step in account.done)
        if "reset" in phases:
            await self._phase("reset", work, account, left)
        for step in await asyncio.gather(*(thing.end() for thing in left)):
            account.keep(step)

    async def _phase(self, phase: Phase, work: StepsWorkload, account: Account, left: list[Left]) -> None:
        few = asyncio.Semaphore(AT_ONCE)
        account.began[phase] = time.time()
        of_hosts = [(name, steps) for name, steps in work.phases[phase].items() if steps]
        lanes = [Lane(self._hosts[name], phase, steps, account, left, self._directories.get(name, "")) for name, steps in of_hosts]
        watching = asyncio.ensure_future(_watch(lanes, self._note)) if self._note else None
        try:
            here = can_be_here(lane.host for lane in lanes)
            await asyncio.gather(*(lane.start_first_step(few, here=here) for lane in lanes))
            at_ns = time.monotonic_ns() + lead_ns([lane.gate for lane in lanes if lane.gate])
            await asyncio.gather(*(lane.begin(at_ns, few, among=len(lanes)) for lane in lanes))
            await asyncio.gather(*(lane.run_to_end() for lane in lanes))
        except asyncio.CancelledError:
            await asyncio.gather(*(lane.give_up() for lane in lanes))
            raise
        finally:
            if watching:
                watching.cancel()


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Run workload `steps`. Raises InputError; a failed step raises nothing and is in the figures."""
    account = Account()
    await Steps(site.hosts).carry_out(cell.setting_as(StepsSetting).steps, account)
    return account.measured()


async def _watch(lanes: Sequence[Lane], note: Note) -> None:
    """Report to `note` which steps are waited for and how long, after FIRST_WORD_S and each time that this has doubled."""
    began, next_s = time.monotonic(), FIRST_WORD_S
    while True:
        await asyncio.sleep(began + next_s - time.monotonic())
        if text := "; ".join(_awaited(lanes, time.time())):
            note(text)
        next_s *= 2


def _awaited(lanes: Sequence[Lane], now_s: float) -> Iterator[str]:
    """Yield the first few steps that are waited for, and the number of others."""
    waited = [d for lane in lanes if (d := lane.awaited) is not None]
    for d in waited[:3]:
        limit = "no limit" if d.step.timeout is None else f"limit {d.step.timeout:g} s"
        yield f"waiting for {d.host}, {d.phase}, {d.step.name or d.place}: `{d.step.command}` ({now_s - d.started_s:.0f} s; {limit})"
    if len(waited) > 3:  # noqa: PLR2004 -- as many as were named
        yield f"and {len(waited) - 3} more"
