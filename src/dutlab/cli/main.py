"""Command `dutlab` and the list of its commands. A command's module is imported only when it is called, to keep start-up short."""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import os
import sys
from contextlib import suppress
from functools import cache
from inspect import cleandoc

import click

from dutlab.cli.packages import defer_metadata
from dutlab.cli.terminal import say
from dutlab.errors import DutlabError
from dutlab.own_folder import restrict_umask
from dutlab.release import version

SECTIONS = {
    "Measure": {
        "demo": (
            "dutlab.cli.run:demo",
            "Run the whole job on the embedded lab: benchmark a Linux router and firewall, write the report.",
        ),
        "test": (
            "dutlab.cli.two_ports:test",
            "Measure a box between two ports of this machine in a few minutes: zero-loss rates and latency.",
        ),
        "run": ("dutlab.cli.run:run", "Run an experiment and write its report."),
        "plan": ("dutlab.cli.plan:plan", "Show the trials of an experiment, their order, duration and ceilings."),
        "resume": (
            "dutlab.cli.run:resume",
            "Continue an interrupted run: undo its changes, then run every trial without a record.",
        ),
        "undo": (
            "dutlab.cli.run:undo",
            "Undo the changes of an interrupted run: restore the DUT and the ports, remove the lab, free the hosts.",
        ),
        "repeat": ("dutlab.cli.repeat:repeat", "Measure a run again: same experiment, testbed, order and seed."),
        "campaign": ("dutlab.cli.campaign:campaign", "Carry out many runs: experiments on testbeds, in versions, on several nights."),
        "measure": ("dutlab.cli.measure:measure", "Measure one workload without an experiment file."),
        "search": ("dutlab.cli.search:search", "Search the highest rates that meet a loss goal: NDR, PDR, RFC 2544 throughput."),
        "loadtest": (
            "dutlab.cli.loadtest:loadtest",
            "Ramp the load up to find where the DUT saturates: warm-up, linear ramp, hold.",
        ),
        "bloat": (
            "dutlab.cli.bloat:bloat",
            "Measure latency while TCP fills the queues, up, down and both at once: bufferbloat, in one sentence.",
        ),
        "matrix": (
            "dutlab.cli.matrix:matrix",
            "Measure iperf3 between every two hosts, in both directions, one pair at a time: a table, shaded as a heat map.",
        ),
        "rfc2544": (
            "dutlab.cli.rfc2544:rfc2544",
            "Run the RFC 2544 tests: throughput, latency, frame loss, back-to-back frames, recovery, reset.",
        ),
        "exact": (
            "dutlab.cli.exact:exact",
            "Count the instructions that a Linux router or firewall takes for a frame, on a simulated processor.",
        ),
        "conductor": (
            "dutlab.cli.conductor:conductor",
            "Run Conductor's configuration files unchanged: steps on several hosts in four phases.",
        ),
    },
    "Inspect": {
        "lab": ("dutlab.cli.lab:lab", "Build and use embedded labs made of network namespaces."),
        "facts": (
            "dutlab.cli.facts:facts",
            "List the facts of hosts: processor, kernel, mitigations, memory, cards, offloads, rings, optics, drives.",
        ),
        "doctor": (
            "dutlab.cli.doctor:doctor",
            "List what distorts results, with evidence, cost, fix and undo.",
        ),
        "power": ("dutlab.cli.power:power", "Read or switch the power of a host: on, off, or off and on again."),
        "optics": (
            "dutlab.cli.optics:optics",
            "List transceivers, their readings and threshold alarms.",
        ),
        "calibrate": (
            "dutlab.cli.calibrate:calibrate",
            "Measure the rig without the DUT, to know its own limit.",
        ),
        "verify": ("dutlab.cli.verify:verify", "Test every method on devices with known answers; exit 1 when a figure is off."),
        "limits": (
            "dutlab.cli.limits:limits",
            "Compute the most that links, tunnels, buses, drives, arrays and memory allow, with formula and source.",
        ),
    },
    "Read results": {
        "report": ("dutlab.cli.report:report", "Write the report of runs: tables, plots, doubts, and all settings and commands."),
        "plot": ("dutlab.cli.report:plot", "Write each plot of the report to its own file."),
        "runs": ("dutlab.cli.runs:runs", "List runs, newest first."),
        "query": ("dutlab.cli.runs:query", "Query all runs in SQL (DuckDB)."),
        "compare": (
            "dutlab.cli.compare:compare",
            "Compare runs cell by cell, with the first or with those of --against; or the modes of one run.",
        ),
        "gate": (
            "dutlab.cli.gate:gate",
            "Fail (exit 1) when a newer rule set, kernel, command or experiment is worse than an older one: counts first, then time.",
        ),
        "bisect": (
            "dutlab.cli.bisect:bisect",
            "Find which of many versions changed a figure: rule sets, kernels, commits of a repository, versions of a campaign.",
        ),
        "artifact": (
            "dutlab.cli.artifact:artifact",
            "Pack runs with all that a stranger needs to repeat them; check such a file: repeat its runs and judge its claims.",
        ),
        "check": ("dutlab.cli.check:check", "Fail (exit 1) when runs are worse than their baselines or lack a cell."),
        "history": (
            "dutlab.cli.history:history",
            "Find where a figure changed over all runs of an experiment, and between which runs.",
        ),
        "effects": ("dutlab.cli.effects:effects", "Estimate the effect of each factor, and list effects that the cells cannot separate."),
        "cost": ("dutlab.cli.effects:cost", "Compute the cost of each mode per packet, in nanoseconds and cycles, by frame size."),
        "energy": (
            "dutlab.cli.energy:energy",
            "Estimate the watts of base, port, transceiver, frame and bit from runs of soak-power; predict those of other loads.",
        ),
        "rescore": (
            "dutlab.cli.rescore:rescore",
            "Score the trials of a run under each definition of a limit.",
        ),
        "attach": ("dutlab.cli.add:attach", "Add a file to a run: a photograph, a thermal image, a schedule."),
        "note": ("dutlab.cli.add:note", "Add a note to a run: a caveat, the terms of a loan, who reviewed it."),
        "claims": (
            "dutlab.cli.claims:claims",
            "Write a claim card for each headline of a run, or for its answer: figures, limit, conditions, hash of the raw data.",
        ),
        "verify-claim": (
            "dutlab.cli.claims:verify_claim",
            "Recompute claims from the raw files of their run; exit 1 unless all hold.",
        ),
        "publish": (
            "dutlab.cli.publish:publish",
            "Write a static site of runs and devices: pages, raw files with hashes, checked claims, a feed; or merge several.",
        ),
        "serve": (
            "dutlab.cli.serve:serve",
            "Serve pages to watch runs, read reports, compare, and compute limits; to this machine's browsers alone unless asked.",
        ),
        "export": (
            "dutlab.cli.export:export",
            "Write runs for other programs: metrics of Prometheus, Parquet, CSV, InfluxDB, iperf3's and trex-loadtest's JSON.",
        ),
        "config": (
            "dutlab.cli.config:config",
            "Show the settings of the config file with their lines: the runs folder, colours, and options of commands.",
        ),
        "schema": ("dutlab.cli.schema:schema", "Print the JSON Schema of a testbed, experiment or campaign file, for editors."),
        "import": ("dutlab.cli.import_files:import_files", "Import other tools' files as a run and write its report."),
    },
}
"""Section → command → (module:function, first line of its help). So the list of commands imports none of their modules."""
COMMANDS = {name: where for of_section in SECTIONS.values() for name, (where, _) in of_section.items()}
INTERRUPTED = 130
_HELP = {"-h", "--help"}
_ended: list[int] = []
"""Exit status of the process, once program() knows it."""
_COMPLETE = "_DUTLAB_COMPLETE"
"""Environment variable by which a shell asks for completions."""


