"""Results of a bisection's runs: the figures of one version, the changes between two, and the steps in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import exp, log

from dutlab.analysis.bisection import VersionSide
from dutlab.measures import direction_of
from dutlab.plan.cell import Cell
from dutlab.report.model.contests import OwnWords, cell_label, compared_by, own_words
from dutlab.report.questions.sides import ComparedRun, of_any_kernel, without_version
from dutlab.spec.factors import VERSION
from dutlab.stats.functions import FunctionChange, words_of
from dutlab.stats.summary import median
from dutlab.store.cell_figures import CellFigures, CellKey, cells_of, key_of, name_words

Figures = dict[tuple[str, str], float]
"""Label and figure → value."""
HEADS = ("step", "version", "asked", "change", "side", "run")


@dataclass(frozen=True)
class BisectStep:
    """One version that was measured."""

    version: str
    asked: int
    """Number of its runs."""
    value: float | None
    """Value of a count."""
    change: float | None
    """Change against the first version, as a share."""
    side: VersionSide
    runs: tuple[str, ...]
    why: str = ""
    """Reason for an unknown side."""


@dataclass(frozen=True)
class BisectFound:
    """Result of a bisection: the version at which a figure changed."""

    figure: str
    label: str
    change: float | None
    """Change of the last version against the first, as a share; None if none is proven."""
    step_change: float | None
    """Change of the culprit against the version before it."""
    culprits: tuple[str, ...]
    """Versions that may have made the change: one if it is found, several if they cannot be separated, none without a change."""
    before: str
    """Last version with the same figure as the first."""
    steps: tuple[BisectStep, ...]
    contradicts: bool = False
    subjects: Mapping[str, str] | None = None
    """Subjects of commits."""
    why: str = ""
    functions: tuple[FunctionChange, ...] = ()
    """Functions of the culprit that take more or fewer instructions than in the version before it."""
    profiles: tuple[str, ...] = ()
    """Runs that the profiles are from."""

    @property
    def exit_status(self) -> int:
        """Exit status: 0 found, 1 no change, 2 cannot tell."""
        if self.why or self.contradicts or len(self.culprits) > 1:
            return 2
        return 0 if self.culprits else 1

    @property
    def sentence(self) -> str:
        """Answer, in one sentence."""
        if self.change is None:
            return (
                f"CANNOT TELL: {self.why}"
                if self.why
                else f"no change: the last version is as the first ({len(self.steps)} versions asked)"
            )
        whole = f"{self.label}, {self.figure}: {_percent(self.change)}{_way(self.figure, self.change)} from first to last"
        if self.why:
            return f"CANNOT TELL: {whole}; {self.why}"
        if self.contradicts:
            return f"CANNOT TELL: {whole}; a later version is as the first again, so there is more than one change"
        if len(self.culprits) > 1:
            return f"CANNOT TELL: {whole}; it is one of {', '.join(map(self._named, self.culprits))}: those between cannot be separated"
        own = "" if self.step_change is None else f", {_percent(self.step_change)} by itself"
        asked = f"{whole}; {len(self.steps)} versions asked"
        own += f" (functions: {words_of(self.functions)})" if self.functions else ""
        return f"FOUND: {self._named(self.culprits[0])} changed it{own}; {self.before} is as the first ({asked})"

    def _named(self, version: str) -> str:
        subject = (self.subjects or {}).get(version, "")
        return f"{version} ({subject})" if subject else version

    def plain(self) -> dict[str, object]:
        """Return the result as data for JSON."""
        steps = [{**asdict(step), "side": step.side.name} for step in self.steps]
        return {**asdict(self), "steps": steps, "sentence": self.sentence, "exit_status": self.exit_status}


def step_rows(steps: Sequence[BisectStep]) -> list[tuple[str, ...]]:
    """Return the rows of the table with the heads HEADS."""
    return [
        (
            str(number), step.version, str(step.asked), "" if step.change is None else _percent(step.change),
            f"{step.side.value}{f': {step.why}' if step.why else ''}", ", ".join(step.runs),
        )
        for number, step in enumerate(steps, 1)
    ]  # fmt: skip


def markdown_of(result: BisectFound) -> str:
    """Return the report of a bisection as Markdown."""
    rows = [HEADS, ("---",) * len(HEADS), *step_rows(result.steps)]
    table = "\n".join(f"| {' | '.join(word.replace('|', ' ') for word in row)} |" for row in rows)
    return f"# Bisection\n\n{result.sentence}\n\n{table}\n"


def figures_of(run: ComparedRun) -> Figures:
    """Return the main figures of each cell of a run."""
    cells = cells_of(of_any_kernel(run).records)
    own = own_words(cell.cell for cell in cells.values())
    return {
        (_label(cell, name, own), figure): median([r.value for r in cell.readings(name, figure)])
        for cell in cells.values()
        for name, figure in compared_by([cell], ())
    }


def place_of(run: ComparedRun, label: str) -> tuple[CellKey, Cell] | None:
    """Return the cell of a run that has this label in its figures."""
    cells = cells_of(of_any_kernel(run).records)
    own = own_words(cell.cell for cell in cells.values())
    return next(((key, cell.cell) for key, cell in cells.items() for name in cell.names if _label(cell, name, own) == label), None)


def changes_between(runs: Iterable[ComparedRun], first: str, second: str) -> dict[tuple[str, str], list[float]]:
    """Return label and figure → logarithms of the ratio of two versions, one for each block of runs that have both."""
    changes = dict[tuple[str, str], list[float]]()
    for run in runs:
        sides = [cells_of(without_version(r) for r in run.records if r.cell.factors.get(VERSION) == version) for version in (first, second)]
        own = own_words(cell.cell for cell in sides[0].values())
        for key, cell in sides[0].items():
            if (other := sides[1].get(key)) is None:
                continue
            for name, figure in compared_by([cell], ()):
                a, b = ({r.repeat: r.value for r in of.readings(name, figure)} for of in (cell, other))
                of_cell = changes.setdefault((_label(cell, name, own), figure), [])
                of_cell += [log(b[n] / a[n]) for n in a if n in b and min(a[n], b[n]) > 0]
    return changes


def reason_without_result(run: ComparedRun) -> str:
    """Return the reason for a run without a result."""
    return next((r.why or r.status for r in run.records if r.status != "measured"), "its run has no result")


def as_share(change: float) -> float:
    """Convert a logarithm into a share."""
    return exp(change) - 1


def _label(cell: CellFigures, name: str, own: OwnWords) -> str:
    of = cell.cell
    words = cell_label(of.mode, of.factors, of.workload, of.setting.size, name_words(name, of.links, of.workload))
    return " · ".join(filter(None, (words, own.get(key_of(of), ""))))


def _percent(share: float) -> str:
    return f"{share * 100:+.2g} %"


def _way(figure: str, change: float) -> str:
    better = direction_of(figure)
    return "" if not better else ", worse" if (change > 0) == (better == "lower") else ", better"
