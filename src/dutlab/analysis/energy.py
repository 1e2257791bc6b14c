"""Watts of a device as a sum of terms: base, ports, transceivers, frames and bits.

    watts = base + ports × port + transceivers × transceiver + frames a second × frame + bits a second × bit

The terms are those of Jacob et al., Fantastic Joules and Where to Find Them (IMC 2025), and of draft-ietf-bmwg-powerbench; a frame counts
once for the whole device, not once a port. Each phase of a `soak-power` trial is a row. docs/method/energy.md has the details.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from statistics import fmean, pstdev

from dutlab.stats.least_squares import MOST_SHARE, LinearFit, least_squares
from dutlab.stats.student import two_sided
from dutlab.stats.summary import Interval

ALIKE = 0.01
"""Largest relative range of a level that was meant to be constant."""
MOST_LOSS = 0.01
"""Largest share of lost frames in a phase that counts. Lost frames cost energy too, which no term includes."""
FOLLOWS_P = 0.01
"""Probability below which residuals follow a temperature or a fan."""


class Term(Enum):
    """One term of the sum, with the unit of its estimate."""

    BASE = "base", "W"
    PORT = "port", "W"
    TRANSCEIVER = "transceiver", "W"
    FRAME = "frame", "J"
    BIT = "bit", "J"

    def __init__(self, word: str, unit: str) -> None:
        self.word, self.unit = word, unit


@dataclass(frozen=True)
class DeviceLoad:
    """State and load of the device. Rates are sums over all links and directions; bits are those of frames with FCS."""

    pps: float = 0.0
    bps: float = 0.0
    ports: float | None = None
    """Ports of the device that have a link; None if not known."""
    transceivers: float | None = None

    @property
    def size(self) -> float | None:
        """Mean frame size in bytes with FCS; None without frames."""
        return self.bps / 8 / self.pps if self.pps else None

    def amount(self, term: Term) -> float | None:
        """Return the number of units of a term; None if not known."""
        return {
            Term.BASE: 1.0,
            Term.PORT: self.ports,
            Term.TRANSCEIVER: self.transceivers,
            Term.FRAME: self.pps,
            Term.BIT: self.bps,
        }[term]


@dataclass(frozen=True)
class PhaseWatts:
    """Mean watts of one phase."""

    trial: str
    phase: str
    load: DeviceLoad
    watts: float
    deviation_w: float | None = None
    """Standard deviation of its readings; None if not known."""
    conditions: Mapping[str, float] = field(default_factory=dict)
    """Mean of each temperature and fan, by `place: sensor, unit`."""

    @property
    def name(self) -> str:
        """Trial and phase."""
        return f"{self.trial}, {self.phase}"


@dataclass(frozen=True)
class TermEstimate:
    """Estimate of a term, in its unit."""

    term: Term
    value: float | None
    """None if the plan does not determine it."""
    interval: Interval | None
    """95 % interval; None if the error is not known."""
    why: str = ""
    """Reason for a missing value or interval, and the level that must vary."""


@dataclass(frozen=True)
class Prediction:
    """Watts of a load, measured or not."""

    load: DeviceLoad
    watts: float | None
    interval: Interval | None
    """95 % interval for the mean watts of one phase of this load, by the same meter."""
    outside: tuple[str, ...] = ()
    """Ways in which the load is outside of what was measured."""
    why: str = ""
    """Reason for a missing value or interval."""


@dataclass(frozen=True)
class Condition:
    """Range of a temperature or a fan over the phases, and whether the residuals follow it."""

    name: str
    low: float
    high: float
    follows: bool
    """True if the residuals are correlated with it: then the terms hold only near these values."""


@dataclass(frozen=True)
class NoModel:
    """Reason why nothing can be estimated, and what to do."""

    why: str
    remedy: str


@dataclass(frozen=True)
class EnergyModel:
    """Fitted terms of one device in one mode."""

    terms: tuple[Term, ...]
    phases: tuple[PhaseWatts, ...]
    left_out: tuple[str, ...]
    """Phases that do not count, each with the reason."""
    fit: LinearFit = field(compare=False)

    @cached_property
    def estimates(self) -> tuple[TermEstimate, ...]:
        """Estimate of each term, in the order of the sum."""
        return tuple(self._estimate(term) for term in self.terms)

    def _estimate(self, term: Term) -> TermEstimate:
        weights = [float(other is term) for other in self.terms]
        if not self.fit.separates(weights):
            return TermEstimate(term, None, None, self._why_not(weights))
        interval = self.fit.interval(weights)
        return TermEstimate(term, self.fit.value(weights), interval, "" if interval else self._one_phase())

    def frame_joules(self, size: float) -> TermEstimate:
        """Return the joules that one more frame of `size` bytes with FCS takes."""
        weights = [{Term.FRAME: 1.0, Term.BIT: 8 * size}.get(term, 0.0) for term in self.terms]
        if not self.fit.separates(weights):
            return TermEstimate(Term.FRAME, None, None, self._why_not(weights))
        interval = self.fit.interval(weights)
        return TermEstimate(Term.FRAME, self.fit.value(weights), interval, "" if interval else self._one_phase())

    def predict(self, load: DeviceLoad) -> Prediction:
        """Return the watts of a load. Raises ValueError if the load lacks a number that the terms need."""
        if lacking := [term.word for term in self.terms if load.amount(term) is None]:
            raise ValueError(f"the number of {lacking[0]}s is missing")
        weights = [float(load.amount(term) or 0.0) for term in self.terms]
        if not self.fit.separates(weights):
            return Prediction(load, None, None, why=self._why_not(weights))
        interval = self.fit.prediction(weights)
        why = "" if interval else self._one_phase()
        return Prediction(load, self.fit.value(weights), interval, tuple(self._outside(load, weights)), why)

    @property
    def rows(self) -> Iterator[tuple[PhaseWatts, float, float]]:
        """Each phase, its watts by the model, and the residual."""
        return ((p, p.watts - rest, rest) for p, rest in zip(self.phases, self.fit.residuals, strict=True))

    def seen(self, of: str) -> tuple[float, float] | None:
        """Return the range of `ports`, `transceivers`, `pps`, `bps` or `size` over the phases; None if it is not known."""
        values = [float(value) for phase in self.phases if (value := getattr(phase.load, of)) is not None]
        return (min(values), max(values)) if values else None

    @cached_property
    def conditions(self) -> tuple[Condition, ...]:
        """Temperatures and fans that every phase has."""
        names = [name for name in self.phases[0].conditions if all(name in phase.conditions for phase in self.phases)]
        return tuple(self._condition(name) for name in names)

    def _condition(self, name: str) -> Condition:
        values = [phase.conditions[name] for phase in self.phases]
        return Condition(name, min(values), max(values), follows=_follows(self.fit.residuals, values, self.fit.freedom - 1))

    def _outside(self, load: DeviceLoad, weights: Sequence[float]) -> Iterator[str]:
        for of, unit in (
            ("ports", " ports"),
            ("transceivers", " transceivers"),
            ("pps", " frames/s"),
            ("bps", " bit/s"),
            ("size", " bytes"),
        ):
            value, seen = getattr(load, of), self.seen(of)
            if value is None or seen is None:
                continue
            slack = ALIKE * max(map(abs, seen))
            if not seen[0] - slack <= value <= seen[1] + slack:
                yield f"{value:.6g}{unit}, and {seen[0]:.6g} to {seen[1]:.6g} were measured"
        if self.fit.leverage(weights) > max(self.fit.leverages):
            yield "no phase was near this combination"

    def _one_phase(self) -> str:
        alone = [p.name for p, leverage in zip(self.phases, self.fit.leverages, strict=True) if leverage > 1 - ALIKE]
        return f"it rests on one phase ({', '.join(alone)}), so its error is not known: hold that state in a second phase or repeat"

    def _why_not(self, weights: Sequence[float]) -> str:
        """Return which terms the plan does not separate, and which level must vary."""
        tied = {term for term, part in zip(self.terms, self.fit.undetermined(weights), strict=True) if abs(part) > MOST_SHARE}
        reasons = list(_reasons(tied, self.phases))
        words = " and ".join(term.word for term in self.terms if term in tied)
        return "; ".join(reasons) or f"{words} change only together: vary one of them alone"


def energy_model(phases: Sequence[PhaseWatts], left_out: Sequence[str] = ()) -> EnergyModel | NoModel:
    """Fit the terms to the watts of phases of one device in one mode."""
    stuck = {trial for trial in {p.trial for p in phases} if _is_stuck([p for p in phases if p.trial == trial])}
    kept = tuple(p for p in phases if p.trial not in stuck)
    left_out = (
        *left_out,
        *(f"{trial}: the meter showed the same watts in every phase: it is stuck, or too coarse" for trial in sorted(stuck)),
    )
    if not kept:
        why = "; ".join(dict.fromkeys(left_out)) or "no phase has watts"
        return NoModel(why, "name a sensor in the testbed that reads the watts of the device, and see that its readings follow the load")
    if len({p.load.transceivers is None for p in kept}) > 1:
        return NoModel("some trials do not state how many transceivers were in", "give every run the factor `transceivers`")
    terms = tuple(term for term in Term if all(p.load.amount(term) is not None for p in kept))
    fit = least_squares([[float(p.load.amount(term) or 0.0) for term in terms] for p in kept], [p.watts for p in kept])
    if fit.freedom < 1:
        why = f"{len(kept)} phases determine {fit.rank} terms, and more phases than terms are needed to estimate the error"
        return NoModel(why, "add phases, frame sizes or repeats")
    return EnergyModel(terms, kept, tuple(left_out), fit)


def _is_stuck(phases: Sequence[PhaseWatts]) -> bool:
    """Return whether the meter showed one value through phases that differ."""
    return len({p.load for p in phases}) > 1 and len({p.watts for p in phases}) == 1 and not any(p.deviation_w for p in phases)


def _reasons(tied: set[Term], phases: Sequence[PhaseWatts]) -> Iterator[str]:
    loads = [p.load for p in phases]
    if not any(load.pps for load in loads):
        yield from ["no phase has a load: write a phase with `share`"] if tied & {Term.FRAME, Term.BIT} else []
        return
    if Term.PORT in tied and _alike([load.ports or 0.0 for load in loads]):
        yield f"every phase has {loads[0].ports:g} ports up: hold a phase with `down: [LINK]`"
    if Term.TRANSCEIVER in tied and _alike([load.transceivers or 0.0 for load in loads]):
        yield f"every phase has {loads[0].transceivers:g} transceivers: measure levels of the factor `transceivers`, as [0, 4]"
    if {Term.FRAME, Term.BIT} <= tied and _alike(sizes := [load.size for load in loads if load.size is not None]):
        yield f"every load has frames of {fmean(sizes):.0f} bytes: write a second size in `frame_sizes`"
    if tied & {Term.FRAME, Term.BIT} and tied - {Term.FRAME, Term.BIT} and _alike([load.pps for load in loads]):
        rate = fmean(load.pps for load in loads)
        yield f"every phase has the same rate, {rate:.6g} frames/s: add a phase without load, or with another share"


def _alike(values: Sequence[float]) -> bool:
    return max(values) - min(values) <= ALIKE * max(map(abs, values))


def _follows(residuals: Sequence[float], values: Sequence[float], freedom: int) -> bool:
    """Return whether residuals are correlated with `values` (two-sided t test of Pearson's r)."""
    spread = pstdev(residuals) * pstdev(values)
    if spread == 0 or freedom < 1:
        return False
    mean = fmean(values)
    r = fmean(e * (v - mean) for e, v in zip(residuals, values, strict=True)) / spread
    return abs(r) >= 1 or two_sided(r * (freedom / (1 - r * r)) ** 0.5, freedom) < FOLLOWS_P
