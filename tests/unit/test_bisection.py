"""bisect: the search over versions, by counts and by figures that have an error."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from dutlab.analysis.bisection import Bisection, VersionSide, changed_by, is_precise, most_steps, side_of_count, side_of_rounds
from dutlab.cli import commits
from dutlab.cli.bisect_runs import BLOCKS, BisectRuns, VersionRow
from dutlab.cli.commits import NoVersion, NoVersionKind, commits_of
from dutlab.errors import InputError
from dutlab.report.questions.bisected import BisectFound, BisectStep, markdown_of
from dutlab.spec.loader import read_experiment
from dutlab.stats.functions import FunctionChange

Side = VersionSide


def searched(count: int, side: Callable[[int], Side]) -> tuple[Bisection, int]:
    """What the search comes to, and how many versions were asked, both ends among them."""
    known = {0: Side.FIRST, count - 1: Side.LAST}
    while (at := Bisection(count, known).next) is not None:
        assert at not in known
        known[at] = side(at)
    return Bisection(count, known), len(known)


@pytest.mark.parametrize("count", [2, 3, 5, 17, 64, 65])
def test_each_culprit_is_found_by_halves(count: int) -> None:
    for culprit in range(1, count):
        found, asked = searched(count, lambda at, culprit=culprit: Side.LAST if at >= culprit else Side.FIRST)  # type: ignore[misc]
        assert list(found.culprits) == [culprit] and asked <= most_steps(count)
    assert most_steps(64) == 8


def test_versions_that_cannot_be_told_are_passed_over() -> None:
    def side(at: int) -> Side:
        return Side.UNKNOWN if at in {30, 31, 32} else Side.LAST if at >= 31 else Side.FIRST

    found, _ = searched(64, side)
    assert list(found.culprits) == [30, 31, 32, 33]
    found, _ = searched(64, lambda at: Side.UNKNOWN if at == 31 else Side.LAST if at >= 40 else Side.FIRST)
    assert list(found.culprits) == [40]
    assert Bisection(9, {0: Side.FIRST, 2: Side.LAST, 4: Side.FIRST, 8: Side.LAST}).contradicts


def test_a_side_is_told_by_the_nearer_end_or_not_at_all() -> None:
    assert [side_of_count(v, 100.0, 110.0) for v in (100.0, 104.0, 106.0, 120.0)] == [Side.FIRST, Side.FIRST, Side.LAST, Side.LAST]
    dice = random.Random(4)
    near = [dice.gauss(0, 0.005) for _ in range(24)]
    assert side_of_rounds(near, -0.03, 8) is Side.FIRST
    assert side_of_rounds([v - 0.03 for v in near], -0.03, 8) is Side.LAST
    middle = sum(near) / len(near) + 0.015
    assert side_of_rounds([v - middle for v in near], -0.03, 8) is Side.UNKNOWN
    assert side_of_rounds(near[:3], -0.03, 8) is Side.UNKNOWN
    assert changed_by(near, 1) is None and changed_by([v - 0.03 for v in near], 1) == pytest.approx(-0.03, abs=0.005)


def test_a_change_that_is_only_just_proven_is_not_precise() -> None:
    """Read at once, it would seem too large, and later steps would compare with too large a change."""
    spread = [0.04 * ((n * 7) % 11 - 5) / 3.3 for n in range(200)]
    values = [-0.03 + of for of in spread]
    proven = next(n for n in range(24, 200) if changed_by(values[:n], 1) is not None)
    assert not is_precise(values[:proven], 1)
    assert is_precise(values, 1)


@pytest.mark.parametrize(
    ("change", "culprits", "contradicts", "why", "status"),
    [
        (0.02, ("c",), False, "", 0),
        (None, (), False, "", 1),
        (None, (), False, "b: nft refuses it", 2),
        (0.02, ("c", "d"), False, "", 2),
        (0.02, ("c",), True, "", 2),
    ],
    ids=["found", "no-change", "no-result", "several", "contradiction"],
)
def test_what_is_found_has_a_status_and_a_report(
    change: float | None, culprits: tuple[str, ...], contradicts: bool, why: str, status: int
) -> None:
    step = BisectStep("c", 1, 5000.0, 0.02, Side.LAST, ("run-1",))
    found = BisectFound(
        "exact_instructions_per_frame", "rules · 64", change, change, culprits, "b", (step,), contradicts, {"c": "Add | a rule"}, why
    )
    assert found.exit_status == status
    assert why in found.sentence and "run-1" in markdown_of(found)
    named = replace(found, functions=(FunctionChange("nft_do_chain", 84.0, 0.0),))
    assert ("nft_do_chain +84" in named.sentence) is (status == 0)
    assert found.plain()["exit_status"] == status


EXPERIMENT = {
    "experiment": "e", "testbed": {"lab": "three-node"}, "factors": {"mode": ["router"]},
    "workloads": [{"sweep": {"frame_sizes": [64], "rates": ["max"], "duration": "1s"}}],
}  # fmt: skip
COMMANDS = {"v": {"apply": ["true"], "restore": ["true"]}, "w": {"apply": ["true"], "restore": ["true"]}}


def row_of(tmp_path: Path, count: int) -> VersionRow:
    """Rule sets that are measured by time."""
    words = [tmp_path / f"{n}.nft" for n in range(count)]
    for word in words:
        word.write_text(f"# {word.name}\n")
    names = tuple(word.name for word in words)
    return VersionRow(name="b", kind="rules", names=names, words=tuple(map(str, words)), experiment=EXPERIMENT, testbed="three-node")


@pytest.mark.parametrize("kind", ["rules", "levels"])
def test_a_run_by_time_has_both_versions_in_each_block(kind: str, tmp_path: Path) -> None:
    row = row_of(tmp_path, 2) if kind == "rules" else VersionRow(
        name="b", kind="levels", names=tuple(COMMANDS), levels=COMMANDS, experiment=EXPERIMENT, testbed="three-node"
    )  # fmt: skip
    runs = BisectRuns.create(tmp_path / "c", row, [], "0")
    path = tmp_path / "e" / "experiment.yaml"
    runs._write_timed(0, 1, path)
    experiment = read_experiment(path).experiment
    assert experiment.repeats == BLOCKS and len(experiment.factors["version"]) == 2
    assert [len(of) for of in experiment.levels["version"].values()] == [1, 1]
    with pytest.raises(InputError):
        BisectRuns.create(tmp_path / "c", row, [], "0")
    assert BisectRuns.open(tmp_path / "c").row == row


@pytest.mark.parametrize(
    ("change", "spread", "status", "culprits"),
    [(-0.03, 0.01, 0, ("5.nft",)), (0.0, 0.01, 2, ()), (-0.03, 0.5, 2, ())],
    ids=["found", "no-change", "too-much-spread"],
)
def test_a_search_by_time(
    change: float, spread: float, status: int, culprits: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dice = random.Random(7)
    runs = BisectRuns.create(tmp_path / "c", row_of(tmp_path, 9), [], "0")
    asked: list[tuple[int, int]] = []

    def blocks(_: BisectRuns, first: int, second: int, told: Callable[..., bool]) -> dict[tuple[str, str], list[float]]:
        asked.append((first, second))
        truth = change if first < 5 <= second else 0.0
        found: dict[tuple[str, str], list[float]] = {("cell", "received_pps"): []}
        for _ask in range(4):
            found["cell", "received_pps"] += [dice.gauss(truth, spread) for _ in range(BLOCKS)]
            if told(found):
                break
        return found

    monkeypatch.setattr(BisectRuns, "_asked", blocks)
    found = runs.find()
    assert (found.exit_status, found.culprits) == (status, culprits), found.sentence
    assert (tmp_path / "c" / "report.md").read_text().startswith("# Bisection")
    assert not culprits or (asked[-1] == (4, 5) and len(asked) <= most_steps(9))


def test_what_is_no_repository_or_no_span_is_refused(tmp_path: Path) -> None:
    for span in ("HEAD", "a..b"):
        with pytest.raises(InputError):
            commits_of(tmp_path, span)


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("yes", NoVersionKind.ENDLESS),
        ("sleep 1000", NoVersionKind.LATE),
        ("sleep 1000 & exit 3", NoVersionKind.BUILD),
        ("true", NoVersionKind.BUILD),
        ("yes | head -c 300000; echo built >rules.nft", None),
    ],
)
def test_a_build_has_a_limit_of_output_and_of_time(
    command: str, kind: NoVersionKind | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    git = ("git", "-C", str(tmp_path), "-c", "user.name=t", "-c", "user.email=t@example.net", "-c", "commit.gpgsign=false")
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "c"], check=True)
    ((commit, subject),) = commits_of(tmp_path, "HEAD..HEAD")
    monkeypatch.setattr(commits, "BUILD_BYTES", 1 << 20)
    monkeypatch.setattr(commits, "BUILD_S", 0.5 if kind is NoVersionKind.LATE else 600.0)
    row = VersionRow(
        name="b", kind="commits", names=(commit[:12],) * 2, words=(commit,) * 2, repository=str(tmp_path), file="rules.nft", build=command
    )
    runs = BisectRuns.create(tmp_path / "c", row, [], "0")
    if kind is None:
        with runs._made(0) as version:
            assert (subject, version.text) == ("c", "built\n")
        return
    with pytest.raises(NoVersion) as refused, runs._made(0):
        pass
    assert refused.value.kind is kind
    assert subprocess.run([*git, "worktree", "list"], check=True, capture_output=True, text=True).stdout.count("\n") == 1
