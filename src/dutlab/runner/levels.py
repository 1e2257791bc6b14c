"""Levels of factors that a run sets. Each is in the journal before it is set, remains while the plan needs it, and is restored.

They form a stack in the order of the plan's factors: the last one set is restored first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile

from dutlab.dut.distance import DistanceLevel, distance_level
from dutlab.dut.levels import CommandLevel, KnobLevel, level_of
from dutlab.dut.mode import Check, ForwardsInPrograms, Mode, Prober, StartsPrograms, TellsState, TunnelsByNumber, UndoStep
from dutlab.dut.mode_changes import ModeChange, changes_of
from dutlab.ending import run_to_end
from dutlab.errors import DutlabError, InputError, TestbedError
from dutlab.hosts.host import Host
from dutlab.hosts.reboot import NotBack
from dutlab.plan.cell import Cell
from dutlab.plan.plan import Plan
from dutlab.runner.host_power import revived_once
from dutlab.runner.journal import Journal, undo_to_json
from dutlab.runner.undo import carry_out
from dutlab.spec.experiment import Experiment
from dutlab.spec.factors import changes_mode
from dutlab.spec.testbed import Testbed

_Named = tuple[str, str]
_DISTANCE = ("distance", "of links")
"""Key of the simulated distance of links, which is set before all levels of factors."""
_AnyLevel = CommandLevel | KnobLevel | DistanceLevel


@dataclass(frozen=True)
class StandingLevel:
    """A level that was set, and its undo."""

    application: str
    level: _AnyLevel
    undo: Sequence[UndoStep]


@dataclass
class SetLevels:
    """Levels that one run has set on one stage."""

    experiment: Experiment
    testbed: Testbed
    hosts: Mapping[str, Host]
    journal: Journal
    cores: Sequence[int] = ()
    """Cores of the DUT's programs; empty: the kernel chooses."""
    standing: dict[_Named, StandingLevel] = field(default_factory=dict)
    """(Factor, level) → level that is set, the oldest first."""
    not_back: NotBack | None = None

    async def insist_on_knobs(self, plan: Plan, modes: Mapping[str, Mode], dut: Host) -> None:
        """Raise TestbedError with everything that levels of the plan need and a host or mode lacks, such as a knob or a queue."""
        faults = list[str]()
        for named in dict.fromkeys(named for trial in plan.trials for named in self._wanted(trial.cell)):
            level = self._level(named)
            faults += await level.faults(self.hosts)
        asked = dict.fromkeys((change, trial.cell.mode) for trial in plan.trials for change in self._changes(trial.cell))
        for change in dict.fromkeys(change for change, _ in asked):
            faults += await change.faults(dut, self.testbed.through_dut())
        for change, name in asked:
            try:
                change.of(modes[name])
            except InputError as error:
                faults.append(str(error))
        if faults:
            raise TestbedError("\n".join(dict.fromkeys(faults)))

    async def around(self, mode: Mode, cell: Cell) -> Mode:
        """Set the levels of `cell`, and return `mode` in them. If setting fails, apply() of the returned mode raises the error.

        Raises TestbedError if a level cannot be restored, NotBack if a host does not come up after its reboot.
        """
        wanted = self._wanted(cell)
        if isinstance(mode, TunnelsByNumber):
            mode = mode.with_tunnels(cell.tunnels)
        keep = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.standing, wanted, strict=False)))
        named = [(name, cell.factors[name]) for name in self._factors()]
        await self._leave(keep)
        try:
            for factor, level in wanted[keep:]:
                await self._set(factor, level)
            for change in self._changes(cell):
                mode = change.of(mode)
        except NotBack:  # nothing can be measured or restored there: the journal keeps the undo
            raise
        except DutlabError as error:
            return InLevels(mode, named, self, error)
        return InLevels(mode, named, self) if named or wanted else mode

    async def leave(self) -> None:
        """Restore all levels, the newest first. Raises TestbedError, or NotBack if a host did not come up after its reboot."""
        try:
            await self._leave(0)
        except TestbedError as error:
            raise self.not_back or error from error

    async def apply_again(self) -> None:
        """Set again the levels that a restart removes, the oldest first. Raises HostError."""
        for standing in self.standing.values():
            if not standing.level.reboots:
                await standing.level.apply(self.hosts)

    async def verify(self) -> Sequence[Check]:
        """Check all levels on their hosts. Raises HostError."""
        return [check for standing in self.standing.values() for check in await standing.level.verify(self.hosts)]

    def _factors(self) -> list[str]:
        """Return the factors that dutlab sets, in the order of setting."""
        return sorted(self.experiment.set_factors, key=lambda name: name not in self.experiment.seldom_factors)

    def _of_mode(self, name: str) -> bool:
        return changes_mode(name) and name not in self.experiment.levels

    def _wanted(self, cell: Cell) -> list[_Named]:
        """Return the levels to set on hosts, independent of the mode."""
        below = [_DISTANCE] if any(link.is_distant for link in self.testbed.links.values()) else []
        return [*below, *((name, cell.factors[name]) for name in self._factors() if not self._of_mode(name))]

    def _changes(self, cell: Cell) -> list[ModeChange]:
        """Return the changes that levels make to the mode."""
        return changes_of({name: cell.factors[name] for name in self._factors() if self._of_mode(name)}, self.hosts, self.cores)

    def _level(self, named: _Named) -> _AnyLevel:
        if named == _DISTANCE and (distance := distance_level(self.testbed)) is not None:
            return distance
        factor, level = named
        own = self.experiment.levels.get(factor)
        return level_of(named, None if own is None else own[level], self.testbed, self.hosts)

    async def _set(self, factor: str, level: str) -> None:
        """Set one more level; put it back at once if that fails."""
        setting = self._level((factor, level))
        undo, application = await setting.undo(self.hosts), f"{factor}={level}"
        self.journal.write("level-applying", application=application, undo=undo_to_json(undo))
        self.standing[factor, level] = StandingLevel(application, setting, undo)
        try:
            await setting.apply(self.hosts, partial(revived_once, testbed=self.testbed, journal=self.journal.write))
            if setting.reboots:
                await self.apply_again()
        except NotBack as error:
            self.not_back = error
            raise
        except DutlabError:
            await run_to_end(self._leave(len(self.standing) - 1))
            raise

    async def _leave(self, keep: int) -> None:
        rebooted = False
        for named, standing in reversed(list(self.standing.items())[keep:]):
            await carry_out(standing.undo, self.hosts)
            self.journal.write("level-restored", application=standing.application)
            del self.standing[named]
            rebooted |= standing.level.reboots
        if rebooted:
            await self.apply_again()


