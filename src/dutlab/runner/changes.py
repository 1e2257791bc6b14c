"""What a trial changes on the DUT: in the journal before it is done, undone at the end of the trial whatever became of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab.dut.mode import UndoStep
from dutlab.hosts.host import Host
from dutlab.runner.journal import Journal, undo_to_json
from dutlab.runner.undo import carry_out


class Changes:
    """Of one run, change after change. A change of a name that stands already is not taken down again: the first knows the way back."""

    def __init__(self, hosts: Mapping[str, Host], journal: Journal) -> None:
        self._hosts, self._journal = hosts, journal
        self._standing: dict[str, Sequence[UndoStep]] = {}

    def announce(self, change: str, steps: Sequence[UndoStep]) -> None:
        """To be called before the change. Raises StoreError."""
        if change not in self._standing:
            self._journal.write("dut-changing", application=change, undo=undo_to_json(steps))
            self._standing[change] = steps

    async def put_back(self) -> bool:
        """Undoes every change that stands, the newest first; returns whether there was one. Raises TestbedError."""
        changed = bool(self._standing)
        while self._standing:
            change, steps = next(reversed(self._standing.items()))
            await carry_out(steps, self._hosts)
            self._journal.write("dut-restored", application=change)
            del self._standing[change]
        return changed
