"""A quick test: the search of its goals, the latency at half of what it found, and what is said where there is no half."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from dutlab.interop.imported_run import Imported, write_imported
from dutlab.methods.ports import Bench
from dutlab.methods.quick_test import measure
from dutlab.plan.cell import Cell
from dutlab.report.gather import gather, read_run
from dutlab.report.model.table import Figure, Missing
from dutlab.report.sections.quick_test import sentences
from dutlab.spec.workloads.quick_test import QuickTestWorkload
from dutlab.units import BpsL1
from queueing import OWN_WAY_NS, Queueing
from simulated import Dut


def cell(**keys):
    (setting,) = QuickTestWorkload.model_validate({"frame_sizes": [64], "links": [["a"]], **keys}).drives(["a"])
    return Cell(mode="as-found", factors={"mode": "as-found"}, tool="engine", links=setting.links, setting=setting.setting, repeat=1)


def ran(generator, of=None):
    return asyncio.run(measure(Bench(generator, {"a": BpsL1(1e9)}), of or cell()))


def test_the_last_trial_is_at_half_of_the_rate_without_loss_and_its_latency_is_the_devices():
    generator = Queueing(Dut(capacity_pps=100_000.0))
    found = ran(generator)
    figures = found.figures["a"]
    assert figures["ndr/lower_pps"] == pytest.approx(100_000, rel=0.021) and figures["ndr/lower_pps"] <= 100_000
    assert generator.seen[-1].rate == figures["half/load_pps"] == figures["ndr/lower_pps"] / 2
    assert generator.seen[-1].duration == 5.0
    # M/D/1 at a load of a half: half a service of 10 000 ns is waited
    assert figures["half/latency_p50_ns"] == pytest.approx(OWN_WAY_NS + 5000, rel=0.01)
    assert figures["half/loss_ratio"] == 0.0
    assert [f.link for f in found.flows] == ["a"]


def test_a_device_that_loses_a_little_at_any_rate_has_a_pdr_and_no_half_load():
    generator = Queueing(Dut(capacity_pps=100_000.0, random_loss=0.002))
    found = ran(generator)
    figures = found.figures["a"]
    assert "ndr/lower_pps" not in figures and figures["pdr/lower_pps"] == pytest.approx(100_000, rel=0.03)
    assert not [name for name in figures if name.startswith("half")]
    assert any("half load" in note for note in found.notes)


def test_a_scale_shortens_every_trial_and_is_said():
    generator = Queueing(Dut(capacity_pps=100_000.0))
    found = ran(generator, cell(scale=0.1))
    assert max(offer.duration for offer in generator.seen) == pytest.approx(0.5)
    assert max(offer.warmup for offer in generator.seen) == pytest.approx(0.05)
    assert any("every duration is 0.1" in note for note in found.notes)
    assert not any("every duration" in note for note in ran(Queueing(Dut(capacity_pps=100_000.0))).notes)


@pytest.mark.parametrize("keys", [{"scale": 0.01}, {"scale": 2}, {"budget": "0s"}, {"latency": "0s"}])
def test_times_that_cannot_be_kept_are_refused(keys):
    with pytest.raises(ValueError, match="must be"):
        cell(**keys)


def test_half_a_load_that_was_not_made_has_no_figures():
    def short(number, flow):
        half = flow.sent_frames // 2
        last = number == whole
        return replace(flow, sent_frames=half, received_frames=half, refused_frames=flow.intended_frames - half) if last else flow

    searching = Queueing(Dut(capacity_pps=100_000.0))
    ran(searching)
    whole = len(searching.seen) - 1
    figures = ran(Queueing(Dut(capacity_pps=100_000.0), change=short)).figures["a"]
    assert "ndr/lower_pps" in figures and not [name for name in figures if name.startswith("half/")]


# ---- A quick test in the report: a row a frame size, what it came to in sentences, what is not known, and how to go on


def imported(size, dut, **keys):
    (setting,) = QuickTestWorkload.model_validate({"frame_sizes": [size], "links": [["a"]], **keys}).drives(["a"])
    cell = Cell(mode="as-found", factors={"mode": "as-found"}, tool="engine", links=("a",), setting=setting.setting, repeat=1)
    return Imported(cell, asyncio.run(measure(Bench(Queueing(dut, reach_pps=1e6)), cell)), {})


@pytest.fixture
def run(tmp_path):
    def write(*trials, unknown=(), rig=None, addresses=None):
        run = write_imported(tmp_path, "test", list(trials), command=(), now=datetime(2026, 11, 21, tzinfo=UTC))
        resolved = json.loads((run.path / "resolved.json").read_text())
        if addresses is not None:
            path = ["source:eth1", "dut:near", "dut:far", "sink:eth2"]
            resolved["testbed"]["links"] = {"a": {"path": path, "addresses": addresses}}
        (run.path / "resolved.json").write_text(json.dumps({**resolved, "unknown": list(unknown)}))
        if rig is not None:
            (run.path / "calibration.json").write_text(json.dumps({"facts": {"rig": rig}}))
        return run

    return write


def test_each_size_has_a_row_and_a_sentence(run):
    folder = run(imported(64, Dut(100_000.0)), imported(1518, Dut(100_000.0, random_loss=0.02)))
    report = gather(folder.path, folder.path)
    (section,) = report.sections
    first, second = section.tables[0].rows
    assert (first.cells[0], second.cells[0]) == ("64", "1518")
    assert isinstance(first.cells[1], Figure) and first.cells[1].median == pytest.approx(1e5, rel=0.03)
    assert all(isinstance(cell, Missing) for cell in (second.cells[1], second.cells[2], second.cells[-1]))
    of_64, of_1518 = (words for words in section.words if "-byte frames: " in words)
    assert of_64.startswith("64-byte frames: ") and re.search(r"[0-9.]+ kpps \([0-9.]+ Mb/s", of_64)
    assert of_1518.count("not found") == 2 and "half load" in of_1518
    assert len(section.words) > 2, "the reason for no latency is a sentence"


def test_a_rate_that_no_trial_missed_is_said_as_a_bound(run):
    folder = run(imported(64, Dut(1e9)))
    (words,) = (words for words in gather(folder.path, folder.path).sections[0].words if "-byte frames: " in words)
    assert re.search(r"NDR ≥ [0-9.]+ \w?pps", words), words


def test_what_is_not_known_is_said_on_the_page_and_on_the_terminal(run):
    folder = run(imported(64, Dut(100_000.0)), unknown=["the way back"], rig="generator-alone")
    (section,) = gather(folder.path, folder.path).sections
    assert section.unknown[0] == "the way back" and len(section.unknown) == 2 and "generator" in section.unknown[1]
    assert any("Not known" in line and "the way back" in line for line in sentences(read_run(folder.path)))


@pytest.mark.parametrize(("rig", "said"), [("looped", False), (None, True)])
def test_a_rig_that_was_looped_leaves_nothing_unknown(run, rig, said):
    folder = run(imported(64, Dut(1e5)), rig=rig)
    assert any("not be calibrated" in line for line in sentences(read_run(folder.path))) is said
    (section,) = gather(folder.path, folder.path).sections
    assert bool(section.unknown) is said


def test_a_scale_and_short_trials_are_deviations(run):
    folder = run(imported(64, Dut(100_000.0), scale=0.1))
    (section,) = gather(folder.path, folder.path).sections
    trials, scaled = section.deviations
    assert "0.1 s" in trials and "RFC 2544 section 24" in trials and "every duration is 0.1" in scaled
    assert any("Every duration is 0.1" in words for words in section.words)


def test_the_way_on_is_the_suite_on_the_same_testbed(run):
    folder = run(imported(64, Dut(100_000.0)))
    assert not any("rfc2544" in line for line in sentences(read_run(folder.path))), "an imported run has no testbed file"
    (folder.path / "testbed.yaml").write_text("testbed: x\n")
    assert f"dutlab rfc2544 --testbed {folder.path / 'testbed.yaml'} --mode as-found" in list(sentences(read_run(folder.path)))[-1]


def test_over_ipv6_the_suite_is_given_sizes_that_hold_a_probe(run):
    addresses = ["2001:db8:1::2/64", "2001:db8:1::1/64", "2001:db8:2::1/64", "2001:db8:2::2/64"]
    folder = run(imported(84, Dut(100_000.0)), addresses=addresses)
    (folder.path / "testbed.yaml").write_text("testbed: x\n")
    first, *_, last = sentences(read_run(folder.path))
    route = ["eth1 (2001:db8:1::2)", "2001:db8:1::1,", "2001:db8:2::1", "eth2 (2001:db8:2::2)"]
    assert sorted(route, key=first.index) == route, "the ports and addresses in the order of the path"
    assert last.endswith("--mode as-found --size rfc5180")
