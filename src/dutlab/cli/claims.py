"""Commands `claims` and `verify-claim`: write and verify claim cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.options import JSON
from dutlab.cli.terminal import say, say_words
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.publish.verified import VerifiedClaim
    from dutlab.report.questions.claims import ClaimCard


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-o", "--output", "out", type=click.Path(path_type=Path, file_okay=False), help="Folder.  [report/ in the run]")
@JSON
def claims(*, run: Path, out: Path | None, as_json: bool) -> None:
    """\b
    Example:
      dutlab claims runs/2026-11-21T0801Z-firewall-modes-3f2a
    """
    from dutlab.report.questions.claims import as_text, cards
    from dutlab.store.manifest import DERIVED
    from dutlab.store.replace import file_name, folder_in, replace_file

    folder, written = out or run / DERIVED, list[str]()
    for name, card in cards(run, folder).items():
        stem, suffix = name.rsplit(".", 1)
        path = (out or folder_in(run, DERIVED)) / f"{file_name(stem)}.{suffix}"
        written.append(str(replace_file(path, as_text(card).encode())))
    say(json.dumps({"schema_version": 1, "written": written}) if as_json else "\n".join(written))


@click.command("verify-claim")
@click.argument("cards", metavar="CARD…", nargs=-1, required=True, type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--run", "run", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the run.  [named in the card]")
@JSON
@click.pass_context
def verify_claim(ctx: click.Context, *, cards: tuple[Path, ...], run: Path | None, as_json: bool) -> None:
    """\b
    Example:
      dutlab verify-claim runs/2026-11-21T0801Z-firewall-modes-3f2a/report/claim-1-iperf3-through-link-a.json
    """
    from dutlab.publish.verified import verified
    from dutlab.report.questions.claims import read_card
    from dutlab.store.run_folder import RunFolder

    read = [(read_card(card), card) for card in cards]
    results = [(card, claim, verified(claim, RunFolder.open(run or card.parent / claim.folder))) for claim, card in read]
    if as_json:
        rows = [
            {"card": str(card), "claim": claim.claim, "state": of.state, "differences": list(of.differences)} for card, claim, of in results
        ]
        say(json.dumps({"schema_version": 1, "claims": rows}, indent=1))
    else:
        for _, claim, of in results:
            _say_result(claim, of)
    ctx.exit(0 if all(of.state == "holds" for _, _, of in results) else 1)


def _say_result(claim: ClaimCard, verified: VerifiedClaim) -> None:
    say(printable(claim.claim))
    for line in verified.differences:
        say_words(f"{verified.state}: {line}")
    if verified.state == "not recomputed":
        say_words("nothing differs, but dutlab cannot recompute such figures from raw files of this kind")
    if verified.state == "holds":
        trials = {t for c in claim.cells for t in c.trials}
        say_words(f"holds: {len(claim.cells)} figures recomputed from the raw files of {len(trials)} trials")
