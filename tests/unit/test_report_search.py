"""Limits in the report and under other definitions, from records that the real method made of simulated devices."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from cells import cell_of
from dutlab.analysis.verdict import Reason
from dutlab.cli.rescore import rescore
from dutlab.errors import ToolFailed
from dutlab.methods import sweep
from dutlab.methods.ports import Bench
from dutlab.methods.search import method as search
from dutlab.report.gather import gather, read_run
from dutlab.report.model.table import Figure, Missing
from dutlab.report.sections.rescored import ramps, rescored
from dutlab.report.write import write_report
from dutlab.store.record import DoubtRecord, FlowRecord
from dutlab.store.run_folder import RunFolder
from run_records import new_run, trial_record
from simulated import Dut, Simulation

NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
SPEEDS = {"a": 1e10}
CEILINGS = {"a": {"received_pps": 14_880_952.0}}


def cell(mode="router", repeat=1, workload="search", **params):
    given = {"preset": "csit"}
    return cell_of(workload, mode=mode, repeat=repeat, **((given if workload == "search" else {"warmup_s": 0}) | params))


@pytest.fixture
def run_of(tmp_path):
    """A run folder of (cell, simulation) pairs, measured by their methods."""

    async def make(pairs, token="3f2a"):
        run = new_run(tmp_path, (c for c, _ in pairs), experiment="limits", token=token)
        for number, (c, simulation) in enumerate(pairs, 1):
            method = search if c.workload == "search" else sweep
            record = {"trial": number, "cell": c, "ended": NOW + timedelta(seconds=60), "ceilings": CEILINGS}
            try:
                measured = await method.measure(Bench(simulation, SPEEDS), c)
            except ToolFailed as error:
                run.write_trial(trial_record(**record, status="failed", why=str(error)), {}, [])
                continue
            record |= {
                "figures": measured.figures,
                "flows": [FlowRecord.of(f) for f in measured.flows],
                "doubts": [DoubtRecord.of(d) for d in measured.doubts],
                "notes": list(measured.notes),
                "tables": {name: [dict(row) for row in rows] for name, rows in measured.tables.items()},
            }
            run.write_trial(trial_record(**record), {}, [])
        run.write_manifest()
        return run.path

    return make


def grid(report, slug):
    (section,) = report.sections
    return next(g for g in section.tables if g.slug == slug)


def row(found, label, size="64"):
    (kept,) = [r for r in found.rows if r.label == label and r.size == size]
    return dict(zip([c.head for c in found.columns], kept.cells, strict=True))


async def test_each_goal_has_its_bounds_by_mode_and_size(run_of, tmp_path):
    pairs = [
        (cell(), Simulation(Dut(capacity_pps=2e6))),
        (cell(frame_size=1518, frame_mix="1518:1"), Simulation(Dut(capacity_pps=3e5))),
        (cell("nat"), Simulation(Dut(capacity_pps=1e6), held_back=True)),
    ]
    report = gather(await run_of(pairs), tmp_path)
    ndr = row(grid(report, "search-ndr"), "router")
    assert ndr["lower bound"].median <= 2e6 < ndr["upper bound"].median
    assert ndr["width"].median <= 0.005
    assert ndr["of line rate"].median == pytest.approx(ndr["lower bound"].median / 14_880_952)
    assert ndr["trials"].median > 10
    assert ndr["irregular"] == ""
    assert row(grid(report, "search-ndr"), "router", "1518")["lower bound"].median <= 3e5
    assert row(grid(report, "search-pdr"), "nat")["lower bound"].median > 1e6
    (headline,) = report.headlines
    assert [of.label for of in headline.figures] == ["router", "nat"]
    assert (headline.fastest, headline.reason) == ("", Reason.ONE_REPEAT.value), "one search proves nothing"
    (section,) = report.sections
    assert [c.slug for c in section.curves] == ["search-a-64-router", "search-a-64-nat", "search-a-1518-router"]
    course, lower, upper = section.curves[0].lines[:3]
    assert [(line.label, line.role) for line in (course, lower, upper)] == [("router", of) for of in ("apart", "bound", "bound")]
    assert {y for _, y in lower.points} == {ndr["lower bound"].median} and {y for _, y in upper.points} == {ndr["upper bound"].median}
    met = [y for n, (_, y) in enumerate(course.points) if n not in course.missed]
    assert course.missed and met and max(met) <= 2e6 < min(course.points[n][1] for n in course.missed)
    assert "zero loss" in grid(report, "search-ndr").caption and "half of 21 1-s trials" in grid(report, "search-ndr").caption
    assert any("0.5 s" in d and "RFC 2544 section 23" in d for d in report.deviations)
    assert section.title == "Bounds", "`Limits` of the page are what limited each result"


async def test_a_missing_bound_says_why_and_carries_its_doubt(run_of, tmp_path):
    pairs = [
        (cell("limitless", preset="rfc2544"), Simulation(Dut(capacity_pps=1e9))),
        (cell("slow", preset="rfc2544"), Simulation(Dut(capacity_pps=1e9), reach_pps=3e6)),
        (cell("leaks", preset="rfc2544"), Simulation(Dut(capacity_pps=1e9, random_loss=0.01))),
        (cell("dies", preset="rfc2544"), Simulation(Dut(capacity_pps=1e6), deaf_from=3)),
    ]
    report = gather(await run_of(pairs), tmp_path)
    found = grid(report, "search-throughput")
    said = {label: row(found, label)["irregular"] for label in ("limitless", "slow", "leaks", "dies")}
    assert said == {"limitless": "no upper bound", "slow": "the generator's limit", "leaks": "no lower bound", "dies": "ended early"}
    assert row(found, "limitless")["upper bound"] == Missing("unknown: no upper bound", (1,))
    assert isinstance(row(found, "leaks")["lower bound"], Missing)
    kinds = {n.number: n.kind for n in report.notes}
    assert "LIMIT_OF_GENERATOR" in {kinds[m] for m in row(found, "slow")["lower bound"].marks}
    assert {"NO_UPPER_BOUND", "NO_LOWER_BOUND", "SEARCH_CUT"} <= set(kinds.values())


async def test_searches_that_do_not_repeat_say_how_wide_they_are_and_why(run_of, tmp_path):
    dut = Dut(capacity_pps=1e6, slow_share=0.5, slow_capacity=0.8)
    pairs = [(cell(repeat=n, preset="quick"), Simulation(dut, seed=n, held_back=True)) for n in range(1, 6)]
    report = gather(await run_of(pairs), tmp_path)
    (words,) = [w for w in report.sections[0].words if w.startswith("router, frame size 64, link a: spread of ndr over 5 searches")]
    ndr = row(grid(report, "search-ndr"), "router")["lower bound"]
    assert f"{ndr.relative_spread:.1%}, above 3%" in words
    assert "one search missed" in words and "state of the DUT" in words
    steady = [(cell("steady", repeat=n, preset="quick"), Simulation(Dut(capacity_pps=1e6), seed=n)) for n in range(1, 3)]
    again = gather(await run_of(steady, token="4a2b"), tmp_path)
    assert not [w for w in again.sections[0].words if "apart" in w]


async def test_a_search_that_never_worked_is_a_row_without_a_result(run_of, tmp_path):
    path = await run_of([(cell(), Simulation(Dut(capacity_pps=1e6), dumb_from=0))])
    (found,) = gather(path, tmp_path).sections[0].tables
    assert isinstance(found.rows[0].cells[-1], Missing)
    assert len(write_report([path], formats=("html", "md", "csv", "json"), out=tmp_path / "out")) == 4


async def test_a_search_and_a_sweep_are_rescored_from_their_records(run_of):
    rates = [8e5, 9e5, 1e6, 1.1e6, 1.2e6]
    pairs = [(cell(preset="rfc2544,csit"), Simulation(Dut(capacity_pps=1e6)))]
    pairs += [(cell(workload="sweep", rate_pps=r, duration_s=60.0), Simulation(Dut(capacity_pps=1e6), held_back=True)) for r in rates]
    path = await run_of(pairs)
    searched, swept = rescored(read_run(path).groups)
    by_name = {a.definition.name: a for a in searched.answers}
    assert by_name["rfc2544"].lower_pps <= 1e6 < by_name["rfc2544"].upper_pps
    assert by_name["csit-ndr"].lower_pps <= 1e6 < by_name["csit-ndr"].upper_pps
    assert (swept.workload, swept.trials, swept.points) == ("sweep", (2, 3, 4, 5, 6), 5)
    by_name = {a.definition.name: a for a in swept.answers}
    assert (by_name["rfc2544"].lower_pps, by_name["rfc2544"].upper_pps) == (1e6, 1.1e6)
    assert by_name["tst009"].upper_pps is None  # a second minute could still be clean
    said = CliRunner().invoke(rescore, [str(path)])
    assert said.exit_code == 0, said.output
    assert "trial 2–6: 5 load trials" in said.output
    found = json.loads(CliRunner().invoke(rescore, [str(path), "--json"]).output)
    assert found["rescored"][1]["answers"][0]["lower_pps"] == 1e6
    assert found["ramps"] == []


async def test_every_form_of_the_report_prints_the_limits(run_of, tmp_path):
    path = await run_of([(cell(preset="quick"), Simulation(Dut(capacity_pps=1e6)))])
    written = {p.suffix: p.read_text() for p in write_report([path], formats=("html", "md", "csv", "json"), out=tmp_path / "out")}
    for text in written.values():
        assert "search" in text
    assert "Goal ndr" in written[".html"] and "Goal ndr" in written[".md"]
    assert "ndr/lower_pps" in written[".csv"] and "rfc2544/lower_pps" in written[".csv"]
    figures = [v for r in json.loads(written[".json"])["runs"][0]["sections"][0]["tables"][0]["rows"] for v in r["cells"]]
    assert any(isinstance(v, dict) and v.get("median") for v in figures)
    assert isinstance(row(grid(gather(path, tmp_path), "search-ndr"), "router")["lower bound"], Figure)


async def test_a_ramp_is_rescored_by_the_second_from_which_its_loss_stays(run_of):
    path = await run_of([])
    params = {"frame_size": 64, "warmup_s": 2.0, "threshold_percent": 0.1}
    of = cell_of("loadtest", rampup_s=6.0, **params)
    taken = [(1e3, 0.0), (1e3, 500.0), (2e3, 0.0), (4e3, 300.0), (6e3, 0.0), (7e3, 1e3), (7e3, 3e3)]
    rows = [
        {"direction": "a", "at_s": n, "offered_pps": sent, "received_pps": sent, "lost_pps": 0.0, "backpressure_pps": refused}
        for n, (sent, refused) in enumerate(taken, 1)
    ]
    RunFolder.open(path).write_trial(trial_record(1, of, tables={"seconds": rows}), {}, [])
    (ramp,) = ramps(read_run(path).groups)
    assert (ramp.direction, ramp.trial, ramp.saturation.saturated.at_s, ramp.saturation.last_clean.at_s) == ("a", 1, 6, 5)
    said = CliRunner().invoke(rescore, [str(path)]).output
    assert "7.0 kpps received at 6 s" in said and "0.1%" in said
