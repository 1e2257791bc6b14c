"""The experiment file: factors, workloads, repeats and order of the trials.

    experiment: firewall-modes
    testbed: {lab: three-node}            # or a path to a testbed file, relative to this one
    factors:
      mode: [router, filter-empty, filter-default, nat]
    workloads:
      - iperf3: {streams: 4, omit: 5s, duration: 10s, links: [[a], [b], [a, b]]}
    repeats: 8

Every key, its unit and its default are in docs/reference/experiment-file.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, Strict, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.distance import Distance
from dutlab.spec.factors import MODE, Commands, Exclusion, Level, Levels, factor_faults, is_knob
from dutlab.spec.fields import Duration, Name, YesNo, named
from dutlab.spec.generators import Generator
from dutlab.spec.known import LABS, ROLES
from dutlab.spec.model import SpecModel, ValueFault, did_you_mean, fault
from dutlab.spec.repeats import Repeats
from dutlab.spec.sensor import DEFAULT_WATCH, Sensors, host_faults, watch_faults
from dutlab.spec.testbed import Testbed
from dutlab.spec.workloads import Workload
from dutlab.stats.repeats import RepeatRule
from dutlab.units import Seconds
from dutlab.workloads import WORKLOADS, plug_of

__all__ = ["CustomMode", "Experiment", "LabRef", "TestbedPath"]

LARGEST_SEED = 2**53 - 1
"""Largest integer that every JSON parser keeps exactly."""
LARGEST_DISTURBED_REPEATS = 10
MIN_READY_S, MAX_READY_S = 1.0, 600.0


class LabRef(SpecModel):
    """An embedded lab, by name, with the sensors of every trial and the distances of its links."""

    lab: str
    sensors: Annotated[Sensors, Field(default_factory=dict)]
    links: Annotated[dict[str, Distance], Field(default_factory=dict)]

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that the lab exists, and that it has the hosts of the sensors and the links of the distances."""
        lab = data.get("lab")
        if not isinstance(lab, str) or lab not in LABS:
            if made:
                yield fault(("lab",), f"there is no lab {made.lab!r} {did_you_mean(made.lab, LABS)}", FaultKind.UNKNOWN_NAME)
            return
        yield from host_faults(data.get("sensors"), LABS[lab].hosts)
        for name in made.links if made else ():
            if name not in LABS[lab].links:
                yield fault(
                    ("links", name), f"lab {lab} has no link {name!r} {did_you_mean(name, LABS[lab].links)}", FaultKind.UNKNOWN_NAME
                )
            elif name in LABS[lab].segments or len(LABS[lab].links[name]) < len(ROLES):
                yield fault(("links", name), "no machine on this link forwards, so none can add a distance", FaultKind.CONFLICT)

    def placed(self, testbed: Testbed) -> Testbed:
        """Return the lab's testbed with these sensors and distances."""
        return testbed.at_distances(self.links).model_copy(update={"sensors": self.sensors})

    def __str__(self) -> str:
        return f"lab {self.lab}"


class TestbedPath(SpecModel):
    """Path of a testbed file, relative to the experiment file."""

    __test__ = False  # pytest would take it for a test class by its name

    path: Annotated[str, Field(min_length=1)]

    def __str__(self) -> str:
        return self.path


def _testbed_ref(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, str):
        return TestbedPath(path=value)
    if isinstance(value, LabRef | TestbedPath):
        return value
    if isinstance(value, Mapping):
        return LabRef.model_validate(value, context=info.context)
    raise ValueFault("must be {lab: NAME} or the path of a testbed file", FaultKind.TYPE)


def _written_ref(ref: LabRef | TestbedPath) -> dict[str, Any] | str:
    return ref.model_dump(mode="json", exclude_defaults=True) if isinstance(ref, LabRef) else ref.path


TestbedRef = Annotated[
    LabRef | TestbedPath, BeforeValidator(_testbed_ref, json_schema_input_type=str | LabRef), PlainSerializer(_written_ref)
]


def _ready_time(value: Seconds) -> Seconds:
    if not MIN_READY_S <= value <= MAX_READY_S:
        raise ValueFault("must be from 1s to 10min", FaultKind.RANGE)
    return value


