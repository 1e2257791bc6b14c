"""claims, verify-claim."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.terminal import say, say_words
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.report.questions.claims import ClaimCard


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-o", "--output", "out", type=click.Path(path_type=Path, file_okay=False), help="Folder; report/ in the run without it.")
def claims(*, run: Path, out: Path | None) -> None:
    """\b
    Example:
      dutlab claims runs/2026-11-21T0801Z-firewall-modes-3f2a
    """
    from dutlab.report.questions.claims import as_text, cards
    from dutlab.store.manifest import DERIVED
    from dutlab.store.replace import file_name, folder_in, replace_file

    folder = out or run / DERIVED
    for name, card in cards(run, folder).items():
        stem, suffix = name.rsplit(".", 1)
        path = (out or folder_in(run, DERIVED)) / f"{file_name(stem)}.{suffix}"
        say(replace_file(path, as_text(card).encode()))


@click.command("verify-claim")
@click.argument("cards", metavar="CARD…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--run", "run", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the run.  [as the card says]")
@click.pass_context
def verify_claim(ctx: click.Context, *, cards: tuple[Path, ...], run: Path | None) -> None:
    """\b
    Example:
      dutlab verify-claim runs/2026-11-21T0801Z-firewall-modes-3f2a/report/claim-1-iperf3-through-link-a.json
    """
    from dutlab.report.questions.claims import read_card

    read = [(read_card(card), card) for card in cards]
    hold = [_holds(claim, run or card.parent / claim.folder) for claim, card in read]
    ctx.exit(0 if all(hold) else 1)


def _holds(claim: ClaimCard, folder: Path) -> bool:
    """Return whether its figures follow from the raw files; print that, or the differences."""
    from dutlab.publish.verified import verified
    from dutlab.store.run_folder import RunFolder

    found = verified(claim, RunFolder.open(folder))
    say(printable(claim.claim))
    for line in found.differences:
        say_words(f"{found.state}: {line}")
    if found.state == "not recomputed":
        say_words("nothing differs, but the raw files of these trials are of a kind from which dutlab works out no such figure")
    if found.state == "holds":
        trials = {t for c in claim.cells for t in c.trials}
        say_words(f"holds: {len(claim.cells)} figures worked out again from the raw files of {len(trials)} trials")
    return found.state == "holds"
