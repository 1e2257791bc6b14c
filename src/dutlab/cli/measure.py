"""Command `measure`: any workload with its settings, without an experiment file."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from dutlab.cli.one_workload import MeasureOptions, insist_on_workload, measure_workload, where_options
from dutlab.cli.two_ports import PortOptions, measure_ports, port_options, split_words
from dutlab.workloads import WORKLOADS, settable


def _complete(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=WORKLOADS[name].says) for name in settable() if name.startswith(incomplete)]


class _Measure(click.Command):
    """Command whose help ends with a list of the workloads."""

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Workloads"):
            formatter.write_dl([(name, WORKLOADS[name].says) for name in settable()])
        super().format_epilog(ctx, formatter)


@click.command(cls=_Measure)
@click.argument("workload", shell_complete=_complete)
@click.argument("words", nargs=-1, metavar="[PORT PORT] [KEY=VALUE]…")
@port_options
@where_options
def measure(*, workload: str, words: tuple[str, ...], options: PortOptions, where: MeasureOptions) -> None:
    """KEY=VALUE is a setting of the workload, as in an experiment file: duration=10s, frame_sizes=64,imix, rates=max. With two ports of
    this machine and a box between them, no testbed file is needed.

    \b
    Example:
      dutlab measure sweep frame_sizes=64,1518 duration=10s --link a+b --mode nat
      dutlab measure latency eth1 eth2 rate=100kpps
    """
    insist_on_workload(workload)
    settings, names = split_words(words, workload)
    if not names:
        options.refuse_alone("--gateway, --address, --force-port and --cpu need two ports: name them")
        measure_workload(workload, {}, settings, where)
        return
    if where.lab is not None or where.testbed is not None or where.links or where.modes:
        raise click.UsageError("two ports are a testbed with one link and one mode; leave --lab, --testbed, --link and --mode out")
    measure_ports(workload, {}, settings, names, options, runs=where.runs, repeats=where.repeats, name=where.name, manner=where.manner)
