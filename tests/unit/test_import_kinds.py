"""fio, flent, TRex's ndr_bench and Conductor: what their files say becomes our figures; what is broken is named and the rest kept."""

from __future__ import annotations

import gzip
import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from itertools import cycle
from math import isfinite
from pprint import pformat

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mutated_imports import whole_files

from dutlab.choices import IMPORTS
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.conductor_report import StepRow, TrialRows, conductor_report, conductor_text
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.interop.importers import read_files
from dutlab.measures import MeasureUnit, measure_unit
from dutlab.report.questions.compared import compare_modes
from dutlab.report.questions.sides import open_run
from dutlab.report.write import write_report
from dutlab.spec.drives import DriveSpec
from dutlab.spec.workloads import TestbedBounds
from dutlab.spec.workloads.fio import FioWorkload
from dutlab.tools.fio.output import jobs_of, total
from import_files import FIO, FIO_CACHED, FLENT, conductor, ndr

NOW = datetime(2026, 11, 21, tzinfo=UTC)
VALID = {"fio": FIO.read_bytes(), "flent": FLENT.read_bytes(), "trex-ndr": ndr(), "conductor": conductor()}


def read(kind, data, name="device.json"):
    return IMPORTS[kind].importer(name, data, ImportOptions())


def doubts(trial):
    return " ".join(d.detail for d in trial.measured.doubts)


def test_a_mixed_load_of_fio_has_both_ways_in_base_units():
    (trial,) = read("fio", VALID["fio"], "runs/nvme-raid.json")
    said = json.loads(VALID["fio"])["jobs"][0]
    figures = trial.measured.figures["storage"]
    assert trial.cell.mode == "nvme-raid"
    assert trial.cell.params == {
        "job": "rand", "rw": "randrw", "rwmixread": 70, "bs": "4k", "iodepth": 4, "ioengine": "null", "size": "64M", "ramp_s": 0.0, "duration_s": 1.0,
    }  # fmt: skip
    for way in ("read", "write"):
        assert figures[f"iops.{way}"] == said[way]["iops"]
        assert figures[f"bytes_per_s.{way}"] == said[way]["bw_bytes"]
        assert figures[f"clat_p99_ns.{way}"] == said[way]["clat_ns"]["percentile"]["99.000000"]
        assert figures[f"clat_p999_ns.{way}"] == said[way]["clat_ns"]["percentile"]["99.900000"]
        assert figures[f"lat_mean_ns.{way}"] == said[way]["lat_ns"]["mean"]
    assert not [name for name in figures if name.endswith(".trim")]
    assert len(trial.measured.tables["latency"]) == 2 * 17
    assert trial.ended.timestamp() == json.loads(VALID["fio"])["timestamp"]
    assert not trial.measured.doubts


def test_fio_before_version_3_counts_microseconds_and_kibibytes():
    job = {"jobname": "old", "read": {"total_ios": 10, "iops": 5.0, "bw": 20, "clat": {"mean": 1.5, "percentile": {"99.000000": 3}}}}
    (trial,) = read("fio", json.dumps({"fio version": "fio-2.2.10", "jobs": [job]}).encode())
    figures = trial.measured.figures["storage"]
    assert (figures["bytes_per_s.read"], figures["clat_mean_ns.read"], figures["clat_p99_ns.read"]) == (20 * 1024, 1500, 3000)


def test_of_reports_one_after_the_other_the_last_counts_and_that_is_said():
    early = json.loads(VALID["fio"])
    early["jobs"][0]["read"]["iops"] = 1.0
    (trial,) = read("fio", json.dumps(early, indent=1).encode() + b"\n" + VALID["fio"])
    assert trial.measured.figures["storage"]["iops.read"] == json.loads(VALID["fio"])["jobs"][0]["read"]["iops"]
    assert "2 reports" in doubts(trial)


