"""Restore a DUT to its state before the run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab.dut.mode import UndoStep
from dutlab.errors import HostError, TestbedError
from dutlab.hosts.host import Host
from dutlab.hosts.netns import NamespaceGone
from dutlab.hosts.reboot import reboot
from dutlab.runner.host_power import on_again

STEP_S = 600.0
"""Time limit of a step. It is long, since removing a million routes can take minutes."""


async def carry_out(steps: Sequence[UndoStep], hosts: Mapping[str, Host]) -> None:
    """Carry out every step in order, also after one has failed.

    Raises TestbedError that names every failed step, with the command to repeat by hand.
    """
    failed = []
    for step in steps:
        host = hosts.get(step.host)
        if step.switch:
            try:
                await on_again(step, host)
            except HostError as e:
                failed.append(str(e))
            continue
        if host is None:
            failed.append(f"{step.host}: not in the testbed (`{' '.join(step.argv)}`)")
            continue
        try:
            if step.back_within_s:
                await reboot(host, step.back_within_s)
                continue
            await host.run(step.argv, stdin=step.stdin.encode(), timeout_s=STEP_S)
        except NamespaceGone:
            continue  # the changes are gone with the namespace
        except HostError as e:
            failed.append(str(e))
    if failed:
        raise TestbedError(
            "the DUT was not restored completely:  " + "; ".join(failed),
            remedy="repair the host, then `dutlab undo RUN`; the journal keeps the commands",
        )
