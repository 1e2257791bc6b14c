"""Options of several commands, with the same meaning everywhere."""

from __future__ import annotations

from pathlib import Path

import click

from dutlab.choices import CHECK_FORMATS


def _named(_ctx: click.Context, _param: click.Parameter, name: str | None) -> str | None:
    from dutlab.spec.fields import name_fault

    if name is not None and (what := name_fault(name)):
        raise click.BadParameter(what)
    return name


NAME = click.option(
    "--name", callback=_named, metavar="NAME", help="Name of the run, as in box-a: reports and compare show it.  [the workload]"
)
REPEATS = click.option("--repeats", type=click.IntRange(1, 1000), default=1, help="Trials of each cell.  [1]")
RUNS = click.option("--runs", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), help="Folder of the runs.  [runs]")
JSON = click.option("--json", "as_json", is_flag=True, help="For programs.")
LAB_WORDS = "An embedded lab: the label of one that runs, or the name of one to build."
TESTBED_WORDS = "A testbed file, instead of a lab."
LINK_WORDS = "Links to drive at once, as in a or a+b; repeatable."
FORMAT = click.option(
    "--format", "form", type=click.Choice(["text", *CHECK_FORMATS]), default="text", show_default=True,
    help="junit: XML for a CI system; github: annotations of a workflow; ktap: as the kernel's tests; markdown: a comment for a pull "
    "request; openmetrics: gauges. The verdict is then on standard error too.",
)  # fmt: skip
SET = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the file, as in factors.mode=router,nat."
)
BED = click.Path(path_type=Path, exists=True, dir_okay=False, allow_dash=True)


def insist_on_one(lab: str | None, testbeds: object) -> None:
    """Check that only one of --lab and --testbed is given. Raises UsageError."""
    if lab is not None and testbeds:
        raise click.UsageError("--lab and --testbed exclude one another")
