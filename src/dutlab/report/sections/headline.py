"""Headlines of the answer: the fastest cell, and whether it is proven. All sentences of the rule for answers are made here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from dutlab.analysis.answers import AnswerKind, ContestResult
from dutlab.analysis.comparison import Comparison
from dutlab.analysis.together import Together
from dutlab.analysis.verdict import Reason, Verdict
from dutlab.measures import is_exact, is_speed
from dutlab.report.model.figures import value_of
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import Headline, HeadlineFigure, LimitRow
from dutlab.report.model.table import Figure, Missing, Value, common_unit, figure_text
from dutlab.report.model.words import Unit, plural, unit_for
from dutlab.stats.rank import p_words
from dutlab.stats.summary import median
from dutlab.store.cell_figures import WAY_WORDS
from dutlab.subject import subject_of
from dutlab.workloads import plug_of

_MOST_NAMED = 4
NOT_PLANNED = "not part of the plan"


def with_limits(headline: Headline, of_trial: Mapping[tuple[str, int], LimitRow]) -> Headline:
    """Return the headline with limits, as `router: limited by line rate (shown)`. `of_trial` is (label, trial) → verdict."""
    out = {}
    for label in (of.label for of in headline.figures):
        row = next((of_trial[label, t] for t in headline.trials if (label, t) in of_trial), None)
        if row is not None:
            out[label] = f"{row.words}{f' ({row.confidence})' if row.confidence else ''}"
    if len(out) > 1 and len(set(out.values())) == 1:
        return replace(headline, limits=(f"both: {next(iter(out.values()))}",))
    return replace(headline, limits=tuple(f"{label}: {words}" for label, words in out.items()))


def spread_sentence(values: Sequence[Value]) -> str:
    """Return a sentence on the agreement of repeats, over every rate that was measured at least twice."""
    spreads = [v.relative_spread for v in values if isinstance(v, Figure) and v.n > 1]
    if not values:
        return ""
    if not spreads:
        return "One trial per result: the spread between repeats is not known."
    typical, worst = f"{median(spreads):.1%}".replace("%", " %"), f"{max(spreads):.1%}".replace("%", " %")
    return f"Spread between repeats: {typical}." if len(spreads) == 1 else f"Spread between repeats: typically {typical}, at worst {worst}."


def link_words(links: tuple[str, ...], link: str) -> str:
    """Return the driven links in words, for a sentence."""
    subject, driven = subject_of(link), " and ".join(links)
    way = WAY_WORDS[subject.way]
    if len(links) == 1:
        return f"link {driven}{way}"
    return f"links {driven}{way} at once, their sum" if subject.places == links else f"link {subject.place} while {driven} are driven"


def compared(about: str, named: Sequence[tuple[str, Value]], figure: str, book: NoteBook) -> Headline | None:
    """Return the headline on these cells by the rule for answers. None with fewer than two figures.

    A result of 0 has no rank. Values are printed as in a table, with the same unit and digits.
    """
    have = {label: v for label, v in named if isinstance(v, Figure) and v.median}
    if len(have) < 2:  # noqa: PLR2004 - one figure compares with nothing
        return None
    standing, names = book.answers.standing(figure, list(have.items()))
    less = standing.contest.better == "lower"
    ordered = sorted(have, key=lambda label: have[label].median, reverse=not less)
    top, low = ordered[0], ordered[-1]
    values = _Values(have, common_unit(figure, list(have.values())), standing, names)
    ends = values.between(top, low)
    fastest = values.name(standing.places[0].label) if standing.kind is AnswerKind.FASTEST else ""
    last = standing.places[-1] if standing.places else None
    slowest = values.name(last.label) if last is not None and last.first == len(standing.places) > 1 else ""
    ratio = values.ratio(top, low)
    return Headline(
        about=about,
        kind=standing.kind.value,
        reason=ends.reason.value if ends is not None and ends.reason is not None else "",
        fastest=fastest,
        fastest_value=values.text(fastest) if fastest else "",
        slowest=slowest,
        slowest_value=values.text(slowest) if slowest else "",
        ratio=ratio[0],
        ratio_low=ratio[1],
        ratio_high=ratio[2],
        p=None if ends is None else ends.p,
        sentence="; ".join((values.sentence(fastest, slowest, top, low), *caveats(named))) + ".",
        figures=tuple(HeadlineFigure(label, have[label].link, figure, have[label].trials) for label in (top, low)),
        severe=have[top].severe or have[low].severe,
    )


DISTINCT = 1.05
"""Least ratio that is printed of two values without a known spread."""


def times_words(ratio: float) -> str:
    """Return a ratio with three significant digits, as `5.85 ×`."""
    return f"{ratio:.3g} ×" if ratio < 1000 else f"{ratio:.0f} ×"  # noqa: PLR2004 -- from there on `g` writes powers


class _Values:
    """Values of named cells, and the sentences on their contest result."""

    def __init__(self, have: Mapping[str, Figure], unit: Unit, standing: ContestResult, names: Mapping[str, str]) -> None:
        self._have, self._unit, self._standing, self._names = have, unit, standing, names
        self._labels = {name: label for label, name in names.items()}
        self._speed = is_speed(standing.contest.figure)

    def name(self, label: str) -> str:
        """Return the name of a cell."""
        return self._names[label]

    def text(self, name: str) -> str:
        """Return a cell's value with its unit."""
        return figure_text(self._have[name], self._unit)

    def between(self, first: str, second: str) -> Comparison | None:
        """Return the comparison of two cells, in either order."""
        return self._standing.between(self._labels[first], self._labels[second])

    def ratio(self, first: str, second: str) -> tuple[float | None, float | None, float | None]:
        """Return the ratio of the second to the first, with the low and high end of its interval."""
        comparison = self._standing.against(self._labels[first], self._labels[second])
        if comparison is None or comparison.ratio is None:
            return None, None, None
        inside = comparison.ratio.interval
        return comparison.ratio.ratio, None if inside is None else inside.low, None if inside is None else inside.high

    def sentence(self, fastest: str, slowest: str, top: str, low: str) -> str:
        """Return the sentence on the result, without a full stop."""
        kind = self._standing.kind
        if kind is AnswerKind.EQUIVALENT:
            return f"{_and(list(self._have))} are equivalent"
        if kind is AnswerKind.FASTEST:
            return self._fastest(fastest, slowest)
        if kind is AnswerKind.SHARED:
            return self._shared(slowest)
        among = ", the furthest apart" if len(self._have) > 2 else ""  # noqa: PLR2004 -- with two there are no others
        if (once := self._once(top, low, among)) is not None:
            return once
        both = f"{top} ({self.text(top)}) and {low} ({self.text(low)}){among}"
        return f"no difference is proven between {both}: {self._why(top, low)}"

    def _once(self, top: str, low: str, among: str) -> str | None:
        """Return the sentence on two cells that were measured once and differ by DISTINCT or more; None for others."""
        comparison = self.between(top, low)
        if comparison is not None and comparison.reason is not Reason.ONE_REPEAT:
            return None
        more, less = sorted((top, low), key=lambda name: self._have[name].median, reverse=True)
        if (
            (times := self._have[more].median / self._have[less].median) < DISTINCT
            or self._have[more].at_least
            or self._have[less].at_least
        ):
            return None
        both = f"{more} ({self.text(more)}) is {times_words(times)} {less} ({self.text(less)}){among}"
        return f"{both}, each measured once: one repeat shows no spread, so no difference is proven"

    def _fastest(self, fastest: str, slowest: str) -> str:
        best, worst = ("fastest", "slowest") if self._speed else ("best", "worst")
        sentence = f"{fastest} is the {best} at {self.text(fastest)}"
        if slowest:
            return f"{sentence}, {slowest} the {worst} at {self.text(slowest)} ({self._how(fastest, slowest)})"
        rest = [self.name(p.label) for p in self._standing.places[1:]]
        shown = [f"{name} at {self.text(name)}" for name in rest[:_MOST_NAMED]]
        more = f" and {len(rest) - _MOST_NAMED} more" if len(rest) > _MOST_NAMED else ""
        return f"{sentence} ({self._counts([fastest, *rest])}), before {_and(shown)}{more}"

    def _shared(self, slowest: str) -> str:
        first = [self.name(label) for label in self._standing.best]
        shown = [f"{name} ({self.text(name)})" for name in first[:_MOST_NAMED]]
        more = f" and {len(first) - _MOST_NAMED} more" if len(first) > _MOST_NAMED else ""
        best = "fastest" if self._speed else "best"
        sentence = f"no single {best}: {_and(shown)}{more} share the first place, no difference between them is proven"
        worst = "slowest" if self._speed else "worst"
        return f"{sentence}, and {slowest} is the {worst} at {self.text(slowest)}" if slowest else sentence

    def _how(self, first: str, second: str) -> str:
        """Return the basis of a comparison, as `medians of 6, ratio 0.580, 95 % interval 0.570 to 0.590`."""
        ratio, low, high = self.ratio(first, second)
        words = self._counts([first, second])
        if ratio is not None and self._have[first].at_least:
            return f"{words}, ratio at most {_share(ratio)}"
        if ratio is not None:
            words += f", ratio {_share(ratio)}"
        return words if low is None or high is None else f"{words}, 95 % interval {_share(low)} to {_share(high)}"

    def _counts(self, names: Sequence[str]) -> str:
        if is_exact(self._standing.contest.figure):
            return "counted"
        counts = {self._have[name].n for name in names}
        return f"medians of {min(counts)}" if len(counts) == 1 else f"medians of {min(counts)} to {max(counts)}"

    def _why(self, top: str, low: str) -> str:
        comparison = self.between(top, low)
        if comparison is not None and comparison.reason is Reason.WITHIN:
            return f"counts within {comparison.least * 100:g} %"
        reason = None if comparison is None else comparison.reason
        if comparison is None or reason is Reason.ONE_REPEAT:
            return "one repeat shows no spread"
        if reason is Reason.EQUAL:
            return "their values are equal"
        if reason is Reason.BOUND:
            return "a bound is not the result, which may be larger"
        inside = comparison.ratio.interval if comparison.ratio is not None else None
        if reason is Reason.INTERVAL and inside is not None:
            return f"the 95 % interval of the ratio, {_share(inside.low)} to {_share(inside.high)}, contains 1"
        return ", ".join(comparison.clauses) if reason is Reason.TOO_FEW else comparison.clauses[0]


