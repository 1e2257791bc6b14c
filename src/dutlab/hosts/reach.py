"""Create host objects from a testbed file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dutlab.hosts.host import CommandLog, Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NetnsHost
from dutlab.spec.known import WITHOUT_A_WAY_IN
from dutlab.systems import system_of
from dutlab.systems.linux import LINUX
from dutlab.systems.system import System

if TYPE_CHECKING:
    from dutlab.spec.testbed import Testbed


def hosts_of(testbed: Testbed, log: CommandLog | None = None) -> dict[str, Host]:
    """Return role → host for a testbed of machines, without a DUT that has no way in. Connections are not opened yet."""
    return {
        name: NetnsHost(name, spec.netns, log, system=system_of(spec.family))
        if spec.netns
        else host_at(name, spec.ssh, log, system=system_of(spec.family))
        for name, spec in testbed.hosts.items()
        if spec.family not in WITHOUT_A_WAY_IN
    }


def host_at(name: str, ssh: str | None, log: CommandLog | None = None, *, system: System = LINUX) -> Host:
    """Return the host at `ssh` (`[user@]host[:port]`), not yet connected; this machine for None."""
    if ssh is None:
        return LocalHost(name, log, system=system)
    from dutlab.hosts.ssh import SshHost  # noqa: PLC0415 -- loads asyncssh, which no local host needs
    from dutlab.hosts.ssh_login import Login  # noqa: PLC0415 -- as above

    return SshHost(Login(name, ssh), log, system=system)
