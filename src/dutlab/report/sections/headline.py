"""The answer, before anything else: the fastest and the slowest mode, how far they are apart, and whether repeats bear it out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dutlab.report.model.run_report import Headline, HeadlineFigure, LimitRow
from dutlab.report.model.table import Figure, Value, common_unit, figure_text
from dutlab.stats.summary import median

NO_DIFFERENCE = "no difference shown"


def with_limits(headline: Headline, of_trial: Mapping[tuple[str, int], LimitRow]) -> Headline:
    """`router: limited by line rate (shown)`; both in one where they are the same. `of_trial` has the verdicts by label and trial."""
    out = {}
    for label in (headline.fastest, headline.slowest):
        row = next((of_trial[label, t] for t in headline.trials if (label, t) in of_trial), None)
        if row is not None:
            out[label] = f"{row.words}{f' ({row.confidence})' if row.confidence else ''}"
    if len(out) > 1 and len(set(out.values())) == 1:
        return replace(headline, limits=(f"both: {next(iter(out.values()))}",))
    return replace(headline, limits=tuple(f"{label}: {words}" for label, words in out.items()))


def spread_sentence(values: Sequence[Value]) -> str:
    """How well repeats agree, over every rate that was measured at least twice."""
    spreads = [v.relative_spread for v in values if isinstance(v, Figure) and v.n > 1]
    if not values:
        return ""
    if not spreads:
        return "One trial per result: the spread between repeats is not known."
    typical, worst = f"{median(spreads):.1%}".replace("%", " %"), f"{max(spreads):.1%}".replace("%", " %")
    return f"Spread between repeats: {typical}." if len(spreads) == 1 else f"Spread between repeats: typically {typical}, at worst {worst}."


def link_words(links: tuple[str, ...], link: str) -> str:
    """What was driven, in a sentence."""
    if len(links) == 1:
        return f"link {link}"
    driven = " and ".join(links)
    return f"links {driven} at once, their sum" if link == "+".join(links) else f"link {link} while {driven} are driven"


def compared(about: str, named: Sequence[tuple[str, Value]], figure: str) -> Headline | None:
    """The fastest and the slowest of what is named, and whether their repeats bear the difference out. None with fewer than two figures.

    A result of 0 has no rank. Both are told as a table of them would: in the unit that suits them, with the digits that their spread
    leaves.
    """
    have = [(label, v) for label, v in named if isinstance(v, Figure) and v.median]
    if len(have) < 2:  # noqa: PLR2004 - one figure compares with nothing
        return None
    unit = common_unit(figure, [v for _, v in have])
    (top, best), (low, worst) = max(have, key=lambda h: h[1].median), min(reversed(have), key=lambda h: h[1].median)
    less = (1 - worst.median / best.median) if best.median else 0.0
    overlap = worst.high >= best.low
    if overlap:
        sentence = f"No difference shown: the repeats of {top} and {low}, the furthest apart, overlap."
    else:
        how = "medians" if best.n != worst.n else "one trial each, spread unknown" if best.n == 1 else f"medians of {best.n}"
        sentence = f"{top} is the fastest at {figure_text(best, unit)}, {low} the slowest at {figure_text(worst, unit)} ({how})."
        close = [label for label, v in have if label != top and v.high >= best.low]
        if close:
            sentence += f" {' and '.join(close)} overlaps with {top}." if len(close) == 1 else f" {' and '.join(close)} overlap with {top}."
    return Headline(
        about=about,
        fastest=top,
        fastest_value=figure_text(best, unit),
        slowest=low,
        slowest_value=figure_text(worst, unit),
        difference=NO_DIFFERENCE if overlap else f"{less * 100:.0f} % less",
        sentence=sentence,
        figures=tuple(HeadlineFigure(label, v.link, figure, v.trials) for label, v in ((top, best), (low, worst))),
        severe=best.severe or worst.severe,
    )