def test_the_text_of_fio_says_what_its_json_says_of_the_same_run():
    of_text, of_json = (read("fio", (FIO.parent / f"two-jobs.{kind}").read_bytes(), "nvme.txt") for kind in ("txt", "json"))
    for text, report in zip(of_text, of_json, strict=True):
        said, exact = text.measured.figures["storage"], report.measured.figures["storage"]
        assert said.keys() == exact.keys()
        for name, value in exact.items():
            assert said[name] == pytest.approx(value, rel=0.01, abs=1000 if measure_unit(name) is MeasureUnit.NS else 0), name
        assert text.measured.facts == report.measured.facts
        assert text.ended == report.ended.replace(microsecond=0)
        assert len(text.measured.tables["latency"]) == len(report.measured.tables["latency"])
        both = text.cell.params.keys() & report.cell.params.keys() - {"rw"}
        assert {"job", "bs"} <= both and {k: text.cell.params[k] for k in both} == {k: report.cell.params[k] for k in both}
    assert [t.cell.params["rw"] for t in of_text] == ["randrw", "read"]


FIO_2_TEXT = b"""old: (g=0): rw=randwrite, bs=8K-8K/8K-8K/8K-8K, ioengine=libaio, iodepth=32
fio-2.2.10
Starting 1 process

old: (groupid=0, jobs=1): err= 0: pid=7: Mon Jan  5 10:00:00 2015
  write: io=1024.0MB, bw=12800KB/s, iops=1600, runt= 81920msec
    slat (usec): min=4, max=90, avg= 7.10, stdev= 1.20
    clat (msec): min=1, max=1.2k, avg=19.96, stdev= 3.10
    clat percentiles (msec):
     | 50.00th=[   20], 99.00th=[   31], 99.90th=[   40]
  cpu          : usr=0.59%, sys=1.42%, ctx=9, majf=0, minf=1
     issued    : total=r=0/w=131072/d=0, short=r=0/w=0/d=0
"""


def test_the_text_of_fio_2_has_kilobytes_of_1024_and_any_unit_of_latency():
    (trial,) = read("fio", FIO_2_TEXT)
    figures = trial.measured.figures["storage"]
    assert figures["bytes_per_s.write"] == 12800 * 1024
    assert figures["iops.write"] == pytest.approx(1600)
    assert (figures["clat_mean_ns.write"], figures["clat_max_ns.write"], figures["clat_p99_ns.write"]) == (19.96e6, 1.2e9, 31e6)
    assert trial.cell.params["bs"] == "8k"
    with pytest.raises(InputError, match="no job of fio with a result"):
        read("fio", FIO_2_TEXT[: FIO_2_TEXT.index(b"  write:")])


def test_a_report_that_dutlab_had_written_lands_in_the_cell_that_it_was_measured_in():
    drives = {f"server:d{n}": DriveSpec(name=f"d{n}", by_id=f"d{n}") for n in (1, 2, 3, 4)}
    asked = {"options": {"rw": "randread", "bs": "4k", "iodepth": 16}, "ramp": "500ms", "duration": "2s"}
    (drive,) = FioWorkload.model_validate(asked).drives(TestbedBounds({}, drives))
    data = (FIO.parent / "jbod-json-plus.json").read_bytes()
    (trial,) = read("fio", data)
    assert (trial.cell.workload, trial.cell.tool, trial.cell.links) == ("fio", "fio", drive.links)
    assert trial.cell.params == drive.setting.params
    jobs = jobs_of(json.loads(data))
    assert trial.measured.figures == {**{job.name: job.figures for job in jobs}, "+".join(drives): total(jobs).figures}
    assert trial.measured.tables["latency_bins"] == total(jobs).bins != []
    assert not trial.measured.doubts


def test_jobs_reported_as_a_group_are_one_trial_and_reads_that_memory_may_have_answered_are_doubted():
    (trial,) = read("fio", FIO_CACHED.read_bytes())
    assert trial.cell.params["numjobs"] == 2
    assert trial.measured.figures["storage"]["iops.read"] > 0
    assert [d.kind for d in trial.measured.doubts] == [DoubtKind.PAGE_CACHE]
    (one,) = read("fio", (FIO.parent / "jbod-json-plus.json").read_bytes().replace(b'"direct" : "1"', b'"direct" : "0"'))
    assert [d.kind for d in one.measured.doubts] == [DoubtKind.PAGE_CACHE]


def test_depths_of_imported_jobs_stand_in_the_order_of_numbers(tmp_path):
    trials = []
    for depth in (16, 2, 128):
        said = json.loads(VALID["fio"])
        said["jobs"][0]["job options"]["iodepth"] = str(depth)
        trials += read("fio", json.dumps(said).encode(), "a.json")
    run = write_imported(tmp_path, "fio", trials, command=(), now=NOW)
    text = next(p for p in write_report([run.path], formats=("md",), out=None)).read_text()
    assert [int(n) for n in re.findall(r"^\| a \| depth (\d+) \|", text, re.MULTILINE)][:3] == [2, 16, 128], text


