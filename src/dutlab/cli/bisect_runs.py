"""Runs of a bisection: a campaign in which only the runs that the search needs are made. Its folder has all results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from math import log
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dutlab import outside
from dutlab.analysis.bisection import Bisection, VersionSide, changed_by, is_precise, most_steps, side_of_count, side_of_rounds
from dutlab.analysis.gate import EXACT_ALLOWED
from dutlab.bounds import INPUT
from dutlab.cli.commits import NoVersion, NoVersionKind, build_commit, git_output
from dutlab.cli.loop import run_in_order
from dutlab.cli.one_workload import as_yaml
from dutlab.cli.terminal import tell
from dutlab.cli.versions import Version, VersionKind, given_of, version_of
from dutlab.errors import DutlabError, InputError, StoreError
from dutlab.plan.cell import Cell
from dutlab.report.questions.bisected import (
    BisectFound,
    BisectStep,
    as_share,
    changes_between,
    figures_of,
    markdown_of,
    place_of,
    reason_without_result,
)
from dutlab.report.questions.function_changes import function_changes
from dutlab.report.questions.sides import ComparedRun, open_run
from dutlab.runner.campaign_folder import CampaignFolder
from dutlab.runner.fleet.carrier import LocalCarrier
from dutlab.spec.campaign import Campaign, PlannedCampaign
from dutlab.spec.factors import VERSION
from dutlab.spec.planned_run import PlannedRun
from dutlab.stats.functions import MOST
from dutlab.store.replace import replace_file
from dutlab.store.write import as_json, write_once

BLOCKS, ASKS = 16, 12
"""Blocks of a run by time, and most runs by time of a version."""
_TRIES = 2
_ROW, _REPORT = "row.json", "report.md"


class VersionRow(BaseModel):
    """Content of row.json: the versions, and how to measure them."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: Literal[1] = 1
    name: str
    kind: Literal["rules", "kernel", "commands", "commits", "levels"]
    names: tuple[str, ...]
    """Names of the versions, the oldest first."""
    words: tuple[str, ...] = ()
    """Path, commands or commit of each version."""
    subjects: dict[str, str] = Field(default_factory=dict)
    modes: tuple[str, ...] = ()
    sizes: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    repository: str = ""
    file: str = ""
    """File of each commit that is measured."""
    build: str = ""
    levels: dict[str, Any] = Field(default_factory=dict)
    """For measurements by time: the level of each version of a campaign."""
    experiment: dict[str, Any] | None = None
    """For measurements by time: the experiment."""
    testbed: str = "guest"

    @property
    def by_time(self) -> bool:
        """True if versions are measured by time, so that figures have an error."""
        return self.experiment is not None


