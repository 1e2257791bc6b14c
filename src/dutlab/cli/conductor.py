"""conductor run, conductor convert."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from dutlab.cli.console import Console
from dutlab.cli.loop import run_in_order
from dutlab.cli.places import PLACES, Place, hosts_at, read_place
from dutlab.cli.run import RUNS, finish
from dutlab.cli.told import say
from dutlab.cli.userns import become_root
from dutlab.errors import Fault, InputError, SpecRefused
from dutlab.interop.conductor import Reading, Test, plain_name, read_test
from dutlab.interop.conductor_report import StepRow, TrialRows, conductor_report
from dutlab.runner.conduct import Conduct, Conducted, conduct
from dutlab.runner.run import RunResult
from dutlab.runner.trial import CommandBook
from dutlab.spec.workloads.steps import PHASES, Phase, StepsWorkload


@click.group()
def conductor() -> None:
    """Run Conductor's configuration files unchanged: steps on several hosts, in four phases.

    \b
    Example:
      dutlab conductor run conductor.cfg --map source=bench.yaml/source --map sink=ssh:root@192.0.2.12
    """  # noqa: D301


_FILE = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_STRICT = click.option("--strict", is_flag=True, help="A step that names no time-out is ended after 30 s, as by the original.")
_TRANSLATE = click.option("--translate", is_flag=True, help="FreeBSD's `cpuset -l LIST` becomes `taskset -c LIST`.")


@conductor.command()
@_FILE
@click.option("--map", "maps", multiple=True, metavar="NAME=HOST", help=f"Where a host of the file is: {PLACES}.")
@click.option("-t", "--trials", type=click.IntRange(1, 1000), help="Instead of the number in the file.")
@click.option("-p", "--phases", multiple=True, type=click.Choice(PHASES), help="Only these; several times for several.")
@click.option("-c", "--clients", multiple=True, help="Only these hosts; several times for several.")
@click.option("--keep-going/--stop", default=True, help="After a step that failed: go on, or only reset.  [--keep-going]")
@_STRICT
@_TRANSLATE
@click.option("--dry-run", is_flag=True, help="Print what would run where, and run nothing.")
@click.option("--take-over", is_flag=True, help="Use hosts that a run which has died left in use, as they are.")
@click.option("-f", "--format", "form", type=click.Choice(["json"]), help="Write the original's report too.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Where that report goes.  [conductor.json]")
@RUNS
def run(
    *, file: Path, maps: tuple[str, ...], trials: int | None, phases: tuple[Phase, ...], clients: tuple[str, ...], keep_going: bool,
    strict: bool, translate: bool, dry_run: bool, take_over: bool, form: str | None, output: Path | None, runs: Path,
) -> None:  # fmt: skip
    """Carry a test out; exit 0 only when every step did what it was asked for.

    \b
    Example:
      dutlab conductor run conductor.cfg --map client1=local --dry-run
    """  # noqa: D301
    test = _read(file, Reading(strict=strict, translate=translate))
    wanted = _wanted(test, clients)
    work = test.workload(frozenset(wanted), on_failure="keep-going" if keep_going else "stop")
    chosen = [p for p in PHASES if not phases or p in phases]
    if dry_run:
        _print_plan(work, chosen, dict(_maps(maps)))
        return
    places = _places(file, wanted, maps)
    if any(place.lab for place in places.values()):
        become_root()
    what = Conduct(
        name=plain_name(file.stem),
        work=work,
        trials=trials or test.trials,
        given=file.read_bytes(),
        resolved={
            "command": ["dutlab", *sys.argv[1:]],
            "experiment": {"name": file.stem, "order": "as-written"},
            "testbed": {"name": ", ".join(f"{name} is {place.said}" for name, place in places.items())},
            "work": work.model_dump(mode="json"),
        },
        phases=chosen,
        shared={name: place.ssh for name, place in places.items() if place.is_shared},
        take_over=take_over,
    )
    result, done = run_in_order(_conduct(what, places, runs))
    if form or test.report.get("format") == "json":
        target = output or Path(test.report.get("output", "conductor.json"))
        target.write_text(json.dumps(conductor_report(list(places), [_rows(d) for d in done]), indent=2) + "\n", encoding="utf-8")
        say(f"Conductor's own report: {target}")
    finish(result)


@conductor.command()
@_FILE
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Where the experiment goes.  [standard output]")
@click.option("--map", "maps", multiple=True, metavar="NAME=HOST", help="The host of a testbed that stands for one of the file.")
@_STRICT
@_TRANSLATE
def convert(*, file: Path, output: Path | None, maps: tuple[str, ...], strict: bool, translate: bool) -> None:
    """Write an experiment that does the same, with a `steps` workload.

    \b
    Example:
      dutlab conductor convert conductor.cfg --map client1=source -o experiment.yaml
    """  # noqa: D301
    from ruamel.yaml import YAML  # noqa: PLC0415 -- only this command writes YAML here

    test = _read(file, Reading(strict=strict, translate=translate))
    names = dict(_maps(maps))
    phases = {
        phase: {names.get(host, host): [s.model_dump(mode="json", exclude_defaults=True) for s in steps] for host, steps in by_host.items()}
        for phase, by_host in test.workload().phases.items()
        if by_host
    }
    experiment = {
        "experiment": plain_name(file.stem),
        "testbed": {"lab": "three-node"},
        "factors": {"mode": ["router"]},
        "workloads": [{"steps": phases}],
        "repeats": test.trials,
        "order": "as-written",
    }
    out = io.StringIO()
    yaml = YAML()
    yaml.width = 4096
    yaml.dump(experiment, out)
    if output is None:
        say(out.getvalue(), nl=False)
    else:
        output.write_text(out.getvalue(), encoding="utf-8")


def _read(file: Path, reading: Reading) -> Test:
    """Raises SpecRefused with every fault of every file. Paths in it are relative to the working directory, else to the file."""

    def text_of(path: str) -> str:
        here = Path(path)
        return (here if here.exists() or here.is_absolute() else file.parent / path).read_text(encoding="utf-8")

    test = read_test(file.read_text(encoding="utf-8", errors="replace"), str(file), text_of, reading)
    if test.faults:
        raise SpecRefused(test.faults)
    return test


def _wanted(test: Test, clients: Sequence[str]) -> list[str]:
    if unknown := [c for c in clients if c not in test.hosts]:
        raise InputError(f"the file has no host {', '.join(unknown)}", remedy=f"it has {', '.join(test.hosts)}")
    return [name for name in test.hosts if not clients or name in clients]


def _maps(maps: Sequence[str]) -> list[tuple[str, str]]:
    out = []
    for said in maps:
        name, equals, place = said.partition("=")
        if not (equals and name and place):
            raise InputError(f"--map {said} is no NAME=HOST", remedy=f"a host is {PLACES}")
        out.append((name.lower(), place))
    return out


def _places(file: Path, wanted: Sequence[str], maps: Sequence[str]) -> dict[str, Place]:
    """Name → place. Raises InputError, or SpecRefused that names every host without a place and the option to add."""
    given = dict(_maps(maps))
    if unknown := sorted(set(given) - set(wanted)):
        raise InputError(f"--map names {', '.join(unknown)}, which the file does not", remedy=f"it has {', '.join(wanted)}")
    missing = [name for name in wanted if name not in given]
    faults = [Fault(str(file), 1, 1, name, f"is mapped to no host; add --map {name}=HOST, where HOST is {PLACES}") for name in missing]
    if faults:
        raise SpecRefused(faults)
    return {name: read_place(given[name]) for name in wanted}


async def _conduct(what: Conduct, places: Mapping[str, Place], runs: Path) -> tuple[RunResult, list[Conducted]]:
    book = CommandBook()
    async with hosts_at(places, book.note) as hosts:
        return await conduct(what, hosts, runs, book, Console())


def _print_plan(work: StepsWorkload, phases: Sequence[Phase], places: Mapping[str, str]) -> None:
    for phase in phases:
        say(f"{phase}:")
        for host, steps in work.phases[phase].items():
            for step in steps:
                how = "spawn" if step.spawn else f"at most {step.timeout:g} s" if step.timeout else "run"
                say(f"  {host} ({places.get(host, 'not mapped')})  {step.name}  [{how}]  {step.command}")


def _rows(done: Conducted) -> TrialRows:
    rows: list[Any] = [
        StepRow(
            host=d.host, phase=d.phase, started=datetime.fromtimestamp(d.started_s, UTC),
            ended=datetime.fromtimestamp(d.started_s + d.seconds, UTC), code=0 if not d.failed else d.status or 1,
            message=d.stdout.decode("utf-8", "replace") if not d.failed else d.step.command,
        )
        for d in done.account.done
    ]  # fmt: skip
    return TrialRows(done.started, done.ended, rows)