class CustomMode(Commands):
    """A mode defined by commands; `sh -c` runs each on the DUT."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    array: Annotated[str | None, Field(pattern=r"^/dev/[A-Za-z0-9][A-Za-z0-9._/+-]*$")] = None
    """Block device that the mode makes of all drives of the host; None where it makes none."""
    frames: Literal["pass", "dropped"] = "pass"
    """`dropped`: the mode drops unencrypted frames. Packets that the source's kernel sends must then pass in their place."""
    start: tuple[str, ...] = ()
    """Programs that act as the device; each runs while the mode is in force. All commands of such a mode run in a separate folder."""
    ready: tuple[str, ...] = ()
    """Commands that are repeated after `start` until all end with 0; then `apply` follows."""
    stop: tuple[str, ...] = ()
    """Commands that end the programs, after `restore`. Programs that still run are sent SIGTERM, then SIGKILL."""
    ready_within: Annotated[Duration, AfterValidator(_ready_time)] = Seconds(30.0)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that `ready` and `stop` are given only with `start`."""
        yield from super().own_faults()
        for key in ("start", "ready", "stop"):
            commands: tuple[str, ...] = getattr(self, key)
            yield from (fault((key, i), "empty command", FaultKind.MISSING) for i, of in enumerate(commands) if not of.strip())
            if commands and not self.start:
                yield fault((key,), "it is for the programs of `start`, which is missing", FaultKind.CONFLICT)


class Experiment(SpecModel):
    """An experiment file."""

    name: Annotated[Name, Field(alias="experiment")]
    testbed: TestbedRef
    factors: dict[str, tuple[Level, ...]]
    """Factor → its levels. `mode` is always a factor. Others are set by `levels`, are knobs, or are set by a person on request."""
    levels: Annotated[Levels, Field(default_factory=dict)]
    expensive_to_change: tuple[str, ...] = ()
    """Factors to change as seldom as those that a person sets."""
    exclude: tuple[Exclusion, ...] = ()
    """Combinations of levels that are left out."""
    workloads: tuple[Workload, ...]
    generator: Generator | None = None
    """Generator for workloads that send frames and name none; None is the testbed's generator."""
    repeats: Repeats = 6
    """Repeats of each cell. Six give each figure a 95 % interval, and can prove a difference among twenty comparisons."""
    repeat_disturbed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_DISTURBED_REPEATS)] = 2
    """Most repetitions of a trial that other work on the machine disturbed."""
    disturbed: Literal["repeat", "count"] = "repeat"
    """`count`: disturbed trials count like any other, with a doubt. Use it for a machine that is known to be busy."""
    order: Literal["shuffled", "as-written"] = "shuffled"
    seed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_SEED)] | None = None
    """Seed of the shuffled order; None draws a random one."""
    watch: tuple[str, ...] = DEFAULT_WATCH
    """Kinds of sensors that watch the DUT."""
    profile: YesNo = False
    """True to profile CPU cycles at each limit that is found; the profile's cost is measured too."""
    modes: Annotated[dict[str, CustomMode], BeforeValidator(named), Field(default_factory=dict)]

    @property
    def most_repeats(self) -> int:
        """Most measurements of each cell."""
        return self.repeats if isinstance(self.repeats, int) else self.repeats.most

    @property
    def repeat_rule(self) -> RepeatRule | None:
        """Rule that ends the repeats of a cell; None where all cells have the same number of repeats."""
        return None if isinstance(self.repeats, int) else self.repeats.rule

    @property
    def hand_factors(self) -> tuple[str, ...]:
        """Factors that a person sets."""
        return tuple(name for name in self.factors if name != MODE and name not in self.levels and not is_knob(name))

    @property
    def set_factors(self) -> tuple[str, ...]:
        """Factors other than the mode that dutlab sets, by commands or as knobs."""
        return tuple(name for name in self.factors if name != MODE and (name in self.levels or is_knob(name)))

    @property
    def seldom_factors(self) -> tuple[str, ...]:
        """Set factors to change as seldom as those that a person sets: `expensive_to_change`, and those that need a reboot."""
        reboots = {name for name, levels in self.levels.items() if any(of.reboot for level in levels.values() for of in level)}
        return tuple(name for name in self.set_factors if name in self.expensive_to_change or name in reboots)

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check the levels of factors, the workloads and the sensors against one another."""
        yield from factor_faults(data)
        yield from watch_faults(data.get("watch"))
        yield from _workload_faults(data.get("workloads"))
        yield from _profile_faults(made)


def _workload_faults(workloads: object) -> Iterator[InitErrorDetails]:
    if not isinstance(workloads, list | tuple):
        return
    if not workloads:
        yield fault(("workloads",), "empty; an experiment drives something", FaultKind.MISSING)
    for i, workload in enumerate(workloads):
        if workload in workloads[:i]:
            yield fault(
                ("workloads", i), f"the same as workload {workloads.index(workload) + 1}; `repeats` repeats trials", FaultKind.DUPLICATE
            )


def _profile_faults(made: Experiment | None) -> Iterator[InitErrorDetails]:
    """Check that a workload finds a limit for the profile, and that no profiler runs during the search."""
    if made is None or not made.profile:
        return
    if not any(plug_of(workload.kind).finds_limit for workload in made.workloads):
        able = ", ".join(plug.name for plug in WORKLOADS.values() if plug.finds_limit)
        yield fault(("profile",), f"no workload here finds a limit; those that do: {able}", FaultKind.CONFLICT)
    from dutlab.spec.sensors import PerfSensor  # noqa: PLC0415 -- only profiles need it

    if PerfSensor.kind in made.watch:
        yield fault(
            ("watch", made.watch.index(PerfSensor.kind)),
            "profiles the search for the limit too; leave it out with `profile`",
            FaultKind.CONFLICT,
        )