def test_each_client_of_fio_is_a_trial_and_a_job_that_ended_with_an_error_says_so():
    said = json.loads(VALID["fio"])
    failed = json.loads(VALID["fio"])
    failed["jobs"][0]["error"] = 5
    (trial,) = read("fio", json.dumps(failed).encode())
    assert "error 5" in doubts(trial)
    said["client_stats"] = [said["jobs"][0] | {"hostname": host} for host in ("one", "two")]
    del said["jobs"]
    said["global options"] = [{"bs": "8k"}]
    assert [t.cell.params["client"] for t in read("fio", json.dumps(said).encode())] == ["one", "two"]


def test_a_cut_report_of_fio_keeps_what_stands_before_the_cut_and_names_the_line():
    at = VALID["fio"].index(b'"write"') + 40
    (trial,) = read("fio", VALID["fio"][:at])
    figures = trial.measured.figures["storage"]
    assert figures["iops.read"] == json.loads(VALID["fio"])["jobs"][0]["read"]["iops"]
    assert "iops.write" not in figures
    assert f"line {VALID['fio'][:at].count(10) + 1} cannot be read" in doubts(trial)


def test_flents_rates_and_round_trips_are_of_what_was_read_and_not_interpolated():
    (trial,) = read("flent", VALID["flent"], "wifi.flent.gz")
    said = json.loads(gzip.decompress(VALID["flent"]))
    pings = [p["val"] for p in said["raw_values"]["Ping (ms) ICMP"]]
    rates = [p["val"] for p in said["raw_values"]["TCP upload"]]
    figures = trial.measured.figures["a"]
    assert trial.cell.mode == "wifi"
    assert figures["goodput_bps"] == said["metadata"]["SERIES_META"]["TCP upload"]["MEAN_VALUE"] * 1e6
    row = trial.measured.tables["series"][-1]
    assert (row["min"], row["max"], row["values"]) == (min(rates), max(rates), len(rates))
    assert figures["rtt_max_ns"] == pytest.approx(max(pings) * 1e6)
    assert figures["rtt_p50_ns"] == pytest.approx(sorted(pings)[7] * 1e6)
    assert [row["series"] for row in trial.measured.tables["series"]] == ["Ping (ms) ICMP", "Ping (ms) avg", "TCP upload"]
    assert trial.started.isoformat() == said["metadata"]["TIME"].replace("Z", "+00:00")


def test_sums_that_flent_made_are_not_added_to_their_parts():
    series = {"TCP upload A": [10.0], "TCP upload B": [20.0, None], "TCP upload sum": [30.0], "TCP totals": [34.0], "TCP download": [4.0]}
    (trial,) = read("flent", json.dumps({"x_values": [0, 1], "results": series, "metadata": {"NAME": "rrul"}}).encode())
    assert trial.measured.figures == {place: {"goodput_bps": rate} for place, rate in (("a+a.back", 34e6), ("a", 30e6), ("a.back", 4e6))}


def test_samples_beside_a_stream_have_no_unit_and_are_no_goodput():
    (trial,) = read("flent", (FLENT.parent / "tcp_2up.flent.gz").read_bytes())
    figures = trial.measured.figures["a"]
    assert (figures["goodput_bps"], figures["rtt_mean_ns"]) == (8e6, 20e6)
    units = {row["series"]: row["unit"] for row in trial.measured.tables["series"]}
    assert (units["TCP upload::1"], units["TCP upload::1::tcp_cwnd"]) == ("Mbits/s", "")


def test_raw_values_of_a_udp_ping_are_transactions_a_second():
    (trial,) = read("flent", (FLENT.parent / "rrul.flent.gz").read_bytes())
    figures = trial.measured.figures["a+a.back"]
    assert {figures[f"rtt_{what}_ns"] for what in ("min", "mean", "p50", "p99", "max")} == {50e6}


def test_a_time_that_is_no_ping_is_a_latency():
    (trial,) = read("flent", (FLENT.parent / "http.flent.gz").read_bytes())
    assert trial.measured.figures["a+a.back"] == {f"latency_{what}_ns": 1.05e6 for what in ("min", "mean", "p50", "p99", "max")}


