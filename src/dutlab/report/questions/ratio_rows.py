"""Comparisons and effects of factors as rows of a ratio plot."""

from __future__ import annotations

from collections.abc import Sequence

from dutlab.analysis.comparison import Comparison
from dutlab.analysis.factors import Analysis, Effect
from dutlab.analysis.verdict import Verdict
from dutlab.errors import InputError
from dutlab.measures import Better
from dutlab.report.plots.plot import Plot
from dutlab.report.plots.ratio_plot import RatioRow, Side, ratio_plot
from dutlab.report.questions.compared import ComparedPair


def compared_plot(pairs: Sequence[ComparedPair], margin: float | None) -> Plot:
    """Draw a row for each cell of every pair. Raises InputError if no cell has a ratio."""
    several = len(pairs) > 1
    rows = [_row(c, f"{pair.second} · " if several else "") for pair in pairs for c in pair.comparisons if c.ratio is not None]
    if not rows:
        raise InputError("nothing to draw: no cell has a ratio", remedy="a ratio needs values above 0 on both sides")
    against = " and ".join(dict.fromkeys(p.first for p in pairs))
    return ratio_plot("compared", f"{pairs[0].second if not several else 'Others'} against {against}", rows, margin=margin)


def effects_plot(analysis: Analysis, figure: str, better: Better) -> Plot:
    """Draw a row for each effect with its interval, in colour if `better` is known. Raises InputError without effects."""
    if not analysis.effects:
        raise InputError("nothing to draw: no two cells differ in one factor alone", remedy="the sentences name missing cells")
    return ratio_plot("effects", f"What each factor does to {figure}", [_effect(e, better) for e in analysis.effects])


def _row(c: Comparison, prefix: str) -> RatioRow:
    assert c.ratio is not None  # noqa: S101 -- the caller looked
    interval = c.ratio.interval
    low, high = (interval.low, interval.high) if interval else (c.ratio.ratio, c.ratio.ratio)
    side: Side = "better" if c.verdict is Verdict.BETTER else "worse" if c.verdict is Verdict.WORSE else "neither"
    return RatioRow(f"{prefix}{c.pair.label}", c.ratio.ratio, low, high, side, c.words)


def _effect(e: Effect, better: Better) -> RatioRow:
    """Return the row of an effect; only proven effects are coloured."""
    good = (e.ratio > 1) == (better == "higher")
    side: Side = ("better" if good else "worse") if e.sure.proven and better else "neither"
    low, high = (e.sure.interval.low, e.sure.interval.high) if e.sure.interval else (e.ratio, e.ratio)
    label = f"{e.name}: {' + '.join(e.before)} → {' + '.join(e.after)}"
    return RatioRow(label, e.ratio, low, high, side, "" if e.sure.proven else "not proven")
