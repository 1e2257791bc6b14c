"""Command `compare`, and functions that `check` also uses."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.limits_text import computed
from dutlab.cli.quantities import SHARE
from dutlab.cli.terminal import say, say_words, table, wrapped
from dutlab.errors import InputError
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.analysis.answers import ContestResult
    from dutlab.analysis.comparison import Comparison, Pair
    from dutlab.measures import Better
    from dutlab.report.model.contests import CompareRequest
    from dutlab.report.questions.compared import ComparedPair
    from dutlab.report.questions.sides import ComparedRun

FIGURE = click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="Compare this figure, as in ndr/lower_pps; repeatable.  [the main figure]"
)
MARGIN = click.option("--margin", "margins", multiple=True, metavar="[CELL=]SHARE",
                       help="Test for equivalence within this margin, as in 2%, or for some cells, as in '*latency*=10%'; choose it "
                       "before you measure.")  # fmt: skip
LEAST = click.option("--least", type=SHARE,
                      help="Smallest change that counts.  [1%; 4% of interleaved runs; 10% of runs one after the other, and of one "
                      "against fewer than ten]")  # fmt: skip
BETTER = click.option("--better", "betters", multiple=True, metavar="[FIGURE=]lower|higher",
                      help="The better side of a figure that dutlab does not know; repeatable.")  # fmt: skip
_PLOT = click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw the ratios: FILE.svg or FILE.png."
)
JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")
MATCH_MODES = click.option("--match-modes", "matches", multiple=True, metavar="A=B",
                           help="Compare mode B of the newer run with mode A of its baseline; repeatable.")  # fmt: skip
_MOST_DIFFERENCES = 30
_SIDES: Mapping[str, Better] = {"higher": "higher", "lower": "lower"}


@click.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--baseline", metavar="MODE", help="With one RUN: the baseline mode.  [the first]")
@click.option("--against", multiple=True, metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="Compare all RUNs together with these, the oldest first; repeatable. Each run then counts once.")  # fmt: skip
@MARGIN
@LEAST
@FIGURE
@BETTER
@MATCH_MODES
@click.option("--per", metavar="WHAT[=N,N…]", help="Rates per watt or euro, as in watt=90,25 (one number per run); per core with `core`.")
@click.option("--order", "as_order", is_flag=True, help="Rank the modes, and test whether their order is the same in all RUNS.")
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
    betters: tuple[str, ...],
    matches: tuple[str, ...],
    per: str | None,
    as_order: bool,
    plot: Path | None,
    as_json: bool,
) -> None:
    """\b
    Example:
      dutlab compare runs/2026-11-21T0801Z-firewall-modes-3f2a runs/2026-11-28T0801Z-firewall-modes-77c0 --margin 2% --plot compared.svg
      dutlab compare runs/*-ipsec-ciphers-* --order
    """
    from dutlab.report.model.contests import CompareRequest
    from dutlab.report.questions.compared import compare_runs
    from dutlab.report.questions.per import divided, per_of
    from dutlab.report.questions.sides import open_run, require_different_runs

    require_different_runs(() if matches else (*runs, *against))
    opened = [open_run(path) for path in runs]
    others = [open_run(path) for path in against]
    asked = CompareRequest(figures, margin_of(margins), least, sides_of(betters))
    if as_order:
        _require_order_alone({"--baseline": baseline, "--against": against, "--margin": margins, "--per": per, "--plot": plot})
        _say_orders([opened[0], *matched(opened[1:], opened[:1], matches)], asked, as_json=as_json)
        return
    if baseline is not None and (others or len(opened) > 1):
        raise InputError("--baseline names a mode of a single run", remedy="of several runs the first is the baseline")
    if per is not None and (others or len(opened) == 1):
        raise InputError("--per compares boxes, one run each", remedy="name two runs, without --against")
    opened = matched(opened, others, matches) if others else [opened[0], *matched(opened[1:], opened[:1], matches)]
    by = None if per is None else per_of(per, opened)
    if by is not None:
        opened = [divided(run, amount, asked.better) for run, amount in zip(opened, by.amounts, strict=True)]
    results = computed(lambda: [compare_runs(others, opened, asked)] if others else _all(opened, baseline, asked))
    if plot is not None:
        from dutlab.report.questions.ratio_rows import compared_plot
        from dutlab.report.write import write_image

        drawn = compared_plot(results, _one_margin(margins))
        write_image(replace(drawn, source=" · ".join((*(path.resolve().name for path in (*against, *runs)), "dutlab"))), plot)
    if as_json:
        say(
            json.dumps(
                {"schema_version": 1, "margin": list(margins), "per": by and asdict(by), "compared": [plain(p) for p in results]}, indent=1
            )
        )
        return
    if by is not None:
        amounts = ", ".join(f"{run.name} {amount:g}" for run, amount in zip(opened, by.amounts, strict=True))
        say(f"rates are per {printable(by.word)} ({printable(amounts)})")
    for pair in results:
        for line in lines_of(pair):
            say(line)


def _require_order_alone(others: Mapping[str, object]) -> None:
    """Raise InputError for options that cannot be combined with --order."""
    if options := [name for name, value in others.items() if value]:
        raise InputError(f"--order cannot be combined with {' and '.join(options)}", remedy="leave it out, or ask twice")


def _say_orders(runs: Sequence[ComparedRun], asked: CompareRequest, *, as_json: bool) -> None:
    from dutlab.report.questions.ordered import method_words, order_rows, order_words, ordered

    results = computed(lambda: ordered(runs, asked))
    if as_json:
        say(
            json.dumps(
                {"schema_version": 1, "runs": [run.name for run in runs], "orders": [_plain_order(order) for order in results]}, indent=1
            )
        )
        return
    for number, run in enumerate(runs, 1):
        say(f"run {number}: {printable(run.name)}")
    for order in results:
        say()
        for line in wrapped(f"{printable(order.contest.label)}, {order.contest.figure}"):
            say(line)
        heads, rows = order_rows(order)
        for line in table(heads, rows, right=set(range(2, len(heads)))):
            say(line)
        for sentence in order_words(order):
            say_words(printable(sentence))
    say()
    say_words(method_words(results))
    for fault in (fault for run in runs for fault in run.faults):
        say_words(f"note: {printable(fault)}")


def _plain_order(order: ContestResult) -> dict[str, object]:
    """Return an order for JSON."""
    return {
        "contest": {"label": order.contest.label, "figure": order.contest.figure, "better": order.contest.better},
        "kind": order.kind.name.lower(),
        "places": [asdict(place) for place in order.places],
        "pairs": [
            {"better": of.better, "worse": of.worse, "p": of.p, "proven": of.proven, "against": of.against, "why": of.comparison.why}
            for of in order.pairs
        ],
        "least": order.least,
        "tests": order.tests,
        "could_prove": order.could_prove,
    }


def margin_of(given: Sequence[str]) -> Callable[[Pair], float | None]:
    """Return a function that gives a pair's margin: the last --margin whose shell pattern matches its cell or figure, or without one."""
    parsed = [(pattern or "*", SHARE.convert(share, None, None)) for pattern, _, share in (text.rpartition("=") for text in given)]
    return lambda pair: next(
        (share for pattern, share in reversed(parsed) if any(fnmatchcase(name, pattern) for name in (pair.label, pair.figure))), None
    )


def sides_of(given: Sequence[str]) -> dict[str, Better]:
    """Return figure → better side, from --better; the empty name stands for all figures. Raises InputError."""
    sides: dict[str, Better] = {}
    for text in given:
        figure, _, word = text.rpartition("=")
        side = _SIDES.get(word)
        if side is None:
            raise InputError(f"--better {text}: {word!r} is neither higher nor lower", remedy="as in --better lower, or retries=lower")
        if sides.setdefault(figure, side) != side:
            raise InputError(f"--better names both sides of {figure or 'every figure'}", remedy="name one")
    return sides


def _one_margin(given: Sequence[str]) -> float | None:
    """Return the margin that a plot can show: that of all cells."""
    return next((SHARE.convert(text, None, None) for text in reversed(given) if "=" not in text), None)


def _all(runs: Sequence[ComparedRun], baseline: str | None, asked: CompareRequest) -> Sequence[ComparedPair]:
    from dutlab.report.questions.compared import compare_modes, compare_runs
    from dutlab.report.questions.sides import side_names

    if len(runs) == 1:
        return compare_modes(runs[0], baseline=baseline, asked=asked)
    names = side_names([[run] for run in runs])
    return [compare_runs(runs[:1], [run], asked, names=(names[0], name)) for run, name in zip(runs[1:], names[1:], strict=True)]


def matched(runs: Sequence[ComparedRun], baselines: Sequence[ComparedRun], matches: Sequence[str]) -> list[ComparedRun]:
    """Return `runs` with modes renamed by --match-modes. Raises InputError."""
    from dutlab.report.questions.sides import with_modes_renamed

    if matches and not runs:
        raise InputError("--match-modes needs two runs", remedy="with a single run, --baseline names the mode to compare with")
    if wrong := [text for text in matches if not all(text.partition("="))]:
        raise InputError(f"--match-modes {wrong[0]}: write A=B, the baseline's mode first")
    names = [(ours, theirs) for ours, _, theirs in (text.partition("=") for text in matches)]
    if len(dict(names)) < len(names):
        raise InputError("--match-modes: duplicate mode of the baseline", remedy="match each mode once")
    return with_modes_renamed(runs, baselines, dict(names)) if names else list(runs)


def lines_of(pair: ComparedPair) -> Iterator[str]:
    """Yield a comparison as lines that fit the terminal."""
    from dutlab.report.questions.compared_words import compared_words

    yield from _table_of(pair)
    for words in compared_words(pair):
        yield from wrapped(words)
    if pair.differences:
        yield "other differences:"
        shown = [(d.path, d.first[:60], d.second[:60]) for d in pair.differences[:_MOST_DIFFERENCES]]
        yield from table(("what", "first", "second"), shown, indent="  ")
        if (more := len(pair.differences) - _MOST_DIFFERENCES) > 0:
            yield f"  and {more} more (--json has all)"
    yield ""


def _table_of(pair: ComparedPair) -> Iterator[str]:
    """Yield the names of both sides, and the table of figures."""
    from dutlab.report.questions.compared_words import compared_rows

    yield from wrapped(f"{printable(pair.second)} against {printable(pair.first)}")
    named = {name: folders for name, folders in zip((pair.first, pair.second), pair.runs, strict=True) if folders and name not in folders}
    yield from (line for name, folders in named.items() for line in wrapped(f"{printable(name)}: {printable(' and '.join(folders))}"))
    yield from table(*compared_rows(pair), right={1, 2, 3})


def plain_comparison(c: Comparison) -> dict[str, object]:
    """Return the comparison of one pair for JSON."""
    pair = {**asdict(c.pair), "design": c.pair.design.value}
    return {
        **asdict(c),
        "pair": pair,
        "verdict": c.verdict.value,
        "kind": c.kind.name.lower(),
        "reason": c.reason and c.reason.name.lower(),
    }


def plain(pair: ComparedPair) -> dict[str, object]:
    """Return the comparison of two sides for JSON, with all repeats."""
    return {
        "first": pair.first,
        "second": pair.second,
        "runs": pair.runs,
        "design": pair.design.value,
        "not_known": [of.name.lower() for of in pair.not_known],
        "comparisons": [plain_comparison(c) for c in pair.comparisons],
        "together": None if pair.together is None else {**asdict(pair.together), "verdict": pair.together.verdict.value},
        "only_first": pair.only_first,
        "only_second": pair.only_second,
        "differences": [asdict(d) for d in pair.differences],
        "faults": pair.faults,
        "count_changes": [asdict(change) for change in pair.count_changes],
    }
