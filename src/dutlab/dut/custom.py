"""Modes that the experiment file writes out as shell commands for the DUT."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from dutlab.dut.frames import arrived, passed
from dutlab.dut.ipsec import clear_dropped
from dutlab.dut.mode import Check, Prober, UndoStep
from dutlab.dut.tunnelled import pinged
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.reason import reason_in
from dutlab.spec.testbed import Testbed

Frames = Literal["pass", "dropped"]
"""What becomes of frames that no kernel wraps or encrypts."""


class CommandSet(Protocol):
    """What the experiment file says of a mode: commands in the language of the DUT's users: shell commands, of a Windows PowerShell."""

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
    commands: CommandSet
    frames: Frames = "pass"
    source: Host | None = None

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """The file's `restore` commands in their order."""
        del testbed
        text = dut.system.shell.text
        return [UndoStep(dut.name, text(command), why=f"restore of mode {self.name}") for command in self.commands.restore]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """In order, up to the first that fails. Raises CommandFailed."""
        del testbed
        for command in self.commands.apply:
            await dut.run(dut.system.shell.text(command))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Each `verify` command must end with 0, and a flow from source to sink must pass on every link, or there is nothing to measure.

        Of a policy that requires protection, frames must be dropped, and what the source's own kernel sends must pass.
        """
        if self.frames == "dropped":
            if self.source is None:
                raise HostError(f"mode {self.name} is verified by what the source sends, and it is not reached", host="source")
            own = [await pinged(self.source, name, str(link.sink_address.ip)) for name, link in testbed.links.items()]
            said = [await ends_with_0(dut, command) for command in self.commands.verify]  # they may look at what was counted
            return [*own, *said, *await clear_dropped(testbed, prober)]
        checks = [await ends_with_0(dut, command) for command in self.commands.verify]
        seen = zip(testbed.links, await passed(prober, testbed.links), strict=True)
        return [*checks, *(arrived(f"link {name}: a flow passes", of) for name, of in seen)]


async def ends_with_0(host: Host, command: str, where: str = "") -> Check:
    """Whether a `verify` command of the file ends so, and what it said. Raises HostError."""
    done = await host.run(host.system.shell.text(command), check=False)
    said = reason_in(done.errors + "\n" + done.text)
    return Check(f"{where}`{command}` ends with 0", done.status == 0, f"status {done.status}{f': {said}' if said else ''}")
