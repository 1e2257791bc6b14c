"""Modes that the experiment file defines as commands for the DUT."""

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
"""Expected result for frames that no kernel wraps or encrypts."""


class CommandSet(Protocol):
    """Commands of a mode in the experiment file: for the shell, or for PowerShell on Windows."""

    @property
    def apply(self) -> Sequence[str]: ...
    @property
    def verify(self) -> Sequence[str]: ...
    @property
    def restore(self) -> Sequence[str]: ...


class ProgramCommandSet(CommandSet, ProgramCommands, Protocol):
    """Commands of a mode whose device consists of programs."""


@dataclass(frozen=True)
class CommandMode:
    """Mode made of commands. Only the file's `restore` undoes it: dutlab cannot know what the commands change."""

    name: str
    commands: CommandSet
    frames: Frames = "pass"
    source: Host | None = None

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the `restore` commands of the file, in their order."""
        del testbed
        return [UndoStep(dut.name, self._argv(dut, command), why=f"restore of mode {self.name}") for command in self.commands.restore]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Run the `apply` commands in order, up to the first that fails. Raises CommandFailed."""
        del testbed
        for command in self.commands.apply:
            await dut.run(self._argv(dut, command))

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check that each `verify` command ends with 0, and that a flow from source to sink passes on every link.

        In a mode that requires protection, probe frames must be dropped, and packets of the source's own kernel must pass.
        """
        if self.frames == "dropped":
            if self.source is None:
                raise HostError(f"mode {self.name} is verified by packets from the source, which cannot be reached", host="source")
            own = [await pinged(self.source, name, str(link.sink_address.ip)) for name, link in testbed.links.items()]
            command_checks = await self._said(dut)  # after the pings: the commands may read counters
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
    """Mode of commands whose device consists of programs that they start. All commands run in the folder of the programs."""

    commands: ProgramCommandSet
    programs: DevicePrograms = field(kw_only=True)

    @property
    def program_names(self) -> Sequence[str]:
        """Names of the running programs."""
        return self.programs.names

    async def program_ended(self) -> str:
        """Wait until a program ends, and return how it ended."""
        return await self.programs.ended()

    async def device_counters(self, dut: Host) -> Mapping[str, float]:
        """Return no counters: the programs are unknown."""
        del dut
        return {}

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the `restore` commands of the file in their order, then the end of the programs."""
        return [*await super().undo(dut, testbed), self.programs.undo(dut, self.commands.stop)]

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Start the programs, then run the `apply` commands. Raises CommandFailed, HostError."""
        await self.programs.start(dut, self.commands)
        await super().apply(dut, testbed)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check as CommandMode does, and that every program still runs."""
        return [*await super().verify(dut, testbed, prober), *self.programs.checks()]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check that every program runs."""
        del dut, testbed
        return self.programs.checks()

    def _argv(self, dut: Host, command: str) -> tuple[str, ...]:
        return tuple(self.programs.argv(dut, command))


async def ends_with_0(host: Host, command: str, where: str = "", argv: Sequence[str] = ()) -> Check:
    """Check that a `verify` command of the file ends with 0, and add its output; `argv` replaces the plain shell.

    Raises HostError.
    """
    done = await host.run(argv or host.system.shell.text(command), check=False)
    reason = reason_in(done.errors + "\n" + done.text)
    return Check(f"{where}`{command}` ends with 0", done.status == 0, f"status {done.status}{f': {reason}' if reason else ''}")
