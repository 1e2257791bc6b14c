"""compare, and what `check` shares with it."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from dutlab.analysis.design import ENOUGH_FOR_ONE, RunOrder
from dutlab.cli.quantities import SHARE
from dutlab.cli.told import say, table, wrapped
from dutlab.errors import InputError
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.analysis.compare import Comparison, Pair
    from dutlab.analysis.together import Together
    from dutlab.report.questions.compared import ComparedPair, CompareRequest
    from dutlab.report.questions.sides import ComparedRun

_T = TypeVar("_T")
FIGURE = click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="Compare this figure, as in latency_p99_ns; repeatable.  [the main figure]"
)
MARGIN = click.option("--margin", "margins", multiple=True, metavar="[CELL=]SHARE",
                       help="Test for equivalence within this margin, as in 2%, or for some cells, as in '*latency*=10%'; choose it "
                       "before you look.")  # fmt: skip
LEAST = click.option("--least", type=SHARE,
                      help="Smallest change that counts.  [1%; 4% of interleaved runs; 10% of runs one after the other, and of one "
                      "against fewer than ten]")  # fmt: skip
_PLOT = click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw the ratios: FILE.svg or FILE.png."
)
JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")
MATCH_MODES = click.option("--match-modes", "matches", multiple=True, metavar="A=B",
                           help="Compare mode B of the newer run with mode A of its baseline; repeatable.")  # fmt: skip
_LONGEST_HEAD = 24
_UNPROVEN = "no difference proven"
_WOULD = "would have been proven four times in five"
_MOST_DIFFERENCES = 30


@click.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--baseline", metavar="MODE", help="With one RUN: the baseline mode.  [the first]")
@click.option("--against", multiple=True, metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Compare all RUNs together with these, the oldest first; repeatable. Each run then counts once.")  # fmt: skip
@MARGIN
@LEAST
@FIGURE
@MATCH_MODES
@click.option("--per", metavar="WHAT[=N,N…]", help="Rates per watt or euro, as in watt=90,25 (one number per run); per core with `core`.")
@_PLOT
@JSON
def compare(
    *,
    runs: tuple[Path, ...],
    baseline: str | None,
    against: tuple[Path, ...],
    margins: tuple[str, ...],
    least: float | None,
    figures: tuple[str, ...],
    matches: tuple[str, ...],
    per: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare runs cell by cell, with the first or with those of --against; or the modes of one run.

    \b
    Example:
      dutlab compare runs/2026-11-21T0801Z-firewall-modes-3f2a runs/2026-11-28T0801Z-firewall-modes-77c0 --margin 2% --plot compared.svg
    """  # noqa: D301
    from dutlab.report import write_image  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.report.questions.compared import CompareRequest, compare_runs  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.report.questions.per import divided, per_of  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.report.questions.ratio_rows import compared_plot  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.report.questions.sides import open_run  # noqa: PLC0415 -- `--help` needs none of it

    opened = [open_run(path) for path in runs]
    others = [open_run(path) for path in against]
    asked = CompareRequest(figures, margin_of(margins), least)
    if baseline is not None and (others or len(opened) > 1):
        raise InputError("--baseline names a mode of a single run", remedy="of several runs the first is the baseline")
    if per is not None and (others or len(opened) == 1):
        raise InputError("--per compares boxes, one run each", remedy="name two runs, without --against")
    opened = matched(opened, others, matches) if others else [opened[0], *matched(opened[1:], opened[:1], matches)]
    by = None if per is None else per_of(per, opened)
    if by is not None:
        opened = [divided(run, amount) for run, amount in zip(opened, by.amounts, strict=True)]
    found = computed(lambda: [compare_runs(others, opened, asked)] if others else _all(opened, baseline, asked))
    if plot is not None:
        drawn = compared_plot(found, _one_margin(margins))
        write_image(replace(drawn, source=" · ".join((*(path.resolve().name for path in (*against, *runs)), "dutlab"))), plot)
    if as_json:
        say(
            json.dumps(
                {"schema_version": 1, "margin": list(margins), "per": by and asdict(by), "compared": [plain(p) for p in found]}, indent=1
            )
        )
        return
    if by is not None:
        said = ", ".join(f"{run.name} {amount:g}" for run, amount in zip(opened, by.amounts, strict=True))
        say(f"rates are per {printable(by.word)} ({printable(said)})")
    for pair in found:
        for line in lines_of(pair):
            say(line)


def margin_of(given: Sequence[str]) -> Callable[[Pair], float | None]:
    """The margin of a pair: the last that is given for its cell or figure, as a pattern of the shell, or for all."""
    parsed = [(pattern or "*", SHARE.convert(share, None, None)) for pattern, _, share in (text.rpartition("=") for text in given)]
    return lambda pair: next(
        (share for pattern, share in reversed(parsed) if any(fnmatchcase(name, pattern) for name in (pair.label, pair.figure))), None
    )