NO_UPPER = "no upper bound was found"


def bounds(groups: Sequence[Group], figures: Sequence[str], book: NoteBook, why: Callable[[Group], str]) -> Iterator[str]:
    """Yield a sentence on each result that is only a lower bound, with the reason from `why`. Many are counted in one sentence."""
    sentences = []
    for of in groups:
        link = of.main[1]
        for figure in figures:
            value = value_of(of, link, figure, book)
            if isinstance(value, Figure) and value.at_least:
                size = of.cell.setting.size
                where = ", ".join(
                    filter(None, (of.label, f"{size} bytes" if size.isdigit() else size, f"{plug_of(of.cell.workload).place} {link}"))
                )
                sentences.append(f"{where}: {figure_text(value, unit_for(figure, [value.median]))}: {why(of)}.")
    if len(sentences) > _MOST_NAMED:
        yield f"{plural(len(sentences), 'result')} of {len(groups) * len(figures)} are lower bounds: {NO_UPPER}."
    else:
        yield from sentences


def first_of(headlines: Sequence[Headline], cells: str = "cells") -> tuple[Headline, ...]:
    """Return the first of several cells' headlines with a summary of the others; empty without any."""
    if not headlines[1:]:
        return tuple(headlines)
    first, *others = headlines
    summary = f"In {len(others)} more {cells}: {', '.join(counted(others))}." if others[1:] else _second(others[0])
    return (replace(first, sentence=f"{first.sentence} {summary}"),)


