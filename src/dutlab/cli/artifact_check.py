"""Work of `artifact check`: repeat the runs of an artifact whose files are verified, and print the verdict on each claim."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutlab.cli.terminal import say, say_words, table
from dutlab.errors import InputError
from dutlab.printable import printable
from dutlab.release import release

if TYPE_CHECKING:
    from dutlab.cli.manner import CommonOptions
    from dutlab.publish.artifact_runs import RunGroup
    from dutlab.publish.opened_artifact import ClaimedGroup, OpenedArtifact
    from dutlab.report.questions.repeated import JudgedClaim, JudgedFigure, RepeatState
    from dutlab.report.questions.sides import ComparedRun
    from dutlab.runner.run import Work
    from dutlab.spec.testbed import Testbed

_COLUMNS = ("cell", "figure", "then", "expected", "here", "verdict")


@dataclass(frozen=True)
class JudgedGroup:
    """Runs of the artifact, and the run that repeats them."""

    of: ClaimedGroup
    new: ComparedRun | None
    """None if they were not repeated."""
    folder: Path | None
    same_processors: bool | None
    claims: tuple[JudgedClaim, ...]


class ArtifactCheck:
    """Check of an opened artifact on `bed`, a testbed with the bytes of its file; None means the lab of each run."""

    def __init__(self, file: Path, opened: OpenedArtifact, bed: tuple[Testbed, bytes] | None, runs: Path, manner: CommonOptions) -> None:
        self._file, self._opened, self._bed, self._runs, self._manner = file, opened, bed, runs, manner
        self._quiet = manner.form != "text"
        """True if standard output is for JSON."""

    def show_plan(self) -> None:
        """List the runs to start, and the commands in runs from other machines."""
        from dutlab.report.model.words import duration_words, plural
        from dutlab.runner.repeat import to_repeat
        from dutlab.runner.trust import NotOurs, as_lines

        rows, seconds, commands = list[tuple[str, ...]](), 0.0, list[str]()
        for of in self._opened.groups:
            work = self._work(of.group)
            estimate = 0.0 if work is None else work.plan.estimate_s
            seconds += estimate
            trials = "cannot be repeated: imported" if work is None else plural(len(work.plan.trials), "trial")
            rows.append((of.group.newest.name, self._place(of.group), trials, duration_words(estimate), plural(len(of.claims), "claim")))
            if work is not None:
                try:
                    to_repeat(of.group.newest.path, testbed=self._bed, trusted=False)
                except NotOurs as error:
                    commands += [of.group.newest.name, *as_lines(error)]
        if self._quiet:
            names = ("run", "testbed", "trials", "time", "claims")
            plan = {"signed_by": self._signed_by, "seconds": seconds, "runs": [dict(zip(names, row, strict=True)) for row in rows]}
            say(json.dumps({"schema_version": 1, "file": str(self._file), **plan}, indent=1))
            return
        for line in self._origin():
            say_words(line)
        for line in table(("run", "testbed", "trials", "time", "claims"), rows):
            say(printable(line))
        say_words(f"about {duration_words(seconds)} in all, without disturbed trials, which are repeated")
        if commands:
            say_words("another user or machine made these runs; they name:")
        for line in commands:
            say(printable(line))

    def by_measuring(self, *, trusted: bool) -> list[JudgedGroup]:
        """Repeat each run, and judge its claims. Raises NotOurs if the user does not agree to the commands, and as a run does."""
        from dutlab.cli.run import ask_trust
        from dutlab.report.questions.sides import open_run
        from dutlab.report.write import report_finished
        from dutlab.runner.repeat import to_repeat
        from dutlab.runner.trust import NotOurs

        self._insist_on_places()
        works = [self._work(of.group) for of in self._opened.groups]
        for line in self._origin():
            say_words(line, err=self._quiet)
        for of, work in zip(self._opened.groups, works, strict=True):
            try:
                if work is not None:
                    to_repeat(of.group.newest.path, testbed=self._bed, trusted=trusted)
            except NotOurs as error:
                ask_trust(error)
        end = None if self._manner.budget_s is None else time.monotonic() + self._manner.budget_s
        out = []
        for of, work in zip(self._opened.groups, works, strict=True):
            left = None if end is None else end - time.monotonic()
            if work is None or (left is not None and left <= 0):
                out.append(self._judged(of, None, None))
                continue
            folder = self._measured(work, of.group.newest.name, replace(self._manner, budget_s=left))
            report_finished([folder])
            out.append(self._judged(of, open_run(folder), folder))
        return out

    def by_runs(self, paths: Sequence[Path]) -> list[JudgedGroup]:
        """Judge the claims by existing runs. Raises InputError for a run that repeats none of the artifact's, or is one of them."""
        from dutlab.report.questions.claims import manifest_hash
        from dutlab.report.questions.sides import open_run
        from dutlab.store.run_folder import RunFolder

        own = {manifest_hash(run) for of in self._opened.groups for run in of.group.folders}
        by_run = dict[str, Path]()
        for path in paths:
            run = RunFolder.open(path)
            names = [of.group.newest.name for of in self._opened.groups]
            if run.is_closed and manifest_hash(run) in own:
                raise InputError(f"{path}: is a run of the artifact itself", remedy="name a run that repeats it")
            if (repeats := run.resolved.get("repeated_run")) not in names:
                raise InputError(
                    f"{path}: repeats none of {', '.join(names)}", remedy="name a run that `dutlab repeat` or `dutlab artifact check` made"
                )
            if by_run.setdefault(str(repeats), path) != path:
                raise InputError(f"{path}: a second run that repeats {repeats}", remedy="name one run for each")
        for line in self._origin():
            say_words(line, err=self._quiet)
        paths_by_group = [(of, by_run.get(of.group.newest.name)) for of in self._opened.groups]
        return [self._judged(of, None if path is None else open_run(path), path) for of, path in paths_by_group]

    def tell(self, groups: Sequence[JudgedGroup]) -> RepeatState:
        """Print the verdict on each claim, and return the one on all."""
        from dutlab.report.questions.repeated import worst

        state = worst([claim.state for of in groups for claim in of.claims])
        if self._manner.form == "json":
            rows = [_row(of) for of in groups]
            document = {"schema_version": 1, "file": str(self._file), "signed_by": self._signed_by, "state": state.value, "runs": rows}
            say(json.dumps(document, indent=1))
            return state
        for of in groups:
            for line in _lines(of):
                say(line, err=self._quiet)
        say_words(_sentence(groups), err=self._quiet)
        return state

    @property
    def _signed_by(self) -> str:
        signer = self._opened.signer
        return "" if signer is None else " ".join(filter(None, (signer.principal, signer.key)))

    def _origin(self) -> Iterator[str]:
        signer = self._opened.signer
        if signer is not None and signer.principal:
            yield f"signed by {printable(signer.principal)} ({signer.key})"
        elif signer is not None:
            yield f"signed by {signer.key}; whose key this is was not checked: --allowed-signers FILE does"
        else:
            why = "the signature was not checked: ssh-keygen is missing" if self._opened.is_signed else "not signed"
            yield f"{why}; the digests show damage, not who made it"
        here = " ".join(release().values())
        for of in self._opened.groups:
            if (then := " ".join(of.group.dutlab.values())) not in {"", here}:
                yield f"{printable(of.group.newest.name)} was measured by dutlab {printable(then)}; this is {here}"
        if self._opened.not_recomputed:
            yield f"claims whose figures dutlab cannot recompute from raw files: {self._opened.not_recomputed}"

    def _place(self, group: RunGroup) -> str:
        if self._bed is not None:
            return self._bed[0].name
        return f"lab {group.lab}" if group.lab else "machines: name yours with --testbed"

    def _insist_on_places(self) -> None:
        on_machines = [of.group.newest.name for of in self._opened.groups if not (of.group.lab or of.group.is_imported)]
        if on_machines and self._bed is None:
            raise InputError(
                f"measured on its author's machines: {', '.join(on_machines)}",
                remedy="name yours with --testbed FILE; its links are called as in the testbed.yaml of the run",
            )

    def _work(self, group: RunGroup) -> Work | None:
        """Return the work that repeats the newest run; None for an imported one."""
        from dutlab.runner.repeat import to_repeat

        return None if group.is_imported else to_repeat(group.newest.path, testbed=self._bed, trusted=True)

    def _measured(self, work: Work, run: str, manner: CommonOptions) -> Path:
        import sys

        from dutlab.runner.execution import RunOptions
        from dutlab.tools.engine.binary import find_engine

        options = RunOptions(runs=self._runs, engine_binary=find_engine(), command=("dutlab", *sys.argv[1:]))
        return manner.carry_out_work(work, options, additions={"repeated_run": run}).folder

    def _judged(self, of: ClaimedGroup, new: ComparedRun | None, folder: Path | None) -> JudgedGroup:
        from dutlab.report.questions.repeated import judged, same_processors
        from dutlab.report.questions.sides import ComparedRun

        same = None if new is None else same_processors(_hosts(of.group.runs[-1]), _hosts(new))
        claims = judged(of.claims, of.group.runs, new or ComparedRun("", (), {}), same_processors=same)
        return JudgedGroup(of, new, folder, same, tuple(claims))


