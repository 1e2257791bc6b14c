"""Application of a mode to the DUT, and checks that it still holds."""

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
    """Apply and verify a mode. Return its checks, and the reason why it cannot be measured in; the reason is empty if the mode holds.

    Raises HostError if a host does not answer: that is not a fault of the mode, and the run ends to be resumed.
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
        await host.run(["true"], check=False)  # Windows has no such program, but the host answers
    return checks, why


async def unless_killed(
    look: Callable[[], Awaitable[Look]], why: Callable[[Look], str], book: CommandBook, note: Callable[[str], None]
) -> Look:
    """Check the mode by `look`. If `why` says that it fails and a program of the rig was killed during the check, check once more.

    Raises TestbedError if a program is killed again, since such a check shows nothing about the mode.
    """
    for is_last in (False, True):
        mark = book.mark
        result = await look()
        if not why(result) or not (killed := ", ".join(book.killed_since(mark))):
            break
        if is_last:
            raise TestbedError(f"killed again while the mode was verified: {killed}", remedy="find what ends programs there, then resume")
        note(f"killed while the mode was verified, which is done again: {killed}")
    return result


async def require_same_mode(stage: Stage, mode: Mode, connections: int) -> None:
    """Check that the mode still holds if the DUT was reconnected since its count of `connections`: it may have rebooted.

    Raises HostError if the mode does not hold: the last trial has no result.
    """
    if stage.device.restarted or connections_of(stage.dut) == connections:
        return  # the mode is applied again after our own restart
    why = _failing(mode, await mode.verify(stage.dut, stage.dut_testbed, stage.prober))
    if why:
        what = f"the connection was lost during a trial, and since then {why}: it has rebooted, or another user changed it"
        raise HostError(what, host=stage.dut.name, remedy="`dutlab resume` repeats the trial")


async def as_applied(stage: Stage) -> Mapping[str, str]:
    """Return state of a Linux DUT that frames and checks do not show and no trial may change: MTUs, ruleset. Raises HostError."""
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
    """Return why the DUT is no longer in the state of its mode, by its own reports; empty if it is.

    `before` is the result of as_applied(). Called after every trial, so no frame is sent. Raises HostError if the DUT does not answer.
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
    """Return why the mode no longer holds after its trials, as frames show; empty if it holds.

    Raises HostError if a host does not answer.
    """
    try:
        return _failing(mode, await mode.verify(stage.dut, stage.dut_testbed, stage.prober))
    except HostError:
        raise
    except DutlabError as e:
        return f"mode {mode.name}: {e}"


def _failing(mode: Mode, checks: Sequence[Check]) -> str:
    failed = "; ".join(f"{c.statement}: {c.found}" for c in checks if not c.passed)
    return f"mode {mode.name} is not in force: {failed}" if failed else ""
