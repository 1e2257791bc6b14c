"""Implementation of WireGuard on a Linux host: its kernel, or wireguard-go, a process per port that reads and writes frames by a TUN.

wireguard-go and wg(8) use a socket named after the port in /var/run/wireguard, in every network namespace. So each namespace gets a
separate folder, which its commands see at that path, and ports of the same name do not conflict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.dut import tunnel_processes
from dutlab.hosts.programs import WIREGUARD_GO

_SEEN = """mkdir -p -m 700 "$d"
mkdir -p /var/run/wireguard
exec unshare --mount sh -ec 'mount --bind "$d" /var/run/wireguard; exec "$@"' sh "$@"
"""
FAR_NAME = "wireguard-far"
"""Name of the source's processes."""


@dataclass(frozen=True)
class WireGuardBy:
    """Implementation of WireGuard, and the commands for it. `process` is the name of the process; empty for the kernel."""

    process: str = ""

    @property
    def title(self) -> str:
        """Name for the record."""
        return f"the process {WIREGUARD_GO.name}" if self.process else "its kernel"

    @property
    def command(self) -> tuple[str, ...]:
        """Prefix of commands that use the implementation."""
        return ("sh", "-ec", tunnel_processes.folder(WIREGUARD_GO.name) + _SEEN, "sh") if self.process else ()

    @property
    def shell(self) -> tuple[str, ...]:
        """Command that runs a script and stops at the first failed line."""
        return (*self.command, "sh", "-e")

    @property
    def version(self) -> tuple[str, ...]:
        """Command that prints the version."""
        return (WIREGUARD_GO.name, "--version") if self.process else ("uname", "-r")

    def begin(self, ports: Sequence[str]) -> str:
        """Return a script for `shell` that makes these ports."""
        if not self.process:
            return "".join(f"ip link add name {port} type wireguard\n" for port in ports)
        begun = [tunnel_processes.start(port, f'"$d/{self.process}"', f"-f {port}") for port in ports]
        ready = [tunnel_processes.until(port, f'[ -S "$d/{port}.sock" ]') for port in ports]
        return 'rm -f "$d"/*\n' + tunnel_processes.link(WIREGUARD_GO.name, self.process) + "".join([*begun, *ready])


BY_KERNEL, BY_PROCESS, BY_FAR_PROCESS = WireGuardBy(), WireGuardBy(WIREGUARD_GO.name), WireGuardBy(FAR_NAME)
