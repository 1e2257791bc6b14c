"""Workload `steps`: the user's commands on any host of the testbed, in four phases with a barrier before each.

- steps:
    startup: {sink: [{spawn: iperf3 -s}]}
    run:     {source: [{run: iperf3 -c 10.1.1.2 -t 60, timeout: 90s}]}
    collect: {source: [netstat -s]}
    reset:   {sink: [killall iperf3]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, PlainSerializer
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import Duration
from dutlab.spec.model import Loc, SpecModel, did_you_mean, fault
from dutlab.spec.workloads.base import Need, WorkloadDrive, WorkloadModel
from dutlab.spec.workloads.setting import ELSEWHERE, Params, Setting
from dutlab.units import Seconds

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

Phase = Literal["startup", "run", "collect", "reset"]
PHASES: tuple[Phase, ...] = ("startup", "run", "collect", "reset")

Command = Annotated[str, Field(min_length=1)]


class Step(SpecModel):
    """Command for `sh -c` that is waited for (`run`), or runs until the end of its trial (`spawn`)."""

    run: Command | None = None
    spawn: Command | None = None
    timeout: Duration | None = None
    """Time after which a `run` is ended; None waits without limit."""
    at_timeout: Literal["fail", "end"] = "fail"
    """Result of a `run` that the time-out ends: `fail`, or success (`end`), as for a server or a generator that never ends."""
    name: str = ""
    """Name in a report; empty for its place in the phase."""

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "string"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Accept a text alone: a command that is waited for."""
        return {"run": data} if isinstance(data, str) else data

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that it is either `run` or `spawn`, with keys of its kind."""
        kinds = [key for key in ("run", "spawn") if data.get(key) is not None]
        if len(kinds) != 1:
            yield fault(("run",), "write either `run: COMMAND` or `spawn: COMMAND`", FaultKind.CONFLICT)
        if made is not None and made.spawn is not None and made.timeout is not None:
            yield fault(("timeout",), "a spawned command is ended with its trial; only `run` has a time-out", FaultKind.CONFLICT)
        if made is not None and made.at_timeout == "end" and made.timeout is None:
            yield fault(("at_timeout",), "`end` needs a timeout", FaultKind.CONFLICT)

    @property
    def command(self) -> str:
        """Command of either kind."""
        return self.run or self.spawn or ""


Steps = tuple[Step, ...]
ByHost = dict[str, Steps]
_ByHostOrNone = Annotated[ByHost, BeforeValidator(lambda v: {} if v is None else v, json_schema_input_type=ByHost | None)]


class StepsWorkload(WorkloadModel):
    """Commands in four phases. Hosts work at the same time; the steps of a host run one after another."""

    kind: ClassVar[str] = "steps"
    tool: ClassVar[str] = "steps"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.COMMANDS})

    startup: Annotated[_ByHostOrNone, Field(default_factory=dict)]
    run: Annotated[_ByHostOrNone, Field(default_factory=dict)]
    collect: Annotated[_ByHostOrNone, Field(default_factory=dict)]
    reset: Annotated[_ByHostOrNone, Field(default_factory=dict)]
    """Commands that always run, even after failures."""
    on_failure: Literal["keep-going", "stop"] = "keep-going"
    """Reaction to a failed step; `stop` skips the remaining phases except `reset`."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that there are commands, and that no links are named."""
        yield from super().cross_faults(data, made)
        if data.get("links") is not None:
            yield fault(("links",), "steps name hosts, not links", FaultKind.CONFLICT)
        if made is not None and not any(made.phases.values()):
            yield fault(("run",), "missing; write commands by host, as in {source: [uname -a]}", FaultKind.MISSING)

    @property
    def phases(self) -> dict[Phase, ByHost]:
        """The four phases, in order."""
        return {"startup": self.startup, "run": self.run, "collect": self.collect, "reset": self.reset}

    def count(self, every_link: Iterable[str]) -> int:
        """Return 1: each repeat is one trial."""
        return 1

    def drives(self, every_link: Iterable[str]) -> Iterator[WorkloadDrive]:
        """Yield the only drive. Its estimated duration is the longest sum of time-outs."""
        longest = [sum(s.timeout or 0.0 for s in steps) for by_host in self.phases.values() for steps in by_host.values()]
        yield WorkloadDrive((), StepsSetting(steps=self), Seconds(max(longest, default=0.0)))

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield a fault for each unknown host."""
        for phase, by_host in self.phases.items():
            for host in by_host:
                if host not in bed.hosts:
                    yield (phase, host), f"{bed.title} has no host {host!r} {did_you_mean(host, bed.hosts)}"


class StepsSetting(Setting):
    """Setting of a trial: all commands, so that they are in the record."""

    kind: Literal["steps"] = "steps"
    steps: Annotated[StepsWorkload, PlainSerializer(lambda work: work.model_dump(mode="json", exclude_defaults=True)), ELSEWHERE]

    @cached_property
    def params(self) -> Params:
        """Parameters: all steps as one JSON text."""
        return {"steps": json.dumps(self.steps.model_dump(mode="json", exclude_defaults=True), sort_keys=True)}


StepsWorkload.setting = StepsSetting
