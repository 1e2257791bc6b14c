"""From what a testbed file says of a host to the host itself."""

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
    """Role → host of a testbed of machines, but for a DUT into which there is no way; connects to none of them yet."""
    return {
        name: NetnsHost(name, spec.netns, log) if spec.netns else host_at(name, spec.ssh, log, system=system_of(spec.family))
        for name, spec in testbed.hosts.items()
        if spec.family not in WITHOUT_A_WAY_IN
    }


def host_at(name: str, ssh: str | None, log: CommandLog | None = None, *, system: System = LINUX) -> Host:
    """The host that ssh reaches as `[user@]host[:port]`, not yet connected to; None is this machine."""
    if ssh is None:
        return LocalHost(name, log, system=system)
    from dutlab.hosts.ssh import SshHost  # noqa: PLC0415 -- loads asyncssh, which no local host needs
    from dutlab.hosts.ssh_login import Login  # noqa: PLC0415 -- as above

    return SshHost(Login(name, ssh), log, system=system)
