"""Command `power`: switch hosts of a testbed."""

from __future__ import annotations

import json
from pathlib import Path

import click

from dutlab.cli.terminal import say
from dutlab.errors import InputError


@click.command()
@click.argument("host")
@click.argument("action", type=click.Choice(["status", "on", "off", "cycle"]))
@click.option("--testbed", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Testbed file.")
@click.option("--lab", metavar="LABEL", help="Label of a running lab, instead of a testbed file. Its guests can be switched.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def power(*, host: str, action: str, testbed: Path | None, lab: str | None, as_json: bool) -> None:
    """The testbed file names the power switch of the host, and whether dutlab may use it. A guest of a lab may always be switched.

    \b
    Example:
      dutlab power dut cycle --testbed testbed.yaml
    """
    from dutlab import labs
    from dutlab.cli.loop import run_in_order
    from dutlab.power import HostPower
    from dutlab.spec.loader import load_testbed

    if testbed is not None and lab is None:
        bed = load_testbed(testbed)
    elif lab is not None and testbed is None:
        bed = run_in_order(labs.attach(lab)).testbed
    else:
        raise InputError("the host's testbed is not named", remedy="write either --testbed FILE or --lab LABEL")
    switch = HostPower.of(bed, host)
    if action == "cycle":
        switch.cycle()
    elif action != "status":
        switch.turn(on=action == "on")
    state = "on" if switch.is_on() else "off"
    say(json.dumps({"schema_version": 1, "host": host, "power": state}) if as_json else f"{host}: {state}")
