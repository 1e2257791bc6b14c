"""Base of every workload, and of one way to drive it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import LinkBounds
from dutlab.spec.mixes import Mix
from dutlab.spec.model import Loc, SpecModel, ValueFault, fault
from dutlab.spec.workloads.setting import Setting
from dutlab.subject import joined
from dutlab.units import Seconds

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape

LONGEST_TRIAL = Seconds(86400)  # iperf3's own limit (iperf_api.h, MAX_TIME); one day is enough for any trial here
LONGEST_WAIT = Seconds(600)


class Need(StrEnum):
    """Needs of a workload at the ends of its links, or at the hosts that it names."""

    FRAMES = "frames"
    """The engine, so Linux, at both ends: frames of ours are sent or counted there."""
    IPERF3 = "iperf3"
    PING = "ping"
    COMMANDS = "commands"
    """A way in."""
    DRIVES = "drives"
    """Storage that the testbed names."""
    TRANSIT = "transit"
    """A DUT that forwards between the two ends: what the workload changes is there."""


def _link_set(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if not isinstance(value, list | tuple):
        raise ValueFault("must be a list of the links that are driven at once, as in [a, b]", FaultKind.TYPE)
    return value


LinkSet = Annotated[tuple[str, ...], BeforeValidator(_link_set)]


@dataclass(frozen=True)
class WorkloadDrive:
    """One way to drive a workload: the links loaded at once, and everything else."""

    links: LinkSet
    setting: Setting
    seconds: Seconds
    """Duration, without what the tool needs to start and end."""
    carries: Mix | Literal["tcp"] | None = None
    """Basis of its ceilings: frames of these sizes, or TCP's payload; None has no ceiling."""
    offers: int = 1
    """Number of starts of a generator in it, about."""
    steps: int = 0
    """Number of starts of a generator whose rate is fixed when it starts, to follow a rate that changes in time."""


class WorkloadModel(SpecModel):
    """A workload: the sets of links that are driven at once, one trial for each set."""

    kind: ClassVar[str]
    """Name in the experiment file: the kind of its setting."""
    tool: ClassVar[str]
    needs: ClassVar[frozenset[Need]]
    setting: ClassVar[type[Setting]]
    """Setting of each of its drives."""
    on_segments: ClassVar[bool] = False
    """True if it measures between every two hosts of a segment; others go from one end of a path to the other."""
    answers_own_flows: ClassVar[bool] = False
    """Whether what it sends from the sink belongs to flows that it began at the source."""
    own_frames: ClassVar[bool] = False
    """True if it sends frames that no kernel makes."""
    goes_to_sink: ClassVar[bool] = False
    """True if its traffic is between source and sink only, past the DUT."""

    links: tuple[LinkSet, ...] | None = None
    """None: each link alone."""

    @classmethod
    def __pydantic_init_subclass__(cls, **rest: Any) -> None:  # noqa: ANN401 -- pydantic's own signature
        """Names it, where its setting is known by now."""
        super().__pydantic_init_subclass__(**rest)
        if "setting" in vars(cls):
            cls.kind = cls.setting.model_fields["kind"].default

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "null"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """An empty mapping may be left out: `- sweep:`."""
        return {} if data is None else data

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that the sets of links are sets, each once."""
        yield from _link_set_faults(data.get("links"))
        yield from super().cross_faults(data, made)

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return len(self.link_sets(every_link))

    @abstractmethod
    def drives(self, every_link: Mapping[str, LinkBounds]) -> Iterator[WorkloadDrive]:
        """Each way to drive it; one is a trial, times the factors, times the repeats."""

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Every reason why links with these `bounds` cannot carry it, by the place in its own body."""
        del bounds
        return iter(())

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield every reason why `bed` lacks what it names, given the rest of the experiment as written, with the place in its body."""
        del written, bed
        return iter(())

    def link_sets(self, every_link: Iterable[str]) -> tuple[LinkSet, ...]:
        """The sets to drive, on a testbed with `every_link`."""
        return tuple((name,) for name in every_link) if self.links is None else self.links


def _link_set_faults(raw: object) -> Iterator[InitErrorDetails]:
    if not isinstance(raw, list | tuple):
        return
    if not raw:
        yield fault(("links",), "empty; write sets of links, as in [[a], [b], [a, b]]", FaultKind.MISSING)
    known: list[set[str]] = []
    for i, links in enumerate(raw):
        if not isinstance(links, list | tuple) or not all(isinstance(name, str) for name in links):
            continue
        if not links:
            yield fault(("links", i), "empty; a trial needs a link", FaultKind.MISSING)
        if len(set(links)) < len(links):
            yield fault(("links", i), "duplicate link in one set", FaultKind.DUPLICATE)
        elif set(links) in known:
            yield fault(("links", i), f"duplicate {joined(links)}; `repeats` repeats trials", FaultKind.DUPLICATE)
        known.append(set(links))
