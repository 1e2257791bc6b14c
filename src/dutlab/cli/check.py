"""check."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.compare import FIGURE, JSON, LEAST, MARGIN, MATCH_MODES, computed, lines_of, margin_of, matched, plain
from dutlab.cli.quantities import SHARE
from dutlab.cli.told import say
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.analysis.compare import Comparison


@click.command()
@click.argument("run", metavar="RUN…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--baseline", "baselines", required=True, multiple=True, type=click.Path(path_type=Path, exists=True, file_okay=False),
              help="A run, again for more; or a folder of runs: those of the same experiment that are older.")  # fmt: skip
@click.option(
    "--most", type=click.IntRange(1), default=10, show_default=True, help="At most so many baselines out of a folder, the newest."
)
@MARGIN
@LEAST
@click.option("--threshold", type=SHARE, help="Fail also where a cell is worse by more than this, proven or not.")
@FIGURE
@MATCH_MODES
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
    matches: tuple[str, ...],
    as_json: bool,
) -> None:
    """Fail (exit 1) when runs are worse than their baselines, or lack a cell that these have. For CI.

    With four runs or more in all each run counts once, and what changes from run to run is known. Where that is not known, only a change
    beyond 10 % counts (--least): of two runs, one after the other, and of a single run against fewer than ten.

    \b
    Example:
      dutlab check runs/2026-11-28T0801Z-firewall-modes-77c0 --baseline runs --margin 2%
    """  # noqa: D301
    from dutlab.analysis.compare import LEVEL, could_prove  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.analysis.together import together_can  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.analysis.verdict import Verdict  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.report.questions.compared import CompareRequest, compare_runs  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.report.questions.sides import open_run  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.stats.rank import repeats_needed  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.store.find import older_like  # noqa: PLC0415 -- `--help` needs none of it

    base = [path for where in baselines for path in older_like(where, run[0], most)]
    asked = CompareRequest(figures, margin_of(margins), least)
    older = [open_run(path) for path in base]
    newer = matched([open_run(path) for path in run], older, matches)
    pair = computed(lambda: compare_runs(older, newer, asked))
    worse = [c for c in pair.comparisons if _fails(c, threshold)]
    all_worse = pair.together is not None and pair.together.verdict is Verdict.WORSE
    if not could_prove(pair.comparisons) and not together_can(pair.comparisons) and threshold is None:
        needed = repeats_needed(LEVEL / max(len(pair.comparisons), 1))
        raise InputError(
            f"these runs cannot show that anything is worse: {pair.comparisons[0].why}",
            remedy=f"repeat each cell {needed} times, check several runs, or give --threshold",
        )
    if as_json:
        said = {
            "schema_version": 1,
            "margin": list(margins),
            "threshold": threshold,
            "failed": bool(worse or pair.only_first or all_worse),
            **plain(pair),
        }
        say(json.dumps(said, indent=1))
    else:
        for line in lines_of(pair):
            say(line)
        overall = "; all cells together are worse" if all_worse else ""
        say(f"{len(worse)} of {len(pair.comparisons)} comparisons are worse, {len(pair.only_first)} cells are missing{overall}")
    ctx.exit(1 if worse or pair.only_first or all_worse else 0)


def _fails(c: Comparison, threshold: float | None) -> bool:
    from dutlab.analysis.verdict import Verdict, less_is_better  # noqa: PLC0415 -- `--help` needs none of it

    if c.verdict is Verdict.WORSE or (c.verdict is Verdict.MISSING and c.second is None):
        return True
    if threshold is None or c.first is None or c.second is None:
        return False
    change = c.second.value - c.first.value
    return (change if less_is_better(c.pair.figure) else -change) > threshold * abs(c.first.value)
