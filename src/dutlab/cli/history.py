"""Command `history`: changes of a figure over all runs of an experiment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.compare import BETTER, sides_of
from dutlab.cli.quantities import DURATION
from dutlab.cli.runs import FLEET, FOLDER, note
from dutlab.cli.terminal import say, say_words, table
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.analysis.verdict import CheckKind
    from dutlab.report.questions.histories import CellHistory


@click.command()
@click.argument("experiment")
@FOLDER
@FLEET
@click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="Show this figure, as in ndr/lower_pps; repeatable.  [the main figure]"
)
@BETTER
@click.option(
    "--confirm", "confirm_s", type=DURATION, metavar="TIME",
    help="If the newest run is worse, measure it and the one before it alternately, at most this long. Their runs go to RUNS-confirmed.",
)  # fmt: skip
@click.option("--plot", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Folder for a picture of each cell, as SVG.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@click.pass_context
def history(
    ctx: click.Context,
    *,
    experiment: str,
    folder: Path,
    fleet: bool,
    figures: tuple[str, ...],
    betters: tuple[str, ...],
    confirm_s: float | None,
    plot: Path | None,
    as_json: bool,
) -> None:
    """With --confirm the exit status is that of check: 1 if the second measurement is also worse, 2 if it cannot tell.

    \b
    Example:
      dutlab history firewall-modes --plot pictures
      dutlab history firewall-modes --confirm 15min
    """
    from dutlab.report.questions.histories import histories, history_plot
    from dutlab.store.fleet_index import asked_fleet
    from dutlab.store.index import Wanted, figures_of, list_runs, opened

    if fleet and confirm_s is not None:
        raise InputError("--confirm measures runs of this machine, and --fleet shows those of others, too", remedy="leave one of them out")
    with asked_fleet() if fleet else opened(folder, note=note) as index:
        rows = list(figures_of(index, experiment))
        known = sorted({r.experiment for r in list_runs(index, Wanted())}) if not rows else []
    if not rows:
        raise InputError(
            f"{'the index of the fleet' if fleet else folder}: no run of {experiment} has a result",
            remedy=f"there are {', '.join(known) or 'no runs'}",
        )
    results = histories(rows, figures, sides_of(betters))
    second = [] if confirm_s is None else _measured_again(results, folder, confirm_s)
    written: list[Path] = []
    if plot is not None:
        from dutlab.report.write import write_images

        written = write_images([p for n, h in enumerate(results, 1) if (p := history_plot(h, n)) is not None], plot)
    if as_json:
        plain = {"schema_version": 1, "experiment": experiment, "histories": [_plain(h) for h in results]}
        say(json.dumps(plain if confirm_s is None else {**plain, "confirmed": list(map(asdict, second))}, indent=1, default=_name))
    else:
        _say(results, second, written)
    ctx.exit(_status(second))


def _say(histories: Sequence[CellHistory], second: Sequence[_Second], written: Sequence[Path]) -> None:
    from dutlab.report.questions.histories import HEADS, history_rows

    for line in table(HEADS, history_rows(histories), right={2, 3, 4, 5}):
        say(line)
    for h in histories:
        for sentence in h.sentences:
            say_words(f"{h.label}, {h.figure}: {sentence}")
    for of in second:
        say_words(f"{of.cell}, {of.figure}: {of.newest} is {of.worse:.1%} worse than before; a second measurement says {of.kind.value}")
    for path in written:
        say(path)


@dataclass(frozen=True)
class _Second:
    """An alarm of the newest run, and the verdict of the second measurement."""

    cell: str
    figure: str
    before: str
    newest: str
    worse: float
    kind: CheckKind


def _measured_again(histories: Sequence[CellHistory], folder: Path, within_s: float) -> list[_Second]:
    """Measure each alarm again, and return verdicts; a third of the first change counts as worse. Raises as runner.run does."""
    from dutlab.analysis.gate import ALLOWED_BY_LEAST
    from dutlab.analysis.verdict import CheckKind
    from dutlab.cli.gate_runs import measured_again

    alarms = {(h.label, h.figure): alarm for h in histories if (alarm := h.alarm) is not None}
    kinds: dict[tuple[str, str], CheckKind] = {}
    confirmed = folder.absolute().with_name(
        f"{folder.absolute().name}-confirmed"
    )  # a separate folder, so that histories leave these runs out
    for pair in dict.fromkeys((a.before, a.newest) for a in alarms.values()):
        least = {name: a.worse / ALLOWED_BY_LEAST for name, a in alarms.items() if (a.before, a.newest) == pair}
        kinds |= measured_again([folder / run for run in pair], least, within_s, confirmed)
    return [_Second(*name, **asdict(a), kind=kinds.get(name, CheckKind.CANNOT_TELL)) for name, a in alarms.items()]


def _status(second: Sequence[_Second]) -> int:
    kinds = {of.kind.name: of.kind for of in second}
    return next((kinds[name].exit_status for name in ("FAIL", "CANNOT_TELL") if name in kinds), 0)


def _name(of: Enum) -> str:
    return of.name


def _plain(h: CellHistory) -> dict[str, object]:
    return {"cell": h.label, "figure": h.figure, **asdict(h.history), "sentences": h.sentences}
