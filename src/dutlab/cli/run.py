"""demo, run, plan, resume, undo."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import click

from dutlab.cli.console import Console
from dutlab.cli.examples import example
from dutlab.cli.loop import run_in_order
from dutlab.cli.options import RUNS
from dutlab.cli.told import answer, say
from dutlab.cli.userns import become_root
from dutlab.errors import InputError
from dutlab.plan.trials import make_plan
from dutlab.printable import printable
from dutlab.report import write_report
from dutlab.report.words import plural
from dutlab.runner import cut
from dutlab.runner import run as runner
from dutlab.runner.trust import NotOurs, as_lines
from dutlab.spec.loader import Given, read_experiment
from dutlab.tools.engine import find_engine

_COMMAND = ("dutlab", *sys.argv[1:])
_SET = click.option(
    "--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the file, as in factors.mode=router,nat."
)
_TRUST = click.option("--trust", is_flag=True, help="Carry it out although this user did not make this run on this machine.")


@click.command()
@click.option("--quick", is_flag=True, help="Fewer frame sizes and one repeat: under 90 seconds.")
@RUNS
def demo(*, quick: bool, runs: Path) -> None:
    """The main job on the embedded lab: benchmark a Linux router and firewall, then print where the report lies.

    \b
    Example:
      dutlab demo --quick
    """  # noqa: D301
    become_root()
    path = example("firewall-modes") / ("quick.yaml" if quick else "demo.yaml")
    _run(read_experiment(path), runs, unattended=True, lab=None)


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@_SET
@RUNS
@click.option("--lab", metavar="LABEL", help="Use a lab that `dutlab lab up` built; without it the run builds one of its own.")
@click.option("--unattended", is_flag=True, help="Refuse a plan that needs a person, before it starts.")
@click.option("--take-over", is_flag=True, help="Use hosts that a run which has died left in use, as they are.")
def run(*, experiment: Path, overrides: tuple[str, ...], runs: Path, lab: str | None, unattended: bool, take_over: bool) -> None:
    """Carry an experiment out and write its report.

    \b
    Example:
      dutlab run examples/firewall-modes/experiment.yaml --set factors.mode=router,nat
    """  # noqa: D301
    given = read_experiment(experiment, overrides)  # once: it may be a pipe; a wrong file is refused before anything else happens
    if lab is None and runner.testbed_of(given).lab is not None:
        if os.geteuid() != 0 and not experiment.is_file():
            raise InputError(f"{experiment}: a pipe is read once, and without root the command starts anew", remedy="save it in a file")
        become_root()
    _run(given, runs, unattended=unattended, lab=lab, take_over=take_over)


def _run(given: Given, runs: Path, *, unattended: bool, lab: str | None, take_over: bool = False) -> None:
    options = runner.RunOptions(
        runs=runs, engine_binary=find_engine(), command=_COMMAND, unattended=unattended, standing_lab=lab, take_over=take_over
    )
    finish(run_in_order(runner.run(given, options, Console())))


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_TRUST
def resume(*, run_folder: Path, trust: bool) -> None:
    """Go on with a run that was cut: undo first, then every trial that has no record.

    \b
    Example:
      dutlab resume runs/2026-11-21T0801Z-firewall-modes-3f2a
    """  # noqa: D301
    if cut.builds_its_lab(run_folder):  # and refuses a run that has no testbed to go on with
        become_root()
    standing = cut.standing_lab_of(run_folder)
    options = runner.RunOptions(runs=run_folder.parent, engine_binary=find_engine(), command=_COMMAND, standing_lab=standing, trusted=trust)
    try:
        result = run_in_order(runner.resume(run_folder, options, Console()))
    except NotOurs as error:
        _ask_trust(error)
        result = run_in_order(runner.resume(run_folder, replace(options, trusted=True), Console()))
    finish(result)


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_TRUST
@click.option("--reset", is_flag=True, help="Run Reset of a conducted test that was killed before it.")
def undo(*, run_folder: Path, trust: bool, reset: bool) -> None:
    """Put the DUT and the ports of a cut run back, take its lab down, free its hosts, and measure nothing.

    \b
    Example:
      dutlab undo runs/2026-11-21T0801Z-firewall-modes-3f2a
    """  # noqa: D301
    try:
        done = run_in_order(cut.undo(run_folder, trusted=trust, run_reset=reset))
    except NotOurs as error:
        _ask_trust(error)
        trust = True
        done = run_in_order(cut.undo(run_folder, trusted=True, run_reset=reset))
    if done.unreset:
        say("Startup was begun and Reset was not run:")
        for step in done.unreset:
            say(f"  {step.host}: {printable(step.argv[-1])}")
        if sys.stdin.isatty() and click.confirm("Run Reset now?", err=True):
            done = replace(run_in_order(cut.undo(run_folder, trusted=trust, run_reset=True)), lab=done.lab, freed=done.freed)
        else:
            say(f"`dutlab undo {run_folder} --reset` runs it")
    for line in done.reset:
        say(f"reset: {printable(line)}")
    said = [f"{plural(done.changes, 'change')} undone"] if done.changes else []
    said += [f"lab {done.lab} taken down"] if done.lab else []
    said += [f"freed: {', '.join(done.freed)}"] if done.freed else []
    if said or not (done.unreset or done.reset):
        say("; ".join(said) or "nothing to undo")


def _ask_trust(error: NotOurs) -> None:
    """Shows what would be carried out, and returns if a person wants it. Raises NotOurs where nobody can be asked, or says no."""
    for line in as_lines(error):
        say(line, err=True)
    if not sys.stdin.isatty() or not click.confirm(f"{error.what}. Carry all of this out?", err=True):
        raise error


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@_SET
@click.option("--json", "as_json", is_flag=True, help="The plan as JSON.")
def plan(*, experiment: Path, overrides: tuple[str, ...], as_json: bool) -> None:
    """Show what would be done, in which order, how long it takes and each ceiling; touches no host.

    \b
    Example:
      dutlab plan examples/firewall-modes/experiment.yaml
    """  # noqa: D301
    from dutlab.cli.plan_text import plan_lines  # noqa: PLC0415 -- only this command needs it

    given = read_experiment(experiment, overrides)
    testbed = runner.testbed_of(given)
    made = make_plan(given.experiment, testbed)
    if as_json:
        say(json.dumps(made.to_json(), indent=2))
    else:
        for line in plan_lines(made, testbed):
            say(line)


def finish(result: runner.RunResult) -> None:
    """Writes the report, says where it lies, and ends the command with the run's exit status."""
    written = write_report([result.folder], formats=("html", "md", "csv", "json"), out=None)
    total = result.measured + result.failed + result.refused + result.disturbed
    without = ((result.failed, "failed"), (result.refused, "refused"), (result.disturbed, "disturbed by other work"))
    lost = "".join(f", {n} {word}" for n, word in without if n)
    answer(f"{result.measured} of {plural(total, 'trial')} measured{lost}")
    answer(f"report: {next(p for p in written if p.suffix == '.html')}")
    click.get_current_context().exit(result.exit_status)
