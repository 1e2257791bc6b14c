"""search."""

from __future__ import annotations

from pathlib import Path

import click

from dutlab.cli.choices import PRESET
from dutlab.cli.one_workload import measure_workload, testbed_options


@click.command()
@click.option("--preset", default=PRESET, help=f"rfc2544, csit, tst009, quick, or several by commas.  [{PRESET}]")
@click.option("--size", "sizes", multiple=True, help="Frame size in bytes with FCS, or a mix; may be given several times.  [64]")
@click.option("--link", "links", multiple=True, help="Links to drive at once, as in a or a+b; may be given several times.  [each alone]")
@click.option("--lowest", metavar="RATE", help="Lowest rate of the search, as in 1kpps.")
@click.option("--highest", metavar="RATE", help="Highest rate of the search, as in 2Mpps.  [line rate, or what the generator reaches]")
@click.option("--drain", metavar="TIME", help="Waited after each trial, as in 2s.  [500ms]")
@click.option("--budget", metavar="TIME", help="No trial begins after so much time.")
@click.option("--repeats", type=click.IntRange(1, 1000), default=1, help="Searches of each cell.  [1]")
@testbed_options
def search(
    *,
    preset: str,
    sizes: tuple[str, ...],
    links: tuple[str, ...],
    lowest: str | None,
    highest: str | None,
    drain: str | None,
    budget: str | None,
    repeats: int,
    lab: str | None,
    testbed: Path | None,
    modes: tuple[str, ...],
    runs: Path,
) -> None:
    """Find the highest rates at which the DUT meets goals: NDR, PDR, RFC 2544 throughput.

    \b
    Example:
      dutlab search --preset quick --size 64 --size imix --mode router --mode nat
    """  # noqa: D301
    body = {
        "preset": preset,
        "frame_sizes": list(sizes) or ["64"],
        "lowest": lowest,
        "highest": highest,
        "drain": drain,
        "budget": budget,
        "links": [name.split("+") for name in links] or None,
    }
    measure_workload("search", body, lab=lab, testbed=testbed, modes=modes, runs=runs, repeats=repeats)
