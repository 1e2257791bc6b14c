"""The command `dutlab`: which word is which command. A command's module is imported when it is called, so that start-up stays short."""

from __future__ import annotations

import difflib
import importlib
import io
import os
import sys

import click

from dutlab.cli.told import say
from dutlab.errors import DutlabError

SECTIONS = {
    "Measure": {
        "demo": "dutlab.cli.run:demo",
        "test": "dutlab.cli.two_ports:test",
        "run": "dutlab.cli.run:run",
        "plan": "dutlab.cli.run:plan",
        "resume": "dutlab.cli.run:resume",
        "undo": "dutlab.cli.run:undo",
        "search": "dutlab.cli.search:search",
        "loadtest": "dutlab.cli.loadtest:loadtest",
        "matrix": "dutlab.cli.matrix:matrix",
        "rfc2544": "dutlab.cli.rfc2544:rfc2544",
        "conductor": "dutlab.cli.conductor:conductor",
    },
    "Know the machines": {
        "lab": "dutlab.cli.lab:lab",
        "facts": "dutlab.cli.facts:facts",
        "doctor": "dutlab.cli.doctor:doctor",
        "optics": "dutlab.cli.optics:optics",
        "calibrate": "dutlab.cli.calibrate:calibrate",
        "verify": "dutlab.cli.verify:verify",
        "limits": "dutlab.cli.limits:limits",
    },
    "Read results": {
        "report": "dutlab.cli.report:report",
        "plot": "dutlab.cli.report:plot",
        "runs": "dutlab.cli.runs:runs",
        "query": "dutlab.cli.runs:query",
        "compare": "dutlab.cli.compare:compare",
        "check": "dutlab.cli.compare:check",
        "history": "dutlab.cli.history:history",
        "effects": "dutlab.cli.effects:effects",
        "cost": "dutlab.cli.effects:cost",
        "rescore": "dutlab.cli.rescore:rescore",
        "claims": "dutlab.cli.claims:claims",
        "verify-claim": "dutlab.cli.claims:verify_claim",
        "import": "dutlab.cli.import_files:import_files",
    },
}
"""What a command is for → its name → module:function."""
COMMANDS = {name: where for of_section in SECTIONS.values() for name, where in of_section.items()}
INTERRUPTED = 130


class LazyGroup(click.Group):
    """A group whose commands live in modules of their own."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 -- click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 -- click's signature
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """As click does, and of a mistyped command says which it may have been."""
        if args and args[0] not in COMMANDS and (close := difflib.get_close_matches(args[0], COMMANDS)):
            ctx.fail(f"No such command {args[0]!r}. Did you mean {' or '.join(map(repr, close))}?")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        """As click does; a reader that has gone, as `head` does when it has enough, is no fault."""
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
        """By what they are for."""
        for section, commands in SECTIONS.items():
            found = [(name, command.get_short_help_str(300)) for name in commands if (command := self.get_command(ctx, name))]
            with formatter.section(section):
                formatter.write_dl(found)


def _drop_output() -> None:
    """What standard output did not take is lost; otherwise Python fails once more with it when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_version(ctx: click.Context, _param: click.Parameter, value: bool) -> None:  # noqa: FBT001 -- click's signature
    if value and not ctx.resilient_parsing:
        from importlib.metadata import version  # noqa: PLC0415 -- only this option needs it

        say(f"dutlab {version('dutlab')}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.option("--version", is_flag=True, expose_value=False, is_eager=True, callback=_print_version, help="Print the version and end.")
def dutlab() -> None:
    """Measure a router or firewall: how fast it is, and why not faster.

    \b
    Example:
      dutlab demo --quick
    """  # noqa: D301 -- \b is click's mark for text to keep as it is


def _open_closed_streams() -> None:
    """A descriptor below 3 that the caller closed would be that of the next file we open, and complaints of programs would go into it.

    What an encoding cannot hold is printed as an escape: names of files may be any bytes.
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


def main() -> None:
    """Runs the command line; exit 0 done, 1 measured but failed, 2 wrong input, 3 testbed not usable, 130 interrupted."""
    _open_closed_streams()
    try:
        status = dutlab.main(prog_name="dutlab", standalone_mode=False)
    except click.exceptions.Abort:
        status = INTERRUPTED
    except click.ClickException as e:
        e.show()
        status = e.exit_code
    except DutlabError as e:
        say(f"dutlab: {e}", err=True)
        status = e.exit_status
    except KeyboardInterrupt:
        status = INTERRUPTED
    except MemoryError:
        say("dutlab: not enough memory; see `ulimit -v` and what else runs here", err=True)
        status = 1
    except OSError as e:
        say(f"dutlab: {e}", err=True)
        status = 1
    sys.exit(status if isinstance(status, int) else 0)
