"""Hosts whose power a run switches: off in a phase of a trial, on again whatever happens, and on where they do not answer.

Switches are asked in a thread: many of them block. An undo step carries all that a later process needs to switch on again; passwords stay
in the environment.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping

from pydantic import TypeAdapter

from dutlab.dut.mode import UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.own_time import own_timeout
from dutlab.power import HostPower
from dutlab.spec.power import Power, PowerSpec
from dutlab.spec.testbed import Testbed

_POWER: TypeAdapter[PowerSpec | None] = TypeAdapter(Power)
_ANSWERS_S, _LOOK_S = 15.0, 0.5


def on_step(host: str, spec: PowerSpec) -> UndoStep:
    """Switches it on again, where it is off, and waits until it answers."""
    switch = json.dumps(_POWER.dump_python(spec, mode="json"))
    return UndoStep(host, (), why="switches it on again", back_within_s=spec.back_within, switch=switch)


async def on_again(step: UndoStep, host: Host | None) -> None:
    """Carries such a step out; `host` is None where no command reaches it. Raises HostError."""
    if (spec := _POWER.validate_python(json.loads(step.switch))) is None:
        return
    power = HostPower(step.host, spec)
    await asyncio.to_thread(power.switch_on)
    if host is not None:
        await until_it_answers(host, spec.back_within)


async def until_it_answers(host: Host, within_s: float) -> None:
    """Raises HostError when it has not after `within_s`."""

    async def answers() -> bool:
        await host.run(["true"], timeout_s=_ANSWERS_S)
        return True

    await until(answers, within_s, host.name)


async def until(look: Callable[[], Awaitable[bool]], within_s: float, host: str) -> None:
    """Looks until it is so. Raises HostError with what was said last when it is not after `within_s`."""
    why = "no frame came through it"
    with contextlib.suppress(TimeoutError):
        async with own_timeout(within_s):
            while True:
                try:
                    if await look():
                        return
                except HostError as error:
                    why = error.what
                await asyncio.sleep(_LOOK_S)
    raise HostError(
        f"was switched on and is not back after {within_s:g} s: {why}",
        host=host,
        remedy="look at its console; `back-within` of its `power:` says how long it may take",
    )


async def revived(hosts: Mapping[str, Host], testbed: Testbed, journal: Callable[..., None]) -> tuple[str, ...]:
    """Switches on each host that does not answer, once and only where the testbed allows it; says of which, in sentences.

    One that is on already is switched off and on. Raises HostError when it does not come back.
    """
    sentences = []
    for name, host in hosts.items():
        spec = testbed.hosts[name].power
        if spec is None or not spec.may_switch:
            continue
        try:
            await host.run(["true"], timeout_s=_ANSWERS_S)
        except HostError as error:
            sentences.append(await _revive(host, spec, error.what, journal))
    return tuple(sentences)


async def revived_once(host: Host, why: str, *, testbed: Testbed, journal: Callable[..., None]) -> bool:
    """Return whether a host that stays away came back by its power, where the testbed allows to switch it.

    A guest of a lab is left as it is: it has no firmware that hangs, and what keeps it away would do so again.
    """
    spec = testbed.hosts[host.name].power if host.name in testbed.hosts else None
    if spec is None or not spec.may_switch or testbed.lab is not None:
        return False
    await _revive(host, spec, why, journal)
    return True


async def _revive(host: Host, spec: PowerSpec, why: str, journal: Callable[..., None]) -> str:
    power = HostPower(host.name, spec)
    was_on = await asyncio.to_thread(power.is_on)
    journal("host-revived", host=host.name, was_on=was_on, why=why)
    if was_on:
        await asyncio.to_thread(power.cycle)
    else:
        await asyncio.to_thread(power.switch_on)
    await until_it_answers(host, spec.back_within)
    return f"{host.name} did not answer, and its power was switched {'off and on' if was_on else 'on'}: {why}"
