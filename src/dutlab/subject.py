"""Subject of a figure: the links or drives it was measured on, the direction, and the part of the measurement.

A figure has a measure, a subject and a value: `lower_pps` (dutlab.measures) of links a and b together, for the goal `ndr`, is 1.2 million.
The measure gives the number's meaning, the subject the object measured. Neither is guessed from the name of the other.

    places     the links under load; for storage the drives or the array; for a user's steps the hosts. The workload declares which of
               these (`WorkloadPlug.place`). A figure of several places is their sum.
    way        direction of the data: for links from source to sink, back, or both together; for drives read, write or trim
    part       part of the measurement: a goal of a search (`ndr`), a stream, a job of fio, a phase (`rebuilding`), a state of
               drives (`steady`), a share of the load (`50%`), a step (`measurement/01`). Empty for the whole measurement

A record keeps these three as fields. People, tables and options use text, which only this file writes and reads:

    a+b                 sum of places; `.back` after a name means the direction back: `a+a.back` has both directions of a
    ndr/lower_pps       figure of a part: part, then measure; a figure of the whole measurement is the measure alone
    seq/iops.read       figure of reads: the direction follows the measure, since reads and writes of a drive are columns of one table

`--figure`, claims and the columns `link` and `figure` of the index and of exports use these texts.
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
"""Size limit of the caches of texts: other people's runs may have any number of texts."""
EACH = "*"
"""Name that means every part, in the place of a part's name."""


class Way(Enum):
    """Direction of the data."""

    FORWARD = "forward"
    """From source to sink; also where there is only one direction, and for reads and writes together."""
    BACK = "back"
    BOTH = "both"
    READ = "read"
    WRITE = "write"
    TRIM = "trim"


_BACKS = {Way.FORWARD: (False,), Way.BACK: (True,), Way.BOTH: (False, True)}
_OF_DRIVES = (Way.READ, Way.WRITE, Way.TRIM)
WAYS_OF_DRIVES: Mapping[str, Way] = {way.value: way for way in _OF_DRIVES}
"""Word → direction of drives, in the order of table columns."""


@dataclass(frozen=True)
class Subject:
    """Subject of one figure. Raises ValueError for a place name that would make the subject's text ambiguous."""

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
        """Return the subject whose `place` is `text`. Raises ValueError for any other text."""
        names = [(flow.removesuffix(_BACK), flow.endswith(_BACK)) for flow in apart(text)]
        backs = tuple(sorted({back for _, back in names}))
        way = next(way for way, of in _BACKS.items() if of == backs)
        subject = cls(tuple(dict.fromkeys(name for name, _ in names)), way)
        if subject.place != text:
            raise ValueError(f"{text!r} is not what figures are of: places joined by {_TOGETHER}, each with the same directions")
        return subject

    @property
    def flows(self) -> tuple[str, ...]:
        """Each place and direction separately, by the names of a trial's flows: `a`, `a.back`, `b`, `b.back`."""
        return tuple(back_of(name) if back else name for name in self.places for back in self._backs)

    @property
    def place_of_flows(self) -> tuple[str, ...]:
        """Place of each of its flows: `a`, `a`, `b`, `b`."""
        return tuple(name for name in self.places for _ in self._backs)

    @property
    def _backs(self) -> tuple[bool, ...]:
        return _BACKS.get(self.way, (False,))

    @property
    def is_sum(self) -> bool:
        """True if it has several flows."""
        return len(self.places) > 1 or self.way is Way.BOTH

    @property
    def is_back(self) -> bool:
        """True if it has only frames from sink to source."""
        return self.way is Way.BACK

    @cached_property
    def place(self) -> str:
        """Key of its figures among those of a trial: `a`, `a.back`, `a+a.back`, `a+b`."""
        return joined(self.flows)


@lru_cache(_KEPT)
def subject_of(text: str) -> Subject:
    """Return the subject that `text` means. Raises ValueError."""
    return Subject.read(text)


def back_of(place: str) -> str:
    """Return the name of the flow from sink to source."""
    return f"{place}{_BACK}"


def joined(flows: Iterable[str]) -> str:
    """Return the name of the sum of flows or places."""
    return _TOGETHER.join(flows)


def apart(text: str) -> tuple[str, ...]:
    """Return the flows or places whose sum is called `text`."""
    return tuple(text.split(_TOGETHER))


def plain_place(name: str) -> str:
    """Return a place name from another tool's file without the marks of sums, parts and directions."""
    while name.endswith(_BACK):
        name = name.removesuffix(_BACK)
    return name.replace(_TOGETHER, "_").replace(_PART, "_") or "_"


def places_in(text: str) -> Subject:
    """Return the subject that another tool's text for places means; there, `/` belongs to a name. Raises ValueError."""
    return subject_of(text.replace(_PART, "_"))


