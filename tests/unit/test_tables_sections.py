"""Routing table and state table in the report: rows, curves, and what a reader is told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods import routes
from dutlab.methods.ports import Bench
from dutlab.methods.state import suite
from dutlab.plan.cell import Cell
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.plots.of_report import plots_of
from dutlab.spec.workloads.routes import RoutesWorkload
from dutlab.spec.workloads.state import StateWorkload
from simulated import Dut, Simulation
from simulated_tables import Routes, StatefulDut, States


def cells(model, mode):
    return [Cell(mode=mode, factors={"mode": mode}, tool="engine", links=s.links, setting=s.setting, repeat=1) for s in model.drives(["a"])]


def report_of(tmp_path, trials):
    folder = write_imported(tmp_path, "tables", trials, command=(), now=datetime(2026, 11, 21, tzinfo=UTC)).path
    return gather(folder, folder)


def test_forwarding_by_number_of_routes_is_a_table_and_a_curve_over_powers_of_ten(tmp_path):
    trials = []
    for cell in cells(RoutesWorkload(counts=(10, 1000, 100_000), duration=2.0, links=(("a",),)), "router"):
        capacity = {10: 9000.0, 1000: 8000.0, 100_000: 6000.0}[cell.params["routes"]]
        bench = Bench(Simulation(Dut(capacity_pps=capacity), reach_pps=20_000.0), routes=Routes())
        trials.append(Imported(cell, asyncio.run(routes.measure(bench, cell)), {}))
    report = report_of(tmp_path, trials)
    (section,) = report.sections
    rows = section.tables[0].rows
    assert [row.cells[0] for row in rows] == ["10", "1 000", "100 000"]
    rates = [row.cells[3] for row in rows]
    assert [round(rate.median, -3) for rate in rates if isinstance(rate, Figure)] == [9000, 8000, 6000]
    (curve,) = section.curves
    assert (curve.x_scale, [x for x, _ in curve.lines[0].points]) == ("log", [10.0, 1000.0, 100_000.0])
    assert any("with 100000 routes" in words and "33.3" in words for words in section.words)
    assert any("lengthen it" in words for words in section.words)
    assert "routes-a-64" in {plot.name for plot in plots_of(report)}


def test_what_a_dut_knows_of_flows_is_told_with_its_own_counters(tmp_path):
    trials = []
    for mode, states in (("filter-default", States(most=9000, evicts=True)), ("nat", States(most=5000))):
        (cell,) = cells(StateWorkload(trial=0.1, links=(("a",),)), mode)
        dut = StatefulDut(states, Simulation(Dut(capacity_pps=40_000.0)))
        trials.append(Imported(cell, asyncio.run(suite.measure(Bench(dut, states=states), cell)), {}))
    report = report_of(tmp_path, trials)
    (section,) = report.sections
    results, setup, concurrent = section.tables
    assert [type(cell) for row in results.rows for cell in row.cells[2:]] == [Figure] * 8
    heads = [column.head for column in concurrent.columns]
    assert {"tracked by the DUT", "early_drop", "drop"} <= set(heads)
    assert "early_drop" not in [column.head for column in setup.columns], "what rose in no trial is left out"
    (curve,) = section.curves
    assert [(line.label, line.role) for line in curve.lines] == [("filter-default", "found"), ("nat", "found"), ("all", "asked")]
    assert max(y for _, y in curve.lines[0].points) <= 9009
    assert any("9000 (early_drop" in words for words in section.words)
    assert any("RFC 9411" in words for words in section.deviations)
    assert "state-a" in {plot.name for plot in plots_of(report)}
