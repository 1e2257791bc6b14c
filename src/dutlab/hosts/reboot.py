"""Reboot a host and wait until it is back, for settings that a kernel reads only at boot."""

from __future__ import annotations

import asyncio
import contextlib

from dutlab.errors import HostError
from dutlab.hosts.host import Host, OverConnection
from dutlab.hosts.local import LocalHost
from dutlab.hosts.own_time import own_timeout

_ANSWERS_S, _LOOK_S = 15.0, 0.5
_WHICH_BOOT = ("sh", "-c", "cat /proc/sys/kernel/random/boot_id 2>/dev/null || sysctl -n kern.boottime")
"""Command that prints the identity of the current boot (random(4); sysctl(2) of the BSDs)."""
_REBOOT = ("sh", "-c", "reboot || reboot -f")
"""Reboot command. If `reboot` cannot ask the first process, `-f` makes it ask the kernel."""


class NotBack(HostError):
    """Error for a host that did not come up after a reboot."""


async def insist_on_rebootable(host: Host) -> str:
    """Return the identity of the host's current boot. Raises HostError if a reboot would end this machine, or could not be observed."""
    if not isinstance(host, OverConnection):
        raise HostError("cannot be rebooted: it is this machine, or a namespace of it", host=host.name, remedy="name a host over ssh")
    boot = (await host.run(_WHICH_BOOT, timeout_s=_ANSWERS_S)).text.strip()
    here = (await LocalHost("here").run(_WHICH_BOOT, timeout_s=_ANSWERS_S, check=False)).text.strip()
    if not boot or boot == here:
        raise HostError("cannot be rebooted: its kernel is that of this machine", host=host.name, remedy="name a separate machine")
    return boot


async def reboot(host: Host, within_s: float) -> None:
    """Reboot a host, and return once it answers from a new boot. Raises NotBack after `within_s`, HostError when the command fails."""
    before = await insist_on_rebootable(host)
    why = "it is still in the same boot"
    with contextlib.suppress(HostError):  # the connection ends with it
        await host.run(_REBOOT, timeout_s=min(_ANSWERS_S, within_s))
    with contextlib.suppress(TimeoutError):
        async with own_timeout(within_s):
            while True:
                try:
                    if (await host.run(_WHICH_BOOT, timeout_s=_ANSWERS_S)).text.strip() != before:
                        return
                except HostError as error:
                    why = error.what
                await asyncio.sleep(_LOOK_S)
    raise NotBack(
        f"was rebooted and is not back after {within_s:g} s: {why}",
        host=host.name,
        remedy="look at its console; once it is back, `dutlab undo RUN` restores it, and `dutlab resume RUN` continues",
    )
