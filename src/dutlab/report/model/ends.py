"""The best and worst of a run's cells in words, for lists of runs and devices."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.report.model.words import unit_for, with_two_digits
from dutlab.store.results import BestAndWorst, CellResult


@dataclass(frozen=True)
class EndWords:
    """Best and worst of one workload in words."""

    about: str
    """Workload, frame size, links and setting: `sweep 64 a+b`."""
    best: str
    """Value and label: `17.44 Gb/s router`."""
    worst: str
    """Text for the worst cell; empty if there is only one cell."""

    @property
    def text(self) -> str:
        """Both in one line."""
        return f"{self.about}: {f'best {self.best}, worst {self.worst}' if self.worst else self.best}"


def value_words(of: CellResult) -> str:
    """Return the median with its unit, as `≥ 14.88 Mpps` where it is only a lower bound."""
    return f"{'≥ ' if of.at_least else ''}{with_two_digits(unit_for(of.figure, [of.median]), of.median).text(of.median).strip()}"


def about_words(of: CellResult, *, whole: bool = True) -> str:
    """Return the workload, frame size and links of a result; not `whole`: without the parts that differ between places."""
    if not whole:
        return of.workload
    return ", ".join(filter(None, (" ".join(filter(None, (of.workload, of.frame_size, of.links))), of.setting)))


def end_words(ends: BestAndWorst) -> EndWords:
    """Return the words of the best and worst cell, with the levels, sizes and settings in which they differ."""
    if not ends.is_alone and ends.best.median == ends.worst.median:
        return EndWords(about_words(ends.best, whole=ends.places == 1), f"{value_words(ends.best)} in all {ends.cells}", "")
    best, worst = (_words(of, ends) for of in (ends.best, ends.worst))
    return EndWords(about_words(ends.best, whole=ends.places == 1), best, "" if ends.is_alone else worst)


def _words(of: CellResult, ends: BestAndWorst) -> str:
    own = ("", "", "") if ends.places == 1 else (of.frame_size, of.setting, of.links if ends.best.links != ends.worst.links else "")
    label = ", ".join(filter(None, (of.label(ends.varied), *own)))
    return f"{value_words(of)} {label}{' (disturbed)' if of.disturbed else ''}"
