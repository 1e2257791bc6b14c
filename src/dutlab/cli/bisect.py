"""Command `bisect`: find the version that changed a figure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dutlab.cli.gate import AS, MODES, SIZES
from dutlab.cli.options import NAME
from dutlab.cli.terminal import say, say_words, table, tell
from dutlab.cli.userns import become_root
from dutlab.cli.versions import VersionKind, versions_of
from dutlab.errors import InputError

if TYPE_CHECKING:
    from dutlab.cli.bisect_runs import BisectRuns, VersionRow

_FEWEST = 2
_NAME = "bisect"


@dataclass(frozen=True, kw_only=True)
class BisectRequest:
    """Options of `bisect` from click: the versions, and how to measure them."""

    versions: tuple[str, ...]
    commits: str | None
    repository: Path
    file: str | None
    build: str | None
    campaign_file: Path | None
    experiment: Path | None
    kind: str | None
    modes: Sequence[str]
    sizes: Sequence[str]
    settings: tuple[str, ...]
    name: str | None

    @property
    def sources(self) -> list[str]:
        """Kinds of sources of versions that were given. Other than one is refused."""
        return [what for what, of in (("files", self.versions), ("commits", self.commits), ("campaign", self.campaign_file)) if of]

    def row(self) -> tuple[VersionRow, list[Path]]:
        """Return the versions, and their files. Raises InputError, SpecRefused."""
        if len(self.sources) != 1:
            raise click.UsageError("name versions, or --commits, or --campaign")
        if self.campaign_file is not None:
            return _row_of_campaign(self.campaign_file, self.name or _NAME)
        return self._row_of_commits(self.commits) if self.commits else self._row_of_files()

    def _row_of_commits(self, span: str) -> tuple[VersionRow, list[Path]]:
        from dutlab.cli.bisect_runs import VersionRow
        from dutlab.cli.commits import commits_of

        if self.file is None:
            raise click.UsageError("--commits needs --file, the rule set or kernel of each")
        commits = commits_of(self.repository, span)
        row = VersionRow(
            kind="commits", names=tuple(commit[:12] for commit, _ in commits), words=tuple(commit for commit, _ in commits),
            subjects={commit[:12]: subject for commit, subject in commits}, repository=str(self.repository.absolute()), file=self.file,
            build=self.build or "", **self._common(),
        )  # fmt: skip
        return row, []

    def _row_of_files(self) -> tuple[VersionRow, list[Path]]:
        from dutlab.cli.bisect_runs import VersionRow

        of = versions_of(self.versions, None if self.kind is None else VersionKind(self.kind))
        if of[0].kind in {VersionKind.EXPERIMENT, VersionKind.RUN}:
            raise InputError(f"{of[0].word}: versions are rule sets, kernels or commands", remedy="write a campaign with versions")
        is_text = of[0].kind is VersionKind.COMMANDS
        words = tuple(one.word if is_text else str(one.path.absolute()) for one in of)
        names = tuple(f"version {n}" for n in range(1, len(of) + 1)) if is_text else _short(words)
        row = VersionRow(kind=str(of[0].kind), names=names, words=words, **self._common())
        return row, [Path(word) for word in words] if of[0].kind is VersionKind.RULES else []

    def _common(self) -> dict[str, Any]:
        by_time = {} if self.experiment is None else _base_of(self.experiment)
        return {"name": self.name or _NAME, "modes": tuple(self.modes), "sizes": tuple(self.sizes), "settings": self.settings, **by_time}


@click.command()
@click.argument("versions", metavar="[VERSION]…", nargs=-1)
@click.option("--commits", metavar="GOOD..BAD", help="Versions are commits of a repository, by first parents.")
@click.option("--repository", type=click.Path(path_type=Path, file_okay=False, exists=True), default=Path(), help="The repository.  [.]")
@click.option("--file", "file", metavar="PATH", help="Rule set or kernel to measure at each commit.")
@click.option("--build", metavar="COMMAND", help="Makes that file, in a separate work tree; kernel modules go to $DUTLAB_OUT/lib/modules.")
@click.option("--campaign", "campaign_file", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="Versions are those of a campaign file, measured by its first experiment.")  # fmt: skip
@click.option("--time", "experiment", type=click.Path(path_type=Path, dir_okay=False, exists=True), metavar="EXPERIMENT",
              help="Measure rule sets by the workloads of this file instead of instructions.")  # fmt: skip
@AS
@MODES
@SIZES
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="A setting of the workload exact; repeatable.")
@click.option("--into", type=click.Path(path_type=Path, file_okay=False), help="Folder of the bisection.  [campaigns/NAME]")
@click.option("--resume", "resumed", type=click.Path(path_type=Path, file_okay=False, exists=True), metavar="FOLDER",
              help="Continue an interrupted search.")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="For programs.")
@NAME
def bisect(*, into: Path | None, resumed: Path | None, as_json: bool, **options: Any) -> None:  # noqa: ANN401 -- the fields of BisectRequest
    """VERSIONs are nft files or kernels, the oldest first. Counts of instructions are exact, so each version is measured once. By time
    (--time, --campaign), a version and the first alternate until the version is known to be like the first or like the last;
    otherwise it is skipped. The folder is that of a campaign; report.md lists each step.

    Exit 0: found; 1: the last version is like the first; 2: cannot tell.

    \b
    Example:
      dutlab bisect --commits v1.0..main --file rules/router.nft --size 64
      dutlab bisect /boot/vmlinuz-6.1.0-5?-cloud-amd64 --modes nat --size 64
      dutlab bisect --campaign nightly.yaml
    """
    from importlib.metadata import version

    from dutlab.cli.bisect_runs import BisectRuns

    asked = BisectRequest(**options)
    if resumed is not None:
        if asked.sources:
            raise click.UsageError("--resume knows its versions; leave others out")
        runs = BisectRuns.open(resumed)
        _become_root_for(runs.row)
        runs.folder.insist_on_its_files(version("dutlab"))
    else:
        row, files = asked.row()
        if len(row.names) < _FEWEST:
            raise InputError(f"{len(row.names)} versions leave nothing to search", remedy="name two or more, the oldest first")
        _become_root_for(row)
        runs = BisectRuns.create(into or Path("campaigns") / row.name, row, files, version("dutlab"))
    _print_and_exit(runs, as_json=as_json)


def _become_root_for(row: VersionRow) -> None:
    """Become root if the versions are measured in an embedded lab."""
    if row.experiment is not None and isinstance(row.experiment["testbed"], dict):
        become_root()


def _print_and_exit(runs: BisectRuns, *, as_json: bool) -> None:
    from dutlab.report.questions.bisected import HEADS, step_rows

    try:
        result = runs.find()
    except KeyboardInterrupt:
        tell(f"`dutlab bisect --resume {runs.folder.path}` continues it")
        raise
    if as_json:
        say(json.dumps({"schema_version": 1, "folder": str(runs.folder.path), **result.plain()}, indent=1))
    else:
        say_words(result.sentence)
        for line in table(HEADS, step_rows(result.steps), right={0, 2, 3}):
            say(line)
        say(f"report: {runs.folder.path}/report.md")
    click.get_current_context().exit(result.exit_status)


def _short(words: Sequence[str]) -> tuple[str, ...]:
    """Return the file names if they differ, else the paths."""
    names = tuple(Path(word).name for word in words)
    return names if len(set(names)) == len(names) else tuple(words)


def _base_of(path: Path) -> dict[str, Any]:
    """Return the experiment and testbed for a measurement by time, with an absolute path of the testbed file. Raises SpecRefused."""
    from dutlab.spec.loader import read_experiment
    from dutlab.spec.yaml_source import parse, read_file

    read_experiment(path)
    data = json.loads(json.dumps(parse(read_file(path), str(path)).data))
    bed = data["testbed"]
    if isinstance(bed, str):
        data["testbed"] = str((path.parent / bed).absolute())
    return {"experiment": data, "testbed": Path(bed).stem if isinstance(bed, str) else bed["lab"]}


def _row_of_campaign(path: Path, name: str) -> tuple[VersionRow, list[Path]]:
    from dutlab.cli.bisect_runs import VersionRow
    from dutlab.spec.campaign import read_campaign
    from dutlab.spec.yaml_source import parse, read_file

    planned = read_campaign(path)
    levels = json.loads(json.dumps(parse(read_file(path), str(path)).data.get("versions") or {}))
    by_time = _base_of(path.parent / planned.campaign.experiments[0])
    beds = planned.campaign.testbeds
    if beds:
        bed = json.loads(json.dumps(parse(read_file(path), str(path)).data["testbeds"][0]))
        by_time["experiment"]["testbed"] = str((path.parent / bed).absolute()) if isinstance(bed, str) else bed
        by_time["testbed"] = planned.runs[0].testbed
    return VersionRow(kind="levels", names=tuple(levels), name=name, levels=levels, **by_time), list(planned.files)
