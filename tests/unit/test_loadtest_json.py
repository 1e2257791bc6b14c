"""trex-loadtest's files: the minimal one that its graphs take, both ways, and everything that can be wrong with one."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.interop.importers import read_files
from dutlab.interop.loadtest_json import Channel, LoadtestFile, LoadtestSample, from_bytes, profile_file, to_bytes
from dutlab.interop.loadtest_run import file_of, imported
from dutlab.units import BpsL1
from loadtest_files import ramp_file

PUBLISHED = Path(__file__).parents[2] / "examples" / "loadtest" / "published.csv"
NOW = datetime(2026, 11, 21, 8, 1, tzinfo=UTC)
MINIMAL = b"""{"vars": {"warmup_mult": "1kpps", "warmup_duration": 30, "rampup_target": 100, "rampup_duration": 600, "hold_duration": 30,
 "profile_file": "imix.py"}, "stats": {"1000.5": {"0": {"tx_pps": 1e5, "rx_pps": 1e5, "tx_util": 6.7, "rx_util": 6.7},
 "1": {"tx_pps": 1e5, "rx_pps": 1e5, "tx_util": 6.7, "rx_util": 6.7}, "global": {"cpu_util": 3}}}}"""


def test_the_smallest_file_that_the_graphs_take_is_read():
    found = from_bytes(MINIMAL, "x.json")
    assert (found.warmup_mult, found.warmup_duration, found.rampup_target) == ("1kpps", 30.0, 100.0)
    assert (found.profile, found.unidirectional, len(found.samples)) == ("imix", False, 1)
    assert found.samples[0] == LoadtestSample("1000.5", (Channel(1e5, 1e5, 6.7, 6.7), Channel(1e5, 1e5, 6.7, 6.7)))


def test_a_written_file_has_exactly_the_keys_and_types_that_the_graphs_need():
    data = json.loads(to_bytes(ramp_file((1000, 1000), (2000, 1500))))
    assert set(data) == {"vars", "stats"}
    assert data["vars"] == {
        "warmup_mult": "1kpps", "warmup_duration": 0, "rampup_target": 100, "rampup_duration": 2, "hold_duration": 0,
        "profile_file": "imix.py", "unidirectional": False,
    }  # fmt: skip
    assert list(data["stats"]) == ["1000.5", "1001.5"], "their order is the time axis"
    for second in data["stats"].values():
        assert set(second) == {"0", "1"}
        assert all(type(value) is float for port in second.values() for value in port.values()), "whole numbers would be divided as such"
    assert b'"tx_pps": 1000.0' in to_bytes(ramp_file((1000, 1000)))


def test_seconds_without_traffic_are_not_written_since_they_break_the_graphs():
    assert list(json.loads(to_bytes(ramp_file((0, 0), (5, 5))))["stats"]) == ["1001.5"]
    one_way = replace(ramp_file((5, 5)), unidirectional=True)
    quiet = replace(one_way.samples[0], ports=(Channel(5.0, 0.0, 1.0, 0.0), Channel(0.0, 5.0, 0.0, 1.0)))
    assert json.loads(to_bytes(replace(one_way, samples=(quiet,))))["stats"], "one way: the other port sends nothing"


RATE = st.floats(1e-3, 1e9)
PORT = st.builds(Channel, RATE, RATE, RATE, RATE, st.none() | RATE, st.none() | RATE)
FILES = st.builds(
    LoadtestFile,
    warmup_mult=st.sampled_from(["1kpps", "10%", "5mbps"]),
    warmup_duration=st.integers(0, 60).map(float),
    rampup_target=st.floats(0.5, 200),
    rampup_duration=st.floats(1, 900),
    hold_duration=st.integers(0, 60).map(float),
    profile_file=st.sampled_from(["imix.py", "udp_1pkt_simple_bdir.py", "a b.py"]),
    samples=st.lists(st.tuples(PORT, PORT), min_size=1, max_size=5).map(
        lambda ports: tuple(LoadtestSample(f"t{n}", both) for n, both in enumerate(ports))
    ),
    unidirectional=st.booleans(),
)


@settings(max_examples=25)
@given(FILES)
def test_what_is_written_is_read_back_the_same(of):
    assert from_bytes(to_bytes(of), "x.json") == of


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{", "not JSON"),
        (b"[]", "vars: .*; stats: "),
        (b'{"vars": {}, "stats": {}}', "vars.profile_file: .*; stats: "),
        (MINIMAL.replace(b'"rx_util": 6.7}', b'"rx_util": "x"}'), r"stats.1000.5.0.rx_util: 'x' .*; stats.1000.5.1.rx_util"),
        (MINIMAL.replace(b'"tx_pps": 1e5', b'"tx_pps": NaN'), "nan is not a rate"),
        (MINIMAL.replace(b'"tx_pps": 1e5', b'"tx_pps": -1'), "-1 is not a rate"),
        (MINIMAL.replace(b'"1":', b'"2":'), "stats.1000.5.1: missing"),
        (MINIMAL.replace(b": 600", b': "long"'), "vars: "),
        (MINIMAL.replace(b'"stats": {"1000.5":', b'"stats": {"1000.5": 7, "x":'), "stats.1000.5.0: missing"),
    ],
)
def test_a_file_that_is_none_is_refused_with_all_its_faults(data, words):
    with pytest.raises(InputError, match=words):
        from_bytes(data, "x.json")


@settings(max_examples=25)
@given(
    st.recursive(st.none() | st.booleans() | st.floats() | st.text(), lambda s: st.lists(s) | st.dictionaries(st.text(), s), max_leaves=20)
)
def test_any_json_is_read_or_refused(data):
    for tried in (data, {"vars": data, "stats": data}, {"vars": {}, "stats": {"1": data}}):
        with pytest.raises(InputError):
            from_bytes(json.dumps(tried).encode(), "x.json")


def test_the_saturation_is_the_one_that_the_graphs_print():
    # trex-loadtest-viz, graph.rb: of tx 100 … 500 and rx 100, 150, 300, 320, 330 it prints 320, the first failing second of the last run
    (found,) = imported("dut.json", to_bytes(ramp_file((100, 100), (200, 150), (300, 300), (400, 320), (500, 330))), ImportOptions())
    assert found.measured.figures["a"]["saturation_pps"] == 320.0
    assert found.measured.figures["a"]["saturation_s"] == 3.0
    assert found.measured.figures["a"]["max_received_pps"] == 330.0
    assert found.measured.figures["a+a.back"]["saturation_pps"] == 640.0


def graphs(files):
    """What trex-loadtest-viz's graph.rb (commit 00a6319) computes of files by name: the series it draws and the points of overload it prints.

    Its own steps, from the JSON alone: fetch_values() of five settings, Mpps of each port, the highest rate sent in each second as `ideal`,
    a tick each 100 seconds, and the first second of the last run of seconds in which more than 0.1 % was lost.
    """
    loaded = {name: json.loads(data) for name, data in files.items()}
    keys = ("warmup_mult", "warmup_duration", "rampup_target", "rampup_duration", "hold_duration")
    sorted([of["vars"][key] for key in keys] for of in loaded.values())  # Ruby's sort too needs values that can be compared
    drawn, overload, ideal = {}, {}, []
    for name, of in loaded.items():
        for sender, receiver in (("0", "1"), ("1", "0")):
            seconds = [(s[sender]["tx_pps"], s[receiver]["rx_pps"], s[sender]["tx_util"]) for s in of["stats"].values()]
            for at, (sent, _, _) in enumerate(seconds):
                ideal[at : at + 1] = [max(sent / 1e6, *ideal[at : at + 1])] if at < len(ideal) else [sent / 1e6]
            drawn[f"{name} {sender}→{receiver} rx"] = [round(received / 1e6, 3) for _, received, _ in seconds]
            found = None
            for sent, received, share in seconds:
                lost = (sent - received) / sent > 0.001 if sent else received < 0
                found = (found or (received, share)) if lost else None
            overload[name, int(sender)] = found
    ticks = list(range(0, len(ideal) - len(ideal) % 100 + 1, 100))
    return {
        "max": max(ideal),
        "ticks": ticks,
        "data": [["ideal", *(round(x, 3) for x in ideal)], *([k, *v] for k, v in drawn.items())],
    }, overload


@settings(max_examples=25)
@given(FILES, FILES)
def test_the_graphs_are_drawn_from_any_files_that_are_written(one, other):
    written = {"one": to_bytes(one), "other": to_bytes(replace(other, warmup_mult=one.warmup_mult))}
    drawn, _ = graphs(written)
    json.dumps(drawn, allow_nan=False)  # Ruby's to_json refuses NaN and infinity
    assert [series[0] for series in drawn["data"]] == ["ideal", "one 0→1 rx", "one 1→0 rx", "other 0→1 rx", "other 1→0 rx"]
    sent = [max(port.tx_pps for s in pair if s for port in s.ports) for pair in zip_longest(one.samples, other.samples)]
    assert drawn["data"][0][1:] == [round(pps / 1e6, 3) for pps in sent]
    assert drawn["max"] == max(sent) / 1e6


@settings(max_examples=25)
@given(st.lists(st.tuples(st.integers(1, 3000), st.integers(0, 3000)).map(lambda r: (max(r), min(r))), min_size=1, max_size=8))
def test_the_saturation_of_any_ramp_is_the_one_that_the_graphs_print(rows):
    data = to_bytes(ramp_file(*rows))
    (found,) = imported("dut.json", data, ImportOptions())
    _, overload = graphs({"dut": data})
    printed = overload["dut", 0]
    assert found.measured.figures["a"].get("saturation_pps") == (printed and printed[0])


@pytest.mark.parametrize("row", list(csv.DictReader(PUBLISHED.read_text().splitlines())), ids=lambda r: f"{r['product']} {r['loadtest']}")
def test_the_published_table_is_reproduced_from_files_that_say_as_much(row, tmp_path):
    """kpps and percent of 1 Gbit/s of both directions together, as the review of the APU6 prints them; its Mb/s are rounded to three digits."""
    kpps, percent = float(row["kpps"]), float(row["percent_of_1g_linerate_l1"])
    port = Channel(kpps * 500, kpps * 500, percent / 2, percent / 2)
    name = "udp_1pkt_simple_bdir.py" if row["loadtest"] == "64b" else "imix.py"
    of = replace(ramp_file((1, 1), profile_file=name), samples=(LoadtestSample("7.5", (port, port)),))
    run = write_imported(tmp_path, "t", imported(f"{row['product']}.json", to_bytes(of), ImportOptions()), command=(), now=NOW)
    (record,) = run.records()
    of_both = record.figures["a+a.back"]
    assert (record.cell.mode, str(record.cell.params["frame_size"]).lower()) == (row["product"], row["loadtest"])
    assert of_both["max_received_pps"] / 1e3 == pytest.approx(kpps)
    assert of_both["max_line_ratio"] * 100 == pytest.approx(percent)
    assert of_both["max_received_bps_l1"] / 1e6 == pytest.approx(float(row["mbps_l1"]), rel=5e-3)


def test_bits_and_utilisation_tell_the_line_rate_unless_it_is_given():
    port = Channel(1e5, 1e5, 50.0, 50.0, 5e9, 5e9)
    of = replace(ramp_file((1, 1)), samples=(LoadtestSample("1", (port, port)),))
    assert of.line_bps_l1 == pytest.approx(10e9)
    told = imported("x.json", to_bytes(of), ImportOptions())[0].measured
    assert told.figures["a"]["max_line_ratio"] == pytest.approx(0.5)
    given_one = imported("x.json", to_bytes(of), ImportOptions(BpsL1(20e9)))[0].measured
    assert given_one.figures["a"]["max_line_ratio"] == pytest.approx(0.25)
    assert any("reference" in note for note in imported("x.json", MINIMAL, ImportOptions())[0].measured.notes)


def test_a_file_that_ends_before_its_ramp_claims_no_end_of_the_ramp():
    of = ramp_file((1000, 1000), (2000, 2000), (3000, 3000))
    (whole,), (cut,) = (imported("x.json", to_bytes(replace(of, rampup_duration=lasts)), ImportOptions()) for lasts in (3.0, 600.0))
    assert any("the ramp ended before" in note for note in whole.measured.notes)
    assert any("ends 3 s into" in note for note in cut.measured.notes)
    assert not any("the ramp ended" in note for note in cut.measured.notes)


def test_an_imported_run_keeps_the_file_is_marked_and_becomes_the_same_file_again(tmp_path):
    data = to_bytes(ramp_file((100, 100), (200, 150)))
    paths = [tmp_path / f"{name}.json" for name in ("vpp", "vpp", "danos")]
    for path in paths:
        path.write_bytes(data)
    trials, faults = read_files("loadtest", paths, ImportOptions())
    assert not faults
    run = write_imported(tmp_path, "loadtest-import", trials, command=("dutlab", "import"), now=NOW)
    records = list(run.records())
    assert [(r.cell.mode, r.cell.repeat) for r in records] == [("vpp", 1), ("vpp", 2), ("danos", 1)]
    assert all(d.kind == "IMPORTED" for r in records for d in r.doubts)
    assert (run.path / "trials" / "0001" / "raw" / "vpp.json").read_bytes() == data
    assert run.verify_manifest().none
    assert run.resolved["experiment"]["imported"] and run.plan["imported"]


def test_frame_sizes_have_the_names_that_the_graphs_know():
    assert [profile_file(name) for name in ("64", "imix", "1518")] == ["udp_1pkt_simple_bdir.py", "imix.py", "1518.py"]


def test_a_trial_that_is_no_ramp_on_one_link_is_no_such_file(tmp_path):
    run = write_imported(tmp_path, "t", imported("x.json", MINIMAL, ImportOptions()), command=(), now=NOW)
    (record,) = run.records()
    for other in (
        record.model_copy(update={"tables": {}}),
        record.model_copy(update={"cell": record.cell.model_copy(update={"links": ("a", "b")})}),
    ):
        with pytest.raises(InputError, match="not a ramp"):
            file_of(other)