def _one_margin(given: Sequence[str]) -> float | None:
    """The one that a picture can show: that of all cells."""
    return next((SHARE.convert(text, None, None) for text in reversed(given) if "=" not in text), None)


def _all(runs: Sequence[ComparedRun], baseline: str | None, asked: CompareRequest) -> Sequence[ComparedPair]:
    from dutlab.report.questions.compared import compare_modes, compare_runs  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.report.questions.sides import side_names  # noqa: PLC0415 -- `--help` needs none of it

    if len(runs) == 1:
        return compare_modes(runs[0], baseline=baseline, asked=asked)
    names = side_names([[run] for run in runs])
    return [compare_runs(runs[:1], [run], asked, names=(names[0], name)) for run, name in zip(runs[1:], names[1:], strict=True)]


def matched(runs: Sequence[ComparedRun], baselines: Sequence[ComparedRun], matches: Sequence[str]) -> list[ComparedRun]:
    """`runs` with their modes renamed as --match-modes says. Raises InputError."""
    from dutlab.report.questions.sides import with_modes_renamed  # noqa: PLC0415 -- `--help` needs none of it

    if matches and not runs:
        raise InputError("--match-modes needs two runs", remedy="with a single run, --baseline names the mode to compare with")
    if wrong := [text for text in matches if not all(text.partition("="))]:
        raise InputError(f"--match-modes {wrong[0]}: write A=B, the baseline's mode first")
    names = [(ours, theirs) for ours, _, theirs in (text.partition("=") for text in matches)]
    if len(dict(names)) < len(names):
        raise InputError("--match-modes: duplicate mode of the baseline", remedy="match each mode once")
    return with_modes_renamed(runs, baselines, dict(names)) if names else list(runs)


def computed(make: Callable[[], _T]) -> _T:
    """What `make` returns; what is wrong with its numbers is a fault of the command line. Raises InputError."""
    try:
        return make()
    except ValueError as error:
        raise InputError(str(error)) from None


def lines_of(pair: ComparedPair) -> Iterator[str]:
    """A comparison for a terminal, no wider than it."""
    yield from _table_of(pair)
    for words in _words_of(pair):
        yield from wrapped(words)
    if pair.differences:
        yield "differences beside the results:"
        shown = [(d.path, d.first[:60], d.second[:60]) for d in pair.differences[:_MOST_DIFFERENCES]]
        yield from table(("what", "first", "second"), shown, indent="  ")
        if (more := len(pair.differences) - _MOST_DIFFERENCES) > 0:
            yield f"  and {more} more (--json has all)"
    yield ""


def _table_of(pair: ComparedPair) -> Iterator[str]:
    """Who is compared, and the figures."""
    yield from wrapped(f"{printable(pair.second)} against {printable(pair.first)}")
    named = {name: folders for name, folders in zip((pair.first, pair.second), pair.runs, strict=True) if folders and name not in folders}
    yield from (line for name, folders in named.items() for line in wrapped(f"{printable(name)}: {printable(' and '.join(folders))}"))
    are_short = pair.first != pair.second and all(len(name) <= _LONGEST_HEAD for name in (pair.first, pair.second))
    heads = (printable(pair.first), printable(pair.second)) if are_short else ("first", "second")
    rows = [_row(c, counted=len(_repeats(pair)) > 1) for c in pair.comparisons]
    names = ["cell", *heads, "ratio", "95 % interval", "verdict", "p"]
    shown = [
        n for n, name in enumerate(names) if name not in {"95 % interval", "p"} or any(row[n] not in {"none", "", "1.000"} for row in rows)
    ]
    yield from table([names[n] for n in shown], [[row[n] for n in shown] for row in rows], right={1, 2, 3})


def _repeats(pair: ComparedPair) -> set[int]:
    return {side.n for c in pair.comparisons for side in (c.first, c.second) if side}


def _words_of(pair: ComparedPair) -> Iterator[str]:
    yield from _reasons(pair.comparisons, _repeats(pair))
    if (all_of := pair.together) is not None:
        yield _together(all_of, pair.design)
    yield _about_design(pair)
    for side, labels in ((pair.first, pair.only_first), (pair.second, pair.only_second)):
        if labels:
            yield f"only in {printable(side)}: {printable('; '.join(labels))}"
    for c in pair.comparisons:
        for flag in c.flags:
            yield f"note: {printable(c.pair.label)}, {flag}"
    for fault in pair.faults:
        yield f"note: {printable(fault)}"


