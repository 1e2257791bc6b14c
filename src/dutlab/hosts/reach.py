"""From what a testbed file says of a host to the host itself."""

from __future__ import annotations

from dutlab.hosts.host import CommandLog, Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from dutlab.spec.known import WITHOUT_A_WAY_IN
from dutlab.spec.testbed import Testbed


def hosts_of(testbed: Testbed, log: CommandLog | None = None) -> dict[str, Host]:
    """Role → host of a testbed of machines, but for a DUT into which there is no way; connects to none of them yet."""
    return {
        name: SshHost(Login(name, spec.ssh), log) if spec.ssh is not None else LocalHost(name, log)
        for name, spec in testbed.hosts.items()
        if spec.family not in WITHOUT_A_WAY_IN
    }
