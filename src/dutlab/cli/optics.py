"""Command `optics`: the transceivers of hosts, and a table of many modules tested one after the other."""

from __future__ import annotations

import asyncio
import csv
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.terminal import say, table
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.hosts.host import Host
    from dutlab.report.sections.optics import OpticRow

LINK_WAIT_S = 10.0
"""Longest wait for the link of a module, in seconds."""
_LOOK_S = 0.5
_NARROW = ("port", "form", "kind", "vendor", "part", "serial", "link", "speed_mbps", "tx_power_dbm", "rx_power_dbm", "verdict")


@click.command()
@click.argument("wanted", metavar="[HOST|RUN]…", nargs=-1)
@click.option(
    "--testbed", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Testbed file; HOST is one of its hosts.  [all of them]"
)
@click.option("--port", "ports", multiple=True, help="Only these interfaces.  [all, or those of the testbed's links]")
@click.option("--each", is_flag=True, help="Test a box of modules: ask for one after the other, in one --port of one HOST.")
@click.option("--csv", "csv_file", type=click.Path(path_type=Path, dir_okay=False), help="Also write the table to this file.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def optics(
    *, wanted: tuple[str, ...], testbed: Path | None, ports: tuple[str, ...], each: bool, csv_file: Path | None, as_json: bool
) -> None:
    """With --each: asks for one module after the other, waits for its link, and prints a compatibility table.

    With RUN: prints the results of each run next to the modules that it used, in one table.

    \b
    Example:
      dutlab optics root@192.0.2.1 --port eth4 --each --csv box-of-optics.csv
      dutlab optics runs/*-loadtest-* --port eth4 --csv passed.csv
    """
    if runs := [Path(of) for of in wanted if Path(of).is_dir()]:
        if testbed is not None or each or len(runs) < len(wanted):
            raise click.UsageError("RUN cannot be combined with HOST, --testbed or --each")
        _say_passed(runs, ports, csv_file, as_json=as_json)
        return
    from dutlab.cli.facts import collect, hosts_named
    from dutlab.cli.loop import run_in_order
    from dutlab.report.sections.optics import head, optic_rows

    hosts, links = hosts_named(wanted, testbed)
    if each and (len(hosts) != 1 or len(ports) != 1):
        raise InputError("--each needs one HOST and one --port", remedy="dutlab optics HOST --port eth4 --each")
    if each:
        rows = run_in_order(_one_after_the_other(*next(iter(hosts.items())), ports[0]))
    else:
        rows = optic_rows(run_in_order(collect(hosts, ports, links)))
    if csv_file is not None:
        _write_csv(csv_file, rows)
    if as_json:
        say(json.dumps({"schema_version": 1, "optics": [asdict(row) for row in rows]}, indent=2))
        return
    if not rows:
        say("no transceiver found: no port reports a module")
        return
    for line in table([head(name) for name in ("host", *_NARROW)], [[row.words()[name] for name in ("host", *_NARROW)] for row in rows]):
        say(line)


def _say_passed(runs: Sequence[Path], ports: Sequence[str], csv_file: Path | None, *, as_json: bool) -> None:
    from dutlab.cli.terminal import terminal
    from dutlab.report.model.table import Figure
    from dutlab.report.pages.csv_table import table_csv
    from dutlab.report.pages.terminal import terminal_table
    from dutlab.report.questions.optics_passed import passed_table

    table = passed_table(runs, ports)
    if csv_file is not None:
        csv_file.write_text(table_csv(table), encoding="utf-8")
    if as_json:
        names = [c.figure or c.name or c.head for c in table.columns]
        rows = [[cell.median if isinstance(cell, Figure) else cell for cell in row.cells] for row in table.rows]
        say(json.dumps({"schema_version": 1, "passed": [dict(zip(names, row, strict=True)) for row in rows]}, indent=2))
        return
    width, colour = terminal()
    for line in terminal_table(table, width=width, colour=colour):
        say(line)


async def _one_after_the_other(name: str, host: Host, port: str) -> list[OpticRow]:
    """Return a row for each module, until the user types `end`."""
    from dutlab.ending import closing

    rows: list[OpticRow] = []
    async with closing(host):
        while await _ask_for_next_module(len(rows) + 1, name, port):
            row = await _when_linked(name, host, port)
            say(f"  {'; '.join(row.words()[w] or '-' for w in _NARROW[1:])}", err=True)
            rows.append(row)
    return rows


async def _ask_for_next_module(number: int, name: str, port: str) -> bool:
    from dutlab.cli.answers import answer_to

    return await answer_to(f"module {number}: plug it into {port} of {name}, then Enter; `end` ends") not in (None, "end", "q")


async def _when_linked(name: str, host: Host, port: str) -> OpticRow:
    """Return the module's row once its link is up, or after LINK_WAIT_S. A module that cannot be read also gets a row."""
    from dutlab.hosts.facts import collect_facts
    from dutlab.report.sections.optics import optic_rows

    deadline = asyncio.get_running_loop().time() + LINK_WAIT_S
    while True:
        facts = {name: await collect_facts(host, [port])}
        rows = optic_rows(facts) or optic_rows(_unread(facts, name, port))
        if rows[0].link == "up" or asyncio.get_running_loop().time() > deadline:
            return rows[0]
        await asyncio.sleep(_LOOK_S)


def _unread(facts: Mapping[str, Mapping[str, object]], name: str, port: str) -> dict[str, dict[str, object]]:
    """Return the facts with an unreadable module in the port."""
    interfaces = facts[name].get("interfaces")
    card = interfaces.get(port, {}) if isinstance(interfaces, Mapping) else {}
    return {name: {"interfaces": {port: {**card, "optic": {"form": "unreadable"}}}}}


def _write_csv(file: Path, rows: Sequence[OpticRow]) -> None:
    from dutlab.report.pages.csv_table import formula_safe
    from dutlab.report.sections.optics import COLUMNS

    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(COLUMNS)
        writer.writerows(
            [[formula_safe(text) if text == getattr(row, name) else text for name, text in row.words().items()] for row in rows]
        )
