"""Check of a claim card: figures are computed again from the run's raw files, and compared with the records and the card."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from dutlab.bounds import IMPORT
from dutlab.by_path import named
from dutlab.errors import StoreError
from dutlab.report.questions.claims import ClaimCard, ClaimedCell, cards, manifest_hash, same, summary_of
from dutlab.store.beneath import Beneath
from dutlab.store.manifest import ManifestDifference
from dutlab.store.names import checked_relative, trial_folder
from dutlab.store.record import TrialRecord
from dutlab.store.run_folder import RunFolder
from dutlab.tools.raw_figures import CannotRecompute, KeptTrial, Recomputed
from dutlab.workloads import plug_of


@dataclass(frozen=True)
class VerifiedClaim:
    """Result for one card."""

    state: Literal["holds", "differs", "not recomputed"]
    """Verdict. `not recomputed`: nothing differs, but dutlab cannot compute figures from raw files of this kind."""
    differences: tuple[str, ...]
    """Differences, in sentences."""


def verified(
    claim: ClaimCard, run: RunFolder, *, fresh: Mapping[str, ClaimCard] | None = None, changed: ManifestDifference | None = None
) -> VerifiedClaim:
    """Compare the card with the run. `fresh` are cards made from its records, `changed` are its files that differ from the manifest.

    Raises InputError for a run without a headline, StoreError.
    """
    differences = list(_differences(claim, run, fresh, changed))
    unread = [text for text, unreadable in differences if unreadable]
    state: Literal["holds", "differs", "not recomputed"] = (
        "holds" if not differences else "not recomputed" if len(unread) == len(differences) else "differs"
    )
    return VerifiedClaim(state, tuple(text for text, _ in differences))


def _differences(
    claim: ClaimCard, run: RunFolder, fresh: Mapping[str, ClaimCard] | None, changed: ManifestDifference | None
) -> Iterator[tuple[str, bool]]:
    """Yield a sentence for each difference, and whether it only means that figures cannot be computed from the raw files."""
    if run.name != claim.run:
        yield f"the run is {run.name}, the card is of {claim.run}", False
    if manifest_hash(run) != claim.manifest_sha256:
        yield "the manifest is not the one that the card was made from", False
    card_by_name = _fresh(run) if fresh is None else fresh
    about = [c for c in card_by_name.values() if c.about == claim.about]  # several: headlines of different rates or settings
    again = next((c for c in about if c.claim == claim.claim), about[0] if about else None)
    if again is None or again.claim != claim.claim:
        yield f"the records say: {again.claim if again else 'nothing about ' + claim.about}", False
    changed = run.verify_manifest() if changed is None else changed
    if not changed.none_but_redacted:
        yield f"files are not as the manifest says: {changed}", False
    for cell in claim.cells:
        values = []
        for trial in cell.trials:
            try:
                record = run.record(trial)
                _insist_on_uncovered(run, trial, changed)
                value = _again(run, record, cell)
            except (StoreError, CannotRecompute) as error:
                yield f"trial {trial}: {error}", isinstance(error, CannotRecompute)
                continue
            values.append(value)
            if not same(value, recorded := record.figures.get(cell.link, {}).get(cell.figure, float("nan"))):
                yield f"trial {trial}: {cell.figure} is {value:.10g} by its raw files, {recorded:.10g} by its record", False
        if len(values) == len(cell.trials):
            yield from ((text, False) for text in summary_of(cell, values))


def _insist_on_uncovered(run: RunFolder, trial: int, changed: ManifestDifference) -> None:
    """Raise CannotRecompute if secrets were covered in the files of a trial, which then prove nothing."""
    beginnings = (f"trials/{trial_folder(run.path, trial).name}/", "resolved.json")
    if covered := [name for name in changed.redacted if name.startswith(beginnings)]:
        raise CannotRecompute(f"secrets were covered in {', '.join(covered)}")


def _fresh(run: RunFolder) -> Mapping[str, ClaimCard]:
    return cards(run.path, run.path)


def _again(run: RunFolder, record: TrialRecord, cell: ClaimedCell) -> float:
    folder = trial_folder(run.path, record.trial)
    raw = {}
    for name in record.raw:
        checked_relative(name)
        try:
            with Beneath.opened(run.path) as below:
                raw[name.removeprefix("raw/")] = below.read(f"trials/{folder.name}/{name}", IMPORT)
        except OSError as error:
            raise CannotRecompute(f"{name} cannot be read: {error.strerror}") from error
    recompute: Callable[[KeptTrial], Recomputed] = named(plug_of(record.cell.workload).again)
    figures = recompute(KeptTrial(record.cell, raw, record.tool_facts, run.resolved)).get(cell.link, {})
    if cell.figure not in figures:
        raise CannotRecompute(f"they do not give {cell.figure} of {cell.link}")
    return figures[cell.figure]
