"""Command `conductor`: run and convert Conductor's files."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.manner import CommonOptions, form_options
from dutlab.cli.options import RUNS
from dutlab.cli.terminal import say, tell
from dutlab.errors import Fault, FaultKind, InputError, SpecRefused

if TYPE_CHECKING:
    from dutlab.cli.places import TestPlace
    from dutlab.interop.conductor import Test
    from dutlab.spec.workloads.steps import Phase, StepsWorkload

PHASES: tuple[Phase, ...] = ("startup", "run", "collect", "reset")
PLACES = "local, ssh:[user@]host[:port], TESTBED.yaml/HOST, or lab:NAME/HOST as in lab:three-node/source"
LAB = "three-node"
"""Lab in converted experiments."""


@click.group()
def conductor() -> None:
    """\b
    Example:
      dutlab conductor run conductor.cfg --map source=bench.yaml/source --map sink=ssh:root@192.0.2.12
    """


_FILE = click.argument("file", type=click.Path(path_type=Path, exists=True, dir_okay=False))
_STRICT = click.option("--strict", is_flag=True, help="Steps without a time-out end after 30 s in every file; else in those with [Master].")
_NO_LIMIT = click.option("--no-limit", is_flag=True, help="Steps without a time-out have no time limit.")
_TRANSLATE = click.option("--translate", is_flag=True, help="FreeBSD's `cpuset -l LIST` becomes `taskset -c LIST`.")


@conductor.command()
@_FILE
@click.option("--map", "maps", multiple=True, metavar="NAME=HOST", help=f"Map a host of the file: {PLACES}.")
@click.option("--players", metavar="ssh:[USER@]", help="Reach hosts without --map over ssh at the addresses that their files give.")
@click.option("--directory", "directories", multiple=True, metavar="[NAME=]DIR", help="Folder in which steps run, of one host or of all.")
@click.option("-t", "--trials", type=click.IntRange(1, 1000), help="Number of trials, instead of that in the file.")
@click.option("-p", "--phases", multiple=True, type=click.Choice(PHASES), help="Only these phases; repeatable.")
@click.option("-c", "--clients", multiple=True, help="Only these hosts; repeatable.")
@click.option("--keep-going/--stop", default=True, help="After a failed step: continue, or only reset.  [--keep-going]")
@_STRICT
@_NO_LIMIT
@_TRANSLATE
@click.option("--dry-run", is_flag=True, help="Only print each command and the host that would run it.")
@click.option("--take-over", is_flag=True, help="Use hosts that an ended run left in use.")
@click.option("-f", "--format", "form", type=click.Choice(["json", "text"]), help="Also write Conductor's own report.")
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File for that report.  [conductor.json]")
@RUNS
@form_options
def run(
    *, file: Path, maps: tuple[str, ...], players: str | None, directories: tuple[str, ...], trials: int | None, phases: tuple[Phase, ...],
    clients: tuple[str, ...], keep_going: bool, strict: bool, no_limit: bool, translate: bool, dry_run: bool, take_over: bool,
    form: str | None, output: Path | None, runs: Path,
    manner: CommonOptions,
) -> None:  # fmt: skip
    """Run a test. Exit 0 only if every step succeeded.

    \b
    Example:
      dutlab conductor run conductor.cfg --map client1=local --dry-run
    """
    test = _read(file, strict=strict, no_limit=no_limit, translate=translate)
    wanted = _wanted(test, clients)
    place_by_host = _maps(maps, test)
    work = test.workload(frozenset(wanted), on_failure="keep-going" if keep_going else "stop")
    chosen = [p for p in PHASES if not phases or p in phases]
    if dry_run:
        _print_plan(work, chosen, place_by_host)
        return
    from dutlab.cli import conduct

    places = _places(file, test, wanted, place_by_host, players)
    asked = conduct.ConductRequest(
        file=file,
        work=work,
        trials=test.trials if trials is None else trials,
        phases=chosen,
        places=places,
        directories=_directories(directories, test, places),
        runs=runs,
        take_over=take_over,
        report=_report(test, form, output),
        manner=manner,
    )
    conduct.carry_out(asked)


@conductor.command()
@_FILE
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File for the experiment.  [standard output]")
@click.option("--map", "maps", multiple=True, metavar="NAME=HOST", help="Use this host of a testbed for a host of the file.")
@_STRICT
@_NO_LIMIT
@_TRANSLATE
def convert(*, file: Path, output: Path | None, maps: tuple[str, ...], strict: bool, no_limit: bool, translate: bool) -> None:
    """Write an equivalent experiment, with a `steps` workload.

    \b
    Example:
      dutlab conductor convert conductor.cfg --map client1=source -o experiment.yaml
    """
    from ruamel.yaml import YAML

    from dutlab.interop.conductor import plain_name

    test = _read(file, strict=strict, no_limit=no_limit, translate=translate)
    if test.trials == 0:
        raise InputError(f"{file}: has no trials", remedy="write `trials: 1` or more in [Test]")
    names = _named_hosts(test, _maps(maps, test))
    phases = {
        phase: {names[host]: [s.model_dump(mode="json", exclude_defaults=True) for s in steps] for host, steps in by_host.items()}
        for phase, by_host in test.workload().phases.items()
        if by_host
    }
    experiment = {
        "experiment": plain_name(file.stem),
        "testbed": {"lab": LAB},
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


def _read(file: Path, *, strict: bool, no_limit: bool, translate: bool) -> Test:
    """Read a test. Paths in it are relative to the working directory, else to the file. Raises SpecRefused with all faults of all files."""
    from dutlab.bounds import INPUT
    from dutlab.interop.conductor import ReadOptions, StepLimit, read_test
    from dutlab.outside import read_given

    def text_of(path: str) -> str:
        here = Path(path)
        return read_given(here if here.exists() or here.is_absolute() else file.parent / path, INPUT).decode()

    if strict and no_limit:
        raise InputError("--strict and --no-limit cannot be combined", remedy="give one of them")
    limit = StepLimit.ALL if strict else StepLimit.NONE if no_limit else StepLimit.OF_2015
    test = read_test(read_given(file, INPUT).decode(errors="replace"), str(file), text_of, ReadOptions(limit, translate=translate))
    if test.faults:
        raise SpecRefused(test.faults)
    return test


def _wanted(test: Test, clients: Sequence[str]) -> list[str]:
    chosen = [_host_of(test, c) for c in clients]
    if unknown := [c for c, name in zip(clients, chosen, strict=True) if name is None]:
        raise InputError(f"the file has no host {', '.join(unknown)}", remedy=f"it has {', '.join(test.names)}")
    return [name for name in test.hosts if not clients or name in chosen]


def _host_of(test: Test, text: str) -> str | None:
    """Return the host with this name in the file or in dutlab; None if there is none."""
    return test.names.get(text.lower(), text if text in test.hosts else None)


def _maps(maps: Sequence[str], test: Test) -> dict[str, str]:
    """Return host → place, from --map. Raises InputError for text that is not NAME=HOST, an unknown name, and a duplicate."""
    out: dict[str, str] = {}
    for word in maps:
        name, equals, place = word.partition("=")
        if not (equals and name and place):
            raise InputError(f"--map {word} is not NAME=HOST", remedy=f"a host is {PLACES}")
        host = _host_of(test, name)
        if host is None:
            raise InputError(f"--map names {name}, which the file does not", remedy=f"it has {', '.join(test.names)}")
        if host in out:
            raise InputError(f"--map {name} is a duplicate: {out[host]} and {place}", remedy="give one of them")
        out[host] = place
    return out


def _named_hosts(test: Test, maps: Mapping[str, str]) -> dict[str, str]:
    """Return host → its name in the experiment. Raises InputError if two hosts get one name, which would merge their steps."""
    names = {host: maps.get(host, host) for host in test.hosts}
    for name in names.values():
        if len(same := [host for host, called in names.items() if called == name]) > 1:
            raise InputError(f"{' and '.join(same)} are all mapped to {name}", remedy="map each to a different host")
    from dutlab.spec.known import LABS

    known = LABS[LAB].hosts
    if foreign := [name for name in names.values() if name not in known]:
        tell(
            f"note: lab {LAB}, which the experiment names, has no host {', '.join(foreign)}: "
            f"map them to {', '.join(known)} with --map, or name a testbed that has them"
        )
    return names


def _places(file: Path, test: Test, wanted: Sequence[str], given: Mapping[str, str], players: str | None) -> dict[str, TestPlace]:
    """Return name → place. Raises InputError, or SpecRefused that names every host without a place and the option to add."""
    from dutlab.cli.places import read_place

    if players is not None and not (players.startswith("ssh:") and players[4:5] != "@" and players.endswith((":", "@"))):
        raise InputError(f"--players {players}: not supported", remedy="give ssh: or ssh:USER@, as in ssh:root@")
    if unwanted := sorted(set(given) - set(wanted)):
        raise InputError(f"--map names {', '.join(unwanted)}, which -c leaves out", remedy=f"it keeps {', '.join(wanted)}")
    place_by_host = dict(given)
    if players is not None:
        place_by_host = {name: f"{players}{test.hosts[name].player}" for name in wanted if test.hosts[name].player} | place_by_host
    faults = [
        Fault(str(file), 1, 1, name, f"is mapped to no host; add --map {name}=HOST, where HOST is {PLACES}", FaultKind.MISSING)
        for name in wanted
        if name not in place_by_host
    ]
    if faults:
        raise SpecRefused(faults)
    return {name: read_place(place_by_host[name]) for name in wanted}


def _directories(options: Sequence[str], test: Test, places: Mapping[str, TestPlace]) -> dict[str, str]:
    """Return host → folder of its steps, if not the default: the working directory on this machine, the login's folder over ssh."""
    out = {name: os.getcwd() for name, place in places.items() if place.lab}  # noqa: PTH109 -- text for a shell
    for one in sorted(options, key=lambda one: "=" in one):  # a folder for one host overrides the folder for all
        name, equals, directory = one.partition("=")
        host = _host_of(test, name) if equals else None
        if equals and host is None:
            raise InputError(f"--directory names {name}, which the file does not", remedy=f"it has {', '.join(test.names)}")
        out.update(dict.fromkeys(places if host is None else [host], directory if equals else one))
    return out


def _report(test: Test, form: str | None, output: Path | None) -> tuple[str, Path] | None:
    """Return format and file of Conductor's own report, if options or the file ask for one."""
    target = output or (Path(named) if (named := test.report.get("output")) else None)
    form = form or test.report.get("format", "").lower() or None
    if form is None and target is None:
        return None
    form = "json" if form == "json" else "text"
    if target is None and form == "text":
        return None  # it would go to the terminal, where dutlab prints its own output
    return form, target or Path("conductor.json")


def _print_plan(work: StepsWorkload, phases: Sequence[str], places: Mapping[str, str]) -> None:
    for phase, by_host in work.phases.items():
        if phase not in phases:
            continue
        say(f"{phase}:")
        for host, steps in by_host.items():
            for step in steps:
                limit = "" if step.timeout is None else f"at most {step.timeout:g} s"
                how = "spawn" if step.spawn else limit.replace("at most", "for") if step.at_timeout == "end" else limit or "run"
                say(f"  {host} ({places.get(host, 'not mapped')})  {step.name}  [{how}]  {step.command}")
