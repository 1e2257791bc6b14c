"""Commands of a trial, as hosts report them. A separate file, so that its users need not import methods and tools."""

from __future__ import annotations

from datetime import UTC, datetime

from dutlab.hosts.host import Done
from dutlab.store.details import CommandRecord


class CommandBook:
    """Commands that hosts reported, for the record of their trial."""

    def __init__(self) -> None:
        self._done: list[Done] = []

    def note(self, done: Done) -> None:
        """Add a finished command; hosts use this method as their CommandLog."""
        self._done.append(done)

    @property
    def killed(self) -> tuple[str, ...]:
        """Programs that were killed since the last take(), as `source: iperf3`."""
        return self.killed_since(0)

    @property
    def mark(self) -> int:
        """Number of commands so far, for killed_since(); valid until the next take()."""
        return len(self._done)

    def killed_since(self, mark: int) -> tuple[str, ...]:
        """Return the commands that SIGKILL ended after `mark`."""
        return tuple(dict.fromkeys(f"{d.host}: {d.argv[0]}" for d in self._done[mark:] if d.was_killed))

    def take(self) -> list[CommandRecord]:
        """Return the commands since the last call."""
        done, self._done = self._done, []
        return [
            CommandRecord(
                host=d.host,
                argv=list(d.argv),
                status=d.status,
                started=datetime.fromtimestamp(d.started_s, UTC),
                seconds=round(d.seconds, 6),
            )
            for d in done
        ]
