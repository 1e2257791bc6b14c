"""report, plot."""

from __future__ import annotations

from pathlib import Path

import click

from dutlab.report import write_plots, write_report

_RUNS = click.argument("runs", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
_OUT = click.option("-o", "--output", "out", type=click.Path(path_type=Path), help="Where to write; beside the run without it.")


@click.command()
@_RUNS
@click.option(
    "--format", "formats", multiple=True, type=click.Choice(["html", "md", "csv", "json"]), help="May be given again.  [all four]"
)
@_OUT
def report(*, runs: tuple[Path, ...], formats: tuple[str, ...], out: Path | None) -> None:
    """Write the report of runs: tables, plots, doubts and what was done.

    \b
    Example:
      dutlab report runs/2026-11-21T0801Z-firewall-modes-3f2a --format html
    """  # noqa: D301
    for path in write_report(runs, formats=formats or ("html", "md", "csv", "json"), out=out):
        click.echo(path)


@click.command()
@_RUNS
@click.option("--format", "image", type=click.Choice(["svg", "png"]), default="svg", help="[svg]")
@_OUT
def plot(*, runs: tuple[Path, ...], image: str, out: Path | None) -> None:
    """Write every plot of the report as a picture of its own.

    \b
    Example:
      dutlab plot runs/2026-11-21T0801Z-firewall-modes-3f2a --format png
    """  # noqa: D301
    for path in write_plots(runs, format=image, out=out):
        click.echo(path)