def flent(series, *, units=True):
    """A file with these series: name → (unit or "", raw values as (t, seconds or None, value), values in flent's unit, more of SERIES_META)."""
    document = {
        "x_values": [0, 1],
        "results": {name: shown for name, (_, _, shown, _) in series.items()},
        "raw_values": {
            name: [{"t": t, "val": value} | ({"dur": dur} if dur else {}) for t, dur, value in raw]
            for name, (_, raw, _, _) in series.items()
        },
        "metadata": {
            "NAME": "x",
            "SERIES_META": {name: ({"UNITS": unit} if unit else {}) | more for name, (unit, _, _, more) in series.items()},
        },
    }
    return json.dumps(document if units else document | {"metadata": {"NAME": "x"}}).encode()


STEADY = [(t, 1.0, 10.0) for t in range(1, 11)]


@pytest.mark.parametrize(
    ("unit", "raw", "shown", "more", "expected"),
    [
        # What each sample lasted counts: 20 Mbit in 1 s and 10 Mbit in 9 s.
        ("Mbits/s", [(1, 1.0, 20.0), (10, 9.0, 10 / 9)], [20.0, 1.1], {}, {"goodput_bps": 3e6}),
        ("Mbits/s", [(1, 1.0, 20.0), (10, 9.0, 10 / 9)], [20.0, 1.1], {"MEAN_VALUE": 2.9}, {"goodput_bps": 2.9e6}),
        ("Mbits/s", STEADY, [10.0], {"MEAN_VALUE": 10e6}, {"goodput_bps": 10e6}),  # the mean in the unit of the tool
        ("Mbits/s", [(t, None, 10e6) for t in range(9)], [10.0], {}, {"goodput_bps": 10e6}),  # raw values in it
        ("Kbits/s", STEADY, [10.0], {}, {"goodput_bps": 10e3}),
        # Seconds, and one series of transactions whose last sample netperf made when it had lost the stream.
        ("ms", [(1, None, 0.001), (2, None, 0.003)], [1.0, 3.0], {}, {"latency_min_ns": 1e6, "latency_mean_ns": 2e6, "latency_max_ns": 3e6}),
        ("ms", [(1, 0.2, 100.0), (2, 0.2, 50.0), (99, 99.0, 0.1)], [10.0, 20.0], {}, {"latency_max_ns": 20e6, "latency_mean_ns": 1e9 / 75}),
        ("ms", [(1, 0.2, 100.0), (2, 0.2, 0.0), (3, 0.2, 100.0)], [10.0, 10.0], {}, {"latency_min_ns": 10e6, "latency_max_ns": 10e6}),
        # Raw values in a unit that nobody knows: flent's own.
        ("ms", [(1, None, 77.0), (2, None, 78.0)], [1.0, 3.0], {}, {"latency_min_ns": 1e6, "latency_max_ns": 3e6}),
    ],
)  # fmt: skip
def test_a_series_of_flent_in_the_unit_of_its_tool(unit, raw, shown, more, expected):
    (trial,) = read("flent", flent({"HTTP upload": (unit, raw, shown, more)}))
    figures = trial.measured.figures["a+a.back"]
    assert {name: figures[name] for name in expected} == pytest.approx(expected)


def test_only_series_that_were_measured_count():
    others = {
        "TCP upload fairness": ("Mbits/s", [], [0.9], {}),
        "Both": ("Mbits/s", [], [20.0], {"RUNNER": "SumRunner"}),
        "VoIP::bitrate": ("Kbits/s", [], [73.0], {"RUNNER": "NullRunner"}),
        "cpu_stats_host::load": ("", [], [0.4], {}),
        "Ping (ms) UDP::owd_up": ("ms", [], [4.0], {"RUNNER": "NullRunner"}),
    }
    streams = {"TCP upload::1": ("Mbits/s", STEADY, [10.0], {}), "TCP upload::2": ("Mbits/s", STEADY, [10.0], {})}
    (trial,) = read("flent", flent(streams | others))
    assert trial.measured.figures["a+a.back"] == {"goodput_bps": 20e6}
    with pytest.raises(InputError):
        read("flent", flent(others))
    # Before 2014 no series had a unit: names tell.
    (trial,) = read(
        "flent", flent({"TCP upload": ("", [], [10.0], {}), "Ping (ms)": ("", [], [5.0], {}), "load": ("", [], [3.0], {})}, units=False)
    )
    assert (trial.measured.figures["a+a.back"]["goodput_bps"], trial.measured.figures["a"]["rtt_mean_ns"]) == (10e6, 5e6)


