"""Command `test`: measure a box between two ports of this machine, without files."""

from __future__ import annotations

import asyncio
import functools
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutlab.cli.manner import CommonOptions, manner_options
from dutlab.cli.one_workload import as_yaml, given_workload, lab_of
from dutlab.cli.options import LAB_WORDS, NAME, REPEATS, RUNS
from dutlab.cli.terminal import say_words
from dutlab.cli.userns import become_root
from dutlab.errors import InputError, TestbedError
from dutlab.units import number_or_text

if TYPE_CHECKING:
    from dutlab.runner.two_ports import TwoPortFiles, TwoPortRequest

_LABS = {4: "two-port", 6: "two-port-ipv6"}
"""IP version → lab."""
_BRIDGE_LAB = "two-port-bridge"
_HEAD = b"# The testbed that `dutlab test` found. Edit it, then run `dutlab run experiment.yaml` in this folder.\n"
_QUICK_TEST, _HOME = "quick-test", "bloat"


@dataclass(frozen=True)
class PortOptions:
    """Options about two ports of this machine and the box between them."""

    gateways: tuple[str, ...]
    addresses: tuple[str, ...]
    forced: tuple[str, ...]
    cpus: tuple[int, ...]
    bridged: bool
    version: int

    def refuse_alone(self, why: str) -> None:
        """Raise UsageError if options of ports were given, but no ports."""
        if self.gateways or self.addresses or self.forced or self.cpus:
            raise click.UsageError(why)


def port_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --gateway, --address, --force-port, --cpu, --bridge and --ipv6 to `command`, which gets them as one PortOptions."""

    @functools.wraps(command)
    def with_ports(**given: Any) -> None:  # noqa: ANN401 -- the options that click was given
        options = PortOptions(*(given.pop(name) for name in ("gateways", "addresses", "forced", "cpus", "bridged", "version")))
        command(**given, options=options)

    for option in (
        click.option("-6", "--ipv6", "version", flag_value=6, type=int, default=4,
                     help="Use IPv6 where ports have both kinds of addresses."),
        click.option("--bridge", "bridged", is_flag=True,
                     help="The box is a bridge or a switch: both ports are in one network."),
        click.option("--cpu", "cpus", multiple=True, type=int, metavar="N",
                     help="Core that sends; given twice, also the one that receives.  [any]"),
        click.option("--force-port", "forced", multiple=True, metavar="PORT",
                     help="Skip the in-use check of this port."),
        click.option("--address", "addresses", multiple=True, metavar="ADDRESS/PREFIX",
                     help="Address of each port for the run, in the order of the ports.  [the port's own]"),
        click.option("--gateway", "gateways", multiple=True, metavar="ADDRESS",
                     help="The box's address at each port, in the order of the ports.  [discovered]"),
    ):  # fmt: skip
        with_ports = option(with_ports)
    return with_ports


@click.command()
@click.argument("words", nargs=-1, metavar="PORT PORT [KEY=VALUE]…")
@click.option("--size", "sizes", multiple=True, metavar="BYTES", help="A frame size or mix; repeatable.  [64, imix, 1518]")
@click.option("--scale", type=click.FloatRange(0.05, 1), help="Scale every duration; the report states it.  [1]")
@click.option(
    "--write",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    help="Write testbed.yaml and experiment.yaml there.",
)
@click.option("--home", is_flag=True, help="Home test: TCP up and down, latency under load, the largest packet.")
@click.option("--typed", hidden=True, help="What was typed, where it led here: the report says how to repeat it.")
@click.option("--lab", is_flag=False, flag_value="", metavar="[NAME]", help=f"{LAB_WORDS}  [two-port; with -6 two-port-ipv6]")
@port_options
@REPEATS
@NAME
@RUNS
@manner_options
def test(
    *,
    words: tuple[str, ...],
    sizes: tuple[str, ...],
    scale: float | None,
    folder: Path | None,
    home: bool,
    typed: str | None,
    lab: str | None,
    options: PortOptions,
    repeats: int,
    name: str | None,
    runs: Path,
    manner: CommonOptions,
) -> None:
    """KEY=VALUE is any other setting of the workload quick-test, or of bloat with --home.

    \b
    Example:
      dutlab test eth1 eth2
      dutlab test --home eth1 eth2
      dutlab test --lab
    """
    from dutlab.cli.loop import run_in_order

    settings, names = split_words(words, _HOME if home else _QUICK_TEST)
    if home and (sizes or scale is not None or folder is not None):
        raise click.UsageError("--home has no frame sizes, scale or files; leave --size, --scale and --write out")
    if lab is not None:
        if names:
            raise click.UsageError("--lab brings its own box and ports; leave ports out")
        options.refuse_alone("--lab brings its own box and ports; leave their options out")
        built, label = lab_of(lab or (_BRIDGE_LAB if options.bridged else _LABS[options.version]))
        if label is None:
            become_root()
        click.get_current_context().exit(run_in_order(_in_lab(built, label, lab)))
    body = {"frame_sizes": [number_or_text(size) for size in sizes] or None, "scale": scale}
    typed_words = sys.argv[1:] if typed is None else shlex.split(typed)
    if home:
        from dutlab.cli.bloat import print_home_result

        measure_ports(
            _HOME, {}, settings, names, options, also=({"path-mtu": {}},),
            runs=runs, typed=typed_words, repeats=repeats, name=name or "home", manner=manner, then=print_home_result,
        )  # fmt: skip
        return
    measure_ports(
        _QUICK_TEST, body, settings, names, options,
        runs=runs, folder=folder, typed=typed_words, repeats=repeats, name=name, manner=manner, then=_tell,
    )  # fmt: skip


def split_words(words: Sequence[str], kind: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split a command's words into settings and names of ports. Raises InputError for a setting without a value."""
    from dutlab.spec.workloads import model_of

    settings, names = tuple(w for w in words if "=" in w), tuple(w for w in words if "=" not in w)
    if bare := [name for name in names if name in model_of(kind).file_keys()]:
        raise InputError("\n".join(f"{name}: write {name}=VALUE" for name in bare))
    return settings, names


