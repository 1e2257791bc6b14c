"""Commands `report` and `plot`: write reports and plots of runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click

from dutlab.choices import FORMATS, RATES, STYLES
from dutlab.cli.manner import print_answers
from dutlab.cli.options import JSON
from dutlab.cli.terminal import say, say_paged, terminal

_RUNS = click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
_OUT = click.option("-o", "--output", "out", type=click.Path(path_type=Path), help="Where to write.  [the run's folder]")


@click.command()
@_RUNS
@click.option("--format", "formats", multiple=True, type=click.Choice(list(FORMATS)), help="Repeatable.   [all four]")
@click.option("--style", type=click.Choice(STYLES), help="The tables and figures that one style of review prints.")
@click.option("--as", "names", multiple=True, metavar="NAME", help="With --style: name of each RUN, in their order.  [of its experiment]")
@click.option("--unit", type=click.Choice(RATES), help="Unit of rates of bits and bytes: MB/s is 10⁶ bytes, MiB/s is 2²⁰.  [by size]")
@click.option("--print", "printed", is_flag=True, help="Print the answer and its tables here; write no file.")
@click.option("--verbose", is_flag=True, help="With --print: every table and note.")
@click.option("--json", "as_json", is_flag=True, help="As --format json -o -: for programs.")
@click.option("-o", "--output", "out", type=click.Path(path_type=Path, allow_dash=True),
              help="Where to write; - writes one format to standard output.  [the run's folder]")  # fmt: skip
def report(
    *,
    runs: tuple[Path, ...],
    formats: tuple[str, ...],
    style: str | None,
    names: tuple[str, ...],
    unit: str | None,
    printed: bool,
    verbose: bool,
    as_json: bool,
    out: Path | None,
) -> None:
    """\b
    Example:
      dutlab report runs/2026-11-21T0801Z-firewall-modes-3f2a --format html
      dutlab report runs/2026-11-21T0801Z-firewall-modes-3f2a --style review --print
      dutlab report runs/*-loadtest-* --style loadtest --as linux --as vpp
      dutlab report runs/2026-11-21T0801Z-firewall-modes-3f2a --print --unit MB/s
      dutlab report runs/2026-11-21T0801Z-firewall-modes-3f2a --json | jq .runs[].answer
    """
    from dutlab.report.model.words import rates_in
    from dutlab.report.write import print_report, report_text

    if as_json:
        if formats or out or style or printed:
            raise click.UsageError("--json cannot be combined with --format, --style, --print or -o")
        formats, out = ("json",), Path("-")
    to_output = out is not None and str(out) == "-"
    for wrong, words in (
        (names and style is None, "--as needs --style"),
        (verbose and not printed, "--verbose needs --print"),
        (printed and (formats or out), "--print cannot be combined with --format or -o"),
        (to_output and (len(formats) != 1 or style), "-o - writes one report of one --format, without --style"),
    ):
        if wrong:
            raise click.UsageError(words)
    with rates_in(unit):
        if style is not None:
            _in_style(runs, style, names, formats=() if printed else formats or tuple(FORMATS), out=out)
        elif printed:
            width, colour = terminal()
            say_paged(list(print_report(runs, width=width, colour=colour, verbose=verbose)))
        elif to_output:
            sys.stdout.buffer.write(report_text(runs, formats[0]))
        else:
            _write(runs, formats or tuple(FORMATS), out)


def _write(runs: Sequence[Path], formats: Sequence[str], out: Path | None) -> None:
    """Write reports, and print their answers and paths."""
    from dutlab.report.write import write_and_gather

    written, answers = write_and_gather(runs, formats=formats, out=out)
    print_answers({path.resolve(): path for path in runs}.values(), answers)
    for path in written:
        say(path)


def _in_style(runs: Sequence[Path], style: str, names: Sequence[str], *, formats: Sequence[str], out: Path | None) -> None:
    """Write the runs in a style; without `formats` print them."""
    from dutlab.report.write import print_publication, write_publication

    if not formats:
        width, colour = terminal()
        say_paged(list(print_publication(runs, style=style, width=width, colour=colour, names=names)))
        return
    for path in write_publication(runs, style=style, formats=formats, out=out, names=names):
        say(path)


@click.command()
@click.argument("runs", metavar="[RUN…]", nargs=-1, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--format", "image", type=click.Choice(["svg", "png"]), default="svg", help="[svg]")
@click.option("--style", type=click.Choice(STYLES), help="The figures that one style of review prints.")
@click.option("--as", "names", multiple=True, metavar="NAME", help="With --style: name of each RUN, in their order.  [of its experiment]")
@click.option("--unit", type=click.Choice(RATES), help="Unit of rates of bits and bytes: MB/s is 10⁶ bytes, MiB/s is 2²⁰.  [by size]")
@click.option("--sample", "samples", metavar="NAME", multiple=True, help="Plot a sample over time instead; repeatable.")
@click.option("--testbed", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Draw the block diagram of a testbed file; no RUN.")  # fmt: skip
@click.option("--lab", metavar="NAME", help="As --testbed, of an embedded lab.")
@_OUT
@JSON
def plot(
    *,
    runs: tuple[Path, ...],
    image: str,
    style: str | None,
    names: tuple[str, ...],
    unit: str | None,
    samples: tuple[str, ...],
    testbed: Path | None,
    lab: str | None,
    out: Path | None,
    as_json: bool,
) -> None:
    """\b
    Example:
      dutlab plot runs/2026-11-21T0801Z-firewall-modes-3f2a --format png
      dutlab plot runs/*-loadtest-* --style loadtest --format png
      dutlab plot runs/2026-11-21T0801Z-firewall-modes-3f2a --sample cpu0_softirq_percent
      dutlab plot --testbed testbed.yaml -o pictures
    """
    from dutlab.report.model.words import rates_in
    from dutlab.report.write import write_plots, write_sample_plots, write_style_plots

    if (bool(runs), testbed is not None, lab is not None).count(True) != 1:
        raise click.UsageError("give one of: RUN…, --testbed FILE, --lab NAME")
    if not runs and (samples or style or names or unit):
        raise click.UsageError("--sample, --style, --as and --unit are of runs, not of testbed files")
    if (samples and style) or (names and style is None):
        raise click.UsageError("--style and --sample exclude one another" if samples else "--as needs --style")
    with rates_in(unit):
        if not runs:
            written = [_diagram(testbed, lab, image, out)]
        elif style is not None:
            written = write_style_plots(runs, style, format=image, out=out, names=names)
        else:
            written = write_sample_plots(runs, samples, format=image, out=out) if samples else write_plots(runs, format=image, out=out)
    if as_json:
        say(json.dumps({"schema_version": 1, "written": [str(path) for path in written]}))
        return
    if not written:
        say("no plots: the figures of these runs are not drawn; `dutlab report RUN --print` has their tables", err=True)
    for path in written:
        say(path)


def _diagram(testbed: Path | None, lab: str | None, image: str, out: Path | None) -> Path:
    """Write the block diagram of a testbed file or of a lab into the folder `out`, and return its path."""
    from dutlab.report.model.testbed_map import map_of_testbed
    from dutlab.report.plots.testbed_plot import plot_of_testbed
    from dutlab.report.write import write_images
    from dutlab.spec.lab_files import description
    from dutlab.spec.loader import load_testbed

    spec = load_testbed(testbed) if testbed is not None else description(str(lab)).testbed
    testbed_map = map_of_testbed(spec.model_dump(mode="json"))
    assert testbed_map is not None  # noqa: S101 -- a testbed file without hosts is refused
    drawn = replace(plot_of_testbed(testbed_map), source=f"{testbed.name if testbed else f'lab {lab}'} · dutlab")
    return write_images([drawn], out or Path(), format=image)[0]
