"""Commands `demo`, `run`, `resume` and `undo`."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.examples import example
from dutlab.cli.manner import CommonOptions, manner_options
from dutlab.cli.one_workload import lab_of
from dutlab.cli.options import BED, JSON, LAB_WORDS, RUNS, SET, TESTBED_WORDS, insist_on_one
from dutlab.cli.terminal import say, table, tell
from dutlab.cli.userns import become_root
from dutlab.errors import InputError
from dutlab.outside import AtPipe
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.cli.console import Console
    from dutlab.runner.execution import RunOptions
    from dutlab.runner.trust import NotOurs

_TRUST = click.option("--trust", is_flag=True, help="Skip the check that this user made this run on this machine.")


@click.command()
@click.argument("job", metavar="[storage]", required=False, type=click.Choice(["storage"]))
@click.option("--quick", is_flag=True, help="Fewer frame sizes and one repeat: under 90 seconds.")
@click.option("--lab", type=click.Choice(["three-node", "uml-router", "qemu-router"]), default="three-node", show_default=True,
              help="Namespaces with every mode, or guests: near, distant and lossy in UML, firewall and NAT in QEMU.")  # fmt: skip
@RUNS
@manner_options
def demo(*, job: str | None, quick: bool, lab: str, runs: Path, manner: CommonOptions) -> None:
    """With storage: shows the theoretical limits of a lab's drives, then measures them raw, as RAID 10 and as RAID 5, with a drive lost
    and rebuilt.

    \b
    Example:
      dutlab demo --quick
      dutlab demo storage
      dutlab demo --lab uml-router
    """
    from dutlab.spec.loader import read_experiment

    if quick and (job or lab != "three-node"):
        raise click.UsageError("--quick is for lab three-node; the others have one size")
    if job and lab != "three-node":
        raise click.UsageError("storage has its own lab")
    become_root()
    path = example("firewall-modes") / ("quick.yaml" if quick else "demo.yaml")
    if lab != "three-node":
        path = example("guest") / ("demo.yaml" if lab == "uml-router" else "firewall.yaml")
    if job:
        path = example("storage") / "demo.yaml"
        _print_theory()
    manner.finish([manner.carry_out(read_experiment(path), _options(runs, unattended=True, lab=None))])


def _print_theory() -> None:
    """Print the theoretical limits of each array of the demo, in multiples of one drive."""
    from dutlab import labs
    from dutlab.physics.ceilings.storage import Array, DriveRating, raid_ceilings

    drives = len(labs.description("raid").testbed.drives)
    rows = [("raw", f"{drives}", f"{drives}")]
    for level in (10, 5):
        ceilings = {c.name: c.value for c in raid_ceilings(Array(level, drives), DriveRating(1.0, 1.0), degraded=True)}
        writes = ceilings.get("random_write_md_iops", ceilings["random_write_iops"])
        rows.append((f"RAID {level}", f"{ceilings['random_read_iops']:g}", f"{writes:g}"))
    rows.append(("RAID 5, a drive lost", f"{ceilings['degraded_random_read_iops']:g}", f"{ceilings['degraded_random_write_iops']:.3g}"))
    tell(f"Theory: IOPS at most, in drives' worth, of {drives} drives (each formula: `dutlab limits raid 5 --drives {drives} …`)")
    for line in table(("", "random reads", "random writes"), rows, right={1, 2}):
        tell(line)
    tell("The lab's drives share one core, so measured figures may be lower.")


@click.command()
@click.argument("experiments", metavar="EXPERIMENT…", nargs=-1, required=True, type=click.Path(path_type=Path))
@SET
@RUNS
@click.option("--lab", metavar="NAME", help=f"{LAB_WORDS}  [the file's]")
@click.option("--testbed", "testbeds", multiple=True, type=BED,
              help=f"{TESTBED_WORDS}  [the file's; repeatable, with --interleave]")  # fmt: skip
@click.option("--interleave", is_flag=True, help="Interleave experiments, or one on several testbeds: a repeat of each at a time. The same "
              "one twice shows how far two runs of one box differ.")  # fmt: skip
@click.option("--unattended", is_flag=True, help="Refuse a plan with manual steps.")
@click.option("--take-over", is_flag=True, help="Use hosts that an ended run left in use.")
@manner_options
def run(
    *,
    experiments: tuple[Path, ...],
    overrides: tuple[str, ...],
    runs: Path,
    lab: str | None,
    testbeds: tuple[Path, ...],
    interleave: bool,
    unattended: bool,
    take_over: bool,
    manner: CommonOptions,
) -> None:
    """\b
    Example:
      dutlab run examples/firewall-modes/experiment.yaml --set factors.mode=router,nat
      dutlab run old.yaml new.yaml --interleave
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.runner import run as runner
    from dutlab.runner.in_turn import run_in_turn
    from dutlab.spec.loader import given_experiment, testbed_of
    from dutlab.spec.yaml_source import read_file

    insist_on_one(lab, testbeds)
    wanted = [(path, on) for path in experiments for on in (testbeds or (None,))]
    if interleave and len(wanted) == 1:
        raise InputError("--interleave with one run", remedy="name two experiments, or the same one twice, or two testbeds with --testbed")
    if not interleave and len(wanted) > 1:
        raise InputError(f"{len(wanted)} runs at once", remedy="add --interleave, or start each separately")
    texts = {path: read_file(path, AtPipe.READ) for path in dict.fromkeys(experiments)}  # read once, since it may be a pipe
    name, standing = lab_of(lab) if lab is not None else ("", None)
    overrides = (*overrides, f"testbed.lab={name}") if name else overrides
    definitions = [
        given_experiment(texts[path], path, overrides, testbed=on) for path, on in wanted
    ]  # refused before anything else happens
    if standing is None and any(testbed_of(of).lab is not None for of in definitions):
        if os.geteuid() != 0 and (pipes := [path for path in texts if not path.is_file()]):
            raise InputError(f"{pipes[0]}: a pipe can be read only once, and without root the command restarts", remedy="save it in a file")
        become_root()
    options = _options(runs, unattended=unattended, lab=standing, take_over=take_over)
    if interleave:
        works = [runner.Work.planned(of, unattended=unattended) for of in definitions]
        for work in works:
            manner.insist_on_time(work.plan)
        manner.finish(run_in_order(run_in_turn(works, manner.options(options), _consoles(manner))))
    else:
        manner.finish([manner.carry_out(definitions[0], options)])


