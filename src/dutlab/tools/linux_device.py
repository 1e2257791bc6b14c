"""What can be done to a Linux DUT beside putting it into a mode: a methods.ports.Device."""

from __future__ import annotations

import time

from dutlab.dut.linux_state import IP_FORWARD
from dutlab.hosts.host import Host
from dutlab.methods.ports import ResetKind
from dutlab.spec.testbed import Testbed

_PROCESS = f"was=$(cat /proc/sys/{IP_FORWARD}); echo 0 > /proc/sys/{IP_FORWARD}; echo $was > /proc/sys/{IP_FORWARD}"
"""Forwarding off and on: the kernel drops what it knows of routes in use, and tells every port."""


class LinuxDevice:
    """A Linux machine or namespace. It is reset by commands that end with everything back as it was, so there is nothing to undo."""

    resets = (ResetKind.PROCESS, ResetKind.SOFTWARE)

    def __init__(self, dut: Host, testbed: Testbed) -> None:
        self._dut = dut
        self._ports = [p.interface for link in testbed.links.values() for p in (link.path[1], link.path[2])]

    async def reset(self, kind: ResetKind) -> float:
        """Raises CommandFailed, HostError."""
        began = time.monotonic()
        await self._dut.run(["sh", "-ec", _PROCESS if kind is ResetKind.PROCESS else self._software()])
        return time.monotonic() - began

    def _software(self) -> str:
        """Rules, forwarding, addresses and routes of the test ports away, then all of it back.

        The ports stay up: going down, a port takes its cable's other end with it, and the tester would be reset too.
        """
        ports = list(dict.fromkeys(self._ports))
        lines = ["d=$(mktemp -d); trap 'rm -rf $d' EXIT", "(echo flush ruleset; nft list ruleset) > $d/rules"]
        lines += [f"ip address save dev {port} > $d/a.{port}; ip route save dev {port} > $d/r.{port}" for port in ports]
        for port in ports:  # neighbours that were entered by hand go with the address
            entry = f"echo neigh replace $a lladdr $m dev {port}"
            lines.append(f"ip neigh show dev {port} nud permanent | while read -r a _ m _; do {entry}; done >> $d/neighbours")
        lines.append(f"was=$(cat /proc/sys/{IP_FORWARD}); echo 0 > /proc/sys/{IP_FORWARD}; nft flush ruleset")
        lines += [f"ip address flush dev {port}" for port in ports]
        lines += [f"ip address restore < $d/a.{port}" for port in ports]
        lines += [f"ip route restore < $d/r.{port} 2>/dev/null || true  # those that come with an address are there" for port in ports]
        lines.append("ip -batch $d/neighbours")
        return "\n".join([*lines, f"nft -f $d/rules; echo $was > /proc/sys/{IP_FORWARD}", ""])
