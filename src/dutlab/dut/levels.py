"""Levels of factors on the hosts: set, verified and put back, by the user's own commands or by a knob."""

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
"""Function that tries to bring back a host that did not return from its reboot; it takes the assumed reason."""


async def nobody_revives(_host: Host, _why: str) -> bool:
    """Do not switch any host."""
    return False


_HEAD = 300
"""Characters of what was said that go into a message: the first value that cannot be set gives the reason; the others mostly repeat it."""


class Level(Protocol):
    """A level of a factor. What it raises names the host and the command or what was to be set."""

    async def undo(self, hosts: Hosts) -> Sequence[UndoStep]:
        """Return how to put back what apply() will change, read from the hosts as they are now. Changes nothing. Raises HostError."""

    async def apply(self, hosts: Hosts, revived: Revived = nobody_revives) -> None:
        """Sets it, from any other level. Raises HostError."""

    async def verify(self, hosts: Hosts) -> Sequence[Check]:
        """Return the hosts' answers. Raises HostError."""


class CommandsOnHost(CommandSet, Protocol):
    """Commands of a level in the experiment file for one host; None is the DUT."""

    @property
    def host(self) -> str | None: ...
    @property
    def reboot(self) -> bool: ...
    @property
    def back_within(self) -> float: ...


@dataclass(frozen=True)
class CommandLevel:
    """Commands of the experiment's own, each on its host."""

    title: str
    commands: Sequence[CommandsOnHost]
    dut: str

    @property
    def reboots(self) -> bool:
        """True if a host takes it only when it boots."""
        return any(of.reboot for of in self.commands)

    async def undo(self, hosts: Hosts) -> Sequence[UndoStep]:
        """The file's `restore` commands, of the host named last first; a reboot follows them where one followed `apply`."""
        steps = []
        for of in reversed(self.commands):
            name, why = of.host or self.dut, f"restore of {self.title}"
            steps += [UndoStep(name, hosts[name].system.shell.text(command), why=why) for command in of.restore]
            if of.reboot:
                steps.append(UndoStep(name, ("reboot",), why=why, back_within_s=of.back_within))
        return steps

    async def apply(self, hosts: Hosts, revived: Revived = nobody_revives) -> None:
        """In order, up to the first that fails. Raises NotBack where a host does not come back from its reboot, nor is `revived`."""
        for of in self.commands:
            if not (of.apply or of.reboot):
                continue  # as the hosts were found, also where there is no DUT
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
        """Each `verify` command must end with 0."""
        return [
            await ends_with_0(hosts[name], command, f"{self.title} on {name}: ")
            for of in self.commands
            for name in (of.host or self.dut,)
            for command in of.verify
        ]

    async def faults(self, hosts: Hosts) -> Sequence[str]:
        """Hosts that cannot be rebooted and are to be, before anything is changed."""
        faults = []
        for name in dict.fromkeys(of.host or self.dut for of in self.commands if of.reboot):
            try:
                await insist_on_rebootable(hosts[name])
            except HostError as error:
                faults.append(f"{error.what}; {error.remedy}" if error.remedy else error.what)
        return faults


@dataclass(frozen=True)
class KnobLevel:
    """Level that dutlab sets by itself: it reads the old value first, and the new one once it is set."""

    title: str
    settings: Mapping[str, Sequence[KnobSetting]]
    """Host → settings."""
    reboots: ClassVar[bool] = False

    async def undo(self, hosts: Hosts) -> Sequence[UndoStep]:
        """Return the present values."""
        steps = []
        for name, settings in self.settings.items():
            read = await _values(hosts[name], settings)
            if unread := [f"{s.what}: {value}" for s, (ok, value) in zip(settings, read, strict=True) if not ok and s.wanted is not None]:
                raise HostError(f"{self.title} cannot be put back, since nothing says what is there: {'; '.join(unread)}", host=name)
            there = [(s, value) for s, (ok, value) in zip(settings, read, strict=True) if ok]
            steps.append(UndoStep(name, ("sh", "-c", script_to_set(there)), why=f"what was there before {self.title}"))
        return steps

    async def apply(self, hosts: Hosts, revived: Revived = nobody_revives) -> None:
        """Every value, also after one that cannot be set."""
        del revived
        for name, settings in self.settings.items():
            wanted = [(s, s.wanted) for s in settings if s.wanted is not None]
            done = await hosts[name].run(["sh", "-c", script_to_set(wanted)], check=False)
            if done.status:
                remedy = next((s.remedy for s, _ in wanted if s.remedy and s.what in done.errors), "")
                message = " ".join(done.errors.split())[:_HEAD]
                raise HostError(f"{self.title} cannot be set: {message}", host=name, remedy=remedy)

    async def verify(self, hosts: Hosts) -> Sequence[Check]:
        """One check a host, which names each value that is another."""
        checks = []
        for name, settings in self.settings.items():
            asked = [s for s in settings if s.wanted is not None]
            read = await _values(hosts[name], asked)
            wrong = [f"{s.what} is {value or 'nothing'}" for s, (ok, value) in zip(asked, read, strict=True) if not (ok and s.holds(value))]
            text = ", ".join(wrong) or f"read back: {', '.join(s.what for s in asked)}"
            checks.append(Check(f"{self.title} on {name}", not wrong, text))
        return checks

    async def faults(self, hosts: Hosts) -> Sequence[str]:
        """Return values that no kernel or driver there can be set to, before anything is: with host, its message, and what to do."""
        return [
            fault for name, settings in self.settings.items() for fault in _unable(name, settings, await _values(hosts[name], settings))
        ]


def level_of(title: tuple[str, str], commands: Sequence[CommandsOnHost] | None, testbed: Testbed, hosts: Hosts) -> CommandLevel | KnobLevel:
    """A level of a factor, both by name; without `commands` it is a knob's.

    The MTU is of both ends of each cable, so of every host on the links; tunnels are made by the mode; any other knob is the DUT's.
    """
    name, level = title
    words, dut = f"{name} {level}", testbed.dut or ""
    if commands is not None:
        return CommandLevel(words, commands, dut)
    of_links = dict.fromkeys(port.host for link in testbed.links.values() for port in link.ports)
    on = {MTU: tuple(of_links), TUNNELS: ()}.get(name, (dut,))
    return KnobLevel(words, {host: settings_of(name, level, testbed.ports_of(host)) for host in on if host in hosts})


def _unable(host: str, settings: Sequence[KnobSetting], read: Sequence[tuple[bool, str]]) -> Iterator[str]:
    """Those that could not be read, or not be changed; of which the same is said, in one line."""
    alike: dict[tuple[str, str], list[str]] = {}
    for setting, (ok, value) in zip(settings, read, strict=True):
        if setting.wanted is not None and not (ok and (setting.holds(value) or "[fixed]" not in value)):
            alike.setdefault((value or "nothing says what it is", setting.remedy), []).append(setting.what)
    for (value, remedy), which in alike.items():
        yield f"{host}: {', '.join(which)}: {value}" + (f"; {remedy}" if remedy else "")


async def _values(host: Host, settings: Sequence[KnobSetting]) -> list[tuple[bool, str]]:
    """Return for each whether it could be read, and the output. Raises HostError."""
    done = await host.run(["sh", "-c", script_to_read(settings)])
    lines = [line.partition(" ") for line in done.text.splitlines()]
    if len(lines) != len(settings):
        raise HostError(f"of {len(settings)} values it printed {len(lines)}: {done.reason}", host=host.name)
    return [(status == "0", value) for status, _, value in lines]
