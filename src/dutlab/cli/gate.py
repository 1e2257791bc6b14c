"""Command `gate`: fail if a newer version is worse than an older one."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.choices import CHECK_FORMATS
from dutlab.cli.exact import listed
from dutlab.cli.one_workload import DEFAULT_LAB, SETTINGS, as_yaml
from dutlab.cli.options import FORMAT, NAME, RUNS
from dutlab.cli.quantities import DURATION, SHARE
from dutlab.cli.terminal import say, say_words, table
from dutlab.cli.userns import become_root
from dutlab.cli.versions import VersionKind, given_of, versions_of
from dutlab.errors import InputError
from dutlab.units import number_or_text

if TYPE_CHECKING:
    from dutlab.cli.gate_runs import GateRuns
    from dutlab.cli.versions import Version
    from dutlab.report.questions.gated import GatePart, GateResult
    from dutlab.runner.run import Work
    from dutlab.spec.loader import LoadedExperiment

MOST_ROUNDS = 1000
"""Most rounds of a measurement by time; the budget usually ends it earlier."""
AS = click.option("--as", "kind", type=click.Choice([str(kind) for kind in VersionKind]), help="Kind of the versions.  [recognised]")
MODES = click.option("--modes", "--mode", "modes", multiple=True, callback=listed, metavar="MODE,…", help="Modes of kernels.  "
                     "[router,filter-default,nat]")  # fmt: skip
SIZES = click.option(
    "--size", "sizes", multiple=True, callback=listed, metavar="BYTES,…", help="Frame sizes with FCS, or mixes.  [64,1518]"
)


@click.command()
@click.argument("base", metavar="BASE")
@click.argument("head", metavar="HEAD")
@SETTINGS
@AS
@MODES
@SIZES
@click.option("--allowed", type=SHARE, help="How much worse a count may be.  [0.1%]")
@click.option("--time", "by_time", is_flag=True, help="Measure rule sets by time too, in a lab, if their counts pass.")
@click.option("--lab", default=DEFAULT_LAB, show_default=True, metavar="NAME", help="The lab for --time.")
@click.option("--time-allowed", type=SHARE, help="How much worse a rate or time may be; if proven, a third of it is worse.  [3%]")
@click.option("--budget", "budget_s", type=DURATION, default=900.0, metavar="TIME", help="Longest time for --time.  [15min]")
@FORMAT
@click.option(
    "--write", "written", multiple=True, metavar="FORMAT=FILE", help="Write a format to a file too, as in junit=gate.xml; repeatable."
)
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@NAME
@RUNS
def gate(
    *,
    base: str,
    head: str,
    settings: tuple[str, ...],
    kind: str | None,
    modes: list[str],
    sizes: list[str],
    allowed: float | None,
    by_time: bool,
    lab: str,
    time_allowed: float | None,
    budget_s: float,
    form: str,
    written: tuple[str, ...],
    as_json: bool,
    name: str | None,
    runs: Path,
) -> None:
    """For CI. Instructions of nft rule sets, kernels, XDP programs and commands are counted in a simulated guest. Experiment files are
    measured by their own workloads; those by time in rounds of both versions, until the result is certain. Existing runs are compared as
    they are. A worse result is measured again before the gate fails.

    Exit 0: not worse by more than the allowed change; 1: worse; 2: cannot tell. KEY=VALUE is a setting of the workload exact.

    \b
    Example:
      dutlab gate rules/main.nft rules/change.nft
      dutlab gate /boot/vmlinuz-6.1.0-55-cloud-amd64 /boot/vmlinuz-6.1.0-56-cloud-amd64 --modes router,nat --size 64
      dutlab gate --as commands 'nft add table x' 'tc qdisc add dev v2 root fq' --format junit > gate.xml
    """
    from dutlab.analysis.gate import EXACT_ALLOWED, TIME_ALLOWED
    from dutlab.cli.gate_runs import GateRuns
    from dutlab.report.questions.gated import GateResult

    if as_json and form != "text":
        raise click.UsageError("--json and --format exclude one another")
    files = _files_of(written)
    older, newer = versions_of((base, head), None if kind is None else VersionKind(kind))
    if by_time and older.kind is not VersionKind.RULES:
        raise InputError(
            f"--time measures rule sets in a lab; these are {older.kind}", remedy="leave it out: the files and runs define the measurement"
        )
    making = GateRuns(runs, EXACT_ALLOWED if allowed is None else allowed, TIME_ALLOWED if time_allowed is None else time_allowed, budget_s)
    title = name or "gate"
    with tempfile.TemporaryDirectory(prefix="dutlab-") as folder:
        if older.kind is VersionKind.RUN:
            parts = making.of_runs((older.path, newer.path))
        elif older.kind is VersionKind.EXPERIMENT:
            parts = [_of_experiments(making, older.path, newer.path)]
        else:
            if by_time:
                become_root()
            definitions = [
                given_of(of, Path(folder) / side, name=title, modes=modes, sizes=sizes, settings=settings)
                for side, of in (("older", older), ("newer", newer))
            ]
            parts = [making.counted([_work(of) for of in definitions])]
            if by_time and parts[0].kind.exit_status == 0:
                parts.append(_timed(making, [_in_lab(of, lab, title, sizes) for of in (older, newer)]))
    result = GateResult(base, head, tuple(parts))
    for path, of in files.items():
        path.write_text(_formatted(result, of, title) + "\n", encoding="utf-8")
    if as_json:
        say(json.dumps({"schema_version": 1, **result.plain()}, indent=1))
    else:
        _say(result, form, title)
    click.get_current_context().exit(result.kind.exit_status)


def _files_of(written: Sequence[str]) -> dict[Path, str]:
    """Return file → format, from --write. Raises InputError."""
    pairs = [text.partition("=") for text in written]
    if wrong := [of for of, _, path in pairs if of not in CHECK_FORMATS or not path]:
        raise InputError(f"--write {wrong[0]}: write FORMAT=FILE", remedy=f"formats are {', '.join(CHECK_FORMATS)}")
    return {Path(path): of for of, _, path in pairs}


def _of_experiments(making: GateRuns, *paths: Path) -> GatePart:
    """Compare two experiments: in the guest by counts, others by time."""
    from dutlab.spec.known import EXACT
    from dutlab.spec.loader import given_experiment, testbed_of
    from dutlab.spec.yaml_source import read_file

    texts = {path: read_file(path) for path in paths}
    definitions = [given_experiment(texts[path], path) for path in paths]
    if all(testbed_of(of).dut_family == EXACT for of in definitions):
        return making.counted([_work(of) for of in definitions])
    if any(testbed_of(of).lab is not None for of in definitions):
        become_root()
    return _timed(making, [given_experiment(texts[path], path, [f"repeats={MOST_ROUNDS}"]) for path in paths])


def _timed(making: GateRuns, given: Sequence[LoadedExperiment]) -> GatePart:
    from dutlab.tools.engine.binary import find_engine

    making.engine = find_engine()
    return making.timed([_work(of) for of in given])


def _work(given: LoadedExperiment) -> Work:
    from dutlab.runner.run import Work

    return Work.planned(given, unattended=True)


def _in_lab(version: Version, lab: str, name: str, sizes: Sequence[str]) -> LoadedExperiment:
    """Return an experiment that measures a rule set as a mode of a lab's DUT, at full speed."""
    from dutlab.spec.loader import given_experiment

    mode = {**version.own_modes["rules"], "restore": ["nft flush ruleset"]}
    data = {
        "experiment": name,
        "testbed": {"lab": lab},
        "factors": {"mode": ["rules"]},
        "modes": {"rules": mode},
        "workloads": [
            {"sweep": {"frame_sizes": [number_or_text(size) for size in sizes] or [64, 1518], "rates": ["max"], "duration": "1s"}}
        ],
        "repeats": MOST_ROUNDS,
        "watch": [],
    }
    return given_experiment(as_yaml(data), Path("gate.yaml"))


def _formatted(result: GateResult, form: str, suite: str) -> str:
    from dutlab.cli.outcome_formats import FORMATS

    return FORMATS[form](result.outcome(suite=suite))


def _say(result: GateResult, form: str, suite: str) -> None:
    from dutlab.report.questions.gated import gate_rows
    from dutlab.stats.functions import words_of

    if form != "text":
        say(_formatted(result, form, suite))
        say(result.sentence, err=True)
        return
    say_words(result.sentence)
    for part in result.parts:
        say()
        say_words(f"{result.second} against {result.first}, by {part.what}")
        if part.cells:
            for line in table(*gate_rows(part), right={1, 2, 3, 4, 5}):
                say(line)
        for where, functions in part.functions:
            say_words(f"functions that take more: {where}: {words_of(functions)}")
        for where, why in part.failures:
            say_words(f"no result: {where}: {why}")
        for run in part.runs:
            say(f"run: {run}")
