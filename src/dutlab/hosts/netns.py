"""A network namespace of this machine, as a host."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dutlab.errors import HostError
from dutlab.hosts.host import CommandLog, Done
from dutlab.hosts.local import LocalHost

NAMESPACES = Path("/run/netns")
"""Where iproute2 keeps the names (ip-netns(8))."""

# What iproute2 says when it cannot enter: the name is gone, or left behind without its mount.
_CANNOT_ENTER = (b"Cannot open network namespace", b"setting the network namespace")


class NetnsHost(LocalHost):
    """Runs every command with `ip netns exec`, so /sys and /proc/net show the namespace. Files are those of the machine."""

    def __init__(self, name: str, namespace: str, log: CommandLog | None = None) -> None:
        super().__init__(name, log)
        self.namespace = namespace

    def _carry(self, argv: Sequence[str]) -> list[str]:
        return ["ip", "netns", "exec", self.namespace, *argv]

    def _ready(self) -> None:
        if not (NAMESPACES / self.namespace).exists():
            raise self._vanished()

    def _insist(self, done: Done) -> None:
        if done.status != 0 and done.stderr.startswith(_CANNOT_ENTER):
            raise self._vanished()

    def _vanished(self) -> HostError:
        return HostError(
            f"network namespace {self.namespace} is gone",
            host=self.name,
            remedy="build the lab again, then `dutlab resume` the run: finished trials stay",
        )
