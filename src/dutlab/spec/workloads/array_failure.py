"""Workload `array-failure`: one load on an array, from before a drive fails until after the array is rebuilt.

- array-failure:
    options: {rw: randrw, rwmixread: 70, bs: 4k, iodepth: 8}
    phase: 30s
    rebuild: 1h

The mode makes the array. Options are those of `fio`; each combination of their values is a trial.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.drives import Positive, is_size, parse_size
from dutlab.spec.fields import Duration
from dutlab.spec.known import mode_of
from dutlab.spec.model import Loc, fault
from dutlab.spec.workloads.base import LONGEST_TRIAL
from dutlab.spec.workloads.fio import DEFAULTS, OPTIONS_SAID, FioSetting, Levels, faults_of_options, params_of_options, writes
from dutlab.spec.workloads.on_drives import DriveSetting, DriveWorkload
from dutlab.spec.workloads.setting import ELSEWHERE, Params, RampSaid, SecondsLong, Setting, Words
from dutlab.systems.modes import ARRAYS, AS_FOUND, MD
from dutlab.units import Seconds

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

PHASES = ("healthy", "degraded", "rebuilding", "rebuilt")
"""Phases in order; all but `rebuilding` have a set length."""
_REDUNDANT_ARRAYS = tuple(mode for mode in ARRAYS if (array := mode.array) and array.engine == MD and array.redundant and not array.state)
"""Healthy redundant arrays of md, which has a command to fail a drive."""


class ArrayFailureSetting(DriveSetting):
    """Setting of a trial: one load on the array."""

    kind: Literal["array-failure"] = "array-failure"
    also: ClassVar[Mapping[str, Words]] = OPTIONS_SAID
    left_out: ClassVar[frozenset[str]] = frozenset({"rebuild_bytes_per_s"})

    options: Annotated[dict[str, str], ELSEWHERE]
    ramp_s: RampSaid
    phase_s: Annotated[SecondsLong, Words("phases of {} s")]
    rebuild_s: Annotated[SecondsLong, ELSEWHERE]
    """Time limit of the rebuild."""
    rebuild_bytes_per_s: Annotated[Positive | None, Words("rebuilt at {} bytes a second at most")] = None

    @property
    def loaded_s(self) -> Seconds:
        """Longest duration of the load."""
        return Seconds(self.ramp_s + (len(PHASES) - 1) * self.phase_s + self.rebuild_s)

    @property
    def writing(self) -> tuple[tuple[float, int | None], ...]:
        """Time of the writes, with the block size. The rebuild counts as one phase, since its duration is not known in advance."""
        size = self.options.get("bs", "4k")
        random = "rand" in self.options["rw"] and is_size(size)
        return ((self.ramp_s + len(PHASES) * self.phase_s, parse_size(size) if random else None),) if self.writes else ()

    @property
    def load(self) -> FioSetting:
        """The load as a setting of `fio`; it is ended after the last phase."""
        return FioSetting(options=self.options, writes=self.writes, ramp_s=Seconds(0.0), duration_s=self.loaded_s)

    @cached_property
    def params(self) -> Params:
        """Each option under its own name, and the times."""
        times: dict[str, float] = {"ramp_s": self.ramp_s, "phase_s": self.phase_s}
        limit = {} if self.rebuild_bytes_per_s is None else {"rebuild_bytes_per_s": self.rebuild_bytes_per_s}
        return {**params_of_options(self.options), **times, **limit}


class ArrayFailureWorkload(DriveWorkload):
    """One trial per combination of options."""

    setting: ClassVar[type[Setting]] = ArrayFailureSetting

    options: Annotated[dict[str, Levels], Field(default_factory=dict)]
    ramp: Duration = Seconds(2.0)
    """Time of I/O before the first phase."""
    phase: Duration = Seconds(30.0)
    rebuild: Duration = Seconds(3600.0)
    rebuild_bytes_per_s: Positive | None = None
    """Rebuild speed (sync_speed_min and _max), in bytes per second; it replaces that in the testbed's `array`."""

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check fio's options, the drives and the lengths of the phases."""
        yield from super().own_faults()
        for name, value, least in (("phase", self.phase, 3.0), ("rebuild", self.rebuild, 3.0)):
            if not least <= value <= LONGEST_TRIAL:
                yield fault((name,), f"must be at least {least:g} s and at most {LONGEST_TRIAL:g} s", FaultKind.RANGE)
        if any(entry != "together" for entry in self.drives_):
            yield fault(("drives",), "an array uses all drives of its host: write together, or leave the key out", FaultKind.CONFLICT)
        if "rw" not in self.options:
            yield fault(("options", "rw"), "missing; write fio's options, as in {rw: randread, bs: 4k, iodepth: 32}", FaultKind.MISSING)
        yield from faults_of_options(self.options)

    def settings(self) -> Iterator[tuple[ArrayFailureSetting, float]]:
        """Yield each combination of the options. For the estimate, a rebuild takes as long as a phase."""
        for values in product(*self.options.values()):
            options = dict(zip(self.options, values, strict=True))
            setting = ArrayFailureSetting(
                options=options | {key: value for key, value in DEFAULTS.items() if key not in options},
                writes=writes(options),
                ramp_s=self.ramp,
                phase_s=self.phase,
                rebuild_s=self.rebuild,
                rebuild_bytes_per_s=self.rebuild_bytes_per_s,
            )
            yield setting, self.ramp + len(PHASES) * self.phase

    def writing_key(self) -> Loc | None:
        """Return the place of the options: the workload always writes, since a rebuild writes to a drive."""
        return ("options",)

    def unfit(self, experiment: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield a fault for modes without an array that survives the failure of a drive."""
        factors = experiment.get("factors")
        modes = factors.get("mode") if isinstance(factors, Mapping) else None
        for mode in modes if isinstance(modes, list) else [AS_FOUND.name]:
            if mode_of(bed.family, str(mode)) not in _REDUNDANT_ARRAYS:
                redundant = ", ".join(one.name for one in _REDUNDANT_ARRAYS)
                yield (), f"fails a drive of a healthy array, and mode {mode} has no redundant one: write modes of {redundant}"
