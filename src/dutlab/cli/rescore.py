"""Command `rescore`: score the trials of a run under each definition of a limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.terminal import say, say_words, table
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.report.sections.rescored import Rescored, SaturatedRamp
    from dutlab.stats.rescore import RescoredBounds, Saturation


@click.command()
@click.argument("run_folder", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--json", "as_json", is_flag=True, help="Print the answers as JSON, rates in frames a second of each link.")
def rescore(*, run_folder: Path, as_json: bool) -> None:
    """Uses the recorded trials and measures nothing.

    \b
    Example:
      dutlab rescore runs/2026-11-21T0801Z-ndr-pdr-3f2a
    """
    from dutlab.report.gather import read_run
    from dutlab.report.sections.rescored import ramps, rescored

    read = read_run(run_folder)
    for fault in read.faults:
        say_words(f"note: {printable(fault)}", err=True)
    scores, risen = rescored(read.groups), ramps(read.groups)
    if as_json:
        say(json.dumps({"rescored": [asdict(r) for r in scores], "ramps": [asdict(r) for r in risen]}, indent=2))
        return
    if not scores and not risen:
        say("no search, sweep or ramp of this run has a result")
    for line in _lines(scores, risen):
        say(line)


def _lines(rescored: Sequence[Rescored], risen: Sequence[SaturatedRamp]) -> Iterator[str]:
    from dutlab.report.model.words import numbers_words, plural

    head = ("definition", "lower, kpps", "upper, kpps", "conditional, kpps", "not answered by these trials")
    for r in rescored:
        of = f"trial {numbers_words(r.trials)}: {plural(r.points, 'load trial')}"
        yield f"{r.label}, {r.workload}, frame size {r.size}, link {r.links}, {of}"
        yield from table(head, [_row(a) for a in r.answers], right={1, 2, 3}, indent="  ")
    for ramp in risen:
        yield f"{ramp.label}, ramp, frame size {ramp.size}, direction {ramp.direction}, trial {ramp.trial}: {_saturated(ramp.saturation)}"


def _row(answer: RescoredBounds) -> list[str]:
    from dutlab.report.model.words import KPPS

    rates = (answer.lower_pps, answer.upper_pps, answer.conditional_pps)
    return [answer.definition.name, *("-" if rate is None else KPPS.number(rate) for rate in rates), answer.why]


def _saturated(saturation: Saturation) -> str:
    from dutlab.report.model.words import pps_text

    if saturation.saturated is None:
        return f"no saturation: {saturation.why}"
    at = f"{pps_text(saturation.saturated.received_pps)} received at {saturation.saturated.at_s:g} s"
    return f"saturated with {at}: loss stays above {saturation.threshold:.1%} from there"
