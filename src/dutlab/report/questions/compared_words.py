"""A comparison as text: its table and the sentences below it, for terminals and pages."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dutlab.analysis.comparison import WOULD_HAVE, Comparison
from dutlab.analysis.design import ENOUGH_FOR_ONE, RunOrder
from dutlab.analysis.together import Together
from dutlab.analysis.verdict import Verdict
from dutlab.printable import printable
from dutlab.report.model.words import Unit, plural, unit_for, with_two_digits
from dutlab.report.questions.compared import ComparedPair
from dutlab.report.sections.headline import DISTINCT, times_words
from dutlab.stats.rank import p_words

_LONGEST_HEAD = 24
MOST_ONCE = 8
"""Most ratios of cells that were measured once in one sentence."""
_UNPROVEN = "no difference proven"


def _repeats(pair: ComparedPair) -> set[int]:
    return {side.n for c in pair.comparisons for side in (c.first, c.second) if side}


def compared_rows(pair: ComparedPair) -> tuple[list[str], list[list[str]]]:
    """Return the heads and rows of a comparison's table; columns 1 to 3 have figures."""
    are_short = pair.first != pair.second and all(len(name) <= _LONGEST_HEAD for name in (pair.first, pair.second))
    heads = (printable(pair.first), printable(pair.second)) if are_short else ("first", "second")
    rows = [_row(c, counted=len(_repeats(pair)) > 1) for c in pair.comparisons]
    names = ["cell", *heads, "ratio", "95 % interval", "verdict", "p"]
    shown = [
        n for n, name in enumerate(names) if name not in {"95 % interval", "p"} or any(row[n] not in {"none", "", "1.000"} for row in rows)
    ]
    return [names[n] for n in shown], [[row[n] for n in shown] for row in rows]


def compared_words(pair: ComparedPair) -> Iterator[str]:
    """Yield the reasons of a comparison's verdicts, in sentences."""
    yield from _reasons(pair.comparisons, _repeats(pair))
    yield from _once(pair)
    if (all_of := pair.together) is not None:
        yield _together(all_of, pair.design)
    yield _about_design(pair)
    for side, labels in ((pair.first, pair.only_first), (pair.second, pair.only_second)):
        if labels:
            yield f"only in {printable(side)}: {printable('; '.join(labels))}"
    for c in pair.comparisons:
        for flag in c.flags:
            yield f"note: {printable(c.pair.label)}, {flag}"
    for change in pair.count_changes:
        yield f"note: iperf3 counts differently since {change.since}, which is between these versions: before, {change.words}"
    for fault in pair.faults:
        yield f"note: {printable(fault)}"


_DESIGN = {
    RunOrder.IN_TURN: "Both took turns in one run, so drift affects both equally; changes beyond {least} count.",
    RunOrder.INTERLEAVED: "Two runs that took turns: drift affects both equally. Two set-ups of one box may differ by {least} (--least).",
    RunOrder.ROUNDS: "Two runs that took turns, with a random order in each of {rounds} rounds: a round is compared as a pair, so "
    "drift affects both equally. Two set-ups of one box may differ by {least} (--least).",
    RunOrder.ONE_AFTER_THE_OTHER: "Measured one after the other: the intervals do not cover changes between the two runs, so only "
    "changes beyond {least} count (--least).",
    RunOrder.RUNS: "Each run counts once; the intervals cover changes from run to run. Changes beyond {least} count.",
}

_STRETCHES = (
    "Measured one after the other in one run: the intervals do not cover changes between these two parts of it, so only "
    "changes beyond {least} count (--least). Plan the modes in turn (repeats, order: shuffled) to see smaller ones."
)


