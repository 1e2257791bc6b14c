"""Base of workloads on drives: sets of drives that are loaded at once, and the check whether they may be written to."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import BeforeValidator, Field

from dutlab.errors import FaultKind
from dutlab.spec.bounds import TestbedBounds
from dutlab.spec.drives import DriveSpec
from dutlab.spec.model import Loc, ValueFault, did_you_mean
from dutlab.spec.workloads.base import LinkSet, Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.setting import ELSEWHERE, Params, Setting
from dutlab.units import Seconds


def levels(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Return a list; a single value becomes a list of one."""
    return value if isinstance(value, list | tuple) else [value]


Among = Literal["each", "together", "halves"]


def _drive_set(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Read one set, before pydantic tries each form of it and reports faults of each."""
    named = isinstance(value, list | tuple) and all(isinstance(name, str) for name in value)
    if named or (isinstance(value, str) and value in get_args(Among)):
        return value
    raise ValueFault(f"must be {', '.join(get_args(Among))} or a list of drives that are loaded at once, as in [d1, d2]", FaultKind.TYPE)


_DriveSet = Annotated[Among | LinkSet, BeforeValidator(_drive_set)]
Drives = Annotated[
    tuple[_DriveSet, ...], Field(alias="drives"), BeforeValidator(levels, json_schema_input_type=_DriveSet | tuple[_DriveSet, ...])
]


class WritingTime(NamedTuple):
    """Time in which a trial writes to each of its drives."""

    most_s: float
    block_bytes: int | None
    """Bytes of a block; None unless blocks have one size and random places."""
    most_bytes_per_s: float | None = None
    """Most bytes a second that the setting itself allows; None without a limit."""


class DriveSetting(Setting):
    """Setting of a trial: load on one set of drives."""

    writes: Annotated[bool, ELSEWHERE]
    """True if it changes the contents of the drives."""

    @property
    @abstractmethod
    def writing(self) -> tuple[tuple[float, int | None] | WritingTime, ...]:
        """Times of writing to a drive; pairs are the first two fields of a WritingTime."""

    @property
    def not_taken(self) -> str:
        """Sentence on options of the user's job that dutlab sets itself; empty without any."""
        return ""

    @property
    def needs_engine(self) -> bool:
        """True if the engine makes I/Os on the hosts of the drives."""
        return False

    @property
    def fills(self) -> int:
        """Number of times that each whole drive is written, in addition to `writing`."""
        return 0

    @cached_property
    def params(self) -> Params:
        """Parameters without `writes`, which follows from the others."""
        return {key: value for key, value in super().params.items() if key != "writes"}


def options_of(setting: Setting) -> Mapping[str, str]:
    """Return the fio options of all jobs of a setting, such as `rw` and `bs`; empty for a setting without fio jobs."""
    options: Mapping[str, str] = getattr(setting, "options", {})
    return options


class DriveWorkload(WorkloadModel):
    """One trial per set of drives and combination of settings."""

    tool: ClassVar[str] = "fio"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.DRIVES})
    without_links: ClassVar[str] = "{kind} drives drives, not links: write `drives`"

    drives_: Drives = ("together",)
    """Drives to load at once: `each` alone, all `together`, the two `halves`, or sets such as [server:d1, server:d2]."""

    @abstractmethod
    def settings(self) -> Iterator[tuple[DriveSetting, float]]:
        """Yield each setting of a set of drives, with its duration in seconds."""

    @abstractmethod
    def writing_key(self) -> Loc | None:
        """Return the place of the key that makes it write to drives; None where it only reads."""

    def count(self, every_link: Mapping[str, Any]) -> int:
        """Return the number of WorkloadDrives."""
        return len(self._sets_of(every_link)) * sum(1 for _ in self.settings())

    def drives(self, every_link: Mapping[str, Any]) -> Iterator[WorkloadDrive]:
        """Yield one WorkloadDrive per set of drives and setting."""
        for names in self._sets_of(every_link):
            for setting, seconds in self.settings():
                yield WorkloadDrive(names, setting, Seconds(seconds))

    def incompatibilities(self, bounds: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
        """Yield faults: drives that do not exist, and drives that it would write to without permission."""
        of_testbed: Mapping[str, DriveSpec] = bounds.drives if isinstance(bounds, TestbedBounds) else {}
        if not of_testbed:
            yield (), "needs drives, and the testbed names none: write `drives` at a host"
            return
        for i, entry in enumerate(self.drives_):
            for name in () if isinstance(entry, str) else entry:
                if name not in of_testbed:
                    yield ("drives", i), f"no drive {name!r} {did_you_mean(name, of_testbed)}"
        if (at := self.writing_key()) is not None:
            used = {name for names in self.sets(of_testbed) for name in names}
            for name in sorted(used & of_testbed.keys()):
                if not of_testbed[name].destroy:
                    yield at, f"writes to {name}, and the testbed lacks `destroy: yes` there: what is on it would be lost"

    def _sets_of(self, every_link: Mapping[str, Any]) -> list[LinkSet]:
        return self.sets(every_link.drives) if isinstance(every_link, TestbedBounds) else [()]

    def sets(self, of_testbed: Mapping[str, DriveSpec]) -> list[LinkSet]:
        """Return the distinct sets of drives."""
        every = tuple(of_testbed)
        made: list[LinkSet] = []
        for entry in self.drives_:
            match entry:
                case "each":
                    made += [(name,) for name in every]
                case "together":
                    made.append(every)
                case "halves":
                    made += [every[a:b] for a, b in pairwise((0, len(every) // 2, len(every))) if b > a]
                case _:
                    made.append(tuple(entry))
        return list(dict.fromkeys(made))
