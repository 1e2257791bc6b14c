"""Actions of methods on the DUT during a trial: a methods.ports.DutControl that writes each undo to the journal before the change."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from dutlab.dut.mode import Mode, Prober, Reset, UndoStep
from dutlab.dut.path_failure import PathFailure, failure_of
from dutlab.ending import run_to_end
from dutlab.errors import InputError
from dutlab.hosts.black_box import BlackBox
from dutlab.hosts.host import Host
from dutlab.methods.dut_ports import DutChange, PowerCut, ResetKind
from dutlab.power import HostPower
from dutlab.runner.host_power import on_again, on_step, until
from dutlab.runner.journal import Journal, undo_to_json
from dutlab.runner.undo import carry_out
from dutlab.spec.links import Port
from dutlab.spec.switch import PowerSpec
from dutlab.spec.testbed import Testbed
from dutlab.spec.workloads.convergence import ConvergenceEvent
from dutlab.units import Seconds

POWER = "power"
"""Name of the switched-off DUT in the journal."""


def _application(event: ConvergenceEvent) -> str:
    return f"event-{event.name}"


@dataclass
class JournaledDevice:
    """The DUT of a run. Changes are undone by the method that made them or by put_back(), and after a crash from the journal."""

    dut: Host
    testbed: Testbed
    modes: Mapping[str, Mode]
    kinds: Mapping[str, Reset]
    prober: Prober
    journal: Journal
    hosts: Mapping[str, Host] = field(default_factory=dict)
    """Other hosts, on which events may change something."""
    restarted: bool = field(default=False, init=False)
    """True if its power was switched since put_back() last finished: it has lost its mode and its counters."""
    cut_ports: set[Port] = field(default_factory=set, init=False)
    """Ports that an event set down since put_back() last finished. Their links lose their carrier on purpose."""
    ports_risen: Callable[[], None] | None = field(default=None, init=False)
    """Called when a port may be up again."""
    mode: Mode | None = field(default=None, init=False)
    """Mode of the current group of trials, with their levels; None before the first group."""
    _failures: dict[str, PathFailure] = field(default_factory=dict)
    """Event → its failure, as prepare() read it."""
    _standing: dict[str, Sequence[UndoStep]] = field(default_factory=dict)
    """Change → its undo steps, in the order of the changes."""

    @property
    def resets(self) -> tuple[ResetKind, ...]:
        """Kinds of reset that the DUT's family has."""
        return tuple(kind for kind in ResetKind if kind.value in self.kinds)

    async def reset(self, kind: ResetKind) -> float:
        """Reset as specified in methods.ports; a reset that fails halfway is undone at once."""
        reset = self.kinds[kind.value]
        back = await reset.undo(self.dut, self.testbed)
        async with self._undo_on_failure(f"reset-{kind.value}", back):
            began = time.monotonic()
            await reset.carry_out(self.dut, self.testbed, back)
            return time.monotonic() - began

    def announce(self, change: str, steps: Sequence[UndoStep]) -> None:
        """Write the undo of a change to the journal, before the change. For a known name the first undo stays valid."""
        if change not in self._standing:
            self.journal.write("dut-changing", application=change, undo=undo_to_json(steps))
            self._standing[change] = steps

    @property
    def standing(self) -> frozenset[str]:
        """Names of the announced changes that are not undone yet."""
        return frozenset(self._standing)

    @property
    def has_power(self) -> bool:
        """True if the testbed allows dutlab to switch the DUT's power."""
        return (spec := self._power) is not None and spec.may_switch

    @property
    def _power(self) -> PowerSpec | None:
        host = None if self.testbed is None else self.testbed.hosts.get(self.dut.name)
        return None if host is None else host.power

    async def off(self) -> None:
        """Switch off as specified in methods.ports, after writing the undo step to the journal."""
        if (spec := self._power) is None:
            raise InputError(f"the testbed does not state what switches {self.dut.name}", remedy=f"write `power:` below {self.dut.name}")
        power = HostPower(self.dut.name, spec)
        self.announce(POWER, [on_step(self.dut.name, spec)])
        self.restarted = True
        await asyncio.to_thread(power.turn, on=False)

    async def on(self) -> None:
        """Switch on as specified in methods.ports. The change counts until put_back(), since the DUT comes back without its mode."""
        if (steps := self._standing.get(POWER)) is not None and (spec := self._power) is not None:
            box = isinstance(self.dut, BlackBox)
            await on_again(steps[0], None if box else self.dut)
            if box:
                await until(self._passes_frames, spec.back_within, self.dut.name)

    async def cut(self, off: Seconds, *, loaded: bool) -> PowerCut:
        """Cut the power as specified in methods.ports, for at least the testbed's `off-for`."""
        told_off = time.monotonic()
        await self.off()
        is_off = time.monotonic()
        await asyncio.sleep(max(off, self._power.off_for if self._power is not None else 0.0))
        told_on = time.monotonic()
        if loaded and isinstance(self.dut, BlackBox):
            await on_again(self._standing[POWER][0], None)
        else:
            await self.on()
        answered = time.monotonic()
        if self.mode is not None:
            await self.mode.apply(self.dut, self.testbed)
        back = time.monotonic()
        return PowerCut(told_on - told_off, is_off - told_off, back - told_on, mode_s=back - answered)

    async def _passes_frames(self) -> bool:
        return bool(self.testbed.links) and await self.passing_links() == self.testbed.links.keys()

    async def passing_links(self) -> frozenset[str]:
        """Return the links that pass frames, as specified in methods.ports."""
        probes = await self.prober.probe([*self.testbed.links])
        return frozenset(name for name, probe in zip(self.testbed.links, probes, strict=True) if probe.received)

    async def change_mode(self, name: str) -> DutChange:
        """Change the mode as specified in methods.ports. The first change into a mode writes its undo to the journal.

        The mode of the trial's own cell needs no entry: its undo was written before the group's trials.
        """
        mode, is_own = self._mode(name), self.mode is not None and self.mode.name == name
        if (change := f"into-{name}") not in self._standing and not is_own:
            self.announce(change, await mode.undo(self.dut, self.testbed))
        at_s, began = time.time(), time.monotonic()
        await mode.apply(self.dut, self.testbed)
        return DutChange(at_s, time.monotonic() - began)

    async def faults_of_mode(self, name: str) -> Sequence[str]:
        """Return the faults as specified in methods.ports."""
        checks = await self._mode(name).verify(self.dut, self.testbed, self.prober)
        return [f"{check.statement}: {check.found}" for check in checks if not check.passed]

    async def prepare(self, event: ConvergenceEvent) -> None:
        """Prepare the event as specified in methods.ports."""
        self._failures[event.name] = await failure_of(event, self._host_of(event))

    async def fail(self, event: ConvergenceEvent) -> DutChange:
        """Cause the failure as specified in methods.ports, after writing the recovery to the journal."""
        host, failure = self._host_of(event), self._failures[event.name]
        self.announce(_application(event), failure.recover)
        if event.port is not None:
            self.cut_ports.add(event.port)
        at_s, began = time.time(), time.monotonic()
        for command in failure.fail:
            await host.run(command)
        return DutChange(at_s, time.monotonic() - began)

    def _host_of(self, event: ConvergenceEvent) -> Host:
        name = event.port.host if event.port is not None else event.host or self.dut.name
        if (host := self._reached.get(name)) is None:
            raise InputError(f"no command reaches {name}, where event {event.name} is to happen")
        return host

    async def recover(self, event: ConvergenceEvent) -> DutChange:
        """Recover from the failure as specified in methods.ports."""
        at_s, began = time.time(), time.monotonic()
        await self.undo_change(_application(event))
        return DutChange(at_s, time.monotonic() - began)

    async def put_back(self) -> bool:
        """Undo every change, the newest first; return whether there was one. Raises TestbedError."""
        changed = bool(self._standing)
        while self._standing:
            await self.undo_change(next(reversed(self._standing)))
        self.restarted = False
        self.cut_ports.clear()
        return changed

    async def undo_change(self, change: str) -> None:
        """Undo one announced change. Raises TestbedError."""
        await carry_out(self._standing[change], self._reached)
        self.journal.write("dut-restored", application=change)
        del self._standing[change]
        if self.cut_ports and self.ports_risen is not None:
            self.ports_risen()

    @property
    def _reached(self) -> Mapping[str, Host]:
        return self.hosts if isinstance(self.dut, BlackBox) else {**self.hosts, self.dut.name: self.dut}

    def _mode(self, name: str) -> Mode:
        try:
            return self.modes[name]
        except KeyError:
            raise InputError(f"the DUT has no mode {name}", remedy=f"its modes: {', '.join(sorted(self.modes))}") from None

    @asynccontextmanager
    async def _undo_on_failure(self, change: str, back: UndoStep) -> AsyncIterator[None]:
        self.journal.write("dut-changing", application=change, undo=undo_to_json([back]))
        try:
            yield
        except BaseException:
            await run_to_end(carry_out([back], {self.dut.name: self.dut}))
            self.journal.write("dut-restored", application=change)
            raise
        self.journal.write("dut-restored", application=change)