@cache
def _command(name: str) -> click.Command:
    """Import a command. Its help is the line in SECTIONS, followed by its docstring."""
    module, function = COMMANDS[name].split(":")
    command: click.Command = getattr(importlib.import_module(module), function)
    summary = next(summary for of_section in SECTIONS.values() for other, (_, summary) in of_section.items() if other == name)
    command.help = f"{summary}\n\n{cleandoc(command.help or '')}"
    return command


class LazyGroup(click.Group):
    """Group whose commands are imported when they are called."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does, with `help COMMAND` as `COMMAND --help`."""
        return super().parse_args(ctx, [*args[1:], "--help"] if args[:1] == ["help"] else args)

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = _command(cmd_name)
        if ctx.resilient_parsing and _COMPLETE in os.environ:
            from dutlab.cli.completion import add_to

            add_to(command)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does, and suggest a command for a mistyped one."""
        if args and args[0] not in COMMANDS:
            from difflib import get_close_matches

            if close := get_close_matches(args[0], COMMANDS):
                ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, close))}?")
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and command is not None and name != "config" and not ctx.resilient_parsing and not _HELP & set(rest):
            defer_metadata()
            _take_config(ctx, name, command)
        return name, command, rest

    def invoke(self, ctx: click.Context) -> object:
        """Invoke as click does. A reader that closes the pipe early, as `head` does, is not an error."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            _drop_output()
            return 0
        except OSError:
            try:
                sys.stdout.flush()
            except OSError:
                _drop_output()
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List commands by section."""
        for section, commands in SECTIONS.items():
            with formatter.section(section):
                formatter.write_dl([(name, summary) for name, (_, summary) in commands.items()])


def _take_config(ctx: click.Context, name: str, command: click.Command) -> None:
    """Give the command the defaults of the user's config file. Raises InputError, SpecRefused."""
    from dutlab.cli.config_file import colour_of, defaults_of, read_config
    from dutlab.cli.terminal import use_colour

    if (config := read_config()) is not None:
        use_colour(colour_of(config))
        ctx.default_map = {name: defaults_of(config, name, command)}


