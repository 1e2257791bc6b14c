"""Modes that the experiment file writes out as shell commands for the DUT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from dutlab.dut.device_programs import DevicePrograms, ProgramCommands
from dutlab.dut.frames import arrived, passed
from dutlab.dut.ipsec import clear_dropped
from dutlab.dut.mode import Check, Prober, UndoStep
from dutlab.dut.tunnelled import pinged
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.reason import reason_in
from dutlab.spec.testbed import Testbed

Frames = Literal["pass", "dropped"]
"""Fate of frames that no kernel wraps or encrypts."""


class CommandSet(Protocol):
    """Commands of a mode in the experiment file, in the language of the DUT's users: shell commands, of a Windows PowerShell."""

    @property
    def apply(self) -> Sequence[str]: ...
    @property
    def verify(self) -> Sequence[str]: ...
    @property
    def restore(self) -> Sequence[str]: ...


class ProgramCommandSet(CommandSet, ProgramCommands, Protocol):
    """Commands of a mode whose device is programs."""


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
        return [UndoStep(dut.name, self._argv(dut, command), why=f"restore of mode {self.name}") for command in self.commands.restore]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """In order, up to the first that fails. Raises CommandFailed."""
        del testbed
        for command in self.commands.apply:
            await dut.run(self._argv(dut, command))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Each `verify` command must end with 0, and a flow from source to sink must pass on every link, or there is nothing to measure.

        Of a policy that requires protection, frames must be dropped, and what the source's own kernel sends must pass.
        """
        if self.frames == "dropped":
            if self.source is None:
                raise HostError(f"mode {self.name} is verified by what the source sends, and it is not reached", host="source")
            own = [await pinged(self.source, name, str(link.sink_address.ip)) for name, link in testbed.links.items()]
            command_checks = await self._said(dut)  # they may look at what was counted
            return [*own, *command_checks, *await clear_dropped(testbed, prober)]
        checks = await self._said(dut)
        probes = zip(testbed.links, await passed(prober, testbed.links), strict=True)
        return [*checks, *(arrived(f"link {name}: a flow passes", of) for name, of in probes)]

    async def _said(self, dut: Host) -> list[Check]:
        return [await ends_with_0(dut, command, argv=self._argv(dut, command)) for command in self.commands.verify]

    def _argv(self, dut: Host, command: str) -> tuple[str, ...]:
        return dut.system.shell.text(command)


@dataclass(frozen=True)
class ProgramMode(CommandMode):
    """A mode of commands whose device is programs that they start. All of its commands run in the folder of the programs."""

    commands: ProgramCommandSet
    programs: DevicePrograms = field(kw_only=True)

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the programs that run."""
        return self.programs.names

    async def program_ended(self) -> str:
        """How the first of them ended."""
        return await self.programs.ended()

    async def device_counters(self, dut: Host) -> Mapping[str, float]:
        """Nothing: no words for them are known."""
        del dut
        return {}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """The file's `restore` commands in their order, then the end of the programs."""
        return [*await super().undo(dut, testbed), self.programs.undo(dut, self.commands.stop)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """The programs first. Raises CommandFailed, HostError."""
        await self.programs.start(dut, self.commands)
        await super().apply(dut, testbed)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Frames count only while the programs run."""
        return [*await super().verify(dut, testbed, prober), *self.programs.checks()]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Whether every program runs."""
        del dut, testbed
        return self.programs.checks()

    def _argv(self, dut: Host, command: str) -> tuple[str, ...]:
        return tuple(self.programs.argv(dut, command))


async def ends_with_0(host: Host, command: str, where: str = "", argv: Sequence[str] = ()) -> Check:
    """Return whether a `verify` command of the file ends so, and its output; `argv` runs it where it is not the shell alone.

    Raises HostError.
    """
    done = await host.run(argv or host.system.shell.text(command), check=False)
    reason = reason_in(done.errors + "\n" + done.text)
    return Check(f"{where}`{command}` ends with 0", done.status == 0, f"status {done.status}{f': {reason}' if reason else ''}")
