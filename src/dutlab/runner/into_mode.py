"""Puts the DUT into a mode, and sees whether it stayed in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TypeVar

from dutlab.dut.mode import Check, Mode, TellsState
from dutlab.errors import CommandFailed, DutlabError, HostError, TestbedError
from dutlab.hosts.host import connections_of
from dutlab.runner.command_book import CommandBook
from dutlab.runner.stage import Stage

Look = TypeVar("Look")
_RULESET = "its nftables ruleset"


async def into_mode(stage: Stage, mode: Mode) -> tuple[Sequence[Check], str]:
    """Applies and verifies; the second value says why the mode measures nothing, empty when it holds.

    Raises HostError when a host is gone: then it is not a fault of the mode, and the run ends to be resumed.
    """
    checks: Sequence[Check] = ()
    try:
        await mode.apply(stage.dut, stage.dut_testbed)
        checks = await mode.verify(stage.dut, stage.dut_testbed, stage.prober)
    except DutlabError as e:
        why = f"mode {mode.name}: {e}"
    else:
        why = _failing(mode, checks)
    for host in stage.hosts.values() if why else ():
        await host.run(["true"], check=False)  # a Windows has no such program, but it answers
    return checks, why


async def unless_killed(
    look: Callable[[], Awaitable[Look]], why: Callable[[Look], str], book: CommandBook, note: Callable[[str], None]
) -> Look:
    """A look at the mode, and where `why` says that it fails and a program of the rig was killed meanwhile, another.

    Raises TestbedError where one is killed again: that says nothing of the mode.
    """
    for is_last in (False, True):
        mark = book.mark
        result = await look()
        if not why(result) or not (killed := ", ".join(book.killed_since(mark))):
            break
        if is_last:
            raise TestbedError(f"killed again while the mode was verified: {killed}", remedy="see what ends programs there, then resume")
        note(f"killed while the mode was verified, which is done again: {killed}")
    return result


async def stayed_in_mode(stage: Stage, mode: Mode, connections: int) -> None:
    """Check that the mode still holds where the DUT was reconnected since it had so many `connections`: it may have rebooted.

    Raises HostError when it does not: the trial that was measured meanwhile has no result.
    """
    if stage.device.restarted or connections_of(stage.dut) == connections:
        return  # after a restart of ours the mode is applied again
    why = _failing(mode, await mode.verify(stage.dut, stage.dut_testbed, stage.prober))
    if why:
        what = f"the connection was lost during a trial, and since then {why}: it has rebooted, or somebody else changed it"
        raise HostError(what, host=stage.dut.name, remedy="`dutlab resume` repeats the trial")


async def as_applied(stage: Stage) -> Mapping[str, str]:
    """Return state of a Linux DUT that frames and checks do not show and no trial may change: MTUs and ruleset. Raises HostError."""
    state = {f"the MTU of {port}": mtu for port, mtu in (await _mtus(stage)).items()}
    if stage.dut.name in stage.hosts and stage.dut.system.kernel_tables:
        reply = await stage.dut.run(["nft", "-s", "list", "ruleset"], check=False)  # -s: without counters
        state |= {_RULESET: reply.text} if reply.status == 0 else {}
    return state


async def _mtus(stage: Stage) -> Mapping[str, str]:
    ports = stage.testbed.ports_of(stage.dut.name)
    if stage.dut.name not in stage.hosts or not stage.dut.system.kernel_tables or not ports:
        return {}
    reply = await stage.dut.run(["cat", *(f"/sys/class/net/{port}/mtu" for port in ports)], check=False)
    return dict(zip(ports, reply.text.split(), strict=False))


async def lost_state(stage: Stage, mode: Mode, before: Mapping[str, str]) -> str:
    """Why the DUT is not in the state any more that it was put into, as it says itself, after one trial; empty when it is.

    `before` is what as_applied() said. No frame is sent: this is asked after every trial. Raises HostError when the DUT is gone.
    """
    now = await as_applied(stage)
    if changed := [_changed(name, was, now.get(name, "none")) for name, was in before.items() if now.get(name) != was]:
        return f"mode {mode.name} is not in force: {'; '.join(changed)}"
    if not isinstance(mode, TellsState) or stage.dut.name not in stage.hosts:
        return ""
    try:
        return _failing(mode, await mode.checks_of_state(stage.dut, stage.dut_testbed))
    except CommandFailed as e:
        await stage.dut.run(["true"])
        return f"mode {mode.name}: {e}"


def _changed(name: str, was: str, is_: str) -> str:
    return f"{name} was changed" + ("" if name == _RULESET else f": from {was} to {is_}")


async def lost_mode(stage: Stage, mode: Mode) -> str:
    """Why the mode is not in force any more now that its trials are over, as frames show; empty when it does.

    Raises HostError when a host is gone.
    """
    try:
        return _failing(mode, await mode.verify(stage.dut, stage.dut_testbed, stage.prober))
    except HostError:
        raise
    except DutlabError as e:
        return f"mode {mode.name}: {e}"


def _failing(mode: Mode, checks: Sequence[Check]) -> str:
    failed = "; ".join(f"{c.what}: {c.found}" for c in checks if not c.passed)
    return f"mode {mode.name} is not in force: {failed}" if failed else ""
