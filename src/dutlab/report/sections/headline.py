"""The answer, before anything else: the fastest and the slowest mode, how far they are apart, and whether repeats bear it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dutlab.report.model.run_report import Column, Headline, LimitRow, Matrix, Sweep
from dutlab.report.model.value import Figure, Value
from dutlab.report.model.words import KPPS, Unit, bit_rate_unit
from dutlab.stats.summary import median

_PROVEN_N = 6


def headlines(matrices: Sequence[Matrix], sweeps: Sequence[Sweep], limits: Sequence[LimitRow]) -> tuple[Headline, ...]:
    """One for each matrix and one for the shortest frame (or the only mix) of each main sweep; tables without two figures have none."""
    found = [_apart(of_matrix(m), m, matrices) for m in matrices] + [of_sweep(s) for s in sweeps if s.main]
    of_trial = {(row.label, trial): row for row in limits for trial in row.trials}
    return tuple(replace(h, limits=_limits(h, of_trial)) for h in found if h is not None)


def _apart(headline: Headline | None, matrix: Matrix, matrices: Sequence[Matrix]) -> Headline | None:
    """Several matrices of one workload differ in what was asked."""
    if headline is None or sum(m.workload == matrix.workload for m in matrices) == 1:
        return headline
    return replace(headline, about=f"{headline.about}: {matrix.asked}")


def _limits(headline: Headline, of_trial: Mapping[tuple[str, int], LimitRow]) -> tuple[str, ...]:
    """`router: limited by line rate (shown)`; both in one where they are the same."""
    out = {}
    for label in (headline.fastest, headline.slowest):
        row = next((of_trial[label, t] for t in headline.trials if (label, t) in of_trial), None)
        if row is not None:
            out[label] = f"{row.words}{f' ({row.confidence})' if row.confidence else ''}"
    if len(out) > 1 and len(set(out.values())) == 1:
        return (f"both: {next(iter(out.values()))}",)
    return tuple(f"{label}: {words}" for label, words in out.items())


def of_matrix(matrix: Matrix) -> Headline | None:
    """Of the sum over all links where there is one, else of the first column with two figures."""
    order = sorted(range(len(matrix.columns)), key=lambda i: (not matrix.columns[i].sum, i))
    for i in order:
        named = [(row.label, row.values[i]) for row in matrix.rows]
        figures = [v.median for _, v in named if isinstance(v, Figure)]
        if (found := compared(f"{matrix.workload} through {_way(matrix.columns[i])}", named, bit_rate_unit(figures))) is not None:
            return found
    return None


def of_sweep(sweep: Sweep) -> Headline | None:
    """Of received frames a second at the first size that two modes have."""
    for size in sweep.sizes:
        named = [(s.label, p.values["received_pps"]) for s in sweep.series for p in s.points if p.size == size]
        what = f"{size}-byte frames" if size.isdigit() else size
        way = _way(Column(sweep.links, sweep.link))
        if (found := compared(f"{sweep.workload}, {what} through {way}", named, KPPS)) is not None:
            return found
    return None


def spread_sentence(matrices: Sequence[Matrix], sweeps: Sequence[Sweep]) -> str:
    """How well repeats agree, over every rate that was measured at least twice."""
    values: list[Value] = [v for m in matrices for r in m.rows for v in r.values]
    values += [p.values["received_pps"] for s in sweeps if s.main for series in s.series for p in series.points]
    spreads = [v.relative_spread for v in values if isinstance(v, Figure) and v.n > 1]
    if not values:
        return ""
    if not spreads:
        return "Every figure was measured once: how well it repeats is not known."
    middle, widest = f"{median(spreads) * 100:.1f} %", f"{max(spreads) * 100:.1f} %"
    return f"Repeats of the middle one of {len(spreads)} rates lie {middle} of its median apart, those of the widest {widest}."


def _way(column: Column) -> str:
    if column.alone:
        return f"link {column.link}"
    links = " and ".join(column.links)
    return f"links {links} at once, their sum" if column.sum else f"link {column.link} while {links} are driven"


def compared(about: str, named: Sequence[tuple[str, Value]], unit: Unit) -> Headline | None:
    """The fastest and the slowest of what is named, and whether their repeats bear the difference out. None with fewer than two figures."""
    have = [(label, v) for label, v in named if isinstance(v, Figure)]
    if len(have) < 2:  # noqa: PLR2004 - one figure compares with nothing
        return None
    (top, best), (low, worst) = max(have, key=lambda h: h[1].median), min(reversed(have), key=lambda h: h[1].median)
    less = (1 - worst.median / best.median) if best.median else 0.0
    overlap = worst.high >= best.low
    if overlap:
        sentence = f"No difference shown: {top} and {low} are the furthest apart, and their repeats overlap."
    else:
        how = (
            "medians"
            if best.n != worst.n
            else "one trial each, so whether this repeats is not known"
            if best.n == 1
            else f"medians of {best.n}"
        )
        sentence = f"{top} is the fastest at {unit.text(best.median)}, {low} the slowest at {unit.text(worst.median)} ({how})."
        close = [label for label, v in have if label != top and v.high >= best.low]
        if close:
            sentence += f" {' and '.join(close)} overlaps with {top}." if len(close) == 1 else f" {' and '.join(close)} overlap with {top}."
    return Headline(
        about=about,
        fastest=top,
        fastest_value=unit.text(best.median),
        slowest=low,
        slowest_value=unit.text(worst.median),
        difference="no difference shown" if overlap else f"{less * 100:.0f} % less",
        sentence=sentence,
        trials=tuple(sorted({*best.trials, *worst.trials})),
        severe=best.severe or worst.severe,
    )
