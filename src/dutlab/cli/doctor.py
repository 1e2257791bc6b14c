"""Command `doctor`: causes that distort results on a testbed, with their cost, fix and proof."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutlab.cli.manner import CommonOptions
from dutlab.cli.one_workload import SETTINGS, as_yaml, default_mode, lab_of
from dutlab.cli.options import LAB_WORDS, RUNS
from dutlab.cli.terminal import say, tell
from dutlab.cli.userns import become_root
from dutlab.errors import InputError
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.analysis.doctor import CureStep, Finding, FindingProof
    from dutlab.runner.examine import Examined
    from dutlab.spec.links import Link

SOMETHING_FOUND = 1
_LABEL_WIDTH = 11


@click.command()
@SETTINGS
@click.option(
    "--testbed", metavar="FILE", type=click.Path(path_type=Path, exists=True, dir_okay=False), help="Testbed file of the hosts to examine."
)
@click.option("--lab", metavar="NAME", help=LAB_WORDS)
@click.option(
    "--prove", metavar="FINDING", help="Measure the cost of this finding here, before and after the fix. The fix is undone afterwards."
)
@click.option("--mode", help="With --prove: the mode of the DUT.  [the mode that the finding needs, else router]")
@click.option("--repeats", type=click.IntRange(1, 1000), default=6, help="With --prove: trials of each level.  [6]")
@RUNS
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(
    *,
    settings: tuple[str, ...],
    testbed: Path | None,
    lab: str | None,
    prove: str | None,
    mode: str | None,
    repeats: int,
    runs: Path,
    as_json: bool,
) -> None:
    """Examines the hosts of a testbed file or of a lab; without either, this machine. Changes nothing, except with --prove, which
    measures a finding. KEY=VALUE is then a setting of the proof's workload. Findings are listed by impact, the largest first.
    Exit status: 0 no finding, 1 findings, 2 wrong input, 3 a host cannot be reached.

    \b
    Example:
      dutlab doctor --testbed testbed.yaml
      dutlab doctor --testbed testbed.yaml --prove small-ring duration=30s
    """
    from dutlab.cli.loop import run_in_order

    if testbed is not None and lab is not None:
        raise click.UsageError("--testbed and --lab exclude one another")
    if settings and prove is None:
        raise click.UsageError("KEY=VALUE is for --prove")
    if prove is not None and testbed is None and lab is None:
        raise click.UsageError("--prove measures, so it needs --testbed or --lab")
    name, standing = lab_of(lab) if lab is not None else ("", None)
    proof = None if prove is None else _proof_of(prove)
    if lab is not None and standing is None:
        become_root()
    diagnosis = run_in_order(_of_lab(name, standing) if lab is not None else _of_testbed(testbed) if testbed else _of_this_machine())
    if prove is not None and proof is not None:
        from dutlab.analysis.doctor.proof import experiment_of, link_of

        finding = next((f for f in diagnosis.findings if f.kind == prove), None)
        if finding is None and proof.levels is None:
            kinds = ", ".join(dict.fromkeys(f.kind for f in diagnosis.findings)) or "none"
            raise InputError(f"{prove} was not found here", remedy=f"prove one of these findings: {kinds}")
        where = str(testbed.absolute()) if testbed is not None else {"lab": name}
        for line in list(finding_lines([finding]))[:-1] if finding is not None else ():
            tell(line)
        links = _links(name, testbed)
        link = link_of(finding, {name: [str(port) for port in of.ports] for name, of in links.items()})
        data = experiment_of(
            prove, proof, finding, testbed=where, link=link, is_segment=link in links and bool(links[link].segment),
            mode=mode or proof.mode or default_mode(name, testbed), repeats=repeats,
        )  # fmt: skip
        _prove(prove, proof, data, settings, runs=runs, standing=standing, as_json=as_json)
        return
    if as_json:
        say(json.dumps({"findings": [f.to_json() for f in diagnosis.findings]}, indent=2))
    else:
        for line in finding_lines(diagnosis.findings):
            say(line)
    click.get_current_context().exit(SOMETHING_FOUND if diagnosis.findings else 0)


def _proof_of(kind: str) -> FindingProof:
    """Return the proof of a kind of finding. Raises InputError for an unknown one."""
    from dutlab.analysis.doctor import KINDS
    from dutlab.spec.model import did_you_mean

    if kind not in KINDS:
        raise InputError(f"{kind}: unknown finding {did_you_mean(kind, KINDS)}")
    return KINDS[kind].proof


def _links(lab: str, file: Path | None) -> Mapping[str, Link]:
    """Return the links of a lab or a testbed file, by name."""
    from dutlab import labs
    from dutlab.spec.loader import load_testbed

    return (load_testbed(file) if file is not None else labs.description(lab).testbed).links


def _prove(
    kind: str, proof: FindingProof, data: Mapping[str, Any], settings: Sequence[str], *, runs: Path, standing: str | None, as_json: bool
) -> None:
    """Measure both levels, and end the command with the run's exit status."""
    from dutlab.report.questions.proof import proof_pairs
    from dutlab.report.questions.sides import open_run
    from dutlab.report.write import report_finished
    from dutlab.runner.execution import RunOptions
    from dutlab.spec.loader import given_experiment
    from dutlab.tools.engine.binary import find_engine

    overrides = [f"workloads.{n}.{workload}.{of}" for n, written in enumerate(data["workloads"]) for workload in written for of in settings]
    definition = given_experiment(as_yaml(data), Path(f"prove-{kind}.yaml"), overrides)
    options = RunOptions(runs=runs, engine_binary=find_engine(), command=("dutlab", *sys.argv[1:]), standing_lab=standing)
    result = CommonOptions(form="json" if as_json else "text").carry_out(definition, options)
    (report,) = report_finished([result.folder])
    pairs = proof_pairs(open_run(result.folder), proof)
    if as_json:
        record = {"schema_version": 1, "finding": kind, "run": str(result.folder), "pairs": [pair.to_json() for pair in pairs]}
        say(json.dumps(record, indent=2))
    else:
        for pair in pairs:
            say(printable(f"{kind}: {pair.price.words}"))
            say(printable(f"  {pair.words}"))
            say(printable(f"  {pair.price.source}"))
        if not pairs:
            say(f"{kind}: nothing to compare; other work disturbed {result.disturbed} trials, {result.failed} failed")
        say(f"report: {result.folder}/report/report.html")
    click.get_current_context().exit(result.exit_status_of(answered=report.answered))


