"""From an experiment to its trials: factors × workloads × repeats, in an order.

The order `shuffled` has two aims. Drift during a run (heat, a neighbour's load) must not look like an effect of a mode. A person should
walk to the machine no more often than needed. So, from the outside in:

1. factors that a person sets, and those of `expensive_to_change`: each combination of their levels is one section of the plan, and only
   one factor changes from one section to the next;
2. repeats: each is a block that has every level, every mode and every setting once, so drift affects all of them equally;
3. levels that commands set with modes, shuffled again in each block; a mode is applied once per block and level, and the trials of that
   application are a group;
4. workload settings, shuffled again in each group.

`as-written` has the same nesting and shuffles nothing; only one factor changes from one level to the next, the last most often. The shuffle
is Python's `random.Random(seed)`: same seed, same order.
"""

from __future__ import annotations

import random
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dutlab.physics.ceilings import Ip, frames, tcp_goodput
from dutlab.plan.cell import Cell
from dutlab.plan.plan import Plan, Trial
from dutlab.spec.experiment import LARGEST_SEED, Experiment, LabRef
from dutlab.spec.factors import MODE, is_excluded, with_least_mtu
from dutlab.spec.generators import ENGINE
from dutlab.spec.known import LABS, MANUAL, mode_of
from dutlab.spec.links import Link
from dutlab.spec.mixes import Mix
from dutlab.spec.shape import bounds_of
from dutlab.spec.testbed import Testbed
from dutlab.spec.workloads import WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.setting import FrameSetting
from dutlab.subject import joined
from dutlab.systems.modes import DeclaredMode
from dutlab.units import BpsL1, Seconds

LAB_S = Seconds(4.0)
"""Seconds per run: build the lab, check tools, collect facts, take the lab down."""
MODE_S = Seconds(2.0)
"""Seconds per application of a mode: read the state, apply, verify with real frames, restore."""
TOOL_S = {"iperf3": Seconds(0.8), "engine": Seconds(0.5)}
"""Seconds per trial: start and end the tool, read counters before and after, write the record."""
OTHER_TOOL_S = Seconds(1.0)
GUEST_S = Seconds(12.0)
"""Seconds per guest with its own kernel, and per reboot of it, in addition to LAB_S: it boots, and answers more slowly."""
GUEST_MODE_S = Seconds(2.0)
"""Seconds in addition to MODE_S if the DUT is a guest."""
REBOOT_S = Seconds(120.0)
"""Seconds per reboot of a machine."""
HAND_S = Seconds(300.0)
"""Seconds per change by a person: a setup screen, a cable."""


def tool_overhead(tool: str) -> Seconds:
    """Return the time that a trial of `tool` takes in addition to its own duration."""
    return TOOL_S.get(tool, OTHER_TOOL_S)


def _seconds(drive: WorkloadDrive, tool: str) -> Seconds:
    """Return the time of a trial, with that of each start of its generator."""
    model = drive.setting.made_by
    begins = 0.0 if model is None else model.begins_s * (drive.steps or drive.offers if model.stepped else drive.offers)
    return Seconds(drive.seconds + begins + tool_overhead(tool))


_T = TypeVar("_T")