def _hosts(run: ComparedRun) -> Mapping[str, Any]:
    hosts = run.facts.get("hosts")
    return hosts if isinstance(hosts, Mapping) else {}


def _lines(of: JudgedGroup) -> Iterator[str]:
    """Yield the verdicts on the claims of a run, with their figures."""
    from dutlab.cli.repeat import difference_lines

    yield ""
    if of.new is None:
        yield f"{printable(of.of.group.newest.name)}: not repeated"
    else:
        yield f"{printable(of.of.group.newest.name)}, repeated as {printable(str(of.folder))}"
        yield from difference_lines(_hosts(of.of.group.runs[-1]), _hosts(of.new), cards=not of.of.group.lab)
    for claim in of.claims:
        yield ""
        yield f"{claim.state.value}: {printable(claim.card.claim)}"
        if claim.by_ratios:
            yield "  by the ratios of its figures, since the processors differ or are not known"
        for line in table(_COLUMNS, [_cells(f) for f in claim.figures], indent="  "):
            yield printable(line)
        for reason in dict.fromkeys(f.untold for f in claim.counting if f.untold is not None):
            yield f"  cannot tell where {reason.value}"


def _cells(f: JudgedFigure) -> tuple[str, ...]:
    p = f.prediction
    interval = "not known" if p.interval is None else f"{p.text(p.interval.low)} to {p.text(p.interval.high)}"
    figure = f"{p.figure}, ratio" if p.is_ratio else p.figure
    return (p.label, figure, p.text(p.then), interval, "none" if f.here is None else p.text(f.here), f.state.value)


