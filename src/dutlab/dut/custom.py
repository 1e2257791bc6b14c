"""Modes that the experiment file writes out as shell commands for the DUT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from dutlab.dut.frames import everything_came, passed
from dutlab.dut.mode import Check, Prober, UndoStep
from dutlab.hosts.host import Host
from dutlab.spec.testbed import Testbed


class Commands(Protocol):
    """What the experiment file says of a mode: shell commands, each for `sh -c` on the DUT."""

    @property
    def apply(self) -> Sequence[str]: ...
    @property
    def verify(self) -> Sequence[str]: ...
    @property
    def restore(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class CommandMode:
    """A mode made of commands. Its restore is what the file says; dutlab cannot know what the commands change."""

    name: str
    commands: Commands

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """The file's `restore` commands in their order."""
        del testbed
        return [UndoStep(dut.name, ("sh", "-c", command), why=f"restore of mode {self.name}") for command in self.commands.restore]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """In order, up to the first that fails. Raises CommandFailed."""
        del testbed
        for command in self.commands.apply:
            await dut.run(["sh", "-c", command])

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Each `verify` command must end with 0, and a flow from source to sink must pass on every link, or there is nothing to measure."""
        checks = []
        for command in self.commands.verify:
            done = await dut.run(["sh", "-c", command], check=False)
            said = (done.text + done.errors).strip()
            checks.append(Check(f"`{command}` ends with 0", done.status == 0, f"status {done.status}{': ' + said[-200:] if said else ''}"))
        for name in testbed.links:
            seen = await passed(prober, name)
            checks.append(
                Check(f"link {name}: a flow passes", everything_came(seen), f"{seen.received} of {seen.sent} probe frames arrived")
            )
        return checks


def custom_mode(name: str, commands: Commands) -> CommandMode:
    """The mode `name` of an experiment file."""
    return CommandMode(name, commands)