class Turns(BaseModel):
    """Order of several runs that take turns; resolved.json of each has it."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    runs: Annotated[tuple[str, ...], Field(min_length=2)]
    """The names that their folders were given."""
    place: Annotated[int, Field(ge=0)]
    """Place of this run among them, from 0."""
    seed: int

    def order(self, round_: int) -> list[int]:
        """Return the order of the runs in a round, by place. Each round is drawn separately, so runs can be resumed after any of them."""
        places = list(range(len(self.runs)))
        random.Random(f"{self.seed}/{round_}").shuffle(places)  # noqa: S311 an order, not a secret
        return places

    def is_interleaved_with(self, other: Turns) -> bool:
        """Return True if both are different runs of the same set."""
        return (self.runs, self.seed) == (other.runs, other.seed) and self.place != other.place

    @classmethod
    def of(cls, resolved: Mapping[str, Any]) -> Self | None:
        """Read the turns of a run from its resolved.json; None for a run without turns."""
        try:
            return cls.model_validate(resolved[TURNS])
        except (KeyError, ValidationError):
            return None


TURNS = "turns"
"""Key in resolved.json."""


def make_plan(experiment: Experiment, testbed: Testbed, *, seed: int | None = None) -> Plan:
    """Return the trials of `experiment` on `testbed`. `seed` replaces that of the experiment; without either one is drawn.

    The loader has checked that the experiment fits the testbed. Nothing on hosts is changed.
    """
    seed = next((s for s in (seed, experiment.seed) if s is not None), None)
    seed = secrets.randbelow(LARGEST_SEED) if seed is None else seed
    shuffle = _Shuffler(random.Random(seed) if experiment.order == "shuffled" else None)  # noqa: S311 an order, not a secret
    drives = [d for w in experiment.workloads for d in _drives(w, experiment, testbed)]
    trials: list[Trial] = []
    for group, (levels, repeat) in enumerate(_groups(experiment, shuffle), start=1):
        for drive, tool in shuffle([d for d in drives if not _is_shut(levels[MODE], d[0], testbed)]):
            cell = Cell(
                mode=levels[MODE],
                factors=levels,
                tool=tool,
                links=drive.links,
                setting=drive.setting,
                repeat=repeat,
            )
            trials.append(
                Trial(
                    number=len(trials) + 1,
                    cell=cell,
                    group=group,
                    estimate_s=round(_seconds(drive, tool) + (2 * drive.setting.at_limit_s if experiment.profile else 0), 3),
                    ceilings=_ceilings(drive, testbed, cell),
                )
            )
    by_person = (*((MODE,) if testbed.dut_family == MANUAL else ()), *experiment.hand_factors)
    return Plan(
        experiment=experiment.name,
        testbed=testbed.name,
        order=experiment.order,
        seed=seed,
        estimate_s=_estimate(trials, experiment, by_person),
        hand_factors=by_person,
        expensive_factors=experiment.seldom_factors,
        repeat_rule=None if isinstance(experiment.repeats, int) else experiment.repeats,
        repeat_disturbed=experiment.repeat_disturbed if experiment.disturbed == "repeat" else 0,
        trials=tuple(trials),
    )


def needs_hand(plan: Plan) -> list[str]:
    """Return the actions of a person, in the order of the plan: `set bios-turbo to on`. Empty for a plan that runs unattended."""
    by_hand = [f"set {name} to {level}" for name, level in _changes(plan.trials, plan.hand_factors)]
    return [*by_hand, *dict.fromkeys(words for trial in plan.trials if (words := trial.cell.setting.by_person))]


def blocks_of(plan: Plan) -> list[list[Trial]]:
    """Return the plan in its blocks.

    Each has every mode and every setting once, at one level of the factors that are expensive to change.
    """

    def block(trial: Trial) -> tuple[object, ...]:
        return (trial.cell.repeat, *(trial.cell.factors[name] for name in (*plan.hand_factors, *plan.expensive_factors) if name != MODE))

    return [list(of) for _, of in groupby(plan.trials, key=block)]


def _drives(workload: WorkloadModel, experiment: Experiment, testbed: Testbed) -> Iterator[tuple[WorkloadDrive, str]]:
    """Yield each drive of a workload with its tool. `generator` is set if the frames are from another generator than the engine."""
    default = experiment.generator or testbed.generator or ENGINE
    for drive in workload.drives(with_least_mtu(bounds_of(testbed), experiment.factors)):
        workload_drive, tool = drive, workload.tool
        if isinstance(drive.setting, FrameSetting):
            generator = drive.setting.generator or default
            workload_drive = replace(
                drive, setting=drive.setting.model_copy(update={"generator": None if generator == ENGINE else generator})
            )
            tool = generator.kind
        yield workload_drive, tool


def _is_shut(mode: str, drive: WorkloadDrive, testbed: Testbed) -> bool:
    """Return True if the mode drops the flow of a pair from outside to inside, which would end by a time-out."""
    if not drive.setting.ends:
        return False
    client, server = drive.setting.ends
    link = testbed.links[drive.links[0]]
    if mode_of(testbed.dut_family, mode).behaviour.admits_unsolicited or testbed.dut not in link.forwarders:
        return False
    at = link.hosts.index
    return at(client) > at(testbed.dut) > at(server)


class _Shuffler:
    """Returns a copy in another order on each call; in the same order without a source of chance."""

    def __init__(self, chance: random.Random | None) -> None:
        self._chance = chance

    def __call__(self, items: Sequence[_T]) -> list[_T]:
        copy = list(items)
        if self._chance is not None:
            self._chance.shuffle(copy)
        return copy


def _groups(experiment: Experiment, shuffle: _Shuffler) -> Iterator[tuple[dict[str, str], int]]:
    """Yield the level of every factor, mode first, and the repeat of each application of a mode, in order."""
    slow = (*experiment.hand_factors, *experiment.seldom_factors)
    quick = _rows(experiment, [name for name in experiment.set_factors if name not in experiment.seldom_factors])
    for stretch in _rows(experiment, slow):
        rows = [(mode, levels) for levels in quick for mode in experiment.factors[MODE]]
        combinations = [{MODE: mode, **stretch, **levels} for mode, levels in rows]
        usable = [levels for levels in combinations if not is_excluded(levels, experiment.exclude)]
        for repeat in range(1, experiment.most_repeats + 1):
            for levels in shuffle(usable):
                yield levels, repeat


def _rows(experiment: Experiment, names: Sequence[str]) -> list[dict[str, str]]:
    """Return every combination of these factors' levels. Each differs from the previous one in one factor only (a reflected code)."""
    rows: list[dict[str, str]] = [{}]
    for name in names:
        levels = experiment.factors[name]
        rows = [{**row, name: level} for i, row in enumerate(rows) for level in (levels if i % 2 == 0 else reversed(levels))]
    return rows


