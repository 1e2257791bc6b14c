"""Artifact: one zip file with runs and all that a stranger needs to repeat them.

    ARTIFACT.md                what is claimed, what it needs, how to repeat it, which ranges to expect
    ro-crate-metadata.json     the same for archives (RO-Crate 1.1); CITATION.cff and LICENSE
    runs/NAME/                 the run folder without its journal, with secrets covered
    claims/NAME/claim-….json   claim cards of the newest run of each experiment
    packages/                  the package of dutlab, if its maker gave it, and the versions of libraries
    Containerfile              container in which the runs can be repeated
    SHA256SUMS                 digests, for sha256sum
    provenance.json(.sig)      in-toto statement on all of these files, and its signature

Equal runs and options give equal bytes: names are sorted, and no time of creation is stored. Only another zlib may compress differently.
"""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata as packages
from pathlib import Path
from typing import Any

from dutlab import outside
from dutlab.bounds import WHEEL
from dutlab.errors import DutlabError, InputError, StoreError
from dutlab.publish.archive import files_below, pack
from dutlab.publish.artifact_page import PageGroup, artifact_page
from dutlab.publish.artifact_runs import RunGroup, grouped
from dutlab.publish.copied_run import copy_run, insist_on_text
from dutlab.publish.crate import CITATION, LICENCE, METADATA, Author, Crate, RunEntry, citation, insist_on_licence, licence_text, metadata
from dutlab.publish.provenance import PROVENANCE, digest_of, statement
from dutlab.publish.signature import sign
from dutlab.release import release
from dutlab.report.gather import gather
from dutlab.report.model.words import plural
from dutlab.report.questions.claims import as_text, cards_of, manifest_hash
from dutlab.report.questions.repeated import expected
from dutlab.store.replace import file_name, file_names
from dutlab.store.run_folder import RunFolder
from dutlab.store.write import as_store_error, stored_at

PAGE, SUMS, CONTAINER, RUNS, CLAIMS, PACKAGES = "ARTIFACT.md", "SHA256SUMS", "Containerfile", "runs", "claims", "packages"
_DESCRIBED = ("experiment.yaml", "testbed.yaml", "plan.json", "resolved.json", "MANIFEST.sha256")
"""Files of a run that the metadata describe one by one."""
_WHEEL = re.compile(r"dutlab-(?P<version>[0-9][A-Za-z0-9.!+_]*)-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+-[A-Za-z0-9_.]+\.whl")
_CONTAINER = """\
# Container in which the runs of this artifact can be repeated:
#   unzip FILE -d artifact && cd artifact
#   podman build -t artifact --build-arg BASE=docker.io/library/debian:bookworm-slim -f Containerfile .
#   podman run --rm --privileged -v "$PWD/..:/measurements" artifact artifact check FILE --trust
# BASE has no default: a tag is another image tomorrow, so name a digest if you need the same one again.
{note}ARG BASE
FROM ${{BASE}}
RUN apt-get update -qq \\
    && DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends \\
        python3 python3-venv iproute2 iperf3 nftables ethtool iputils-ping procps openssh-client \\
    && rm -rf /var/lib/apt/lists/*
COPY packages /packages
RUN python3 -m venv /opt/dutlab \\
    && /opt/dutlab/bin/pip install --no-cache-dir --requirement /packages/requirements.txt /packages/dutlab-*.whl
WORKDIR /measurements
ENTRYPOINT ["/opt/dutlab/bin/dutlab"]
"""
_NO_WHEEL = "# The package of dutlab is not in this artifact: put dutlab-{version}-….whl into packages/ first.\n"


@dataclass(frozen=True)
class ArtifactRequest:
    """Options of an artifact."""

    out: Path
    title: str = ""
    """Title; empty for one made from the experiments."""
    authors: tuple[Author, ...] = ()
    licence: str = ""
    """SPDX identifier; empty if none is stated."""
    wheel: Path | None = None
    key: Path | None = None
    """ssh key that signs; None for no signature."""


@dataclass(frozen=True)
class MadeArtifact:
    """Result of making an artifact."""

    path: Path
    sha256: str
    claims: int
    files: int
    notes: tuple[str, ...]
    """Notes for its author, in sentences."""