def test_streams_that_did_not_run_at_one_time_are_no_sum_of_their_means():
    later = [(t + 10, dur, value) for t, dur, value in STEADY]
    (trial,) = read("flent", flent({"TCP upload": ("Mbits/s", STEADY, [10.0], {}), "TCP download": ("Mbits/s", later, [10.0], {})}))
    assert trial.measured.figures == {place: {"goodput_bps": 10e6} for place in ("a", "a.back", "a+a.back")}
    assert len(trial.measured.notes) == 1


def test_what_a_client_of_udp_sent_is_no_goodput():
    (trial,) = read("flent", flent({"UDP upload": ("Mbits/s", STEADY, [10.0], {"MEAN_VALUE": None})}))
    assert trial.measured.figures["a+a.back"] == {"sent_bps": 10e6}
    assert [d.kind for d in trial.measured.doubts] == [DoubtKind.TOOL_INCOMPLETE]
    (trial,) = read("flent", flent({"UDP upload": ("Mbits/s", STEADY, [10.0], {"MEAN_VALUE": 1.0})}))
    assert trial.measured.figures["a+a.back"] == {"goodput_bps": 1e6}


def test_a_packed_file_that_was_cut_keeps_what_could_be_unpacked():
    said = json.loads(gzip.decompress(VALID["flent"]))
    text = json.dumps({"metadata": said["metadata"], "results": said["results"], "note": ["x" * 5 + str(n) for n in range(3000)]}).encode()
    packed = gzip.compress(text)
    (trial,) = read("flent", packed[: len(packed) - 200])
    assert trial.measured.figures["a+a.back"]["goodput_bps"] > 0
    assert "packed file was cut" in doubts(trial)
    with pytest.raises(InputError, match="unpacks to more"):
        read("flent", gzip.compress(bytes(2**26 + 1)))


def test_trex_ndr_keeps_both_rates_and_says_what_its_goal_was():
    (trial,) = read("trex-ndr", VALID["trex-ndr"], "vpp.json")
    figures = trial.measured.figures["a+a.back"]
    assert (figures["offered_pps"], figures["received_pps"], figures["loss_ratio"]) == (6.25e6, 6.246875e6, 0.0005)
    assert (figures["latency_min_ns"], figures["latency_mean_ns"], figures["latency_max_ns"]) == (12e3, 21.5e3, 180e3)
    assert trial.cell.params == {"frame_size": 64, "directions": "forward", "duration_s": 20.0, "loss_percent": 0.1}
    assert figures["offered_bps_l1"] == pytest.approx(figures["offered_pps"] * (64 + 20) * 8)
    assert any("0.1 % loss" in note for note in trial.measured.notes)
    printed = b"Bench Run has finished :-)\n" + pformat(VALID["trex-ndr"].decode()).encode()
    assert printed.count(b"\n") > 5
    assert read("trex-ndr", printed)[0].measured.figures == trial.measured.figures, "as Python prints its text"
    (stopped,) = read("trex-ndr", ndr(total_iterations=10))
    assert any("may lie higher" in note for note in stopped.measured.notes)


def test_a_trial_of_conductor_has_its_steps_with_their_codes_and_outputs():
    (trial,) = read("conductor", conductor(code=2))
    assert trial.measured.figures["all hosts"] == {"failed_steps": 1.0, "duration_s": 4.5}
    assert [(r["phase"], r["status"]) for r in trial.measured.tables["steps"]] == [
        ("startup", 0), ("run", 0), ("run", 2), ("collect", 0), ("reset", 0),
    ]  # fmt: skip
    assert trial.measured.raw["worker-0/run/02.out"] == b"no route\nping: failed\n"
    assert trial.measured.notes == ["worker_0, run, step 2: ended with 2: ping: failed"]


LOG_OF_2015 = """0 phase received
0 phase received
0 net.inet.ip.forwarding: 0 -> 1

done
0 Spawned
done
0 phase received
0 phase received
0 PING 192.0.2.1 (192.0.2.1): 56 data bytes
64 bytes from 192.0.2.1: icmp_seq=0 ttl=64 time=0.1 ms

0 Timeout
done
0 [  5]   0.00-10.00  sec  2.62 GBytes  2.25 Gbits/sec                  receiver

1 ['ls', '/none']
0 last

done
0 phase received
0 phase received
65535 phases complete
65535 phases complete
0 phase received
0 phase received
0 ok

done
done
"""


