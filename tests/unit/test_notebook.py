"""Runs as data: `import dutlab` gives what reports show, and the notebooks of the examples run."""

from __future__ import annotations

import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

import dutlab
import fake_run
from dutlab.errors import InputError
from dutlab.notebook import DataTable
from dutlab.pytest_plugin import MeasuredFigure
from fake_run import Wanted, build
from notebooks import NOTEBOOKS, cells_run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    runs = tmp_path_factory.mktemp("runs")
    wanted = Wanted(repeats=6, seconds=2, sizes=(64,), cores=1, bad_luck=False, modes={"router": "router", "nat": "nat"})
    build(runs, wanted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fake_run, "NOW", fake_run.NOW + timedelta(days=1))
        build(runs, wanted)
    (runs / "not-a-run").mkdir()
    return runs


def test_import_alone_loads_nothing_heavy() -> None:
    said = subprocess.run(
        [sys.executable, "-c", "import dutlab, sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout
    assert {"numpy", "scipy", "duckdb", "pydantic", "asyncssh", "dutlab.notebook"} & set(said.split()) == set()


def test_the_public_names_are_there_and_no_others() -> None:
    assert {name: getattr(dutlab, name).__name__ for name in dutlab.__all__} == {name: name for name in dutlab.__all__}
    with pytest.raises(AttributeError, match="no attribute 'rans'"):
        dutlab.rans  # noqa: B018 - the attribute is what is tried


def test_runs_are_listed_newest_first_without_what_is_not_one(folder: Path) -> None:
    found = dutlab.runs(folder)
    assert [r.name for r in found] == sorted((p.name for p in folder.iterdir() if p.name.startswith("20")), reverse=True)
    assert found[0].modes and not found[0].is_running and found[0].faults == []


def test_the_figures_are_those_of_the_report(folder: Path) -> None:
    run = dutlab.runs(folder)[0]
    table = next(t for s in run.report.sections for t in s.tables if t.slug == "iperf3-goodput")
    shown = sorted(cell.median for row in table.rows for cell in row.cells if hasattr(cell, "median"))
    found = run.figures.where(figure="goodput_bps", workload="iperf3").to_pandas()
    medians = sorted(found.groupby(["mode", "links", "link"]).value.median())
    assert shown == pytest.approx(medians)
    assert run.answer.splitlines()[0] == run.report.answer.fast[0]


def test_samples_of_one_trial_and_of_all(folder: Path) -> None:
    run = dutlab.runs(folder)[0]
    everything, one = run.samples(), run.samples(3)
    assert set(one["trial"]) == {3} and len(one) == sum(t == 3 for t in everything["trial"]) > 0
    assert len(run.trials) == len(set(everything["trial"]))


def test_a_comparison_is_that_of_the_command(folder: Path) -> None:
    after, before = dutlab.runs(folder)
    found = dutlab.compare(before, after.path)
    assert len(found.table) == len(found.pair.comparisons) == len(found.sentences) > 0
    for row, c in zip(found.table, found.pair.comparisons, strict=True):
        assert row["ratio"] == c.ratio.ratio and row["low"] <= row["ratio"] <= row["high"] and row["verdict"] == c.verdict.name.lower()
    assert set(dutlab.compare(before, after, margin=0.5).table["verdict"]) == {"equivalent"}


def test_a_table_is_the_same_in_pandas_and_arrow(folder: Path) -> None:
    table = dutlab.runs(folder)[0].figures
    frame, arrow = table.to_pandas(), table.to_arrow()
    assert list(frame.columns) == arrow.column_names == list(table.columns)
    assert len(frame) == arrow.num_rows == len(table)
    assert frame.value.tolist() == arrow["value"].to_pylist() == table["value"]


def test_a_table_says_which_columns_it_has_and_escapes_what_it_shows() -> None:
    table = DataTable(("a", "b"), (("<script>", 1.0), ("x", None)))
    with pytest.raises(KeyError, match="columns: a, b"):
        table["c"]
    assert table.where(a="x")["b"] == [None]
    assert "<script>" not in table._repr_html_() and "&lt;script&gt;" in table._repr_html_()


def test_without_pandas_or_pyarrow_it_is_said_how_to_get_them(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pandas", "pyarrow"):
        monkeypatch.setitem(sys.modules, name, None)
    for to in ("to_pandas", "to_arrow"):
        with pytest.raises(InputError, match=r"install .*pandas.* .*pyarrow"):
            getattr(DataTable(("a",), ((1,),)), to)()


@pytest.mark.parametrize("name", ["read-runs", "compare-runs"])
async def test_the_notebooks_that_read_run(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("RUNS", str(folder))
    space, shown = await cells_run(NOTEBOOKS / f"{name}.ipynb")
    assert len(shown) >= 4 and all("<" in value._repr_html_() for value in shown if hasattr(value, "_repr_html_"))
    if name == "read-runs":
        assert set(space["medians"]) == {"router", "nat"}
    else:
        assert shown[-1].num_rows == len(space["found"].table)


def test_every_notebook_is_run_by_a_test() -> None:
    assert {p.stem for p in NOTEBOOKS.glob("*.ipynb")} == {"read-runs", "compare-runs", "run-an-experiment"}  # the last one by tests/netns


# ---- A figure of the fixture `dutlab` for tests of other projects, against a limit


@pytest.mark.parametrize(
    ("values", "at_least", "below"),
    [
        ((10.0, 11.0, 12.0), True, False),
        ((8.0, 11.0, 12.0), False, False),
        ((7.0, 8.0, 9.0), False, True),
        ((2.0, *[10.0] * 20), True, False),
    ],
)
def test_a_limit_is_met_or_missed_only_where_the_interval_is_wholly_beyond_it(values, at_least, below) -> None:
    figure = MeasuredFigure("received_pps", "mode nat", values)
    assert (figure.is_at_least(10.0), figure.is_below(10.0)) == (at_least, below), str(figure)
