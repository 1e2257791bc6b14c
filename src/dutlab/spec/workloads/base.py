"""Base of the workload models, and the record of one drive of a workload."""

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
    """Requirement of a workload at the ends of its links, or at the hosts that it names."""

    FRAMES = "frames"
    """The engine, and so Linux, at both ends: dutlab's frames are sent or counted there."""
    IPERF3 = "iperf3"
    PING = "ping"
    COMMANDS = "commands"
    """A way in: commands can run on the hosts."""
    DRIVES = "drives"
    """Drives in the testbed file."""
    TRANSIT = "transit"
    """A DUT that forwards between the two ends, since the workload changes or tests it."""


def _link_set(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    if not isinstance(value, list | tuple):
        raise ValueFault("must be a list of the links that are driven at once, as in [a, b]", FaultKind.TYPE)
    return value


LinkSet = Annotated[tuple[str, ...], BeforeValidator(_link_set)]


@dataclass(frozen=True)
class WorkloadDrive:
    """One way to drive a workload: the links loaded at once, the setting, and data for the estimate."""

    links: LinkSet
    setting: Setting
    seconds: Seconds
    """Estimated duration, without the time that the tool needs to start and end."""
    carries: Mix | Literal["tcp"] | None = None
    """Basis of its ceilings: frames of these sizes, or TCP payload; None for no ceiling."""
    offers: int = 1
    """Approximate number of generator starts."""
    steps: int = 0
    """Number of starts that a generator with a fixed rate needs to follow a rate that changes in time."""


class WorkloadModel(SpecModel):
    """Base of the workload models. Each set of links that is driven at once is one trial."""

    kind: ClassVar[str]
    """Name in the experiment file; the same as its setting's kind."""
    tool: ClassVar[str]
    needs: ClassVar[frozenset[Need]]
    setting: ClassVar[type[Setting]]
    """Model of the settings of its drives."""
    on_segments: ClassVar[bool] = False
    """True if it can measure between the hosts of a segment; others measure from one end of a path to the other."""
    answers_own_flows: ClassVar[bool] = False
    """True if the packets that it sends from the sink belong to flows that it began at the source."""
    own_frames: ClassVar[bool] = False
    """True if it sends frames that no kernel's network stack makes."""
    goes_to_sink: ClassVar[bool] = False
    """True if its traffic ends at the sink, beyond the DUT."""
    forms: ClassVar[frozenset[str]] = frozenset()
    """Factors that change the form of frames on the cables (dutlab.spec.wire_form) with which it can be measured."""

    without_links: ClassVar[str] = ""
    """For a workload that measures nothing on links: what to write instead, where `{kind}` is its name; empty for others."""

    links: tuple[LinkSet, ...] | None = None
    """Sets of links that are loaded at once; None loads each link alone."""

    @classmethod
    def __pydantic_init_subclass__(cls, **rest: Any) -> None:  # noqa: ANN401 -- pydantic's own signature
        """Set `kind` from the setting, where the class already has one."""
        super().__pydantic_init_subclass__(**rest)
        if "setting" in vars(cls):
            cls.kind = cls.setting.model_fields["kind"].default

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = ({"type": "null"},)

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Accept nothing in place of an empty mapping: `- sweep:`."""
        return {} if data is None else data

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that the sets of links have no duplicates, inside or among them, and that only workloads on links name any."""
        yield from _link_set_faults(data.get("links"))
        yield from super().cross_faults(data, made)
        if cls.without_links and data.get("links") is not None:
            yield fault(("links",), cls.without_links.format(kind=cls.kind), FaultKind.CONFLICT)

    def count(self, every_link: Mapping[str, LinkBounds]) -> int:
        """Return the number of drives."""
        return len(self.link_sets(every_link))

    @abstractmethod
    def drives(self, every_link: Mapping[str, LinkBounds]) -> Iterator[WorkloadDrive]:
        """Yield the drives of the workload. Each combination of a drive, factor levels and a repeat is a trial."""

    def incompatibilities(self, bounds: Mapping[str, LinkBounds]) -> Iterator[tuple[Loc, str]]:
        """Yield (place in its body, reason) where links with these `bounds` cannot carry the workload."""
        return iter(())

    def untried_forms(self) -> Iterator[tuple[Loc, str]]:
        """Yield (place in its body, reason) for settings that do not support the frames of any of `forms`."""
        return iter(())

    def unfit(self, written: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
        """Yield (place in its body, reason) where `bed` lacks something that the workload names; `written` is the experiment as written."""
        return iter(())

    def link_sets(self, every_link: Iterable[str]) -> tuple[LinkSet, ...]:
        """Return the sets of links to drive, on a testbed with `every_link`."""
        if self.without_links:
            return ()
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