def finding_lines(findings: Sequence[Finding]) -> Iterator[str]:
    """Yield a paragraph for each finding. Control characters, for example in a host's name, are shown as `?`."""
    from dutlab.report.model.words import plural

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
        yield from _labelled("proof", [f"{finding.proof.words}: dutlab doctor --prove {finding.kind}"])
        yield ""
    yield f"{plural(len(findings), 'finding')}, largest impact first; those of unknown impact come last"


def _labelled(label: str, lines: Sequence[str]) -> Iterator[str]:
    for n, line in enumerate(lines):
        yield printable(f"    {label if n == 0 else '':<{_LABEL_WIDTH}}{line}")


def _steps(steps: Sequence[CureStep]) -> list[str]:
    return [f"{s.host}: {s.command}" for s in steps]


async def _of_this_machine() -> Examined:
    from dutlab.cli.facts import MOST_PORTS
    from dutlab.ending import closing
    from dutlab.hosts.iproute import interfaces_of, without_loopback
    from dutlab.hosts.local import THIS_MACHINE, LocalHost
    from dutlab.runner.examine import examine_machine

    host = LocalHost(THIS_MACHINE)
    async with closing(host):
        return await examine_machine(host, without_loopback(await interfaces_of(host))[:MOST_PORTS])


async def _of_testbed(file: Path) -> Examined:
    from dutlab.ending import closing
    from dutlab.hosts.reach import hosts_of
    from dutlab.runner.examine import examine
    from dutlab.runner.ports import insist_on_ports
    from dutlab.spec.loader import load_testbed

    testbed = load_testbed(file)
    hosts = hosts_of(testbed)
    async with closing(*hosts.values()):
        await insist_on_ports(testbed, hosts)
        return await examine(testbed, hosts)


async def _of_lab(name: str, standing: str | None) -> Examined:
    from dutlab import labs
    from dutlab.ending import closing
    from dutlab.runner.examine import examine

    async with labs.used(name, standing) as lab:
        hosts = lab.hosts()
        async with closing(*hosts.values()):
            return await examine(lab.testbed, hosts, pinned=lab.cpus)
