"""A device that no command reaches: a switch without a login, a firewall that is set through its web pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dutlab.errors import HostError
from dutlab.hosts.host import Done, Process


@dataclass(frozen=True)
class Unreached:
    """Stands where a host must stand; whatever is asked of it fails with what to do."""

    name: str

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True) -> Done:
        """Raises HostError."""
        del stdin, timeout_s, check
        raise self._refusal(f"run `{argv[0]}`")

    async def spawn(self, argv: Sequence[str]) -> Process:
        """Raises HostError."""
        raise self._refusal(f"run `{argv[0]}`")

    async def put(self, data: bytes, path: str, *, mode: int = 0o600) -> None:
        """Raises HostError."""
        del data, mode
        raise self._refusal(f"write {path}")

    async def get(self, path: str) -> bytes:
        """Raises HostError."""
        raise self._refusal(f"read {path}")

    async def close(self) -> None:
        """There is nothing to end."""

    def _refusal(self, what: str) -> HostError:
        return HostError(f"cannot {what}: nothing reaches it by commands", host=self.name, remedy="give it a family with a login")
