"""A factor experiment is one table, one plot and its effects; the cost of a packet follows from goodput and MTU."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.analysis.factors import analyse
from dutlab.cli.main import dutlab
from dutlab.errors import InputError
from dutlab.interop.figure_table import imported
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.plots.of_report import plots_of
from dutlab.report.questions.cells import cells_of_table

EXAMPLES = Path(__file__).parents[2] / "examples" / "published"


def run_of(runs, text, name="x"):
    return write_imported(
        runs, name, imported(f"{name}.csv", text, ImportOptions()), command=(), now=datetime(2026, 11, 21, tzinfo=UTC)
    ).path


@pytest.fixture
def apu2(tmp_path):
    return run_of(tmp_path, (EXAMPLES / "apu2-openbsd.csv").read_bytes(), "apu2")


def test_twelve_combinations_are_one_table_one_plot_and_effects(apu2):
    report = gather(apu2, apu2)
    section, own = report.sections[:2]
    cells, effects = section.tables
    assert [c.head for c in cells.columns[:5]] == ["mode", "mtu", "setperf", "cpb", "pcie power mgmt"] and len(cells.rows) == 12
    assert own.workload == section.workload and all(t.folded for t in own.tables) and not own.drawings
    assert [plot.name for plot in plots_of(report)] == [cells.slug, effects.slug]
    (answer,) = report.answer.tables
    assert answer.rows == cells.rows and answer.again


def test_the_cost_of_a_packet_follows_from_goodput_and_mtu_in_the_table_and_in_cost(apu2):
    cells = gather(apu2, apu2).sections[0].tables[0]
    at = next(n for n, c in enumerate(cells.columns) if c.figure)
    for row in cells.rows:
        mtu, value, cost = int(row.cells[1]), row.cells[at], row.cells[-1]
        assert isinstance(value, Figure) and cost == pytest.approx(1e9 * (mtu - 20 - 20 - 12) * 8 / value.median)
    said = CliRunner().invoke(dutlab, ["cost", str(apu2), "--json"])
    costs = json.loads(said.output)["costs"]
    assert sorted(round(c["ns"]) for c in costs) == sorted(round(row.cells[-1]) for row in cells.rows)
    assert {c["frame_size"] for c in costs} == {"MTU 1500", "MTU 9000"}


def test_goodput_without_an_mtu_has_no_cost(tmp_path):
    run = run_of(tmp_path, b"mode,workload,goodput_gbps\na,iperf3,9\nb,iperf3,8\n")
    said = CliRunner().invoke(dutlab, ["cost", str(run)])
    assert isinstance(said.exception, InputError) and "mtu" in str(said.exception.remedy)


def test_pairs_of_hosts_and_loads_of_drives_are_no_factor_experiment(tmp_path):
    for name in ("tengig-before.csv", "era-workloads.csv", "apu6-loadtest.csv"):
        run = run_of(tmp_path, (EXAMPLES / name).read_bytes(), Path(name).stem)
        assert not any(s.slug.startswith("factors") for s in gather(run, run).sections), name


def test_an_interval_beyond_1_without_proof_names_the_number_of_tests():
    table = EXAMPLES / "apu2-openbsd.csv"
    cells = cells_of_table(table, "goodput_mibytes_per_s")
    found = analyse(cells)
    beyond = [not (e.sure.interval.low <= 1 <= e.sure.interval.high) and not e.sure.proven for e in found.effects]
    assert any(beyond) and not all(beyond) and any(e.sure.proven for e in found.effects)
    assert [f"among {found.tests} tests" in sentence for sentence in found.sentences[: len(beyond)]] == beyond