def _changes(trials: Sequence[Trial], hand_factors: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield each factor and its new level, whenever a person has to change it."""
    level_by_factor: dict[str, str] = {}
    for trial in trials:
        for name in hand_factors:
            if level_by_factor.get(name) != trial.cell.factors[name]:
                level_by_factor[name] = trial.cell.factors[name]
                yield name, level_by_factor[name]


def _estimate(trials: Sequence[Trial], experiment: Experiment, hand_factors: Sequence[str]) -> float:
    groups = len({t.group for t in trials})
    changes = sum(1 for _ in _changes(trials, hand_factors))
    guests = LABS[experiment.testbed.lab].guests if isinstance(experiment.testbed, LabRef) else 0
    mode = MODE_S + (GUEST_MODE_S if guests else 0)
    reboots = _reboots(trials, experiment) * (GUEST_S if guests else REBOOT_S)
    return round(LAB_S + guests * GUEST_S + groups * mode + changes * HAND_S + reboots + sum(t.estimate_s for t in trials), 1)


def _reboots(trials: Sequence[Trial], experiment: Experiment) -> int:
    """Return the number of reboots: one when a level that needs it is set, and one when it is restored."""
    booted = {(name, level) for name, levels in experiment.levels.items() for level, of in levels.items() if any(c.reboot for c in of)}
    return 2 * sum(1 for change in _changes(trials, sorted({name for name, _ in booted})) if change in booted)


def _ceilings(drive: WorkloadDrive, testbed: Testbed, cell: Cell) -> dict[str, dict[str, float]]:
    """Return the limits by the speed of each link (inside tunnels, where the mode has them), under the names of the figures.

    For several links, also their sum if all are known.
    """
    ceilings = {}
    for name in drive.links:
        link = testbed.links.get(name)  # None for a drive
        if link is not None and link.speed is not None and drive.carries is not None:
            ceilings[name] = _most(link, link.speed, drive, cell, mode_of(testbed.dut_family, cell.mode))
    if len(ceilings) == len(drive.links) > 1:
        first = next(iter(ceilings.values()))
        ceilings[joined(ceilings)] = {figure: sum(of_link[figure] for of_link in ceilings.values()) for figure in first}
    return ceilings


def _most(link: Link, speed: BpsL1, drive: WorkloadDrive, cell: Cell, mode: DeclaredMode) -> dict[str, float]:
    if not isinstance(drive.carries, Mix):  # TCP
        version = Ip.V4 if link.source_address.version == 4 else Ip.V6  # noqa: PLR2004 -- the version of the protocol itself
        mtu = cell.mtu(link.mtu)
        if version is Ip.V4 and (tunnel := mode.tunnel) is not None and tunnel.between == "networks":
            from dutlab.physics.ceilings.tunnel import tunnel_goodput  # noqa: PLC0415 -- few plans have tunnels

            with suppress(ValueError):  # no TCP fits inside
                return {"goodput_bps": tunnel_goodput(speed, tunnel.wrapping, mtu=mtu)}
        return {"goodput_bps": tcp_goodput(speed, mtu=mtu, ip=version)}
    most = frames(speed, drive.carries.mean)
    return {"received_pps": most.pps, "received_bps_l1": most.bps_l1, "received_bps_l2": most.bps_l2}
