"""Subject of a figure: the links or drives it was measured on, the direction, and the part of the measurement it belongs to.

A figure is a measure, a subject and a value: `lower_pps` (dutlab.measures) of links a and b together, for the goal `ndr`, is 1.2 million.
The measure says how to read the number, the subject what it was taken of; neither is guessed from the name of the other.

    places     the links that were driven; of storage the drives or the array; of steps of a user's own the hosts. Which of these they
               are is said by the workload (`WorkloadPlug.place`). Of several places the figure is their sum.
    way        which way data goes: of a link from source to sink, back, or both together; of drives what was read, written or trimmed
    part       which part of the measurement: a goal of a search (`ndr`), a stream, a job of fio, a phase (`rebuilding`), a state of
               drives (`steady`), a share of the load (`50%`), a step (`measurement/01`). Empty: the whole of it

A record keeps these three as fields. People, tables and options need words, and this file alone makes and reads those:

    a+b                 places together; frames that go back have `.back` behind the name: `a+a.back` has both directions of a
    ndr/lower_pps       a figure: its part before the measure; a figure of the whole is the measure alone
    seq/iops.read       a figure of what was read: the way behind the measure, since reads and writes of a drive are columns of one table

`--figure`, claims and the columns `link` and `figure` of the index and of exports have these.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property, lru_cache
from itertools import groupby
from typing import NamedTuple, Self

_TOGETHER, _BACK, _PART, _WAY, _RUN = "+", ".back", "/", ".", "run_"
_KEPT = 4096
"""Texts whose meaning is remembered: runs of other people may have any."""
EACH = "*"
"""In place of a part: every part."""


class Way(Enum):
    """Direction of the data."""

    FORWARD = "forward"
    """From source to sink; also where there is no other, and where reads and writes are counted together."""
    BACK = "back"
    BOTH = "both"
    READ = "read"
    WRITE = "write"
    TRIM = "trim"


_BACKS = {Way.FORWARD: (False,), Way.BACK: (True,), Way.BOTH: (False, True)}
_OF_DRIVES = (Way.READ, Way.WRITE, Way.TRIM)
WAYS_OF_DRIVES: Mapping[str, Way] = {way.value: way for way in _OF_DRIVES}
"""Directions by their words, in the order of tables."""


@dataclass(frozen=True)
class Subject:
    """Subject of one figure. Raises ValueError for the name of a place that a text could not keep apart from others."""

    places: tuple[str, ...]
    way: Way = Way.FORWARD
    part: str = ""

    def __post_init__(self) -> None:
        if not self.places or len(set(self.places)) < len(self.places):
            raise ValueError(f"{_TOGETHER.join(self.places)!r} names no place, or one twice")
        if wrong := [name for name in self.places if plain_place(name) != name]:
            raise ValueError(f"{wrong[0]!r} cannot be the name of a place: it is empty, has {_TOGETHER} or {_PART}, or ends in {_BACK}")

    @classmethod
    def read(cls, text: str) -> Self:
        """The subject of the words of `place`. Raises ValueError for any other text."""
        names = [(flow.removesuffix(_BACK), flow.endswith(_BACK)) for flow in apart(text)]
        backs = tuple(sorted({back for _, back in names}))
        way = next(way for way, of in _BACKS.items() if of == backs)
        subject = cls(tuple(dict.fromkeys(name for name, _ in names)), way)
        if subject.place != text:
            raise ValueError(f"{text!r} is not what figures are of: places joined by {_TOGETHER}, each with the same directions")
        return subject

    @property
    def flows(self) -> tuple[str, ...]:
        """Each place and direction alone, as the flows of a trial are called: `a`, `a.back`, `b`, `b.back`."""
        return tuple(back_of(name) if back else name for name in self.places for back in self._backs)

    @property
    def place_of_flows(self) -> tuple[str, ...]:
        """The place of each of its flows: `a`, `a`, `b`, `b`."""
        return tuple(name for name in self.places for _ in self._backs)

    @property
    def _backs(self) -> tuple[bool, ...]:
        return _BACKS.get(self.way, (False,))

    @property
    def is_sum(self) -> bool:
        """True if several flows are in it."""
        return len(self.places) > 1 or self.way is Way.BOTH

    @property
    def is_back(self) -> bool:
        """True if it is of the frames that go back, and of no others."""
        return self.way is Way.BACK

    @cached_property
    def place(self) -> str:
        """Place of its figures among those of a trial: `a`, `a.back`, `a+a.back`, `a+b`."""
        return joined(self.flows)


@lru_cache(_KEPT)
def subject_of(text: str) -> Subject:
    """The subject that `text` means. Raises ValueError."""
    return Subject.read(text)


def back_of(place: str) -> str:
    """The flow from sink to source."""
    return f"{place}{_BACK}"


def joined(flows: Iterable[str]) -> str:
    """Return the name of the sum of flows or places."""
    return _TOGETHER.join(flows)


def apart(text: str) -> tuple[str, ...]:
    """The flows or places whose sum is called so."""
    return tuple(text.split(_TOGETHER))


def plain_place(name: str) -> str:
    """A name of a place out of somebody else's file, without what the words of a sum or a direction are made of."""
    while name.endswith(_BACK):
        name = name.removesuffix(_BACK)
    return name.replace(_TOGETHER, "_").replace(_PART, "_") or "_"


