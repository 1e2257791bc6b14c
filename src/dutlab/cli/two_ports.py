"""test: two ports of this machine, a box between them, and no files."""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.one_workload import as_yaml
from dutlab.cli.options import RUNS
from dutlab.cli.told import say
from dutlab.cli.userns import become_root
from dutlab.errors import InputError, TestbedError

if TYPE_CHECKING:
    from dutlab.runner import run as runner
    from dutlab.runner.two_ports import Ask, TwoPortFiles

_LABS = {4: "two-port", 6: "two-port-ipv6"}
"""By version of IP."""
_HEAD = b"# As `dutlab test` found it. Edit it, and go on with `dutlab run experiment.yaml` in this folder.\n"


@click.command()
@click.argument("ports", nargs=-1, metavar="PORT PORT")
@click.option(
    "--gateway", "gateways", multiple=True, metavar="ADDRESS", help="The box's address at each port, in their order.  [asked for]"
)
@click.option(
    "--address",
    "addresses",
    multiple=True,
    metavar="ADDRESS/PREFIX",
    help="Of each port, in their order; put there for the run.  [the port's own]",
)
@click.option(
    "--insist", multiple=True, metavar="PORT", help="Use this port whatever it looks like: it is your word that it is a test link."
)
@click.option("--size", "sizes", multiple=True, metavar="BYTES", help="A frame size or mix, several times if need be.  [64, imix, 1518]")
@click.option(
    "--cpu", "cpus", multiple=True, type=int, metavar="N", help="Core that sends; given twice, also the one that receives.  [any]"
)
@click.option("--scale", type=click.FloatRange(0.05, 1), default=1.0, help="Take this share of every duration; the report says so.  [1]")
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write testbed.yaml and experiment.yaml there, to go on from.",
)
@click.option(
    "-6",
    "--ipv6",
    "version",
    flag_value=6,
    type=int,
    default=4,
    help="Of ports with addresses of both kinds, take IPv6; a --lab has no other then.",
)
@click.option("--typed", hidden=True, help="What was typed, where it led here: the report says how to repeat it.")
@click.option("--lab", is_flag=True, help="Try it out: build a box of namespaces and test that.")
@RUNS
def test(
    *,
    ports: tuple[str, ...],
    gateways: tuple[str, ...],
    addresses: tuple[str, ...],
    insist: tuple[str, ...],
    sizes: tuple[str, ...],
    cpus: tuple[int, ...],
    scale: float,
    folder: Path | None,
    version: int,
    typed: str | None,
    lab: bool,
    runs: Path,
) -> None:
    """Measure a box between two ports of this machine: rates without loss and latency, in a few minutes, with no files.

    \b
    Example:
      dutlab test eth1 eth2
      dutlab test --lab
    """  # noqa: D301
    from dutlab.cli.loop import run_in_order  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.cli.run import finish  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.two_ports import Ask  # noqa: PLC0415 -- `--help` needs none of it

    if lab:
        if ports or gateways or addresses or insist or cpus:
            raise click.UsageError("--lab builds its own box and ports; leave ports and their options out")
        become_root()
        click.get_current_context().exit(run_in_order(_in_lab(_LABS[version])))
    if len(ports) != 2:  # noqa: PLR2004 -- in and out
        raise click.UsageError("name two ports, one on each side of the box, as in `dutlab test eth1 eth2`")
    if os.geteuid() != 0:
        raise TestbedError("frames can be sent from a port by root only", remedy="use sudo; `dutlab test --lab` works without")
    login = os.environ.get("SSH_CONNECTION", "")
    ask = Ask((ports[0], ports[1]), addresses, gateways, frozenset(insist), sizes, scale, version, cpus, login)
    found = run_in_order(_find(ask))
    with ExitStack() as undo:
        if folder is None:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="dutlab-")))
        _write(folder, found)
        result = _run(folder, found, runs, sys.argv[1:] if typed is None else shlex.split(typed))
    _tell(result.folder)
    finish([result])


async def _find(ask: Ask) -> TwoPortFiles:
    from dutlab.hosts.local import LocalHost  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.two_ports import find  # noqa: PLC0415 -- `--help` needs none of it

    return await find(LocalHost("here"), ask)


def _write(folder: Path, found: TwoPortFiles) -> None:
    from dutlab.runner.two_ports import EXPERIMENT_FILE, TESTBED_FILE  # noqa: PLC0415 -- `--help` needs none of it

    files = {folder / TESTBED_FILE: found.testbed, folder / EXPERIMENT_FILE: found.experiment}
    if there := [str(path) for path in files if path.exists()]:
        raise InputError(f"{' and '.join(there)} would be overwritten", remedy="name another folder with --write")
    folder.mkdir(parents=True, exist_ok=True)
    for path, data in files.items():
        path.write_bytes(_HEAD + as_yaml(data))


def _run(folder: Path, found: TwoPortFiles, runs: Path, typed: Sequence[str]) -> runner.RunResult:
    from dutlab.cli.console import Console  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.cli.loop import run_in_order  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner import run as runner  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.two_ports import EXPERIMENT_FILE  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.spec.loader import read_experiment  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.tools.engine.binary import find_engine  # noqa: PLC0415 -- `--help` needs none of it

    given = read_experiment(folder / EXPERIMENT_FILE)
    options = runner.RunOptions(runs=runs, engine_binary=find_engine(), command=("dutlab", *typed), unknown=found.unknown)
    return run_in_order(runner.run(given, options, Console()))


def _tell(run: Path) -> None:
    from dutlab.report.sections.quick_test import sentences  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- `--help` needs none of it

    for line in sentences(RunFolder.open(run)):
        say(line)


async def _in_lab(name: str) -> int:
    """The same command in the tester's namespace of a lab, its threads on the lab's cores. Returns its exit status."""
    from dutlab import labs  # noqa: PLC0415 -- `--help` needs none of it

    label = labs.new_label()
    try:
        lab = await labs.up(name, label=label)
        link = lab.testbed.links["a"]
        rest = [word for word in sys.argv[1:] if word != "--lab"]
        pinned = [word for role in ("source", "sink") for word in ("--cpu", str(lab.cpus[role][0]))]
        inside = ["ip", "netns", "exec", lab.namespaces["source"], sys.executable, "-m", "dutlab"]
        command = [*inside, *rest, "--typed", shlex.join(sys.argv[1:]), link.source.interface, link.sink.interface, *pinned]
        return await _wait_for(command)
    finally:
        await labs.down(label)


async def _wait_for(command: list[str]) -> int:
    process = await asyncio.create_subprocess_exec(*command)
    try:
        return await process.wait()
    except asyncio.CancelledError:  # the signal reached it too, in its process group, or is passed on
        process.terminate()
        await process.wait()
        raise
