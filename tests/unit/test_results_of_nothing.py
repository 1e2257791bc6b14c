"""A result of 0 is called out and has no rank."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.import_files import import_files
from dutlab.report.gather import gather
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.run_report import RunReport
from dutlab.report.model.table import Figure
from dutlab.report.sections.headline import compared

PAIRS = [("pc1", "pc2"), ("pc2", "pc1"), ("pc1", "pc3"), ("pc3", "pc1")]


def matrix(folder: Path, rates: list[float]) -> RunReport:
    rows = "".join(f"matrix,as-found,{a},{b},{rate}\n" for (a, b), rate in zip(PAIRS, rates, strict=True))
    (folder / "pairs.csv").write_text(f"workload,mode,client,server,goodput_mbps\n{rows}")
    done = CliRunner().invoke(import_files, ["figures", str(folder / "pairs.csv"), "--runs", str(folder / "runs")])
    assert done.exit_code == 0, done.output
    (run,) = (folder / "runs").iterdir()
    return gather(run, run)


@pytest.mark.parametrize(
    ("rates", "ranked", "silent"),
    [
        ([900.0, 800.0, 700.0, 0.0], "pc1 to pc2", {"pc3"}),
        ([900.0, 0.0, 0.0, 0.0], None, {"pc2", "pc3"}),
        ([0.0, 0.0, 0.0, 0.0], None, {"pc1", "pc2", "pc3"}),
        ([900.0, 800.0, 700.0, 600.0], "pc1 to pc2", set()),
    ],
)
def test_a_pair_through_which_nothing_came_is_no_fastest_and_no_slowest(
    rates: list[float], ranked: str | None, silent: set[str], tmp_path: Path
) -> None:
    report = matrix(tmp_path, rates)
    section, _ = report.sections  # the other says what was imported
    extremes = [words for words in section.words if "difference" in words]
    assert [ranked in words for words in extremes if ranked] == ([True] if ranked else [])
    assert all("pc3 to pc1" not in words or 0.0 not in rates for words in extremes)
    called = [words for words in report.answer.fast if "of 0" in words]
    assert len(called) == bool(silent)
    assert all(host in words for words in called for host in silent)
    assert not any("from 0" in words or " 0.0 Mb/s" in words for words in report.answer.fast)


def test_a_mode_with_a_result_of_0_is_not_compared() -> None:
    def figure(median: float) -> Figure:
        return Figure(median, median, median, False, 1, 1, (1,))

    book = NoteBook([])
    found = compared("goodput", [("nat", figure(0.0)), ("router", figure(9e8)), ("filter", figure(8e8))], "goodput_bps", book)
    assert found is not None and [of.label for of in found.figures] == ["router", "filter"]
    assert compared("goodput", [("nat", figure(0.0)), ("router", figure(0.0))], "goodput_bps", book) is None