def places_in(text: str) -> Subject:
    """The subject that somebody else's words for places mean, in which a `/` is a part of a name. Raises ValueError."""
    return subject_of(text.replace(_PART, "_"))


def whole_of(places: Iterable[str], usual: str = "") -> str:
    """Return the place with the most flows, which has the figures of the whole cell: `usual` if it is one of them.

    `usual` too where there is none.
    """
    return max(dict.fromkeys(places), key=lambda text: (len(apart(text)), text == usual), default=usual)


def sums_first(places: Iterable[str]) -> list[str]:
    """Those with the most flows first, others by name."""
    return sorted(dict.fromkeys(places), key=lambda text: (-len(apart(text)), text))


class FigureName(NamedTuple):
    """A figure among those of one place."""

    part: str
    """Part of the measurement; empty for the whole."""
    measure: str
    way: Way | None = None
    """Direction, where the place does not say it: of drives, and of what a user's step prints of both directions."""

    @classmethod
    def read(cls, text: str) -> Self:
        """The name that `text` means: the measure is what follows the last mark of a part."""
        part, _, measure = text.rpartition(_PART)
        bare, _, word = measure.rpartition(_WAY)
        return cls(part, bare, _IN_NAMES[word]) if bare and word in _IN_NAMES else cls(part, measure)

    def __str__(self) -> str:
        own = f"{self.measure}{_WAY}{self.way.value}" if self.way else self.measure
        return f"{self.part}{_PART}{own}" if self.part else own


_IN_NAMES = {**WAYS_OF_DRIVES, Way.BACK.value: Way.BACK}


@lru_cache(_KEPT)
def figure_name(text: str) -> FigureName:
    """The part, the measure and the way of `seq/iops.read`."""
    return FigureName.read(text)


def part_figure(part: str, measure: str) -> str:
    """The text of a figure of one part of a measurement: `ndr/lower_pps`."""
    return str(FigureName(part, measure))


def way_figure(way: Way | None, measure: str) -> str:
    """The text of a figure of one way: `iops.read`."""
    return str(FigureName("", measure, way))


def share_part(percent: float) -> str:
    """The part that has so much of the load: `50%`."""
    return f"{percent:g}%"


def step_part(phase: str, number: int) -> str:
    """The part that is a step of a phase: `measurement/01`. No other part has a `/` inside."""
    return f"{phase}{_PART}{number:02d}"


def is_step(part: str) -> bool:
    """Return whether a part is a step, or a program's output in one."""
    return _PART in part


def run_part(number: int) -> str:
    """The part that is a further run of a program in one step: `run_2`."""
    return f"{_RUN}{number}"


def run_of(part: str) -> tuple[int, str]:
    """Return which run of a program in its step a part is of, from 1, and the part of that run: 2 and `x` of `run_2/x`."""
    run, _, rest = part.partition(_PART)
    number = run.removeprefix(_RUN)
    return (int(number), rest) if run.startswith(_RUN) and number.isdecimal() else (1, part)


def share_of(part: str) -> float | None:
    """The share in percent that a part has of the load; None where it is another part."""
    try:
        return float(part.removesuffix("%")) if part.endswith("%") else None
    except ValueError:
        return None


def each_part(figure: str) -> str:
    """`*/iops` of `seq/iops.read`: what stands for the figure of every part and way; a figure of the whole has no part there either."""
    part, measure, _ = figure_name(figure)
    return part_figure(EACH, measure) if part else measure


def of_part(part: str, values: Mapping[str, float]) -> dict[str, float]:
    """Values by measure, as the figures of one part of the measurement."""
    return {part_figure(part, measure): value for measure, value in values.items()}


def by_part(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Part → measure, with its way → value, of the figures of one place."""
    values_by_part: dict[str, dict[str, float]] = {}
    for text, value in values.items():
        name = figure_name(text)
        values_by_part.setdefault(name.part, {})[str(name._replace(part=""))] = value
    return values_by_part


class Figures(dict[str, dict[str, float]]):
    """The figures of a trial: place (`a+b`) → figure (`ndr/lower_pps`) → value."""

    @classmethod
    def of(cls, values: Iterable[tuple[Subject, Mapping[str, float]]]) -> Self:
        """Those of each subject, by measure. A measure with `.back` behind it is of what came back to the subject's place."""
        figures = cls()
        for subject, by_measure in values:
            before = f"{subject.part}{_PART}" if subject.part else ""
            behind = f"{_WAY}{subject.way.value}" if subject.way in _OF_DRIVES else ""
            here = figures.setdefault(subject.place, {})
            for text, value in by_measure.items():
                if text.endswith(_BACK):
                    figures.setdefault(replace(subject, way=Way.BACK).place, {})[before + text.removesuffix(_BACK)] = value
                else:
                    here[before + text + behind] = value
        return figures

    def by_subject(self) -> Iterator[tuple[Subject, dict[str, float]]]:
        """Each subject with its values by measure, in their order: one whose values are not next to each other comes again.

        Raises ValueError for a place that is not one.
        """
        for place, of in self.items():
            subject = subject_of(place)
            named = [(figure_name(text), value) for text, value in of.items()]
            for (part, way), same in groupby(named, key=lambda figure: (figure[0].part, figure[0].way)):
                own = replace(subject, part=part, way=way or subject.way) if part or way else subject
                yield own, {name.measure: value for name, value in same}
