"""A DUT without a login."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from dutlab.errors import HostError
from dutlab.hosts.host import Done, Process
from dutlab.systems.closed import BLACK_BOX


class BlackBox:
    """Host that refuses every command. It implements dutlab.hosts.host.Host for code that expects a DUT."""

    system = BLACK_BOX

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True, most_bytes: int = 0
    ) -> Done:
        """Refuse the command: raises HostError."""
        self._refuse(f"`{argv[0]}`")

    async def spawn(self, argv: Sequence[str]) -> Process:
        """Refuse the command: raises HostError."""
        self._refuse(f"`{argv[0]}`")

    async def put(self, data: bytes, path: str, *, mode: int = 0o600) -> None:
        """Refuse the file: raises HostError."""
        self._refuse(path)

    async def get(self, path: str) -> bytes:
        """Refuse the file: raises HostError."""
        self._refuse(path)

    async def close(self) -> None:
        """Do nothing, since a black box has no connection."""

    def _refuse(self, what: str) -> NoReturn:
        raise HostError(f"a black box cannot provide {what}", host=self._name, remedy="give it a family and a login in the testbed file")
