"""The experiment file: what is varied, what is driven through the DUT, how often and in which order.

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

from pydantic import BeforeValidator, Field, PlainSerializer, Strict, ValidationInfo
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Name, Share, name_fault, named
from dutlab.spec.generators import Generator
from dutlab.spec.known import LABS
from dutlab.spec.model import SpecModel, did_you_mean, fault
from dutlab.spec.sensors import DEFAULT_WATCH, WATCHES, Sensors
from dutlab.spec.workloads import Workload
from dutlab.stats.repeats import RepeatRule

__all__ = ["CustomMode", "Experiment", "LabRef", "TestbedPath"]

LARGEST_SEED = 2**53 - 1
"""What every reader of JSON keeps exactly."""
LARGEST_REPEATS = 1000
LARGEST_DISTURBED_REPEATS = 10


class LabRef(SpecModel):
    """An embedded lab, by its name, and what is watched beside it in every trial."""

    lab: str
    sensors: Annotated[Sensors, Field(default_factory=dict)]

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether there is such a lab."""
        del data
        return [fault(("lab",), f"there is no lab {made.lab!r} {did_you_mean(made.lab, LABS)}")] if made and made.lab not in LABS else []

    def __str__(self) -> str:
        return f"lab {self.lab}"


class TestbedPath(SpecModel):
    """A testbed file; relative to the experiment file."""

    __test__ = False  # not a test class, whatever its name says to pytest

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
    raise ValueError("must be {lab: NAME} or the path of a testbed file")


def _written_ref(ref: LabRef | TestbedPath) -> dict[str, Any] | str:
    return ref.model_dump(mode="json", exclude_defaults=True) if isinstance(ref, LabRef) else ref.path


TestbedRef = Annotated[LabRef | TestbedPath, BeforeValidator(_testbed_ref), PlainSerializer(_written_ref)]


class CustomMode(SpecModel):
    """A mode written out as commands; each is run by `sh -c` on the DUT."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name"})

    name: Name
    apply: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    """Each must end with 0, or the mode measures nothing."""
    restore: tuple[str, ...] = ()
    """Run after the mode's trials, always."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether what is changed can be put back."""
        del data
        if made is None:
            return []
        faults = [
            fault((key, i), "empty command")
            for key, commands in (("apply", made.apply), ("verify", made.verify), ("restore", made.restore))
            for i, command in enumerate(commands)
            if not command.strip()
        ]
        if made.apply and not made.restore:
            faults.append(fault(("restore",), "missing; a mode that changes the DUT says how to put it back"))
        return faults


class RepeatUntil(SpecModel):
    """Repeat each cell until its figure is known well enough, or `most` times."""

    until: Share
    """Half-width of the 95 % interval of the median, relative to it."""
    most: Annotated[int, Strict(), Field(le=LARGEST_REPEATS)]

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether an interval can exist within so many repeats."""
        del data
        try:
            _ = made and made.rule
        except ValueError as e:
            return [fault((), str(e))]
        return []

    @property
    def rule(self) -> RepeatRule:
        """As the analysis has it. Raises ValueError."""
        return RepeatRule(self.until, self.most)


def _repeats(value: Any, info: ValidationInfo) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if isinstance(value, RepeatUntil):
        return value
    if isinstance(value, Mapping):
        return RepeatUntil.model_validate(value, context=info.context)
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST_REPEATS:
        return value
    raise ValueError(f"must be a whole number from 1 to {LARGEST_REPEATS}, or {{until: 2%, most: 12}}")


Repeats = Annotated[int | RepeatUntil, BeforeValidator(_repeats)]


def _level(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Levels are text; numbers and truth values are taken as they are written."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Level = Annotated[str, BeforeValidator(_level), Field(min_length=1, max_length=100)]


class Experiment(SpecModel):
    """A whole experiment."""

    name: Annotated[Name, Field(alias="experiment")]
    testbed: TestbedRef
    factors: dict[str, tuple[Level, ...]]
    """Factor → its levels. `mode` is always one; any other is set by a person, who is asked."""
    workloads: tuple[Workload, ...]
    generator: Generator | None = None
    """What drives the workloads that send frames of their own and name none; None is that of the testbed."""
    repeats: Repeats = 6
    """6 give each figure a 95 % interval, and prove a difference among twenty comparisons."""
    repeat_disturbed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_DISTURBED_REPEATS)] = 2
    """A trial that other work on the machine disturbed is done again, so often at most."""
    disturbed: Literal["repeat", "count"] = "repeat"
    """`count`: such trials count like any other, and carry the doubt. For who knows that the machine is busy and wants to see it work."""
    order: Literal["shuffled", "as-written"] = "shuffled"
    seed: Annotated[int, Strict(), Field(ge=0, le=LARGEST_SEED)] | None = None
    """Of the shuffled order; None draws one."""
    watch: tuple[str, ...] = DEFAULT_WATCH
    """Kinds of sensors that watch the DUT."""
    modes: Annotated[dict[str, CustomMode], BeforeValidator(named), Field(default_factory=dict)]

    @property
    def most_repeats(self) -> int:
        """How often each cell is measured at most."""
        return self.repeats if isinstance(self.repeats, int) else self.repeats.most

    @property
    def repeat_rule(self) -> RepeatRule | None:
        """When a cell has been repeated enough; None where each is repeated as often as the others."""
        return None if isinstance(self.repeats, int) else self.repeats.rule

    @property
    def hand_factors(self) -> tuple[str, ...]:
        """The factors that a person sets: all but the mode."""
        return tuple(name for name in self.factors if name != "mode")

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """What holds between the levels of factors, the workloads and what is watched."""
        del made
        return [*_factor_faults(data.get("factors")), *_watch_faults(data.get("watch")), *_workload_faults(data.get("workloads"))]


def _factor_faults(factors: object) -> Iterator[InitErrorDetails]:
    if not isinstance(factors, Mapping):
        return
    if "mode" not in factors:
        what = "missing; write the modes to measure, as in [router, nat]; a mode with no commands can be written under `modes:`"
        yield fault(("factors", "mode"), what)
    for name, levels in factors.items():
        if what := name_fault(name):
            yield fault(("factors", name), what)
        if not isinstance(levels, list | tuple):
            continue
        if not levels:
            yield fault(("factors", name), "empty; a factor has at least one level")
        seen = []
        for i, level in enumerate(_level(v) for v in levels):
            if level in seen:
                yield fault(("factors", name, i), f"duplicate {level!r}; `repeats` repeats trials")
            seen.append(level)


def _watch_faults(watch: object) -> Iterator[InitErrorDetails]:
    if not isinstance(watch, list | tuple):
        return
    for i, what in enumerate(watch):
        if isinstance(what, str) and what not in WATCHES:
            yield fault(("watch", i), f"{what!r} cannot be watched {did_you_mean(what, WATCHES)}")
        elif what in watch[:i]:
            yield fault(("watch", i), f"duplicate {what}")


def _workload_faults(workloads: object) -> Iterator[InitErrorDetails]:
    if not isinstance(workloads, list | tuple):
        return
    if not workloads:
        yield fault(("workloads",), "empty; an experiment drives something")
    for i, workload in enumerate(workloads):
        if workload in workloads[:i]:
            yield fault(("workloads", i), f"the same as workload {workloads.index(workload) + 1}; `repeats` repeats trials")