def _about_design(pair: ComparedPair) -> str:
    rounds = max(len(c.pair.first) for c in pair.comparisons)
    fewest = min(min(len(c.pair.first), len(c.pair.second)) for c in pair.comparisons)
    most = max(max(len(c.pair.first), len(c.pair.second)) for c in pair.comparisons)
    sentence = _STRETCHES if pair.design is RunOrder.ONE_AFTER_THE_OTHER and not any(pair.runs) else _DESIGN[pair.design]
    alone = _ONE_RUN if pair.design is RunOrder.RUNS and fewest == 1 and most < ENOUGH_FOR_ONE else ""
    unknown = "".join(f" Not known: {of.value}, since each was set up once; {_TELLS}." for of in pair.not_known)
    return sentence.format(least=f"{pair.comparisons[0].least * 100:g} %", rounds=rounds) + alone + unknown


_TELLS = "three runs a side (--against), each set up again, show it"
_ONE_RUN = f" A single run may fall into a slow hour: with a second run, or against {ENOUGH_FOR_ONE}, smaller changes count."


def _together(of: Together, design: RunOrder) -> str:
    unit = {RunOrder.RUNS: "runs", RunOrder.ROUNDS: "rounds"}.get(design, "blocks")
    return (
        f"all {of.cells} cells together: {of.words}, ratio {_ratio(of.ratio)} ({p_words(of.p)}, {of.blocks[0]} and {of.blocks[1]} {unit})"
    )


def _once(pair: ComparedPair) -> Iterator[str]:
    """Yield how many times one side's figures were those of the other, where each was measured once."""
    ratios = [(c, c.ratio.ratio) for c in pair.comparisons if c.first and c.second and c.first.n == c.second.n == 1 and c.ratio]
    apart = [(c, ratio) for c, ratio in ratios if ratio > 0 and max(ratio, 1 / ratio) >= DISTINCT]
    names = (printable(pair.first), printable(pair.second)) if pair.first != pair.second else ("the first", "the second")
    for n, (more, less) in enumerate((names, names[::-1])):
        texts = [f"{times_words(max(r, 1 / r))} in {printable(c.pair.label)} · {c.pair.figure}" for c, r in apart if (r > 1) is (n == 1)]
        if texts:
            rest = f", and in {len(texts) - MOST_ONCE} more cells" if len(texts) > MOST_ONCE else ""
            yield f"each measured once, so another run may differ: {more} ÷ {less} is {', '.join(texts[:MOST_ONCE])}{rest}"


def _reasons(comparisons: Sequence[Comparison], repeats: Collection[int]) -> Iterator[str]:
    """Yield the reasons of the verdicts, each once, and the least difference that this number of repeats could have proven."""
    if len(repeats) == 1:
        yield f"{plural(min(repeats), 'repeat')} of each cell a side"
    reasons: dict[str, None] = {}
    for c in comparisons:
        reasons.setdefault(f"{'p' if c.by_p else c.words}: {'; '.join(c.grounds)}")
    yield from reasons
    shares = [c.provable * 100 for c in comparisons if c.provable is not None and c.verdict is Verdict.NO_DIFFERENCE]
    if shares:
        ends = dict.fromkeys(f"{share:.1f} %" for share in (min(shares), max(shares)))
        yield f"{_UNPROVEN}: {' to '.join(ends)} {WOULD_HAVE}"


def _row(c: Comparison, *, counted: bool) -> tuple[str, ...]:

    sides = [s for s in (c.first, c.second) if s]
    unit = unit_for(c.pair.figure, [s.value for s in sides])
    medians = [f"{_level(s.value, unit)}{f' (n {s.n})' if counted else ''}" if s else "none" for s in (c.first, c.second)]
    ratio = _ratio(c.ratio.ratio) if c.ratio else "none"
    interval = f"{_ratio(c.ratio.interval.low)} to {_ratio(c.ratio.interval.high)}" if c.ratio and c.ratio.interval else "none"
    label = c.pair.label if c.pair.figure in {"goodput_bps", "received_pps"} else f"{c.pair.label} · {c.pair.figure}"
    p = "" if c.p is None else p_words(c.p).removeprefix("p ").removeprefix("= ")
    return (label, *medians, ratio, interval, c.words, p)


def _level(value: float, unit: Unit) -> str:
    return with_two_digits(unit, value).text(value).strip()


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"  # noqa: PLR2004 -- four digits either way