@dataclass
class BisectRuns:
    """One process's work on a bisection."""

    folder: CampaignFolder
    row: VersionRow
    steps: list[BisectStep] = field(default_factory=list)

    @classmethod
    def create(cls, path: Path, row: VersionRow, files: Sequence[Path], dutlab_version: str) -> Self:
        """Make a new folder. Raises InputError if it exists, StoreError."""
        count = len(row.names)
        asked = [f"{row.names[0]}+{b}" for b in row.names[1:]] + [f"{a}+{b}" for a, b in zip(row.names, row.names[1:], strict=False)]
        versions = [of for of in asked for _ in range(ASKS)] if row.by_time else [*row.names, *row.names]
        planned = tuple(
            PlannedRun(n, row.name, row.testbed, version, 1, (str(_experiment_of(path.absolute(), n)),))
            for n, version in enumerate(versions, 1)
        )
        campaign = Campaign.model_validate({"campaign": row.name, "experiments": ["experiments"]})
        folder = CampaignFolder.create(path, PlannedCampaign(campaign, planned, tuple(file.absolute() for file in files)), dutlab_version)
        write_once(path / _ROW, as_json(row.model_dump(mode="json")))
        assert count > 1  # noqa: S101 -- checked by the caller
        return cls(folder, row)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open an existing bisection. Raises InputError, StoreError."""
        try:
            row = VersionRow.model_validate_json(outside.read(path / _ROW, INPUT))
        except FileNotFoundError:
            raise InputError(f"{path}: not a bisection", remedy=f"name a folder with {_ROW}, which `dutlab bisect` made") from None
        except ValidationError as error:
            raise StoreError(f"{path / _ROW}: the file is damaged: {error.errors()[0]['msg']}", remedy="begin again") from error
        return cls(CampaignFolder(path), row)

    def find(self) -> BisectFound:
        """Measure versions until the change is found; use finished runs. Raises TestbedError if another process does this, StoreError."""
        with self.folder.alone():
            self.folder.withdraw_end_request()
            result = self._by_time() if self.row.by_time else self._by_counts()
        replace_file(self.folder.path / _REPORT, markdown_of(result).encode())
        return result

    def _by_counts(self) -> BisectFound:
        names = self.row.names
        known = dict[int, VersionSide]()
        run_by_end = {at: self._counts(at) for at in (0, len(names) - 1)}
        ends = [figures_of(run) if run is not None else {} for run in run_by_end.values()]
        changes = {
            place: log(ends[1][place] / value) for place, value in ends[0].items() if place in ends[1] and min(value, ends[1][place]) > 0
        }
        if not changes:
            why = next(
                (f"{names[at]}: {self._why(at)}" for at, of in zip(run_by_end, ends, strict=True) if not of),
                "the ends have no result in common",
            )
            for end in run_by_end:
                self._note(end, None, None, VersionSide.UNKNOWN, self._why(end))
            return self._found(("", ""), None, None, known, why)
        place = max(changes, key=lambda of: abs(changes[of]))
        first, last = (of[place] for of in ends)
        values = {0: first, len(names) - 1: last}
        is_changed = abs(changes[place]) > EXACT_ALLOWED
        for end, side in ((0, VersionSide.FIRST), (len(names) - 1, VersionSide.LAST if is_changed else VersionSide.FIRST)):
            known[end] = side
            self._note(end, values[end], values[end] / first - 1, side)
        if not is_changed:
            return self._found(place, None, None, known)
        while (at := Bisection(len(names), known).next) is not None:
            run = self._counts(at)
            value = None if run is None else figures_of(run).get(place)
            known[at] = VersionSide.UNKNOWN if value is None else side_of_count(value, first, last)
            if value is not None:
                values[at] = value
            self._note(at, value, None if value is None else value / first - 1, known[at], "" if value is not None else self._why(at))
        low, high = Bisection(len(names), known).bounds
        if high - low > 1:
            return self._found(place, last / first - 1, None, known)
        result = self._found(place, last / first - 1, values[high] / values[low] - 1, known)
        return replace(result, **self._functions(place[0], low, high)) if result.exit_status == 0 else result

    def _functions(self, label: str, low: int, high: int) -> Mapping[str, Any]:
        """Return the functions that take more or fewer instructions in version `high` than in `low`, by two separate runs."""
        run = self._counts(high)
        if run is None or (place := place_of(run, label)) is None:
            return {}
        key, cell = place
        planned = [self._planned(len(self.row.names) + at + 1) for at in (low, high)]
        for at, of in zip((low, high), planned, strict=True):
            self._run(of, partial(self._write_counted, at, only=cell))
        names = [self.folder.done(of) for of in planned]
        runs = [self.folder.runs / name for name in names if name is not None]
        if len(runs) < len(planned):
            return {}
        return {"functions": function_changes(*runs).get(key, ())[:MOST], "profiles": tuple(run.name for run in runs)}

    def _by_time(self) -> BisectFound:
        names, count = self.row.names, len(self.row.names)
        steps = most_steps(count)
        known = {0: VersionSide.FIRST, count - 1: VersionSide.LAST}

        def whole(of: Mapping[tuple[str, str], Sequence[float]]) -> tuple[tuple[str, str], float] | None:
            """Return the place of the largest proven change, and the change."""
            proven = {place: c for place, changes in of.items() if (c := changed_by(changes, len(of))) is not None}
            return max(proven.items(), key=lambda item: abs(item[1]), default=None)

        changes = self._asked(0, count - 1, lambda of: (largest := whole(of)) is not None and is_precise(of[largest[0]], len(of)))
        if (largest := whole(changes)) is None:
            self._note(count - 1, None, None, VersionSide.UNKNOWN, "no change is proven" if changes else self._why_pair(0, count - 1))
            why = f"this number of blocks proves no change between {names[0]} and {names[-1]}" if changes else self._why_pair(0, count - 1)
            return self._found(("", ""), None, None, known, why)
        place, change = largest
        self._note(count - 1, None, as_share(change), VersionSide.LAST)
        while (at := Bisection(count, known).next) is not None:
            of = self._asked(0, at, lambda of: side_of_rounds(of.get(place, ()), change, steps) is not VersionSide.UNKNOWN).get(place, [])
            known[at] = side_of_rounds(of, change, steps)
            mean = sum(of) / len(of) if of else None
            why = "" if known[at] is not VersionSide.UNKNOWN else "the blocks spread too much" if of else self._why_pair(0, at)
            self._note(at, None, None if mean is None else as_share(mean), known[at], why)
        low, high = Bisection(count, known).bounds
        own = None
        if high - low == 1:
            between = self._asked(low, high, lambda of: side_of_rounds(of.get(place, ()), change, steps) is not VersionSide.UNKNOWN)
            if side_of_rounds(of_it := between.get(place, []), change, steps) is not VersionSide.LAST:
                return self._found(place, as_share(change), None, known, f"between {names[low]} and {names[high]} the change does not show")
            own = sum(of_it) / len(of_it)
        return self._found(place, as_share(change), None if own is None else as_share(own), known)

    def _found(
        self, place: tuple[str, str], change: float | None, own: float | None, known: Mapping[int, VersionSide], why: str = ""
    ) -> BisectFound:
        (label, figure), names, of = place, self.row.names, Bisection(len(self.row.names), known)
        culprits = () if change is None else tuple(names[at] for at in of.culprits)
        return BisectFound(
            figure, label, change, own, culprits, names[of.bounds[0]], tuple(self.steps), of.contradicts, self.row.subjects, why
        )

    def _note(self, at: int, value: float | None, change: float | None, side: VersionSide, why: str = "") -> None:
        name = self.row.names[at]
        planned = self._pair(0, at) if self.row.by_time else [self._planned(at + 1)]
        runs = tuple(run for of in planned if (run := self.folder.done(of)) is not None)
        self.steps.append(BisectStep(name, len(runs), value, change, side, runs, why))
        tell(
            f"{len(self.steps)}: {name}: {side.value}{f' ({change * 100:+.2g} %)' if change is not None else ''}{f': {why}' if why else ''}"
        )

    def _counts(self, at: int) -> ComparedRun | None:
        """Return the run of a version by counts, made if necessary; None if it cannot be made."""
        return self._run(self._planned(at + 1), lambda place: self._write_counted(at, place))

    def _asked(
        self, first: int, second: int, is_decided: Callable[[Mapping[tuple[str, str], Sequence[float]]], bool]
    ) -> dict[tuple[str, str], list[float]]:
        """Return changes between two versions, block by block, from as many runs as `is_decided` needs."""
        runs, changes = list[ComparedRun](), dict[tuple[str, str], list[float]]()
        for planned in self._pair(first, second):
            if (run := self._run(planned, lambda place: self._write_timed(first, second, place))) is None:
                break
            runs.append(run)
            changes = changes_between(runs, self._level(first), self._level(second))
            if is_decided(changes):
                break
        return changes

    def _pair(self, first: int, second: int) -> list[PlannedRun]:
        begin = ((second - 1) if first == 0 else len(self.row.names) - 1 + (second - 1)) * ASKS
        return [self._planned(begin + n + 1) for n in range(ASKS)]

    def _planned(self, number: int) -> PlannedRun:
        return self.folder.planned_run(number)

    def _run(self, planned: PlannedRun, write: Callable[[Path], None]) -> ComparedRun | None:
        """Return a finished run; if there is none, start or resume it. None if that fails."""
        for _ in range(_TRIES):
            if (name := self.folder.done(planned)) is not None:
                return open_run(self.folder.runs / name)
            path = _experiment_of(self.folder.path, planned.number)
            try:
                if not path.exists():
                    write(path)
            except (NoVersion, DutlabError) as error:
                _refusal(path).write_text(str(error), encoding="utf-8")
                return None
            tell(f"{planned.version}: {'resumed' if self.folder.cut_run(planned) else 'begun'}")
            if run_in_order(LocalCarrier(self.folder).carry(planned)) == InputError.exit_status:
                break
        name = self.folder.done(planned)
        return None if name is None else open_run(self.folder.runs / name)

    def _why(self, at: int) -> str:
        return self._why_of(self._planned(at + 1))

    def _why_pair(self, first: int, second: int) -> str:
        return self._why_of(self._pair(first, second)[0])

    def _why_of(self, planned: PlannedRun) -> str:
        if (name := self.folder.done(planned)) is not None:
            return reason_without_result(open_run(self.folder.runs / name))
        refused = _refusal(_experiment_of(self.folder.path, planned.number))
        if refused.exists():
            return outside.read(refused, INPUT).decode("utf-8", "replace")
        return self.folder.standing(planned).last_line or "its run did not start"

    def _level(self, at: int) -> str:
        return f"v{at:03d}" if self.row.kind != "levels" else self.row.names[at]

    def _write_counted(self, at: int, path: Path, only: Cell | None = None) -> None:
        """Write the experiment of all cells, or of the one cell `only`, then with a profile of its functions."""
        with self._made(at) as version:
            of, row = path.parent, self.row
            modes, sizes, settings = row.modes, row.sizes, row.settings
            if only is not None:
                modes = (only.mode,) if version.kind is VersionKind.KERNEL else ()
                sizes, settings = (only.setting.size,), (*settings, "profile=true")
            definition = given_of(version, of, name=row.name, modes=modes, sizes=sizes, settings=settings)
        replace_file(path, definition.text)

    def _write_timed(self, first: int, second: int, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        levels = {self._level(at): self._commands(at) for at in (first, second)}
        data = dict(self.row.experiment or {})
        data["factors"] = {**data.get("factors", {}), VERSION: list(levels)}
        data["levels"] = {**data.get("levels", {}), VERSION: levels}
        data |= {"repeats": BLOCKS, "order": "shuffled"}
        replace_file(path, as_yaml(data))

    def _commands(self, at: int) -> Any:  # noqa: ANN401 as the file has it
        if self.row.kind == "levels":
            return self.row.levels[self.row.names[at]]
        with self._made(at) as version:
            if version.kind is not VersionKind.RULES:
                raise NoVersion(NoVersionKind.UNFIT, f"{version.kind} cannot be measured by time; write a campaign with versions")
            return {"apply": version.own_modes["rules"]["apply"], "restore": ["nft flush ruleset"]}

    @contextmanager
    def _made(self, at: int) -> Iterator[Version]:
        """Yield a version; build it first if it is a commit. Raises NoVersion, InputError."""
        word, row = self.row.words[at], self.row
        if row.kind != "commits":
            yield version_of(word, VersionKind(row.kind))
            return
        place = (self.folder.path / "versions" / f"{at:03d}").absolute()
        product = place / Path(row.file).name
        if not product.exists():
            place.mkdir(parents=True, exist_ok=True)
            if row.build:
                build_commit(Path(row.repository), word, row.build, row.file, place)
            else:
                replace_file(product, git_output(Path(row.repository), "show", f"{word}:{row.file}"))
        yield version_of(str(product), None)


def _experiment_of(folder: Path, number: int) -> Path:
    return folder / "experiments" / f"{number:04d}" / "experiment.yaml"


def _refusal(path: Path) -> Path:
    return path.parent / "refused"
