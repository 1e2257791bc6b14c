"""Command `lab`: build, list, use and remove labs."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import asdict

import click

from dutlab.cli.terminal import say
from dutlab.errors import InputError, TestbedError


@click.group()
def lab() -> None:
    """\b
    Example:
      dutlab lab up three-node && dutlab lab list
    """


def _insist_on_root() -> None:
    if os.geteuid() != 0:
        raise TestbedError("a lab that outlives its command needs root", remedy="use sudo; `dutlab demo` works without")


@lab.command()
@click.argument("name", default="three-node")
@click.option("--label", help="Label of the lab.  [random]")
def up(*, name: str, label: str | None) -> None:
    """Build a lab and keep it. Prints its label.

    NAME is three-node (the default), three-node-rfc2544, three-node-rfc5180, three-node-ssh, four-queues, uml-router, qemu-router or
    two-port.

    \b
    Example:
      dutlab lab up three-node --label mine
    """
    from dutlab import labs
    from dutlab.cli.loop import run_in_order

    _insist_on_root()
    built = run_in_order(labs.up(name, label=label))
    for note in built.notes:
        say(f"note: {note}", err=True)
    say(built.label)


@lab.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def list_(*, as_json: bool) -> None:
    """List labs, with their namespaces.

    \b
    Example:
      dutlab lab list
    """
    from dutlab import labs

    standing = labs.standing()
    if as_json:
        say(json.dumps([asdict(s) for s in standing], indent=2))
        return
    if not standing:
        say("no labs" if os.geteuid() == 0 else "you have no lab; `sudo dutlab lab list` shows root's")
    for s in standing:
        state = "running" if s.complete else "being built" if s.owner_alive else "incomplete: take it down"
        say(f"{s.label}  {s.lab}  {state}  {' '.join(dict.fromkeys(s.namespaces.values()))}")


@lab.command(context_settings={"allow_interspersed_args": False})
@click.argument("label")
@click.argument("host")
@click.argument("command", nargs=-1)
def shell(*, label: str, host: str, command: tuple[str, ...]) -> None:
    """Run a shell or a command on a host of a lab. The exit status is that of the shell or command.

    \b
    Example:
      dutlab lab shell mine dut nft list ruleset
    """
    from dutlab import labs
    from dutlab.labs import guest_shell
    from dutlab.labs.state import StateFolder

    _insist_on_root()
    state = next((s for s in labs.standing() if s.label == label), None)
    if state is None:
        raise _no_lab(label)
    if host not in state.namespaces:
        raise InputError(f"lab {label} has no host {host}", remedy=f"it has: {', '.join(state.namespaces)}")
    words = command[1:] if command[:1] == ("--",) else command  # people write it out of habit
    if host in labs.description(state.lab).settings.guests:  # the host has its own kernel
        click.get_current_context().exit(guest_shell.run(label, host, words, StateFolder().ssh_folder(label)))
    argv = ("ip", "netns", "exec", state.namespaces[host], *(words or (os.environ.get("SHELL", "/bin/sh"),)))
    done = subprocess.run(argv, check=False)
    click.get_current_context().exit(done.returncode)


@lab.command()
@click.argument("given", metavar="LABEL…", nargs=-1, required=True)
def down(*, given: tuple[str, ...]) -> None:
    """Remove labs: only the parts that `up` built, even after a crash.

    \b
    Example:
      dutlab lab down mine
    """
    from dutlab import labs
    from dutlab.cli.loop import run_in_order

    _insist_on_root()
    unknown = [label for label in given if not run_in_order(labs.down(label))]
    if unknown:
        raise _no_lab(", ".join(unknown))


def _no_lab(label: str) -> InputError:
    return InputError(f"no lab labelled {label}", remedy="`dutlab lab list` lists the labs")
