"""power: switch hosts of a testbed."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dutlab.cli.told import say


@click.command()
@click.argument("host")
@click.argument("action", type=click.Choice(["status", "on", "off", "cycle"]))
@click.option("--testbed", type=click.Path(path_type=Path, exists=True, dir_okay=False), required=True, help="Testbed file.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def power(*, host: str, action: str, testbed: Path, as_json: bool) -> None:
    """Read or switch the power of a host: on, off, or off and on again.

    The testbed file says what switches the host, and whether dutlab may.

    \b
    Example:
      dutlab power dut cycle --testbed testbed.yaml
    """  # noqa: D301
    from dutlab.power import HostPower  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.spec.loader import load_testbed  # noqa: PLC0415 -- `--help` needs none of it

    of = HostPower.of(load_testbed(testbed), host)
    if action == "cycle":
        of.cycle()
    elif action != "status":
        of.turn(on=action == "on")
    state = "on" if of.is_on() else "off"
    say(json.dumps({"schema_version": 1, "host": host, "power": state}) if as_json else f"{host}: {state}")
