"""compare, check."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeVar

import click

from dutlab.analysis.compare import Comparison, Together, Verdict, could_prove, less_is_better
from dutlab.analysis.rank import p_words, repeats_needed
from dutlab.cli.quantities import SHARE
from dutlab.cli.text_table import printable, table
from dutlab.errors import InputError
from dutlab.report import write_image
from dutlab.report.compared import ComparedPair, ComparedRun, compare_modes, compare_runs, open_run
from dutlab.report.per import divided, per_of
from dutlab.report.ratio_rows import compared_plot
from dutlab.report.words import bit_rate_unit, unit_of
from dutlab.store.find import newest_like

_T = TypeVar("_T")
_FIGURE = click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="Compare this instead, as in latency_p99_ns; again for more."
)
_MARGIN = click.option("--margin", type=SHARE, help="Ask whether both are equivalent within this, as in 2%; choose it before you look.")
_PLOT = click.option(
    "--plot", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Draw the ratios: FILE.svg or FILE.png."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")
_MOST_DIFFERENCES = 30


@click.command()
@click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--baseline", metavar="MODE", help="With one RUN: the mode that the others are compared with.  [the first]")
@_MARGIN
@_FIGURE
@click.option("--per", metavar="WHAT[=N,N…]", help="Rates for each watt or euro, as in watt=90,25, a number a run; core reads the facts.")
@_PLOT
@_JSON
def compare(
    *,
    runs: tuple[Path, ...],
    baseline: str | None,
    margin: float | None,
    figures: tuple[str, ...],
    per: str | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """Compare runs with the first of them, cell by cell; or, of a single run, its modes.

    \b
    Example:
      dutlab compare runs/2026-11-21T0801Z-firewall-modes-3f2a runs/2026-11-28T0801Z-firewall-modes-77c0 --margin 2% --plot compared.svg
    """  # noqa: D301
    opened = [open_run(path) for path in runs]
    if baseline is not None and len(opened) > 1:
        raise InputError("--baseline names a mode of a single run", remedy="of several runs the first is the baseline")
    if per is not None and len(opened) == 1:
        raise InputError("--per sets boxes against one another; the modes of one run are of the same box", remedy="name two runs")
    by = None if per is None else per_of(per, opened)
    if by is not None:
        opened = [divided(run, amount) for run, amount in zip(opened, by.amounts, strict=True)]
    found = _computed(lambda: _all(opened, baseline, figures, margin))
    if plot is not None:
        write_image(compared_plot(found, margin), plot)
    if as_json:
        click.echo(
            json.dumps({"schema_version": 1, "margin": margin, "per": by and asdict(by), "compared": [_plain(p) for p in found]}, indent=1)
        )
        return
    if by is not None:
        said = ", ".join(f"{run.name} {amount:g}" for run, amount in zip(opened, by.amounts, strict=True))
        click.echo(f"rates are per {printable(by.word)} ({printable(said)})")
    for pair in found:
        for line in _lines(pair):
            click.echo(line)
    if len(opened) > 1:
        click.echo("Repeats of one run share its set-up: what changes from run to run (reboot, cabling, heat) is in no interval here.")


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--baseline", required=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="A run, or a folder of runs: then the newest of the same experiment that is older than RUN.")  # fmt: skip
@_MARGIN
@click.option("--threshold", type=SHARE, help="Fail also where a median is worse by more than this, proven or not.")
@_FIGURE
@_JSON
@click.pass_context
def check(
    ctx: click.Context, *, run: Path, baseline: Path, margin: float | None, threshold: float | None, figures: tuple[str, ...], as_json: bool
) -> None:
    """Fail (exit 1) when a run is worse than its baseline, or lacks a cell that the baseline has. For CI.

    \b
    Example:
      dutlab check runs/2026-11-28T0801Z-firewall-modes-77c0 --baseline runs --margin 2%
    """  # noqa: D301
    base = newest_like(baseline, run)
    pair = _computed(lambda: compare_runs(open_run(base), open_run(run), figures=figures, margin=margin))
    worse = [c for c in pair.comparisons if _fails(c, threshold)]
    all_worse = _all_worse(pair.together, margin)
    if not could_prove(pair.comparisons) and threshold is None:
        least = min((c.test.least_p for c in pair.comparisons if c.test), default=1.0)
        raise InputError(
            f"these runs cannot show that anything is worse: {len(pair.comparisons)} comparisons, and the least p of one is {least:.3f}",
            remedy=f"repeat each cell {repeats_needed(0.05 / max(len(pair.comparisons), 1))} times, or give --threshold",
        )
    if as_json:
        said = {
            "schema_version": 1,
            "margin": margin,
            "threshold": threshold,
            "failed": bool(worse or pair.only_first or all_worse),
            **_plain(pair),
        }
        click.echo(json.dumps(said, indent=1))
    else:
        for line in _lines(pair):
            click.echo(line)
        overall = "; all cells together are worse" if all_worse else ""
        click.echo(f"{len(worse)} of {len(pair.comparisons)} cells are worse, {len(pair.only_first)} are missing{overall}")
    ctx.exit(1 if worse or pair.only_first or all_worse else 0)


def _all(runs: Sequence[ComparedRun], baseline: str | None, figures: Sequence[str], margin: float | None) -> Sequence[ComparedPair]:
    if len(runs) == 1:
        return compare_modes(runs[0], baseline=baseline, figures=figures, margin=margin)
    return [compare_runs(runs[0], other, figures=figures, margin=margin) for other in runs[1:]]


def _fails(c: Comparison, threshold: float | None) -> bool:
    if c.verdict is Verdict.WORSE or (c.verdict is Verdict.MISSING and c.second is None):
        return True
    if threshold is None or c.first is None or c.second is None:
        return False
    change = c.second.median - c.first.median
    return (change if less_is_better(c.pair.figure) else -change) > threshold * abs(c.first.median)


def _all_worse(found: Together | None, margin: float | None) -> bool:
    """Proven, and where a margin was given, by more than it."""
    return found is not None and found.verdict is Verdict.WORSE and (margin is None or found.ratio < 1 / (1 + margin))


def _computed(make: Callable[[], _T]) -> _T:
    try:
        return make()
    except ValueError as error:
        raise InputError(str(error)) from None


def _lines(pair: ComparedPair) -> Iterator[str]:
    yield f"{printable(pair.second)} against {printable(pair.first)}"
    rows = [_row(c) for c in pair.comparisons]
    yield from table(("cell", "first", "second", "ratio", "95 % interval", "verdict", "because"), rows, right={1, 2, 3})
    if (all_of := pair.together) is not None:
        yield f"all {all_of.cells} cells together: {all_of.words}, {all_of.ratio:.4f} times ({p_words(all_of.p)}, rank test within cells)"
    for side, labels in ((pair.first, pair.only_first), (pair.second, pair.only_second)):
        if labels:
            yield f"only in {printable(side)}: {printable('; '.join(labels))}"
    for c in pair.comparisons:
        for flag in c.flags:
            yield f"note: {printable(c.pair.label)}, {flag}"
    for fault in pair.faults:
        yield f"note: {printable(fault)}"
    if pair.differences:
        yield "differences beside the results:"
        shown = [(d.path, d.first[:60], d.second[:60]) for d in pair.differences[:_MOST_DIFFERENCES]]
        yield from (f"  {line}" for line in table(("what", "first", "second"), shown))
        if (more := len(pair.differences) - _MOST_DIFFERENCES) > 0:
            yield f"  and {more} more (--json has all)"
    yield ""


def _row(c: Comparison) -> tuple[str, ...]:
    sides = [s for s in (c.first, c.second) if s]
    unit = bit_rate_unit([s.median for s in sides]) if c.pair.figure.endswith("_bps") else unit_of(c.pair.figure)
    medians = [f"{unit.text(s.median).strip()} (n {s.n})" if s else "none" for s in (c.first, c.second)]
    ratio = f"{c.ratio.ratio:.4f}" if c.ratio else "none"
    interval = f"{c.ratio.interval.low:.4f} to {c.ratio.interval.high:.4f}" if c.ratio and c.ratio.interval else "none"
    label = c.pair.label if c.pair.figure in {"goodput_bps", "received_pps"} else f"{c.pair.label} · {c.pair.figure}"
    return (label, *medians, ratio, interval, c.words, c.why)


def _plain(pair: ComparedPair) -> dict[str, object]:
    """For JSON; all repeats are in it."""
    return {
        "first": pair.first,
        "second": pair.second,
        "comparisons": [{**asdict(c), "verdict": c.verdict.value} for c in pair.comparisons],
        "together": None if pair.together is None else {**asdict(pair.together), "verdict": pair.together.verdict.value},
        "only_first": pair.only_first,
        "only_second": pair.only_second,
        "differences": [asdict(d) for d in pair.differences],
        "faults": pair.faults,
    }
