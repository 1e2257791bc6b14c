"""history."""

from __future__ import annotations

import json
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.compare import BETTER, sides_of
from dutlab.cli.runs import FLEET, FOLDER, note
from dutlab.cli.told import say, say_words, table
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.report.questions.histories import CellHistory


@click.command()
@click.argument("experiment")
@FOLDER
@FLEET
@click.option(
    "--figure", "figures", multiple=True, metavar="NAME", help="Show this figure, as in ndr/lower_pps; repeatable.  [the main figure]"
)
@BETTER
@click.option("--plot", type=click.Path(path_type=Path, file_okay=False), metavar="DIR", help="Write a picture a cell there, as SVG.")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def history(
    *, experiment: str, folder: Path, fleet: bool, figures: tuple[str, ...], betters: tuple[str, ...], plot: Path | None, as_json: bool
) -> None:
    """\b
    Example:
      dutlab history firewall-modes --plot pictures
    """
    from dutlab.report.questions.histories import HEADS, histories, history_plot, history_rows
    from dutlab.store.fleet_index import asked_fleet
    from dutlab.store.index import Wanted, figures_of, list_runs, opened

    with asked_fleet() if fleet else opened(folder, note=note) as index:
        rows = list(figures_of(index, experiment))
        known = sorted({r.experiment for r in list_runs(index, Wanted())}) if not rows else []
    if not rows:
        raise InputError(
            f"{'the index of the fleet' if fleet else folder}: no run of {experiment} has a result",
            remedy=f"there are {', '.join(known) or 'no runs'}",
        )
    found = histories(rows, figures, sides_of(betters))
    written: list[Path] = []
    if plot is not None:
        from dutlab.report.write import write_images

        written = write_images([p for n, h in enumerate(found, 1) if (p := history_plot(h, n)) is not None], plot)
    if as_json:
        say(json.dumps({"schema_version": 1, "experiment": experiment, "histories": [_plain(h) for h in found]}, indent=1, default=_name))
        return
    for line in table(HEADS, history_rows(found), right={2, 3, 4, 5}):
        say(line)
    for h in found:
        for sentence in h.sentences:
            say_words(f"{h.label}, {h.figure}: {sentence}")
    for path in written:
        say(path)


def _name(of: Enum) -> str:
    return of.name


def _plain(h: CellHistory) -> dict[str, object]:
    return {"cell": h.label, "figure": h.figure, **asdict(h.found), "sentences": h.sentences}
