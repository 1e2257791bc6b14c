"""bisect: the search over versions, by counts and by figures that have an error."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from dutlab.analysis.bisection import Bisection, VersionSide, changed_by, most_steps, side_of_count, side_of_rounds
from dutlab.report.questions.bisected import BisectFound, BisectStep, markdown_of

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
    assert found.plain()["exit_status"] == status
