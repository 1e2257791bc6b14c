"""Power of hosts during a run: off in a phase of a trial, on again in any case, and on if a host does not answer.

Power switches are driven in a thread, since many of them block. An undo step has all settings that a later process needs to switch a
host on; passwords stay in the environment.
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
from dutlab.spec.switch import Power, PowerSpec
from dutlab.spec.testbed import Testbed

_POWER: TypeAdapter[PowerSpec | None] = TypeAdapter(Power)
_ANSWERS_S, _LOOK_S = 15.0, 0.5


def on_step(host: str, spec: PowerSpec) -> UndoStep:
    """Return the undo step that switches a host on if it is off and waits until it answers."""
    switch = json.dumps(_POWER.dump_python(spec, mode="json"))
    return UndoStep(host, (), why="switches it on again", back_within_s=spec.back_within, switch=switch)


async def on_again(step: UndoStep, host: Host | None) -> None:
    """Carry out a step from on_step(); `host` is None if no command reaches it. Raises HostError."""
    if (spec := _POWER.validate_python(json.loads(step.switch))) is None:
        return
    power = HostPower(step.host, spec)
    await asyncio.to_thread(power.switch_on)
    if host is not None:
        await wait_for_answer(host, spec.back_within)


async def wait_for_answer(host: Host, within_s: float) -> None:
    """Wait until the host runs a command. Raises HostError if it does not within `within_s`."""

    async def answers() -> bool:
        await host.run(["true"], timeout_s=_ANSWERS_S)
        return True

    await until(answers, within_s, host.name)


async def until(look: Callable[[], Awaitable[bool]], within_s: float, host: str) -> None:
    """Call `look` until it returns True. Raises HostError with the last error if it does not within `within_s`."""
    why = "no frame passed it"
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
    """Switch on each host that does not answer, once, if the testbed allows it; return a sentence for each of them.

    A host whose power is on is switched off and on. Raises HostError if it still does not answer.
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
    """Power-cycle or switch on a host that does not answer, if the testbed allows it; return whether that was done. Raises HostError.

    Guests of a lab are not switched: they have no firmware that hangs, and the same cause would stop them again.
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
    await wait_for_answer(host, spec.back_within)
    return f"{host.name} did not answer, and its power was switched {'off and on' if was_on else 'on'}: {why}"