def _drop_output() -> None:
    """Drop unwritten standard output, on which Python would fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 -- click's signature
    if value and not ctx.resilient_parsing:
        say(f"dutlab {version()}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option(
    "-V", "--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version and exit."
)
def dutlab() -> None:
    """Measure a router or firewall: how fast it is, and why not faster.

    \b
    Example:
      dutlab demo --quick
    """


def _open_closed_streams() -> None:
    """Open the descriptors below 3 that the caller closed. The next opened file would get one of them, and programs would write into it.

    Also make output escape characters that its encoding lacks, since file names may be any bytes.
    """
    for name, descriptor in (("stdin", 0), ("stdout", 1), ("stderr", 2)):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
            setattr(sys, name, open(descriptor, "r" if descriptor == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


_CLOSED_AT_THE_END = frozenset({"asyncio", "sqlite3", "multiprocessing", "coverage"})
"""Modules with connections, threads or records that the end of the interpreter closes."""


def _leave() -> None:
    """End the process without taking the interpreter apart, which takes a twentieth of a short command's CPU time.

    Runs as the last exit function: threads have ended, and temporary files are deleted. It only skips the last garbage collection if the
    status is not known: after an exception, and where main() is a part of another program. With DuckDB it does nothing, since DuckDB
    reports leaks without that collection.
    """
    if "duckdb" in sys.modules:
        return
    gc.freeze()
    if _ended and not _CLOSED_AT_THE_END & sys.modules.keys():
        with suppress(OSError, ValueError):  # Python reports the error at its own end
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(_ended[0])


def main() -> None:
    """Run the command line. Exit 0: done, 1: measured but failed, 2: wrong input, 3: testbed not usable, 130: interrupted.

    `artifact check` also has 4: cannot tell.
    """
    _open_closed_streams()
    restrict_umask()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # pydantic would look for plugins in every installed package
    atexit.register(_leave)
    if _COMPLETE in os.environ:
        from dutlab.cli.completion import use_own_bash

        use_own_bash()
    try:
        status = dutlab.main(prog_name="dutlab", standalone_mode=False)
    except click.exceptions.Abort:
        status = _failed("interrupted", INTERRUPTED)
    except click.ClickException as e:
        e.show()
        status = _failed(e.format_message(), e.exit_code)
    except DutlabError as e:
        say(f"dutlab: {e}", err=True)
        status = _failed(e.what, e.exit_status, e.remedy)
    except KeyboardInterrupt:
        status = _failed("interrupted", INTERRUPTED)
    except MemoryError:
        say("dutlab: not enough memory; see `ulimit -v`, and end other programs", err=True)
        status = _failed("not enough memory", 1)
    except OSError as e:
        say(f"dutlab: {e}", err=True)
        status = _failed(str(e), 1)
    sys.exit(status if isinstance(status, int) else 0)


def program() -> None:
    """Run main() as the whole process, which ends with it."""
    try:
        main()
    except SystemExit as end:
        if isinstance(end.code, int):
            _ended.append(end.code)
        raise


def _failed(what: str, status: int, remedy: str = "") -> int:
    """Return the exit status. With --json, also print the error on standard output (contracts/error.schema.json)."""
    if {"--json", "--json-lines"} & set(sys.argv[1:]):
        import json

        with suppress(OSError):
            say(json.dumps({"schema_version": 1, "error": what, "remedy": remedy, "exit_status": status}))
    return status