def started_by(mode: Mode | None) -> StartsPrograms | None:
    """Return the mode without its levels if it starts programs."""
    bare = mode.mode if isinstance(mode, InLevels) else mode
    return bare if isinstance(bare, StartsPrograms) else None


def program_names(mode: Mode | None) -> Sequence[str]:
    """Names of the DUT's processes that forward in this mode."""
    bare = mode.mode if isinstance(mode, InLevels) else mode
    return bare.program_names if isinstance(bare, ForwardsInPrograms) else ()


@dataclass
class InLevels:
    """Mode in levels of factors. Applying it also sets the levels, and it holds only while they hold."""

    mode: Mode
    levels: Sequence[_Named]
    set_levels: SetLevels
    why_not: DutlabError | None = None
    is_fresh: bool = True
    """True if the levels have just been set."""

    @property
    def name(self) -> str:
        """Name of mode and levels, as in `nat, mtu 9000`."""
        return ", ".join([self.mode.name, *(" ".join(named) for named in self.levels)])

    async def undo(self, dut: Host, testbed: Testbed) -> Sequence[UndoStep]:
        """Return the undo of the mode, without its levels."""
        return [] if self.why_not else await self.mode.undo(dut, testbed)

    async def apply(self, dut: Host, testbed: Testbed) -> None:
        """Apply levels and mode. Raises CommandFailed."""
        if self.why_not:
            raise self.why_not
        if not self.is_fresh:
            await self.set_levels.apply_again()
        self.is_fresh = False
        await self.mode.apply(dut, testbed)

    async def verify(self, dut: Host, testbed: Testbed, prober: Prober) -> Sequence[Check]:
        """Check the levels on their hosts, then the mode by frames, if the levels hold."""
        checks = await self.set_levels.verify()
        if not all(check.passed for check in checks):
            return checks
        return [*checks, *await self.mode.verify(dut, testbed, prober)]

    async def checks_of_state(self, dut: Host, testbed: Testbed) -> Sequence[Check]:
        """Check levels and mode without frames. Raises CommandFailed, HostError."""
        of_mode = await self.mode.checks_of_state(dut, testbed) if isinstance(self.mode, TellsState) else ()
        return [*await self.set_levels.verify(), *of_mode]
