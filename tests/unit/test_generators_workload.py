"""Generators compared: which trials that is, and the table and plot that it becomes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.calibrate import LOADS, calibrate
from dutlab.methods.ports import Bench, Offer
from dutlab.methods.sweep import measure
from dutlab.plan.trials import make_plan
from dutlab.report.gather import gather
from dutlab.report.model.table import Figure
from dutlab.report.plots.of_report import plots_of
from dutlab.runner.headroom import loads_of, with_headroom
from dutlab.spec.loader import given_experiment
from dutlab.spec.loader import testbed_of as bed_of
from dutlab.spec.mixes import frame_mix
from dutlab.spec.traffic import Directions
from dutlab.store.calibration import Calibration
from dutlab.units import Pps, Seconds
from simulated import Dut, Simulation
from spec_faults import faults_of_experiment

NOW = datetime(2026, 11, 21, tzinfo=UTC)


TEXT = (
    "experiment: g\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nworkloads:\n  - generators: {}\n"
    "repeats: 1\norder: as-written\n"
)


def cells(body):
    given = given_experiment(TEXT.format(body).encode(), Path("e.yaml"))
    return [trial.cell for trial in make_plan(given.experiment, bed_of(given)).trials]


def said(cell):
    return cell.tool, cell.params.get("generator"), cell.params["streams"], cell.params["directions"], cell.params["frame_size"]


def test_a_trial_is_a_generator_with_so_many_streams_on_a_host_with_a_size():
    found = cells(
        "{generators: [trafgen, {iperf3-udp: {cores: [0, 1]}}], streams: [1, 2], senders: [source, sink], frame_sizes: [64], links: [[a]]}",
    )
    assert [said(c) for c in found] == [
        ("trafgen", "trafgen", 1, "forward", 64),
        ("trafgen", "trafgen", 1, "back", 64),
        ("trafgen", '{"trafgen":{"streams":2}}', 2, "forward", 64),
        ("trafgen", '{"trafgen":{"streams":2}}', 2, "back", 64),
        ("iperf3-udp", '{"iperf3-udp":{"cores":[0,1]}}', 1, "forward", 64),
        ("iperf3-udp", '{"iperf3-udp":{"cores":[0,1]}}', 1, "back", 64),
        ("iperf3-udp", '{"iperf3-udp":{"cores":[0,1],"streams":2}}', 2, "forward", 64),
        ("iperf3-udp", '{"iperf3-udp":{"cores":[0,1],"streams":2}}', 2, "back", 64),
    ]
    assert [(load.flows, load.shares) for load in loads_of(found)][:2] == [(("a",), LOADS[:1]), (("a.back",), LOADS[:1])]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("{generators: []}", "generators missing"),
        ("{generators: [trafgen, trafgen]}", "generators.1 duplicate"),
        ("{generators: [engine], streams: [1, 2]}", "generators.0 conflict"),
        ("{generators: [{trafgen: {streams: 2}}]}", "generators.0 conflict"),
        ("{generators: [trafgen], frame_sizes: [imix]}", "frame_sizes.0 unfit"),
        ("{generators: [engine], generator: trafgen}", "generator unknown-key"),
        ("{generators: [engine], senders: [dut]}", "senders.0 unfit"),
    ],
)
def test_what_cannot_be_compared_is_refused(body, expected):
    found = [f"{fault.path.removeprefix('workloads.0.generators.')} {fault.kind}" for fault in faults_of_experiment(TEXT.format(body))]
    assert expected in found


def test_from_the_sink_only_the_ways_back_are_used():
    offer = Offer(("a", "b"), frame_mix(64), Pps(5.0), Seconds(1.0), directions=Directions.BACK)
    assert offer.flow_names == ("a.back", "b.back")
    assert Directions.BOTH.backs == (False, True)


def test_the_report_has_both_numbers_their_ratio_and_a_line_each(tmp_path):
    found = cells("{generators: [engine, trafgen], frame_sizes: [64, 512], senders: [sink], links: [[a]]}")
    reach = {"engine": 2e6, "trafgen": 300e3}
    points = []
    for cell in found:
        (load,) = loads_of([cell])
        rig = Simulation(Dut(1e6), reach_pps=reach[cell.tool])
        points += asyncio.run(calibrate(rig, load.links, load.mix, loads=load.loads, model=load.generator, directions=load.directions))
    calibration = Calibration(measured=NOW, facts={}, points=points)
    trials = []
    for cell in found:
        measured = asyncio.run(measure(Bench(Simulation(Dut(400e3), reach_pps=reach[cell.tool])), cell))
        trials.append(Imported(cell, with_headroom(measured, cell, calibration), {}))
    folder = write_imported(tmp_path, "generators", trials, command=(), now=NOW).path
    report = gather(folder, folder)
    (section,) = report.sections
    (grid,) = section.tables
    rows = [[round(c.median, 6) if isinstance(c, Figure) else c for c in row.cells] for row in grid.rows]
    assert rows[0] == ["engine, from sink", "64", "a.back", 2e6, 1e6, 2e6, 400e3, 0.0, 0.2, 0.8, 2.5]
    assert rows[2] == ["trafgen, from sink", "64", "a.back", 300e3, 300e3, 300e3, 300e3, 0.0, 1.0, 0.0, 1.0]
    (curve,) = section.curves
    assert [(line.label, line.role) for line in curve.lines] == [
        ("engine, from sink", "found"), ("engine, from sink, looped", "asked"),
        ("trafgen, from sink", "found"), ("trafgen, from sink, looped", "asked"),
    ]  # fmt: skip
    assert [line.points for line in curve.lines][1] == ((64.0, 1e6), (512.0, 1e6))
    assert curve.slug in {plot.name for plot in plots_of(report)}
    (headline,) = section.headlines
    assert [of.label for of in headline.figures] == ["engine, from sink", "trafgen, from sink"]
    assert (headline.ratio, headline.fastest) == (0.75, ""), "one repeat names no winner"
    assert "RIG_LIMITED" not in {note.kind for note in report.notes}, "that the generator is the limit is an answer here, not a doubt"