def _second(headline: Headline) -> str:
    return f"{headline.about}: {headline.sentence}"


def counted(headlines: Sequence[Headline]) -> Iterator[str]:
    """Yield counts, as `router is the fastest in 5`, `no single fastest in 1`, `no difference is proven in 2 (one repeat)`."""
    for label, n in Counter(h.fastest for h in headlines if h.fastest).most_common():
        yield f"{label} is the fastest in {n}"
    if shared := sum(h.kind == AnswerKind.SHARED.value for h in headlines):
        yield f"no single fastest in {shared}"
    if unproven := [h for h in headlines if not h.fastest and h.kind != AnswerKind.SHARED.value]:
        reasons = {h.reason for h in unproven}
        yield f"no difference is proven in {len(unproven)}{f' ({next(iter(reasons))})' if len(reasons) == 1 and any(reasons) else ''}"


def overall_words(overall: Mapping[tuple[str, str], Together]) -> Iterator[str]:
    """Yield sentences on modes over all cells: the mode that is proven faster than most others; none if nothing is proven."""
    modes = list(dict.fromkeys(first for first, _ in overall))
    wins = {
        mode: [(other, of) for (first, other), of in overall.items() if first == mode and of.verdict is Verdict.WORSE] for mode in modes
    }
    best = max(modes, key=lambda mode: len(wins[mode]), default="")
    if not best or not wins[best]:
        return
    shown = sorted(wins[best], key=lambda won: -won[1].ratio)
    others = _and([f"{mode} (ratio {_share(of.ratio)})" for mode, of in shown[:_MOST_NAMED]])
    more = f" and {len(shown) - _MOST_NAMED} more" if len(shown) > _MOST_NAMED else ""
    first = "is the fastest, before" if len(shown) == len(modes) - 1 else "is before"
    yield f"All {shown[0][1].cells} cells together: {best} {first} {others}{more}; {p_words(max(of.p for _, of in shown))}."


def caveats(named: Sequence[tuple[str, Value]]) -> Iterator[str]:
    """Yield caveats by cell: disturbed, missing or severely doubted results. One that applies to all cells appears once."""
    of: dict[str, list[str]] = {}
    for label, value in named:
        for what in _doubts_of(value):
            of.setdefault(what, []).append(label)
    for what, labels in of.items():
        if len(labels) == len(named) > 1:
            yield f"all {len(named)}: {what}"
        else:
            more = len(labels) - _MOST_NAMED
            yield f"{_and(labels[:_MOST_NAMED])}{f' and {more} more' if more > 0 else ''}: {what}"


def _doubts_of(value: Value) -> Iterator[str]:
    if isinstance(value, Missing):
        if value.why != NOT_PLANNED:
            yield f"no result, {value.why.partition(':')[0]}"
        return
    if value.n < value.planned:
        yield f"{value.n} of {plural(value.planned, 'repeat')}"
    if value.disturbed:
        yield "disturbed by other work"
    elif value.severe:
        yield "severe doubt"


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"


def _share(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"  # noqa: PLR2004 -- four digits either way
