"""doctor: what distorts results on a testbed, what it costs, and how to fix it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.one_workload import lab_of
from dutlab.cli.options import LAB_WORDS
from dutlab.cli.told import say
from dutlab.cli.userns import become_root
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.analysis.doctor import CureStep, Finding
    from dutlab.runner.examine import Examined

SOMETHING_FOUND = 1
_LABEL_WIDTH = 11


@click.command()
@click.option(
    "--testbed", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="The hosts of a testbed file."
)
@click.option("--lab", metavar="NAME", help=LAB_WORDS)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(*, testbed: Path | None, lab: str | None, as_json: bool) -> None:
    """Examines the hosts of a testbed file, of a lab, or without either this machine alone. Changes nothing. Lists the largest impact
    first. Exit status: 0 no finding, 1 findings, 2 wrong input, 3 a host cannot be reached.

    \b
    Example:
      dutlab doctor --testbed testbed.yaml
    """
    from dutlab.cli.loop import run_in_order  # noqa: PLC0415 -- `--help` needs none of it

    if testbed is not None and lab is not None:
        raise click.UsageError("--testbed and --lab exclude one another")
    if lab is not None:
        name, standing = lab_of(lab)
        if standing is None:
            become_root()
        found = run_in_order(_of_lab(name, standing))
    else:
        found = run_in_order(_of_testbed(testbed) if testbed else _of_this_machine())
    if as_json:
        say(json.dumps({"findings": [f.to_json() for f in found.findings]}, indent=2))
    else:
        for line in finding_lines(found.findings):
            say(line)
    click.get_current_context().exit(SOMETHING_FOUND if found.findings else 0)


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """A paragraph each; what could move the cursor, as a name that a host gives itself might, is shown as `?`."""
    from dutlab.report.model.words import plural  # noqa: PLC0415 -- `--help` needs none of it

    if not findings:
        yield "no findings: nothing distorts results here"
        return
    for finding in findings:
        yield printable(f"{finding.price.words:<12}  {finding.kind}  {', '.join(finding.where)}")
        yield printable(f"  {finding.what}")
        yield from _labelled("evidence", [f"{e.host}: {e.read}: {e.said}" for e in finding.evidence])
        yield from _labelled("cost", [finding.price.source])
        yield from _labelled("fix", _steps(finding.cure))
        yield from _labelled("undo", _steps(finding.undo))
        yield ""
    yield f"{plural(len(findings), 'finding')}, largest impact first; those of unknown impact come last"


def _labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    for n, line in enumerate(lines):
        yield printable(f"    {label if n == 0 else '':<{_LABEL_WIDTH}}{line}")


def _steps(steps: Sequence[CureStep]) -> list[str]:
    return [f"{s.host}: {s.command}" for s in steps]


async def _of_this_machine() -> Examined:
    from dutlab.cli.facts import MOST_PORTS  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.ending import closing  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.hosts.iproute import interfaces_of, without_loopback  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.hosts.local import THIS_MACHINE, LocalHost  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.examine import examine_machine  # noqa: PLC0415 -- `--help` needs none of it

    host = LocalHost(THIS_MACHINE)
    async with closing(host):
        return await examine_machine(host, without_loopback(await interfaces_of(host))[:MOST_PORTS])


async def _of_testbed(file: Path) -> Examined:
    from dutlab.ending import closing  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.hosts.reach import hosts_of  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.examine import examine  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.ports import insist_on_ports  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.spec.loader import load_testbed  # noqa: PLC0415 -- `--help` needs none of it

    testbed = load_testbed(file)
    hosts = hosts_of(testbed)
    async with closing(*hosts.values()):
        await insist_on_ports(testbed, hosts)
        return await examine(testbed, hosts)


async def _of_lab(name: str, standing: str | None) -> Examined:
    from dutlab import labs  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.ending import closing  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.runner.examine import examine  # noqa: PLC0415 -- `--help` needs none of it

    async with labs.used(name, standing) as lab:
        hosts = lab.hosts()
        async with closing(*hosts.values()):
            return await examine(lab.testbed, hosts, pinned=lab.cpus)