def whole_of(places: Iterable[str], usual: str = "") -> str:
    """Return the place with the most flows, which has the figures of the whole cell.

    `usual` wins a tie, and is returned where there are no places.
    """
    return max(dict.fromkeys(places), key=lambda text: (len(apart(text)), text == usual), default=usual)


def sums_first(places: Iterable[str]) -> list[str]:
    """Return the distinct places, those with the most flows first, then by name."""
    return sorted(dict.fromkeys(places), key=lambda text: (-len(apart(text)), text))


class FigureName(NamedTuple):
    """Name of a figure among those of one place."""

    part: str
    """Part of the measurement; empty for the whole."""
    measure: str
    way: Way | None = None
    """Direction, where the place does not give it: for drives, and for a user's step that prints both directions."""

    @classmethod
    def read(cls, text: str) -> Self:
        """Return the name that `text` means. The measure follows the last `/`."""
        part, _, measure = text.rpartition(_PART)
        bare, _, word = measure.rpartition(_WAY)
        return cls(part, bare, _IN_NAMES[word]) if bare and word in _IN_NAMES else cls(part, measure)

    def __str__(self) -> str:
        own = f"{self.measure}{_WAY}{self.way.value}" if self.way else self.measure
        return f"{self.part}{_PART}{own}" if self.part else own


_IN_NAMES = {**WAYS_OF_DRIVES, Way.BACK.value: Way.BACK}


@lru_cache(_KEPT)
def figure_name(text: str) -> FigureName:
    """Return part, measure and direction of a text such as `seq/iops.read`."""
    return FigureName.read(text)


def part_figure(part: str, measure: str) -> str:
    """Return the text of a figure of one part of a measurement: `ndr/lower_pps`."""
    return str(FigureName(part, measure))


def way_figure(way: Way | None, measure: str) -> str:
    """Return the text of a figure of one direction: `iops.read`."""
    return str(FigureName("", measure, way))


def share_part(percent: float) -> str:
    """Return the part for a share of the load: `50%`."""
    return f"{percent:g}%"


def step_part(phase: str, number: int) -> str:
    """Return the part for a step of a phase: `measurement/01`. No other part contains a `/`."""
    return f"{phase}{_PART}{number:02d}"


def is_step(part: str) -> bool:
    """Return whether a part is a step, or the output of a program in a step."""
    return _PART in part


def run_part(number: int) -> str:
    """Return the part for a further run of a program in one step: `run_2`."""
    return f"{_RUN}{number}"


def run_of(part: str) -> tuple[int, str]:
    """Return a program's run number in its step, from 1, and the part of that run: 2 and `x` of `run_2/x`."""
    run, _, rest = part.partition(_PART)
    number = run.removeprefix(_RUN)
    return (int(number), rest) if run.startswith(_RUN) and number.isdecimal() else (1, part)


def share_of(part: str) -> float | None:
    """Return the share of the load, in percent, that a part means; None for any other part."""
    try:
        return float(part.removesuffix("%")) if part.endswith("%") else None
    except ValueError:
        return None


def each_part(figure: str) -> str:
    """Return the name for every part and direction of a figure: `*/iops` of `seq/iops.read`, but `iops` of `iops`."""
    part, measure, _ = figure_name(figure)
    return part_figure(EACH, measure) if part else measure


def of_part(part: str, values: Mapping[str, float]) -> dict[str, float]:
    """Return values by measure as figures of one part of the measurement."""
    return {part_figure(part, measure): value for measure, value in values.items()}


def by_part(values: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Return part → measure with direction → value, from the figures of one place."""
    values_by_part: dict[str, dict[str, float]] = {}
    for text, value in values.items():
        name = figure_name(text)
        values_by_part.setdefault(name.part, {})[str(name._replace(part=""))] = value
    return values_by_part


class Figures(dict[str, dict[str, float]]):
    """Figures of a trial: place (`a+b`) → figure (`ndr/lower_pps`) → value."""

    @classmethod
    def of(cls, values: Iterable[tuple[Subject, Mapping[str, float]]]) -> Self:
        """Return figures from subjects and their values by measure. A measure that ends in `.back` belongs to the direction back."""
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
        """Yield each subject with its values by measure, in order. A subject whose values are not adjacent is yielded several times.

        Raises ValueError for a key that is not a valid place.
        """
        for place, of in self.items():
            subject = subject_of(place)
            named = [(figure_name(text), value) for text, value in of.items()]
            for (part, way), same in groupby(named, key=lambda figure: (figure[0].part, figure[0].way)):
                own = replace(subject, part=part, way=way or subject.way) if part or way else subject
                yield own, {name.measure: value for name, value in same}
