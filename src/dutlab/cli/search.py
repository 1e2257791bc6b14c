"""Command `search`: search the highest rates that meet a loss goal."""

from __future__ import annotations

from pathlib import Path

import click

from dutlab.choices import PRESET
from dutlab.cli.expected_rates import EXPECTED_FROM, expected_body
from dutlab.cli.one_workload import SETTINGS, MeasureOptions, measure_workload, where_options


@click.command()
@SETTINGS
@click.option("--preset", default=PRESET, help=f"rfc2544, csit, tst009, quick, or several separated by commas.  [{PRESET}]")
@click.option("--size", "sizes", multiple=True, help="Frame size in bytes with FCS, or a mix; repeatable.  [64]")
@EXPECTED_FROM
@where_options
def search(*, settings: tuple[str, ...], preset: str, sizes: tuple[str, ...], expected_from: Path | None, where: MeasureOptions) -> None:
    """KEY=VALUE is any other setting of the workload, as in lowest=1kpps, highest=2Mpps, budget=10min.

    \b
    Example:
      dutlab search --preset quick --size 64 --size imix --mode router --mode nat budget=5min
    """
    frame_sizes = list(sizes) or ["64"]
    body = {"preset": preset, "frame_sizes": frame_sizes, **expected_body(expected_from, "search", frame_sizes, where)}
    measure_workload("search", body, settings, where)
