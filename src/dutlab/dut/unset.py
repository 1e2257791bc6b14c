"""What modes have in common that no command sets: of a device that nobody logs into, and of one that a person sets."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.dut.mode import UndoStep
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Testbed


class Unset:
    """The half of a mode that changes nothing; the other half verifies."""

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """There is nothing that a command could bring back. The runner asks the person of a `manual` DUT at the end."""
        del dut, testbed
        return []

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """It is in the mode already: it was found so, or a person set it."""