def make_artifact(runs: Sequence[Path], asked: ArtifactRequest) -> MadeArtifact:
    """Write the artifact of finished runs. Raises InputError with all faults at once, ToolMissing, StoreError."""
    folders = _insist_on_runs(runs)
    insist_on_licence(asked.licence)
    version = None if asked.wheel is None else _wheel_version(asked.wheel)
    with stored_at(asked.out):
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        stage = Path(tempfile.mkdtemp(prefix=f".{file_name(asked.out.name)}.", dir=asked.out.parent))
    try:
        notes = _fill(stage, folders, asked, version)
        pack(stage, asked.out)
        return MadeArtifact(
            asked.out, digest_of(asked.out), sum(1 for _ in (stage / CLAIMS).rglob("claim-*.json")), len(files_below(stage)), tuple(notes)
        )
    except OSError as error:
        raise as_store_error(error, asked.out, None) from error
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def _insist_on_runs(runs: Sequence[Path]) -> list[RunFolder]:
    folders, faults = list[RunFolder](), list[str]()
    for path in dict.fromkeys(p.resolve() for p in runs):
        try:
            folders.append(run := RunFolder.open(path))
            insist_on_text(run)
            manifest_hash(run)
            if not (changed := run.verify_manifest()).none_but_redacted:
                faults.append(f"{run.path}: was changed since it ended: {changed}"[:500])
        except DutlabError as error:
            faults.append(f"{error}; an artifact has finished runs only" if isinstance(error, StoreError) else str(error))
    names = [run.name for run in folders]
    faults += [f"{name}: two runs have this name; rename the folder of one" for name in dict.fromkeys(names) if names.count(name) > 1]
    if faults:
        raise InputError("\n".join(faults))
    return folders


def _wheel_version(wheel: Path) -> str:
    if (match := _WHEEL.fullmatch(wheel.name)) is None:
        raise InputError(f"{wheel}: is not a wheel of dutlab", remedy="name a file that scripts/wheel made: dutlab-VERSION-….whl")
    return match["version"]


def _fill(stage: Path, folders: Sequence[RunFolder], asked: ArtifactRequest, wheel_version: str | None) -> list[str]:
    """Write all files into the folder `stage`; return notes."""
    (stage / RUNS).mkdir()
    notes = [f"note: {covered}" for run in folders if (covered := copy_run(run, stage / RUNS / run.name, cards=False))]
    groups = grouped([RunFolder.open(stage / RUNS / run.name) for run in folders])
    if empty := [folder.name for group in groups for folder, run in zip(group.folders, group.runs, strict=True) if not run.records]:
        raise InputError(f"no trial has a record: {', '.join(empty)}", remedy="name runs with results")
    pages = [_page_group(stage, group) for group in groups]
    if not any(page.claims for page in pages):
        raise InputError("these runs have no figure to claim", remedy="name a run with at least one result")
    ours = _of_runs(groups)
    wheel = _add_packages(stage, asked.wheel)
    version = wheel_version or ours.get("version", "")
    if wheel_version is not None and ours and ours.get("version") != wheel_version:
        notes.append(f"note: the package has version {wheel_version}, and dutlab {ours.get('version')} measured the newest run")
    if ours.get("commit", "").endswith("-dirty"):
        notes.append("note: the newest run was measured with changes that are not committed, so others cannot get the same dutlab")
    if not asked.licence:
        notes.append("note: no licence is stated, so others may not use it; --licence CC-BY-4.0 states one")
    (stage / CONTAINER).write_text(_CONTAINER.format(note="" if wheel else _NO_WHEEL.format(version=version)), encoding="utf-8")
    crate = _crate(asked, groups, pages, stage, ours)
    (stage / LICENCE).write_bytes(licence_text(asked.licence))
    (stage / CITATION).write_bytes(citation(crate))
    size_bytes = sum((stage / name).stat().st_size for name in files_below(stage))
    (stage / PAGE).write_bytes(artifact_page(crate, pages, size_bytes, wheel))
    (stage / METADATA).write_bytes(metadata(crate, stage))
    sums = [f"{digest_of(stage / name)}  {name}\n" for name in files_below(stage)]
    (stage / SUMS).write_text("".join(sums), encoding="utf-8")
    times = (min(run.started for run in crate.runs), max(run.ended for run in crate.runs))
    parameters = [_parameters(folder, stage) for group in groups for folder in group.folders]
    (stage / PROVENANCE).write_bytes(statement(stage, files_below(stage), parameters, list(_dependencies(stage, wheel, ours)), times))
    if asked.key is not None:
        sign(stage / PROVENANCE, asked.key)
    return notes


def _page_group(stage: Path, group: RunGroup) -> PageGroup:
    """Write the claim cards of the newest run, and return the text of the page about the group."""
    run = group.newest
    folder = stage / CLAIMS / run.name
    report = gather(run.path, folder)
    cards = cards_of(run, report, folder)
    names = [f"{name}.json" for name in file_names(name.removesuffix(".json") for name in cards)]
    folder.mkdir(parents=True)
    for name, card in zip(names, cards.values(), strict=True):
        (folder / name).write_text(as_text(card), encoding="utf-8")
    ranges = expected(list(cards.values()), group.runs)
    files = [f"{CLAIMS}/{run.name}/{name}" for name in names]
    return PageGroup(group, report, tuple(zip(files, cards.values(), ranges, strict=True)))