_DESIGN = {
    RunOrder.IN_TURN: "Both took turns in one run, so drift affects both equally; changes beyond {least} count.",
    RunOrder.INTERLEAVED: "Two runs that took turns: drift affects both equally. Two set-ups of one box may still differ by {least} "
    "(--least); compare several runs a side (--against) to know.",
    RunOrder.ROUNDS: "Two runs that took turns, with a random order in each of {rounds} rounds: a round is compared as a pair, so "
    "drift affects both equally. Two set-ups of one box may still differ by {least} (--least); compare several runs a side "
    "(--against) to know.",
    RunOrder.ONE_AFTER_THE_OTHER: "Measured one after the other: the intervals do not cover changes between the two runs, so only "
    "changes beyond {least} count (--least). Compare several runs a side (--against) to see smaller ones.",
    RunOrder.RUNS: "Each run counts once; the intervals cover changes from run to run. Changes beyond {least} count.",
}


def _about_design(pair: ComparedPair) -> str:
    rounds = max(len(c.pair.first) for c in pair.comparisons)
    fewest = min(min(len(c.pair.first), len(c.pair.second)) for c in pair.comparisons)
    most = max(max(len(c.pair.first), len(c.pair.second)) for c in pair.comparisons)
    alone = _ONE_RUN if pair.design is RunOrder.RUNS and fewest == 1 and most < ENOUGH_FOR_ONE else ""
    return _DESIGN[pair.design].format(least=f"{pair.comparisons[0].least * 100:g} %", rounds=rounds) + alone


_ONE_RUN = f" A single run may fall into a slow hour: with a second run, or against {ENOUGH_FOR_ONE}, smaller changes count."


def _together(of: Together, design: RunOrder) -> str:
    from dutlab.stats.rank import p_words  # noqa: PLC0415 -- `--help` needs none of it

    unit = {RunOrder.RUNS: "runs", RunOrder.ROUNDS: "rounds"}.get(design, "blocks")
    return (
        f"all {of.cells} cells together: {of.words}, ratio {_ratio(of.ratio)} ({p_words(of.p)}, {of.blocks[0]} and {of.blocks[1]} {unit})"
    )


def _reasons(found: Sequence[Comparison], repeats: Collection[int]) -> Iterator[str]:
    """What the verdicts rest on, each once, and what these repeats could have proven."""
    from dutlab.report.model.words import plural  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.stats.rank import p_words  # noqa: PLC0415 -- `--help` needs none of it

    if len(repeats) == 1:
        yield f"{plural(min(repeats), 'repeat')} of each cell a side"
    said: dict[str, None] = {}
    for c in found:
        first, *rest = (c.why if c.p is None else c.why.removeprefix(f"{p_words(c.p)} ")).split("; ")
        parts = [first, *(part for part in rest if not part.endswith(_WOULD))]
        said.setdefault(f"{'p' if first != c.why.split('; ')[0] else c.words}: {'; '.join(parts)}")
    yield from said
    shares = [c.provable * 100 for c in found if c.provable is not None and c.words == _UNPROVEN]
    if shares:
        ends = dict.fromkeys(f"{share:.1f} %" for share in (min(shares), max(shares)))
        yield f"{_UNPROVEN}: {' to '.join(ends)} {_WOULD}"


def _row(c: Comparison, *, counted: bool) -> tuple[str, ...]:
    from dutlab.report.model.words import unit_for  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.stats.rank import p_words  # noqa: PLC0415 -- `--help` needs none of it

    sides = [s for s in (c.first, c.second) if s]
    unit = unit_for(c.pair.figure, [s.value for s in sides])
    medians = [f"{unit.text(s.value).strip()}{f' (n {s.n})' if counted else ''}" if s else "none" for s in (c.first, c.second)]
    ratio = _ratio(c.ratio.ratio) if c.ratio else "none"
    interval = f"{_ratio(c.ratio.interval.low)} to {_ratio(c.ratio.interval.high)}" if c.ratio and c.ratio.interval else "none"
    label = c.pair.label if c.pair.figure in {"goodput_bps", "received_pps"} else f"{c.pair.label} · {c.pair.figure}"
    p = "" if c.p is None else p_words(c.p).removeprefix("p ").removeprefix("= ")
    return (label, *medians, ratio, interval, c.words, p)


def _ratio(value: float) -> str:
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"  # noqa: PLR2004 -- four digits either way


def plain(pair: ComparedPair) -> dict[str, object]:
    """For JSON; all repeats are in it."""
    return {
        "first": pair.first,
        "second": pair.second,
        "runs": pair.runs,
        "design": pair.design.value,
        "comparisons": [
            {**asdict(c), "pair": {**asdict(c.pair), "design": c.pair.design.value}, "verdict": c.verdict.value} for c in pair.comparisons
        ],
        "together": None if pair.together is None else {**asdict(pair.together), "verdict": pair.together.verdict.value},
        "only_first": pair.only_first,
        "only_second": pair.only_second,
        "differences": [asdict(d) for d in pair.differences],
        "faults": pair.faults,
    }
