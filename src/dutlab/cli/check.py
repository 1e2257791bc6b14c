"""Command `check`: fail if runs are worse than their baselines."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.compare import BETTER, FIGURE, JSON, LEAST, MARGIN, MATCH_MODES, lines_of, margin_of, matched, plain, sides_of
from dutlab.cli.limits_text import computed
from dutlab.cli.options import FORMAT
from dutlab.cli.quantities import DURATION, SHARE
from dutlab.cli.terminal import say, say_words
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.report.model.contests import CompareRequest
    from dutlab.report.questions.checked import Checked
    from dutlab.report.questions.compared import ComparedPair
    from dutlab.report.questions.sides import ComparedRun


@click.command()
@click.argument("run", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--baseline", "baselines", required=True, multiple=True, type=click.Path(path_type=Path, exists=True),
              help="A run, repeatable; a folder of runs: the older ones of the same experiment; or a claim card.")  # fmt: skip
@click.option(
    "--most", type=click.IntRange(1), default=10, show_default=True, help="Use at most this many baselines of a folder, the newest."
)
@MARGIN
@LEAST
@click.option(
    "--threshold", type=SHARE, help="Also fail if a cell is worse by more than this, proven or not; larger changes must be detectable."
)
@FIGURE
@BETTER
@MATCH_MODES
@click.option(
    "--confirm",
    "confirm_s",
    type=DURATION,
    metavar="TIME",
    help="Measure failed cells again, alternating both runs, for at most this long.",
)
@FORMAT
@JSON
@click.pass_context
def check(
    ctx: click.Context,
    *,
    run: tuple[Path, ...],
    baselines: tuple[Path, ...],
    most: int,
    margins: tuple[str, ...],
    least: float | None,
    threshold: float | None,
    figures: tuple[str, ...],
    betters: tuple[str, ...],
    matches: tuple[str, ...],
    confirm_s: float | None,
    form: str,
    as_json: bool,
) -> None:
    """For CI.

    The first line names the smallest change that could have been detected. If it exceeds the allowed change, the check does not pass:
    exit 2, "cannot tell". The allowed change is --threshold, or three times the smallest change that counts.

    With four or more runs in total, each run counts once, and the variation between runs is known. It is not known for two runs, one
    after the other, or for a single run against fewer than ten. Then only a change of more than 10 % counts (--least).

    \b
    Example:
      dutlab check runs/2026-11-28T0801Z-firewall-modes-77c0 --baseline runs --margin 2%
      dutlab check runs/2026-11-28T0801Z-firewall-modes-77c0 --baseline baseline/router.json --format junit > check.xml
    """
    from dutlab.report.model.contests import CompareRequest
    from dutlab.report.questions.checked import Checked
    from dutlab.report.questions.sides import open_run, require_different_runs

    if as_json and form != "text":
        raise click.UsageError("--json and --format exclude one another")
    require_different_runs((*run, *baselines))
    newer = [open_run(path) for path in run]
    asked = CompareRequest(figures, margin_of(margins), least, sides_of(betters))
    result = Checked(_compared(run, newer, _Baselines(baselines, most, matches), asked), threshold)
    if confirm_s is not None:
        if len(run) != 1 or len(baselines) != 1 or not baselines[0].is_dir() or len(result.pair.runs[0]) != 1 or matches:
            raise InputError("--confirm measures one run and one baseline run in turn", remedy="name one of each, with modes of one name")
        result = _confirmed(result, (baselines[0], run[0]), confirm_s)
    if as_json:
        record = {"schema_version": 1, "margin": list(margins), "threshold": threshold, "failed": result.failed, "kind": result.kind.name,
                "seen": result.seen, "allowed": result.allowed, "verdict": result.sentence}  # fmt: skip
        say(json.dumps({**record, **plain(result.pair)}, indent=1))
    else:
        _say(result, newer[-1], form)
    ctx.exit(result.kind.exit_status)


def _confirmed(result: Checked, paths: tuple[Path, Path], within_s: float) -> Checked:
    """Measure the failed results again, and return the check with these verdicts."""
    from dutlab.cli.gate_runs import measured_again

    least = {(c.pair.label, c.pair.figure): c.least for c in result.worse if c.second is not None}
    if not least:
        return result
    return replace(result, again=measured_again(paths, least, within_s, paths[1].parent))


@dataclass(frozen=True)
class _Baselines:
    """Baselines of a check."""

    paths: tuple[Path, ...]
    most: int
    matches: tuple[str, ...]


def _compared(paths: tuple[Path, ...], runs: list[ComparedRun], baselines: _Baselines, asked: CompareRequest) -> ComparedPair:
    from dutlab.report.questions.checked import compare_with_cards
    from dutlab.report.questions.claims import read_card
    from dutlab.report.questions.compared import compare_runs
    from dutlab.report.questions.sides import open_run
    from dutlab.store.find import older_like

    cards = [(path, read_card(path)) for path in baselines.paths if path.is_file()]
    if cards:
        if len(cards) < len(baselines.paths) or len(runs) > 1 or baselines.matches:
            raise InputError("a claim card is compared with one run", remedy="leave other runs, baseline runs and --match-modes out")
        return computed(lambda: compare_with_cards(cards, paths[0], runs[0], asked))
    older = [open_run(path) for where in baselines.paths for path in older_like(where, paths[0], baselines.most)]
    newer = matched(runs, older, baselines.matches)
    return computed(lambda: compare_runs(older, newer, asked))


def _say(result: Checked, newest: ComparedRun, form: str) -> None:
    if form == "text":
        say_words(result.sentence)
        say()
        for line in lines_of(result.pair):
            say(line)
        return
    from dutlab.cli.outcome_formats import FORMATS
    from dutlab.report.questions.outcome import outcome_of_check

    say(FORMATS[form](outcome_of_check(result, newest, lines_of(result.pair))))
    say(result.sentence, err=True)
