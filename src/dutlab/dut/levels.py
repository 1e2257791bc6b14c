"""Levels of factors on the hosts: set, verified and undone, by commands of the experiment or by a knob."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from dutlab.dut.custom import CommandSet, ends_with_0
from dutlab.dut.knobs import KnobSetting, script_to_read, script_to_set, settings_of
from dutlab.dut.mode import Check, UndoStep
from dutlab.errors import HostError
from dutlab.hosts.host import Host
from dutlab.hosts.reboot import NotBack, insist_on_rebootable, reboot
from dutlab.spec.factors import MTU, TUNNELS
from dutlab.spec.testbed import Testbed

Hosts = Mapping[str, Host]
Revived = Callable[[Host, str], Awaitable[bool]]
"""Function that tries to bring back a host that did not return from its reboot. It takes the assumed reason and returns whether it
succeeded."""


async def nobody_revives(_host: Host, _why: str) -> bool:
    """Return False: no host can be switched on."""
    return False


_HEAD = 300
"""Characters of an error message that are kept: the first value that cannot be set shows the reason, and the others mostly repeat it."""


class Level(Protocol):
    """Level of a factor. Its errors name the host, and the command or value that failed."""

    async def undo(self, hosts: Hosts) -> Sequence[UndoStep]:
        """Return the steps that undo apply(), read from the hosts as they are now. Changes nothing. Raises HostError."""

    async def apply(self, hosts: Hosts, revived: Revived = nobody_revives) -> None:
        """Set the level, from any other. Raises HostError."""

    async def verify(self, hosts: Hosts) -> Sequence[Check]:
        """Check that the level is set. Raises HostError."""


class CommandsOnHost(CommandSet, Protocol):
    """Commands of a level in the experiment file for one host (None is the DUT)."""

    @property
    def host(self) -> str | None: ...
    @property
    def reboot(self) -> bool: ...
    @property
    def back_within(self) -> float: ...


@dataclass(frozen=True)
class CommandLevel:
    """Level set by commands of the experiment, each on its host."""

    title: str
    commands: Sequence[CommandsOnHost]
    dut: str

    @property
    def reboots(self) -> bool:
        """True if a host must boot to take the level."""
        return any(of.reboot for of in self.commands)

    async def undo(self, hosts: Hosts) -> Sequence[UndoStep]:
        """Return the `restore` commands, hosts in reverse order, with a reboot after them where one followed `apply`."""
        steps = []
        for of in reversed(self.commands):
            name, why = of.host or self.dut, f"restore of {self.title}"
            steps += [UndoStep(name, hosts[name].system.shell.text(command), why=why) for command in of.restore]
            if of.reboot:
                steps.append(UndoStep(name, ("reboot",), why=why, back_within_s=of.back_within))
        return steps

    async def apply(self, hosts: Hosts, revived: Revived = nobody_revives) -> None:
        """Run the commands in order, up to the first that fails. Raises NotBack if a host stays away after its reboot."""
        for of in self.commands:
            if not (of.apply or of.reboot):
                continue  # nothing to set; there may be no DUT
            host = hosts[of.host or self.dut]
            for command in of.apply:
                await host.run(host.system.shell.text(command))
            if of.reboot:
                try:
                    await reboot(host, of.back_within)
                except NotBack as error:
                    if not await revived(host, error.what):
                        raise

    async def verify(self, hosts: Hosts) -> Sequence[Check]:
        """Check that each `verify` command ends with 0."""
        return [
            await ends_with_0(hosts[name], command, f"{self.title} on {name}: ")
            for of in self.commands
            for name in (of.host or self.dut,)
            for command in of.verify
        ]

    async def faults(self, hosts: Hosts) -> Sequence[str]:
        """Return faults of hosts that must be rebooted and cannot be; called before any change."""
        faults = []
        for name in dict.fromkeys(of.host or self.dut for of in self.commands if of.reboot):
            try:
                await insist_on_rebootable(hosts[name])
            except HostError as error:
                faults.append(f"{error.what}; {error.remedy}" if error.remedy else error.what)
        return faults


@dataclass(frozen=True)
class KnobLevel:
    """Level that dutlab sets itself: it reads the old value first, and reads the new one back."""

    title: str
    settings: Mapping[str, Sequence[KnobSetting]]
    """Host → settings."""
    reboots: ClassVar[bool] = False

    async def undo(self, hosts: Hosts) -> Sequence[UndoStep]:
        """Return the steps that set the present values again. Raises HostError if a value cannot be read."""
        steps = []
        for name, settings in self.settings.items():
            read = await _values(hosts[name], settings)
            if unread := [f"{s.what}: {value}" for s, (ok, value) in zip(settings, read, strict=True) if not ok and s.wanted is not None]:
                raise HostError(f"{self.title} cannot be restored, since its value cannot be read: {'; '.join(unread)}", host=name)
            there = [(s, value) for s, (ok, value) in zip(settings, read, strict=True) if ok]
            steps.append(UndoStep(name, ("sh", "-c", script_to_set(there)), why=f"values before {self.title}"))
        return steps

    async def apply(self, hosts: Hosts, revived: Revived = nobody_revives) -> None:
        """Set every value, even after one fails. Raises HostError."""
        del revived
        for name, settings in self.settings.items():
            wanted = [(s, s.wanted) for s in settings if s.wanted is not None]
            done = await hosts[name].run(["sh", "-c", script_to_set(wanted)], check=False)
            if done.status:
                remedy = next((s.remedy for s, _ in wanted if s.remedy and s.what in done.errors), "")
                message = " ".join(done.errors.split())[:_HEAD]
                raise HostError(f"{self.title} cannot be set: {message}", host=name, remedy=remedy)

    async def verify(self, hosts: Hosts) -> Sequence[Check]:
        """Check each host; the result names every value that differs."""
        checks = []
        for name, settings in self.settings.items():
            asked = [s for s in settings if s.wanted is not None]
            read = await _values(hosts[name], asked)
            wrong = [f"{s.what} is {value or 'nothing'}" for s, (ok, value) in zip(asked, read, strict=True) if not (ok and s.holds(value))]
            text = ", ".join(wrong) or f"read back: {', '.join(s.what for s in asked)}"
            checks.append(Check(f"{self.title} on {name}", not wrong, text))
        return checks

    async def faults(self, hosts: Hosts) -> Sequence[str]:
        """Return the values that a kernel or driver refuses, with host, message and remedy; called before any change."""
        return [
            fault for name, settings in self.settings.items() for fault in _unable(name, settings, await _values(hosts[name], settings))
        ]


def level_of(title: tuple[str, str], commands: Sequence[CommandsOnHost] | None, testbed: Testbed, hosts: Hosts) -> CommandLevel | KnobLevel:
    """Return the level of a factor, both named in `title`; a knob's level if `commands` is None.

    The MTU is set at both ends of each cable, so on every host of the links. The mode makes tunnels. Any other knob is set on the DUT.
    """
    name, level = title
    words, dut = f"{name} {level}", testbed.dut or ""
    if commands is not None:
        return CommandLevel(words, commands, dut)
    of_links = dict.fromkeys(port.host for link in testbed.links.values() for port in link.ports)
    on = {MTU: tuple(of_links), TUNNELS: ()}.get(name, (dut,))
    return KnobLevel(words, {host: settings_of(name, level, testbed.ports_of(host)) for host in on if host in hosts})


def _unable(host: str, settings: Sequence[KnobSetting], read: Sequence[tuple[bool, str]]) -> Iterator[str]:
    """Yield the values that cannot be read or changed; values with the same reason share a line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for setting, (ok, value) in zip(settings, read, strict=True):
        if setting.wanted is not None and not (ok and (setting.holds(value) or "[fixed]" not in value)):
            alike.setdefault((value or "it reports no value", setting.remedy), []).append(setting.what)
    for (value, remedy), which in alike.items():
        yield f"{host}: {', '.join(which)}: {value}" + (f"; {remedy}" if remedy else "")


async def _values(host: Host, settings: Sequence[KnobSetting]) -> list[tuple[bool, str]]:
    """Return for each setting whether it could be read, and the output. Raises HostError."""
    done = await host.run(["sh", "-c", script_to_read(settings)])
    lines = [line.partition(" ") for line in done.text.splitlines()]
    if len(lines) != len(settings):
        raise HostError(f"of {len(settings)} values it printed {len(lines)}: {done.reason}", host=host.name)
    return [(status == "0", value) for status, _, value in lines]
