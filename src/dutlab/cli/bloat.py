"""Command `bloat`: latency under load without an experiment file, with the result in one sentence."""

from __future__ import annotations

from pathlib import Path

import click

from dutlab.cli.one_workload import MeasureOptions, measure_workload, where_options
from dutlab.cli.terminal import say_words
from dutlab.cli.two_ports import PortOptions, measure_ports, port_options, split_words

_BLOAT = "bloat"


@click.command()
@click.argument("words", nargs=-1, metavar="[PORT PORT] [KEY=VALUE]…")
@port_options
@where_options
def bloat(*, words: tuple[str, ...], options: PortOptions, where: MeasureOptions) -> None:
    """KEY=VALUE is a setting of the workload bloat: loads=up,down, streams=8, duration=20s. With two ports of this machine no testbed file
    is needed: the first port is on the client's side of the box, the second on the internet's side.

    \b
    Example:
      dutlab bloat eth1 eth2
      dutlab bloat --lab three-node --link a loads=up
    """
    settings, names = split_words(words, _BLOAT)
    if not names:
        options.refuse_alone("--gateway, --address, --force-port and --cpu need two ports: name them")
        measure_workload(_BLOAT, {}, settings, where, then=tell)
        return
    if where.lab is not None or where.testbed is not None or where.links or where.modes:
        raise click.UsageError("two ports are a testbed with one link and one mode; leave --lab, --testbed, --link and --mode out")
    measure_ports(
        _BLOAT, {}, settings, names, options, runs=where.runs, repeats=where.repeats, name=where.name, manner=where.manner, then=tell
    )


def tell(run: Path) -> None:
    """Print the result of a run in sentences."""
    from dutlab.report.gather import read_run
    from dutlab.report.sections.bloat import sentences

    for line in sentences(read_run(run)):
        say_words(line)


def print_home_result(run: Path) -> None:
    """Print the result of a run in sentences, and the largest packet."""
    from dutlab.report.gather import read_run

    tell(run)
    mtus = [of["path_mtu_bytes"] for r in read_run(run).records for of in r.figures.values() if "path_mtu_bytes" in of]
    if mtus:
        say_words(f"The largest packet that passes unfragmented has {min(mtus):.0f} bytes.")