def _of_runs(groups: Sequence[RunGroup]) -> dict[str, str]:
    """Return the dutlab that measured the newest run; of runs that do not state it, the one that makes the artifact."""
    newest = max(groups, key=lambda group: group.newest.name)
    return newest.dutlab or release()


def _add_packages(stage: Path, wheel: Path | None) -> str:
    """Write the versions of libraries and copy the wheel; return its name in the artifact, or an empty text."""
    (stage / PACKAGES).mkdir()
    pins = "".join(f"{name}=={version}\n" for name, version in sorted(_libraries().items()))
    text = f"# Libraries of dutlab in the environment that made this artifact.\n{pins}"
    (stage / PACKAGES / "requirements.txt").write_text(text, encoding="utf-8")
    if wheel is None:
        return ""
    (stage / PACKAGES / wheel.name).write_bytes(outside.read_given(wheel, WHEEL))
    return f"{PACKAGES}/{wheel.name}"


def _libraries() -> dict[str, str]:
    """Return the installed packages that dutlab needs, with those that they need, by name."""
    versions, left = dict[str, str](), ["dutlab"]
    while left:
        try:
            of = packages.distribution(left.pop())
        except packages.PackageNotFoundError:
            continue  # for another system or an extra
        name = re.sub(r"[-_.]+", "-", of.metadata["Name"]).lower()
        if name not in versions:
            versions[name] = of.version
            left += [re.split(r"[^A-Za-z0-9._-]", need, maxsplit=1)[0] for need in of.requires or () if "extra ==" not in need]
    versions.pop("dutlab", None)
    return versions


def _crate(asked: ArtifactRequest, groups: Sequence[RunGroup], pages: Sequence[PageGroup], stage: Path, ours: Mapping[str, str]) -> Crate:
    entries = [
        RunEntry(
            folder.name,
            f"run {folder.name}",
            f"{RUNS}/{folder.name}/",
            min(r.started for r in run.records),
            max(r.ended for r in run.records),
            tuple(f"{RUNS}/{folder.name}/{name}" for name in _DESCRIBED if (folder.path / name).is_file()),
            f"A run of {page.report.experiment} on testbed {page.report.testbed}, with every record and the tools' own output.",
        )
        for group, page in zip(groups, pages, strict=True)
        for folder, run in zip(group.folders, group.runs, strict=True)
    ]
    experiments = list(dict.fromkeys(page.report.experiment for page in pages))
    described = f"Measurements by dutlab with all that is needed to repeat them: {plural(len(entries), 'run')} of {', '.join(experiments)}."
    files = (PAGE, METADATA, LICENCE, CITATION, CONTAINER, *(n for n in files_below(stage) if n.startswith((f"{CLAIMS}/", f"{PACKAGES}/"))))
    return Crate(
        title=asked.title or f"Measurements: {', '.join(experiments)}", described=described,
        authors=asked.authors or (Author("anonymous"),), licence=asked.licence, published=max(entry.ended for entry in entries),
        release=ours, runs=tuple(entries), files=files,
    )  # fmt: skip


def _parameters(folder: RunFolder, stage: Path) -> dict[str, Any]:
    """Return the parameters of one run, as the statement has them."""
    resolved = folder.resolved
    text = f"{RUNS}/{folder.name}/experiment.yaml"
    return {
        "name": folder.name,
        "command": list(resolved.get("command") or []),
        "seed": folder.plan.get("seed"),
        "experiment": {"name": text, "digest": {"sha256": digest_of(stage / text)}},
    }


def _dependencies(stage: Path, wheel: str, ours: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Yield the programs and libraries of the runs, as the statement has them."""
    dutlab: dict[str, Any] = {"name": "dutlab", "uri": f"urn:dutlab:{ours.get('version', 'unknown')}"}
    if commit := ours.get("commit"):
        dutlab["digest"] = {"gitCommit": commit.removesuffix("-dirty")}
        dutlab["annotations"] = {"dirty": commit.endswith("-dirty")}
    yield dutlab
    if wheel:
        yield {"name": wheel, "digest": {"sha256": digest_of(stage / wheel)}}
    yield from ({"name": name, "uri": f"pkg:pypi/{name}@{version}"} for name, version in sorted(_libraries().items()))