def test_the_log_of_conductor_2015_is_a_trial_of_four_phases_with_its_figures():
    (trial,) = read("conductor", LOG_OF_2015.encode(), "bench.log")
    rows = {row["file"]: (row["status"], row["why"]) for row in trial.measured.tables["steps"]}
    assert rows == {
        "host-1/startup/01": (0, ""), "host-2/startup/01": (0, ""), "host-1/run/01": (0, ""), "host-1/run/02": (0, ""),
        "host-2/run/01": (0, ""), "host-2/run/02": (1, "ended with 1"), "host-2/run/03": (0, ""), "host-1/reset/01": (0, ""),
    }  # fmt: skip
    assert b"64 bytes from" in trial.measured.raw["host-1/run/01.out"]
    assert trial.measured.figures["host-2"]["run/01/goodput_bps"] == 2.25e9
    assert trial.measured.figures["all hosts"] == {"failed_steps": 1.0}
    assert trial.measured.doubts == ()


def test_a_log_of_conductor_2015_that_was_cut_keeps_its_phases_and_is_marked():
    two = read("conductor", (LOG_OF_2015 + LOG_OF_2015[: LOG_OF_2015.index("0 Timeout")]).encode())
    assert [len(t.measured.tables["steps"]) for t in two] == [8, 3]
    assert "2 of 4 phases" in doubts(two[0])


def test_the_text_report_of_conductor_says_what_its_json_says():
    rows = [StepRow("worker_0", "run", 1, NOW, NOW, 0, "one\n\ntwo 64"), StepRow("worker_1", "run", 1, NOW, NOW, 3, "ls")]
    exported = conductor_report(["worker_0", "worker_1"], [TrialRows(NOW, NOW, rows)] * 2, NOW)
    of_text, of_json = read("conductor", conductor_text(exported).encode()), read("conductor", json.dumps(exported).encode())
    assert [t.measured.tables for t in of_text] == [t.measured.tables for t in of_json]
    assert [t.measured.raw for t in of_text] == [t.measured.raw for t in of_json]
    steps = [[(r["host"], r["status"]) for r in t.measured.tables["steps"]] for t in of_json]
    assert steps == [[("worker_0", 0), ("worker_1", 3)]] * 2, "what dutlab exports it reads again"


@settings(max_examples=40)
@given(st.lists(st.sampled_from(LOG_OF_2015.splitlines(keepends=True))))
def test_any_log_of_conductor_is_read_or_refused(lines):
    with suppress(InputError):
        read("conductor", "".join(lines).encode())


@pytest.mark.parametrize("kind", sorted(VALID))
def test_each_kind_makes_a_report_and_two_devices_can_be_compared(tmp_path, kind):
    trials = [t for name in ("one.json", "two.json") for _ in range(2) for t in read(kind, VALID[kind], name)]
    run = write_imported(tmp_path, kind, trials, command=(), now=NOW)
    written = write_report([run.path], formats=("html", "md", "csv", "json"), out=None)
    (report,) = json.loads(next(p for p in written if p.suffix == ".json").read_text())["runs"]
    assert report["labels"] == ["one", "two"]
    (pair,) = compare_modes(open_run(run.path))
    assert [c.pair.first == c.pair.second for c in pair.comparisons]
    assert not report["faults"]


def accepted(kind, data):
    """Whatever the bytes: trials that can be kept, or a refusal by name."""
    try:
        trials = read(kind, data, "odd.json")
    except InputError as refused:
        if "odd.json" not in str(refused):
            raise
        return
    assert trials
    for trial in trials:
        assert all(isfinite(value) for of in trial.measured.figures.values() for value in of.values())
        json.dumps(trial.measured.tables, allow_nan=False)