def _sentence(groups: Sequence[JudgedGroup]) -> str:
    from dutlab.report.model.words import plural
    from dutlab.report.questions.repeated import RepeatState

    states = [claim.state for of in groups for claim in of.claims]
    counts = ", ".join(f"{states.count(state)} {state.value}" for state in RepeatState if state in states)
    return f"{plural(len(states), 'claim')}: {counts}"


def _row(of: JudgedGroup) -> dict[str, Any]:
    return {
        "run": of.of.group.newest.name,
        "repeated_as": None if of.folder is None else str(of.folder),
        "same_processors": of.same_processors,
        "dutlab": {"then": of.of.group.dutlab, "here": {} if of.new is None else of.new.facts.get("dutlab") or {}},
        "claims": [
            {
                "claim": claim.card.claim, "about": claim.card.about, "state": claim.state.value, "by_ratios": claim.by_ratios,
                "figures": [_figure_row(f) for f in claim.figures],
            }
            for claim in of.claims
        ],
    }  # fmt: skip


def _figure_row(f: JudgedFigure) -> dict[str, Any]:
    p = f.prediction
    low, high = (None, None) if p.interval is None else (p.interval.low, p.interval.high)
    return {
        "cell": p.label, "figure": p.figure, "ratio": p.is_ratio, "then": p.then, "low": low, "high": high, "basis": p.basis.value,
        "here": f.here, "repeats": f.repeats, "state": f.state.value, "reason": None if f.untold is None else f.untold.name,
    }  # fmt: skip