def measure_ports(
    kind: str,
    body: Mapping[str, Any],
    settings: Sequence[str],
    names: Sequence[str],
    options: PortOptions,
    *,
    also: Sequence[Mapping[str, Any]] = (),
    runs: Path,
    folder: Path | None = None,
    typed: Sequence[str] | None = None,
    repeats: int = 1,
    name: str | None = None,
    manner: CommonOptions,
    then: Callable[[Path], None] = lambda _: None,
) -> None:
    """Measure a workload between two ports, and end the command with the run's exit status.

    None in `body` stands for an option that was not given. `also` has further workloads, after this one. `folder` is the folder for the
    testbed and experiment files, if they are to be kept. Raises as measure_workload() does, and PortRefused.
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.hosts.local import LocalHost
    from dutlab.runner.execution import RunOptions
    from dutlab.runner.far_port import FarPort
    from dutlab.runner.two_ports import EXPERIMENT_FILE, TESTBED_FILE, TwoPortRequest
    from dutlab.spec.workloads import Need, model_of
    from dutlab.tools.engine.binary import find_engine

    if len(names) != 2:  # noqa: PLR2004 -- in and out
        raise click.UsageError("name two ports, one on each side of the box, as in `dutlab test eth1 eth2`")
    if os.geteuid() != 0:
        raise TestbedError("sending frames from a port needs root", remedy="use sudo; `dutlab test --lab` works without")
    login = os.environ.get("SSH_CONNECTION", "")
    ask = TwoPortRequest(
        (names[0], names[1]),
        options.addresses,
        options.gateways,
        frozenset(options.forced),
        options.bridged,
        options.version,
        options.cpus,
        login,
        repeats,
    )
    box = run_in_order(_find(ask))
    with ExitStack() as undo:
        if folder is None:
            folder = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="dutlab-")))
        files = folder / TESTBED_FILE, folder / EXPERIMENT_FILE
        if there := [str(path) for path in files if path.exists()]:
            raise InputError(f"{' and '.join(there)} would be overwritten", remedy="name another folder with --write")
        testbed = box.testbed
        if model_of(kind).needs & {Need.IPERF3, Need.PING}:
            near, far = box.ends
            apart = FarPort(LocalHost("here"), near, far)
            undo.callback(apart.put_back)
            run_in_order(apart.isolate())
            sink = {**testbed["hosts"]["sink"], "netns": apart.namespace}
            testbed = {**testbed, "hosts": {**testbed["hosts"], "sink": sink}}
        folder.mkdir(parents=True, exist_ok=True)
        files[0].write_bytes(_HEAD + as_yaml(testbed))
        usual = {"frame_sizes": box.sizes} if kind == _QUICK_TEST else {}
        asked = {**usual, **{key: value for key, value in body.items() if value is not None}, "links": [["a"]]}
        name = name or ("test" if kind == _QUICK_TEST else kind)
        data = {**box.experiment, "experiment": name, "repeats": repeats, "workloads": also}
        definition = manner.in_time(kind, settings, lambda of: given_workload(data, kind, asked, of, file=files[1]))
        files[1].write_bytes(_HEAD + definition.text)
        command = ("dutlab", *(typed or sys.argv[1:]))
        run_options = RunOptions(runs=runs, engine_binary=find_engine(), command=command, unknown=box.unknown)
        result = manner.carry_out(definition, run_options)
    if manner.form == "text":
        then(result.folder)
    manner.finish([result])


async def _find(ask: TwoPortRequest) -> TwoPortFiles:
    from dutlab.hosts.local import LocalHost
    from dutlab.runner.two_ports import find

    return await find(LocalHost("here"), ask)


def _tell(run: Path) -> None:
    from dutlab.report.gather import read_run
    from dutlab.report.sections.quick_test import sentences

    for line in sentences(read_run(run)):
        say_words(line)


async def _in_lab(name: str, standing: str | None, text: str) -> int:
    """Run this command in the tester's namespace of a lab, with its threads on the lab's cores. Return its exit status.

    `standing` is the label of an existing lab, `text` the value of --lab.
    """
    from dutlab import labs

    async with labs.used(name, standing) as lab:
        link = lab.testbed.links["a"]
        rest = _without_lab(sys.argv[1:], text)
        rest += ["--bridge"] if link.is_transparent and "--bridge" not in rest else []
        pinned = [word for end in link.ends for word in ("--cpu", str(lab.cpus[end][0]))]
        inside = [*lab.inside(link.source.host), sys.executable, "-m", "dutlab"]
        command = [*inside, *rest, "--typed", shlex.join(sys.argv[1:]), link.source.interface, link.sink.interface, *pinned]
        return await _wait_for(command)


def _without_lab(words: Sequence[str], text: str) -> list[str]:
    """Return the words of a command without `--lab` and its value."""
    at = next(i for i, word in enumerate(words) if word.partition("=")[0] == "--lab")
    return [*words[:at], *words[at + 1 + (bool(text) and "=" not in words[at]) :]]


async def _wait_for(command: list[str]) -> int:
    from dutlab.ending import run_to_end

    process = await asyncio.create_subprocess_exec(*command)
    try:
        return await process.wait()
    except asyncio.CancelledError:  # the process got the signal too, in its process group, or gets one now
        process.terminate()
        await run_to_end(process.wait())
        raise