@pytest.mark.parametrize(("kind", "whole"), whole_files())
def test_a_number_that_no_float_holds_is_read_or_refused_by_name(kind, whole):
    whole = gzip.decompress(whole) if kind == "flent" else whole
    numbers = [found.span() for found in re.finditer(rb"\d+", whole)]
    for (first, end), digits in zip(numbers[:: max(1, len(numbers) // 45)], cycle((25, 400, 5000)), strict=False):
        with suppress(InputError):
            for trial in IMPORTS[kind].importer("odd", whole[:first] + b"9" * digits + whole[end:], ImportOptions()):
                assert trial.cell.model_dump_json()


def test_what_no_importer_foresaw_is_a_fault_of_its_file_and_the_others_are_read(tmp_path, monkeypatch):
    right = IMPORTS["fio"].importer

    def broken(name, data, options):
        if data == b"odd":
            raise ZeroDivisionError("of the importer")
        return right(name, data, options)

    monkeypatch.setattr(type(IMPORTS["fio"]), "importer", property(lambda _: broken))
    (tmp_path / "odd").write_bytes(b"odd")
    (tmp_path / "good").write_bytes(VALID["fio"])
    trials, faults = read_files("fio", [tmp_path / "odd", tmp_path / "good"], ImportOptions())
    assert [bool(trial.why) for trial in trials] == [True, False]
    assert [fault.partition(": ")[2] for fault in faults] == ["cannot be read: ZeroDivisionError: of the importer"]


@pytest.mark.parametrize("kind", sorted(VALID))
@settings(max_examples=25)
@given(data=st.data())
def test_a_file_that_is_cut_or_damaged_anywhere_is_read_or_refused_by_name(kind, data):
    whole = VALID[kind]
    at = data.draw(st.integers(0, len(whole)))
    garbage = data.draw(st.binary(max_size=20) | st.sampled_from([b"NaN", b"-nan", b"1e999", b"null", b'"', b"[" * 3000, b"{}", b"-1"]))
    accepted(kind, whole[:at] + garbage + whole[at + data.draw(st.integers(0, 40)) :])


@pytest.mark.parametrize("kind", sorted(VALID))
@settings(max_examples=25)
@given(data=st.data())
def test_a_file_with_another_kind_of_value_anywhere_is_read_or_refused_by_name(kind, data):
    text = gzip.decompress(VALID[kind]) if kind == "flent" else VALID[kind]
    document = json.loads(text)
    here, path = document, data.draw(st.integers(0, 6))
    for _ in range(path):
        keys = sorted(here) if isinstance(here, dict) else range(len(here))
        if not keys:
            break
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(here[key], dict | list) or not here[key]:
            break
        here = here[key]
    keys = list(here) if isinstance(here, dict) else list(range(len(here)))
    if keys:
        here[data.draw(st.sampled_from(keys))] = data.draw(
            st.sampled_from([None, True, -1, 1e308, 10**400, "", "x" * 300, [], {}, [1, [2]], {"a": {"b": 1}}])
        )
    accepted(kind, json.dumps(document).encode())


def test_the_report_of_storage_has_a_table_a_direction_and_says_what_was_asked_of_all(tmp_path):
    slower = json.loads(VALID["fio"])
    slower["jobs"][0]["read"]["iops"] /= 2
    trials = [
        *read("fio", VALID["fio"], "a.json"),
        *read("fio", json.dumps(slower).encode(), "b.json"),
        *read("fio", FIO_CACHED.read_bytes(), "c.json"),
    ]
    run = write_imported(tmp_path, "fio", trials, command=(), now=NOW)
    text = next(p for p in write_report([run.path], formats=("md",), out=None)).read_text()
    assert "Figures reported by the tool: fio, 1 s, blocks of 4k." in text
    assert "no difference is proven between a (" in text
    assert "| c | random reads, by psync, job cache, numjobs 2, size 4M |" in text
    assert text.index("\nread") < text.index("\nwrite")


def test_a_file_of_any_name_is_imported_and_kept(tmp_path):
    (tmp_path / "in").mkdir()
    for name in (
        "my drive.json",
        "+x.json",
        "..json",
        "caf\udce9.json",
        "\u202egnp.json",
        "a\nb.json",
        "-.json",
        "x" * 200 + ".json",
        "other.json",
    ):
        (tmp_path / "in" / name).write_bytes(VALID["fio"])
    trials, faults = read_files("fio", sorted((tmp_path / "in").iterdir()), ImportOptions())
    run = write_imported(tmp_path / "runs", "x", trials, command=(), now=NOW)
    assert not faults and len(trials) == 9
    assert all((run.path / "trials" / f"{r.trial:04d}" / raw).read_bytes() == VALID["fio"] for r in run.records() for raw in r.raw)
