"""Artifact of another person: unpacked within limits, and refused unless digests, signature, runs and claims agree.

No command of it is run here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from dutlab.errors import InputError, StoreError
from dutlab.publish.archive import unpack
from dutlab.publish.artifact import CLAIMS, RUNS
from dutlab.publish.artifact_runs import RunGroup, grouped
from dutlab.publish.provenance import PROVENANCE, insist_on_digests
from dutlab.publish.signature import SUFFIX, Signer, can_verify, verify
from dutlab.publish.verified import verified
from dutlab.report.questions.claims import ClaimCard, cards, read_card
from dutlab.store.run_folder import RunFolder

_REMEDY = "do not use this file; ask its author for another copy"


@dataclass(frozen=True)
class ClaimedGroup:
    """Runs that one new run repeats, and the claims of the newest of them."""

    group: RunGroup
    claims: tuple[ClaimCard, ...]


@dataclass(frozen=True)
class OpenedArtifact:
    """Artifact whose files are as its maker wrote them."""

    groups: tuple[ClaimedGroup, ...]
    is_signed: bool
    signer: Signer | None
    """None without a signature, and without ssh-keygen."""
    not_recomputed: int
    """Claims whose figures dutlab cannot compute from raw files."""


def open_artifact(path: Path, folder: Path, allowed_signers: Path | None = None) -> OpenedArtifact:
    """Unpack an artifact into the empty folder `folder`, and check all of it.

    Raises InputError for any fault in it, ToolMissing without ssh-keygen if `allowed_signers` are given.
    """
    names = unpack(path, folder)
    try:
        insist_on_digests(folder, names)
        is_signed = f"{PROVENANCE}{SUFFIX}" in names
        signer = _signer(folder, allowed_signers, is_signed=is_signed)
        groups = _groups(folder, names)
        not_recomputed = sum(_insist_on_claims(of) for of in groups)
    except StoreError as error:  # its files are the input here
        raise InputError(f"{path}: {_inside(error.what, folder)}", remedy=error.remedy or _REMEDY) from error
    except InputError as error:
        raise InputError(f"{path}: {_inside(error.what, folder)}", remedy=error.remedy) from error
    except OSError as error:
        raise InputError(f"{path}: {_inside(str(error), folder)}", remedy=_REMEDY) from error
    return OpenedArtifact(tuple(groups), is_signed, signer, not_recomputed)


def _signer(folder: Path, allowed: Path | None, *, is_signed: bool) -> Signer | None:
    """Check the signature; None without one, and without ssh-keygen unless signers are given."""
    if not is_signed and allowed is not None:
        raise InputError("it has no signature", remedy="leave --allowed-signers out to use it without")
    return verify(folder / PROVENANCE, allowed) if is_signed and (can_verify() or allowed is not None) else None


def _inside(what: str, folder: Path) -> str:
    """Return a message with paths relative to the artifact."""
    return what.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")


def _groups(folder: Path, names: Sequence[str]) -> list[ClaimedGroup]:
    runs = sorted({name.split("/")[1] for name in names if name.startswith(f"{RUNS}/") and name.count("/") > 1})
    if not runs:
        raise InputError("it has no run", remedy="name a file that `dutlab artifact` made")
    folders = [RunFolder.open(folder / RUNS / name) for name in runs]
    for run in folders:
        if not (changed := run.verify_manifest()).none_but_redacted:
            raise InputError(f"run {run.name} is not as its manifest says: {changed}"[:500], remedy=_REMEDY)
    read = [(name, read_card(folder / name)) for name in sorted(names) if name.startswith(f"{CLAIMS}/")]
    groups = [ClaimedGroup(of, tuple(card for _, card in read if card.run == of.newest.name)) for of in grouped(folders)]
    known = {of.group.newest.name for of in groups}
    if strange := [name for name, card in read if card.run not in known]:
        raise InputError(f"claims of runs that are not in it, or not the newest: {', '.join(strange[:5])}", remedy=_REMEDY)
    if not read:
        raise InputError("it has no claim", remedy="name a file that `dutlab artifact` made")
    return groups


def _insist_on_claims(of: ClaimedGroup) -> int:
    """Check that each claim follows from the run's raw files; return the number of those that dutlab cannot recompute."""
    if not of.claims:
        return 0
    run = of.group.newest
    fresh, states = cards(run.path, run.path), list[str]()
    for card in of.claims:
        result = verified(card, run, fresh=fresh, changed=run.verify_manifest())
        if result.state == "differs":
            raise InputError(f"the claim about {card.about} is not that of its run: {'; '.join(result.differences)}"[:500], remedy=_REMEDY)
        states.append(result.state)
    return states.count("not recomputed")
