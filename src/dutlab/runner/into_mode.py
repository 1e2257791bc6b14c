"""Puts the DUT into a mode, and sees whether it stayed in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab.dut.mode import Check, Mode
from dutlab.errors import DutlabError, HostError
from dutlab.hosts.host import connections_of
from dutlab.runner.stage import DUT, Stage


async def into_mode(stage: Stage, mode: Mode) -> tuple[Sequence[Check], str]:
    """Applies and verifies; the second value says why the mode measures nothing, empty when it holds.

    Raises HostError when a host is gone: then it is no fault of the mode, and the run ends to be resumed.
    """
    checks: Sequence[Check] = ()
    try:
        await mode.apply(stage.dut, stage.testbed)
        checks = await mode.verify(stage.dut, stage.testbed, stage.engine)
    except DutlabError as e:
        for host in stage.hosts.values():
            await host.run(["true"])
        return checks, f"mode {mode.name}: {e}"
    return checks, _failing(mode, checks)


async def stayed_in_mode(stage: Stage, mode: Mode, connections: int) -> None:
    """Where the DUT was reached anew since it had so many `connections`, it may have rebooted: does the mode still hold?

    Raises HostError when it does not: the trial that was measured meanwhile has no result.
    """
    if connections_of(stage.dut) == connections:
        return
    why = _failing(mode, await mode.verify(stage.dut, stage.testbed, stage.engine))
    if why:
        what = f"the connection was lost during a trial, and since then {why}: it has rebooted, or somebody else changed it"
        raise HostError(what, host=stage.dut.name, remedy="`dutlab resume` does the trial again")


async def mtus(stage: Stage) -> Mapping[str, str]:
    """Port of the DUT → its MTU, which no short frame shows; of a Linux DUT, none of others. Raises HostError."""
    ports = [port.interface for link in stage.testbed.links.values() for port in link.path if port.host == DUT]
    if DUT not in stage.hosts or stage.testbed.hosts[DUT].family != "linux" or not ports:
        return {}
    said = await stage.dut.run(["cat", *(f"/sys/class/net/{port}/mtu" for port in ports)], check=False)
    return dict(zip(ports, said.text.split(), strict=False))


async def lost_mode(stage: Stage, mode: Mode, before: Mapping[str, str]) -> str:
    """Why the mode does not hold any more now that its trials are over, as when somebody flushed its rules; empty when it does.

    `before` is what mtus() said when it was applied. Raises HostError when a host is gone.
    """
    now = await mtus(stage)
    if changed := [f"{port} from {mtu} to {now.get(port, 'none')}" for port, mtu in before.items() if now.get(port) != mtu]:
        return f"mode {mode.name} does not hold: the MTU was changed: {', '.join(changed)}"
    try:
        return _failing(mode, await mode.verify(stage.dut, stage.testbed, stage.engine))
    except HostError:
        raise
    except DutlabError as e:
        return f"mode {mode.name}: {e}"


def _failing(mode: Mode, checks: Sequence[Check]) -> str:
    failed = "; ".join(f"{c.what}: {c.found}" for c in checks if not c.passed)
    return f"mode {mode.name} does not hold: {failed}" if failed else ""
