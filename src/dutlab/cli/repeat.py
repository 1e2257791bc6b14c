"""Command `repeat`: measure a run again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutlab.cli.manner import CommonOptions, manner_options
from dutlab.cli.options import RUNS, TESTBED_WORDS
from dutlab.cli.terminal import answer, say_words, table
from dutlab.cli.userns import become_root
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.analysis.differences import ValueDifference
    from dutlab.hosts.host import Host
    from dutlab.runner.progress import RunResult
    from dutlab.runner.run import Work
    from dutlab.spec.testbed import Testbed

_COMPARED = ("clocksource", "cpu", "kernel", "machine", "memory_bytes", "mitigations", "os", "versions", "virtual")
"""Facts of a machine that do not depend on its cards."""
_CARD = ("driver", "firmware", "model", "speed_mbps", "offloads", "rings")


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option(
    "--testbed", "testbed_file", type=click.Path(path_type=Path, exists=True, dir_okay=False), help=f"{TESTBED_WORDS}  [the run's]"
)
@click.option("--dry-run", is_flag=True, help="List the differences to this testbed; measure nothing.")
@click.option("--trust", is_flag=True, help="Skip the check that this user made this run on this machine.")
@RUNS
@manner_options
def repeat(*, run_folder: Path, testbed_file: Path | None, dry_run: bool, trust: bool, runs: Path, manner: CommonOptions) -> None:
    """Lists differences between the machines of the run and these, measures, and compares both runs.

    If another user or machine made RUN, its commands are shown first, and nothing is done until you agree.

    \b
    Example:
      dutlab repeat runs/2026-11-21T0801Z-firewall-modes-3f2a
      dutlab repeat downloads/2026-11-21T0801Z-firewall-modes-3f2a --dry-run
    """
    from dutlab.cli.compare import lines_of
    from dutlab.cli.limits_text import computed
    from dutlab.cli.loop import run_in_order
    from dutlab.cli.run import ask_trust
    from dutlab.report.questions.compared import compare_runs
    from dutlab.report.questions.sides import open_run
    from dutlab.runner.repeat import to_repeat
    from dutlab.runner.trust import NotOurs
    from dutlab.spec.drive_models import with_models
    from dutlab.spec.loader import given_testbed
    from dutlab.spec.yaml_source import read_file

    testbed = (
        None if testbed_file is None else (given_testbed(text := read_file(testbed_file), testbed_file), with_models(text, testbed_file))
    )
    work = to_repeat(run_folder, testbed=testbed, trusted=True)
    if not dry_run and work.testbed.lab is not None:
        become_root()
    if not dry_run or work.testbed.lab is None:  # the testbed of another user's run names hosts to log in to
        try:
            to_repeat(run_folder, testbed=testbed, trusted=trust)
        except NotOurs as error:
            ask_trust(error)
    for line in run_in_order(_differing(run_folder, work.testbed)):
        say_words(line, err=manner.form != "text")
    if dry_run:
        return
    result = _again(work, run_folder.resolve().name, runs, manner)
    if manner.form != "text":
        manner.finish([result])
    manner.print_answers([result.folder])
    try:
        lines = list(lines_of(computed(lambda: compare_runs([open_run(run_folder)], [open_run(result.folder)]))))
    except InputError as error:
        lines = [f"not compared: {error}"]  # the exit status does not depend on the comparison
    for line in lines:
        answer(line)
    click.get_current_context().exit(result.exit_status)


def _again(work: Work, run: str, runs: Path, manner: CommonOptions) -> RunResult:
    import sys

    from dutlab.runner.execution import RunOptions
    from dutlab.tools.engine.binary import find_engine

    options = RunOptions(runs=runs, engine_binary=find_engine(), command=("dutlab", *sys.argv[1:]))
    return manner.carry_out_work(work, options, additions={"repeated_run": run})


async def _differing(run: Path, testbed: Testbed) -> list[str]:
    """Return differences between the machines of the run and those here, as lines."""
    from dutlab.store.run_folder import RunFolder

    recorded = {name: facts for name, facts in RunFolder.open(run).hosts().items() if "~" not in name}
    if not recorded:
        return ["the run has no facts of its machines, so differences are unknown"]
    now = await _facts_now(testbed, recorded)
    return difference_lines(recorded, now, cards=testbed.lab is None)


def difference_lines(recorded: Mapping[str, Any], now: Mapping[str, Any], *, cards: bool) -> list[str]:
    """Return differences between two sets of machines by their facts, as lines; with `cards` also those of their cards."""
    from dutlab.analysis.differences import differences

    changes = differences(_of_machines(recorded, cards=cards), _of_machines(now, cards=cards))
    if not changes:
        return ["no difference between the machines of the run and these"]
    rows = [(d.path, d.first[:60], d.second[:60]) for d in _shared(changes, list(recorded))]
    return ["differs here:", *table(("what", "then", "here"), rows, indent="  ")]


async def _facts_now(testbed: Testbed, recorded: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return host → facts. Every host of a lab is this machine."""
    from dutlab.cli.facts import collect
    from dutlab.hosts.facts import collect_facts
    from dutlab.hosts.local import THIS_MACHINE, LocalHost
    from dutlab.hosts.reach import hosts_of

    if testbed.lab is not None:
        here = await collect_facts(LocalHost(THIS_MACHINE), ())
        return dict.fromkeys(recorded, here)
    hosts: dict[str, Host] = {name: host for name, host in hosts_of(testbed).items() if name in recorded}
    ports: dict[str, list[str]] = {name: [] for name in hosts}
    for port in (port for link in testbed.links.values() for port in link.path if port.host in ports):
        ports[port.host].append(port.interface)
    return await collect(hosts, (), ports)


def _of_machines(facts: Mapping[str, Mapping[str, Any]], *, cards: bool) -> dict[str, dict[str, Any]]:
    """Return the facts of each host to compare, with `cards` also those of its cards."""
    return {
        name: {
            **{key: _known(of[key]) for key in _COMPARED if key in of},
            **({"interfaces": {port: {k: card.get(k) for k in _CARD} for port, card in of.get("interfaces", {}).items()}} if cards else {}),
        }
        for name, of in facts.items()
    }


def _known(fact: Any) -> Any:  # noqa: ANN401 -- whatever JSON holds
    """Return a fact without programs that are not installed, since a run that did not look for a program has no entry for it."""
    return {k: v for k, v in fact.items() if v is not None} if isinstance(fact, dict) else fact


def _shared(differences: Sequence[ValueDifference], hosts: Sequence[str]) -> list[ValueDifference]:
    """Return the differences, with equal ones of several hosts merged into one."""
    from dataclasses import replace

    by_fact: dict[tuple[str, str, str], list[str]] = {}
    for d in differences:
        host, _, fact = d.path.partition(".")
        by_fact.setdefault((fact, d.first, d.second), []).append(host)
    of = {d.path: d for d in differences}
    return [
        replace(of[f"{at[0]}.{fact}"], path=fact if len(at) == len(hosts) else f"{', '.join(at)}: {fact}")
        for (fact, _, _), at in by_fact.items()
    ]