def _options(runs: Path, *, unattended: bool, lab: str | None, take_over: bool = False) -> RunOptions:
    from dutlab.runner.execution import RunOptions
    from dutlab.tools.engine.engine import find_engine

    return RunOptions(
        runs=runs,
        engine_binary=find_engine(),
        command=("dutlab", *sys.argv[1:]),
        unattended=unattended,
        standing_lab=lab,
        take_over=take_over,
    )


def _consoles(manner: CommonOptions) -> Callable[[int], Console]:
    return lambda place: manner.console(f"run {place + 1}: ")


@click.command()
@click.argument("run_folders", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@_TRUST
@manner_options
def resume(*, run_folders: tuple[Path, ...], trust: bool, manner: CommonOptions) -> None:
    """\b
    Example:
      dutlab resume runs/2026-11-21T0801Z-firewall-modes-3f2a
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.runner import recovery
    from dutlab.runner import run as runner
    from dutlab.runner.in_turn import resume_in_turn, resumed_alone_warning
    from dutlab.runner.trust import NotOurs
    from dutlab.store.run_folder import RunFolder

    if True in {recovery.builds_lab(path) for path in run_folders}:  # checks every run: one without a testbed raises
        become_root()
    options = [replace(_options(path.parent, unattended=False, lab=recovery.existing_lab_of(path)), trusted=trust) for path in run_folders]
    for place, path in enumerate(run_folders):
        try:
            runner.resumable_work(path, trusted=trust)
        except NotOurs as error:
            ask_trust(error)
            options[place] = replace(options[place], trusted=True)
    options = [manner.options(of) for of in options]
    if len(run_folders) > 1:
        manner.finish(run_in_order(resume_in_turn(run_folders, options, _consoles(manner))))
        return
    ((path,), (of,)) = run_folders, options
    console = manner.console()
    if (words := resumed_alone_warning(RunFolder.open(path))) is not None:
        console.note(words)
    manner.finish([run_in_order(runner.resume(path, of, console))])


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@_TRUST
@click.option("--reset", is_flag=True, help="Run the Reset phase of a conducted test that was killed before it.")
@JSON
def undo(*, run_folder: Path, trust: bool, reset: bool, as_json: bool) -> None:
    """\b
    Example:
      dutlab undo runs/2026-11-21T0801Z-firewall-modes-3f2a
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.report.model.words import plural
    from dutlab.runner import recovery
    from dutlab.runner.trust import NotOurs

    try:
        done = run_in_order(recovery.undo(run_folder, trusted=trust, run_reset=reset))
    except NotOurs as error:
        ask_trust(error)
        trust = True
        done = run_in_order(recovery.undo(run_folder, trusted=True, run_reset=reset))
    if as_json:
        steps = [{"host": step.host, "command": step.argv[-1]} for step in done.unreset]
        say(json.dumps({"schema_version": 1, **asdict(done), "unreset": steps}, indent=1))
        return
    if done.unreset:
        say("Startup began, and Reset was not run:")
        for step in done.unreset:
            say(f"  {step.host}: {printable(step.argv[-1])}")
        if sys.stdin.isatty() and click.confirm("Run Reset now?", err=True):
            again = run_in_order(recovery.undo(run_folder, trusted=trust, run_reset=True))
            done = replace(again, lab=again.lab or done.lab, freed=done.freed)
        else:
            say(f"`dutlab undo {run_folder} --reset` runs it")
            if done.kept:
                say(f"lab {done.kept} is kept for that; `dutlab lab down {done.kept}` takes it down without Reset")
    for line in done.reset:
        say(f"reset: {printable(line)}")
    parts = [f"{plural(done.changes, 'change')} undone"] if done.changes else []
    parts += [f"lab {done.lab} taken down"] if done.lab else []
    parts += [f"freed: {', '.join(done.freed)}"] if done.freed else []
    if parts or not (done.unreset or done.reset):
        say("; ".join(parts) or "nothing to undo")


def ask_trust(error: NotOurs) -> None:
    """Show the commands of a run, and return if a person agrees to them. Raises NotOurs without a person or if the answer is no."""
    from dutlab.runner.trust import as_lines

    for line in as_lines(error):
        say(line, err=True)
    if not sys.stdin.isatty() or not click.confirm(f"{error.what}. Run all of this?", err=True):
        raise error
