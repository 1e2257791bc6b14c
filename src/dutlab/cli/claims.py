"""claims, verify-claim."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dutlab.cli.told import say
from dutlab.errors import StoreError
from dutlab.printable import printable

if TYPE_CHECKING:
    from dutlab.report.questions.claims import ClaimCard, ClaimedCell
    from dutlab.store.record import TrialRecord
    from dutlab.store.run_folder import RunFolder
    from dutlab.tools.raw_figures import KeptTrial, Recomputed


@click.command()
@click.argument("run", metavar="RUN", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("-o", "--output", "out", type=click.Path(path_type=Path, file_okay=False), help="Folder; report/ in the run without it.")
def claims(*, run: Path, out: Path | None) -> None:
    """Write a claim card for each headline of a run: figures, limit, conditions, hash of the raw data.

    \b
    Example:
      dutlab claims runs/2026-11-21T0801Z-firewall-modes-3f2a
    """  # noqa: D301
    from dutlab.report.questions.claims import as_text, cards  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.store.manifest import DERIVED  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.store.replace import file_name, folder_in, replace_file  # noqa: PLC0415 -- `--help` needs none of it

    folder = out or run / DERIVED
    for name, card in cards(run, folder).items():
        stem, suffix = name.rsplit(".", 1)
        path = (out or folder_in(run, DERIVED)) / f"{file_name(stem)}.{suffix}"
        say(replace_file(path, as_text(card).encode()))


@click.command("verify-claim")
@click.argument("card", metavar="CARD", type=click.Path(path_type=Path, exists=True, dir_okay=False))
@click.option("--run", "run", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the run.  [as the card says]")
@click.pass_context
def verify_claim(ctx: click.Context, *, card: Path, run: Path | None) -> None:
    """Recompute a claim from the raw files of its run; exit 1 if anything differs.

    \b
    Example:
      dutlab verify-claim runs/2026-11-21T0801Z-firewall-modes-3f2a/report/claim-1-iperf3-through-link-a.json
    """  # noqa: D301
    from dutlab.report.questions.claims import read_card  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.store.run_folder import RunFolder  # noqa: PLC0415 -- `--help` needs none of it

    claim = read_card(card)
    folder = RunFolder.open(run or card.parent / claim.folder)
    found = list(_differences(claim, folder))
    say(printable(claim.claim))
    for line in found:
        say(f"differs: {printable(line)}")
    trials = sorted({t for c in claim.cells for t in c.trials})
    if not found:
        say(f"holds: {len(claim.cells)} figures worked out again from the raw files of {len(trials)} trials")
    ctx.exit(1 if found else 0)


def _differences(claim: ClaimCard, run: RunFolder) -> Iterator[str]:
    from dutlab.report.questions.claims import cards, manifest_hash, same, summary_of  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.tools.raw_figures import CannotRecompute  # noqa: PLC0415 -- `--help` needs none of it

    if run.name != claim.run:
        yield f"the run is {run.name}, the card is of {claim.run}"
    if manifest_hash(run) != claim.manifest_sha256:
        yield "the manifest is not the one that the card was made from"
    fresh = next((c for c in cards(run.path, run.path).values() if c.about == claim.about), None)
    if fresh is None or fresh.claim != claim.claim:
        yield f"the records say: {fresh.claim if fresh else 'nothing of ' + claim.about}"
    changed = run.verify_manifest()
    if not changed.none:
        yield f"files are not as the manifest says: {changed}"
    for cell in claim.cells:
        values = []
        for trial in cell.trials:
            try:
                record = run.record(trial)
                value = _again(run, record, cell)
            except (StoreError, CannotRecompute) as error:
                yield f"trial {trial}: {error}"
                continue
            values.append(value)
            if not same(value, said := record.figures.get(cell.link, {}).get(cell.figure, float("nan"))):
                yield f"trial {trial}: {cell.figure} is {value:.10g} by its raw files, {said:.10g} by its record"
        if len(values) == len(cell.trials):
            yield from summary_of(cell, values)


def _again(run: RunFolder, record: TrialRecord, cell: ClaimedCell) -> float:
    from dutlab.store.names import checked_relative, trial_folder  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.store.read import read_plain  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.tools.raw_figures import CannotRecompute, KeptTrial  # noqa: PLC0415 -- `--help` needs none of it
    from dutlab.workloads import named, plug_of  # noqa: PLC0415 -- `--help` needs none of it

    folder = trial_folder(run.path, record.trial)
    raw = {}
    for name in record.raw:
        try:
            raw[name.removeprefix("raw/")] = read_plain(folder / checked_relative(name))
        except OSError as error:
            raise CannotRecompute(f"{name} cannot be read: {error.strerror}") from error
    recompute: Callable[[KeptTrial], Recomputed] = named(plug_of(record.cell.workload).again)
    found = recompute(KeptTrial(record.cell, raw, record.tool_facts, run.resolved)).get(cell.link, {})
    if cell.figure not in found:
        raise CannotRecompute(f"they do not tell {cell.figure} of {cell.link}")
    return found[cell.figure]
