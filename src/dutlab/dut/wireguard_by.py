"""What WireGuard is on a Linux host: its kernel, or wireguard-go, a process a port that takes its frames from a TUN.

wireguard-go and wg(8) meet at a socket named after the port in /var/run/wireguard, whatever the network namespace. So each namespace has a
separate folder for these, which its commands see in that place, and ends of the same name do not meet.
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
"""Of the source's processes."""


@dataclass(frozen=True)
class WireGuardBy:
    """How a host is told. A process has the name that `process` is."""

    process: str = ""

    @property
    def title(self) -> str:
        """For the record."""
        return f"the process {WIREGUARD_GO.name}" if self.process else "its kernel"

    @property
    def command(self) -> tuple[str, ...]:
        """What a command that speaks with it has in front."""
        return ("sh", "-ec", tunnel_processes.folder(WIREGUARD_GO.name) + _SEEN, "sh") if self.process else ()

    @property
    def shell(self) -> tuple[str, ...]:
        """Takes a script that ends with its first command that fails."""
        return (*self.command, "sh", "-e")

    @property
    def version(self) -> tuple[str, ...]:
        """Prints it."""
        return (WIREGUARD_GO.name, "--version") if self.process else ("uname", "-r")

    def begin(self, ports: Sequence[str]) -> str:
        """A script for `shell` that makes these ports."""
        if not self.process:
            return "".join(f"ip link add name {port} type wireguard\n" for port in ports)
        begun = [tunnel_processes.start(port, f'"$d/{self.process}"', f"-f {port}") for port in ports]
        ready = [tunnel_processes.until(port, f'[ -S "$d/{port}.sock" ]') for port in ports]
        return 'rm -f "$d"/*\n' + tunnel_processes.link(WIREGUARD_GO.name, self.process) + "".join([*begun, *ready])


BY_KERNEL, BY_PROCESS, BY_FAR_PROCESS = WireGuardBy(), WireGuardBy(WIREGUARD_GO.name), WireGuardBy(FAR_NAME)
