"""Command `facts`: the facts of machines, as in every run folder."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutlab.cli.options import JSON
from dutlab.cli.terminal import say
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.hosts.host import Host

MOST_PORTS = 64


@click.command()
@click.argument("wanted", metavar="[HOST]…", nargs=-1)
@click.option(
    "--testbed", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Testbed file; HOST is one of its hosts.  [all of them]"
)
@click.option("--port", "ports", multiple=True, help="Only these interfaces.  [all, or those of the testbed's links]")
@click.option("--all", "every", is_flag=True, help="Every fact, a line each.  [the main ones]")
@JSON
def facts(*, wanted: tuple[str, ...], testbed: Path | None, ports: tuple[str, ...], every: bool, as_json: bool) -> None:
    """HOST is [user@]host for ssh, or a host of the testbed file. Without HOST, it is this machine.

    \b
    Example:
      dutlab facts --port eth1
    """
    from dutlab.cli.loop import run_in_order
    from dutlab.printable import printable
    from dutlab.report.sections.facts import fact_rows, fact_summary

    hosts, links = hosts_named(wanted, testbed)
    facts_of_hosts = run_in_order(collect(hosts, ports, links))
    if as_json:
        say(json.dumps(facts_of_hosts, indent=2))
        return
    rows = fact_rows(facts_of_hosts)
    if not every:
        for host, of in facts_of_hosts.items():
            if len(facts_of_hosts) > 1:
                say(f"{printable(host)}:")
            for name, words in fact_summary(of):
                say(printable(f"{name}: {words}"))
        say(f"--all prints all {len(rows)} facts, --json too")
        return
    for row in rows:
        values = dict.fromkeys(row.by_host.values())
        text = (
            next(iter(values))
            if len(values) == 1 and len(row.by_host) == len(facts_of_hosts)
            else "; ".join(f"{h}: {v}" for h, v in row.by_host.items())
        )
        say(f"{row.name}: {text}")


def hosts_named(wanted: Sequence[str], testbed: Path | None) -> tuple[dict[str, Host], Mapping[str, list[str]]]:
    """Return the hosts, and host → interfaces of the testbed's links. Raises InputError, SpecRefused."""
    from dutlab.hosts.local import THIS_MACHINE, LocalHost
    from dutlab.hosts.reach import hosts_of
    from dutlab.hosts.ssh import SshHost
    from dutlab.hosts.ssh_login import Login
    from dutlab.spec.fields import ssh_fault
    from dutlab.spec.loader import load_testbed

    if testbed is None:
        if wrong := [what for target in wanted if (what := ssh_fault(target))]:
            raise InputError("; ".join(wrong))
        return {target: SshHost(Login(target, target)) for target in wanted} or {THIS_MACHINE: LocalHost(THIS_MACHINE)}, {}
    read = load_testbed(testbed)
    if unknown := [name for name in wanted if name not in read.hosts]:
        raise InputError(f"testbed {read.name} has no host {', '.join(unknown)}", remedy=f"it has {', '.join(read.hosts)}")
    links: dict[str, list[str]] = {name: [] for name in read.hosts}
    for link in read.links.values():
        for port in link.path:
            links[port.host].append(port.interface)
    return {name: host for name, host in hosts_of(read).items() if not wanted or name in wanted}, links


async def collect(hosts: Mapping[str, Host], ports: Sequence[str], links: Mapping[str, list[str]]) -> dict[str, dict[str, Any]]:
    """Return host → facts, and close the hosts.

    The interfaces are those in `ports` that the host has; without `ports`, those in `links`, else all but the loopback.
    Raises InputError for a port that no host has.
    """
    from dutlab.ending import closing
    from dutlab.hosts.facts import collect_facts
    from dutlab.hosts.iproute import interfaces_of, without_loopback

    async with closing(*hosts.values()):
        listed = dict(zip(hosts, await asyncio.gather(*map(interfaces_of, hosts.values())), strict=True))
        if absent := [port for port in ports if not any(port in have for have in listed.values())]:
            known = "; ".join(f"{name} has {', '.join(have)}" for name, have in listed.items())
            raise InputError(f"there is no interface {', '.join(absent)}", remedy=known)
        wanted = {
            name: [port for port in ports if port in have] if ports else links.get(name) or without_loopback(have)[:MOST_PORTS]
            for name, have in listed.items()
        }
        results = await asyncio.gather(*(collect_facts(host, wanted[name], of_drives=True) for name, host in hosts.items()))
        return dict(zip(hosts, results, strict=True))
