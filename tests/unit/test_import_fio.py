"""fio: what its files say becomes our figures; what is broken is named and the rest kept."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime

import pytest

from dutlab.choices import IMPORTS
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import ImportOptions, Omission, write_imported
from dutlab.measures import MeasureUnit, measure_unit
from dutlab.report.write import write_report
from dutlab.spec.drives import DriveSpec
from dutlab.spec.workloads import TestbedBounds
from dutlab.spec.workloads.fio import FioWorkload
from dutlab.tools.fio.output import jobs_of, total
from import_files import FIO, FIO_CACHED

NOW = datetime(2026, 11, 21, tzinfo=UTC)
MIXED = FIO.read_bytes()


def read(data, name="device.json"):
    return IMPORTS["fio"].importer(name, data, ImportOptions())


def doubts(trial):
    return " ".join(d.detail for d in trial.measured.doubts)


def test_a_mixed_load_of_fio_has_both_ways_in_base_units():
    (trial,) = read(MIXED, "runs/nvme-raid.json")
    said = json.loads(MIXED)["jobs"][0]
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
    assert trial.ended.timestamp() == json.loads(MIXED)["timestamp"]
    assert not trial.measured.doubts


def test_fio_before_version_3_counts_microseconds_and_kibibytes():
    job = {"jobname": "old", "read": {"total_ios": 10, "iops": 5.0, "bw": 20, "clat": {"mean": 1.5, "percentile": {"99.000000": 3}}}}
    (trial,) = read(json.dumps({"fio version": "fio-2.2.10", "jobs": [job]}).encode())
    figures = trial.measured.figures["storage"]
    assert (figures["bytes_per_s.read"], figures["clat_mean_ns.read"], figures["clat_p99_ns.read"]) == (20 * 1024, 1500, 3000)


def test_of_reports_one_after_the_other_the_last_counts_and_that_is_said():
    early = json.loads(MIXED)
    early["jobs"][0]["read"]["iops"] = 1.0
    (trial,) = read(json.dumps(early, indent=1).encode() + b"\n" + MIXED)
    assert trial.measured.figures["storage"]["iops.read"] == json.loads(MIXED)["jobs"][0]["read"]["iops"]
    assert [(of.why, of.count) for of in trial.left_out] == [(Omission.SUPERSEDED, 1)]


def test_the_text_of_fio_says_what_its_json_says_of_the_same_run():
    of_text, of_json = (read((FIO.parent / f"two-jobs.{kind}").read_bytes(), "nvme.txt") for kind in ("txt", "json"))
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
    (trial,) = read(FIO_2_TEXT)
    figures = trial.measured.figures["storage"]
    assert figures["bytes_per_s.write"] == 12800 * 1024
    assert figures["iops.write"] == pytest.approx(1600)
    assert (figures["clat_mean_ns.write"], figures["clat_max_ns.write"], figures["clat_p99_ns.write"]) == (19.96e6, 1.2e9, 31e6)
    assert trial.cell.params["bs"] == "8k"
    with pytest.raises(InputError, match="fio job"):
        read(FIO_2_TEXT[: FIO_2_TEXT.index(b"  write:")])


def test_a_report_that_dutlab_had_written_lands_in_the_cell_that_it_was_measured_in():
    drives = {f"server:d{n}": DriveSpec(name=f"d{n}", by_id=f"d{n}") for n in (1, 2, 3, 4)}
    asked = {"options": {"rw": "randread", "bs": "4k", "iodepth": 16}, "ramp": "500ms", "duration": "2s"}
    (drive,) = FioWorkload.model_validate(asked).drives(TestbedBounds({}, drives))
    data = (FIO.parent / "jbod-json-plus.json").read_bytes()
    (trial,) = read(data)
    assert (trial.cell.workload, trial.cell.tool, trial.cell.links) == ("fio", "fio", drive.links)
    assert trial.cell.params == drive.setting.params
    jobs = jobs_of(json.loads(data))
    assert trial.measured.figures == {**{job.name: job.figures for job in jobs}, "+".join(drives): total(jobs).figures}
    assert trial.measured.tables["latency_bins"] == total(jobs).bins != []
    assert not trial.measured.doubts


def test_jobs_reported_as_a_group_are_one_trial_and_reads_that_memory_may_have_answered_are_doubted():
    (trial,) = read(FIO_CACHED.read_bytes())
    assert trial.cell.params["numjobs"] == 2
    assert trial.measured.figures["storage"]["iops.read"] > 0
    assert [d.kind for d in trial.measured.doubts] == [DoubtKind.PAGE_CACHE]
    (one,) = read((FIO.parent / "jbod-json-plus.json").read_bytes().replace(b'"direct" : "1"', b'"direct" : "0"'))
    assert [d.kind for d in one.measured.doubts] == [DoubtKind.PAGE_CACHE]


def test_depths_of_imported_jobs_stand_in_the_order_of_numbers(tmp_path):
    trials = []
    for depth in (16, 2, 128):
        said = json.loads(MIXED)
        said["jobs"][0]["job options"]["iodepth"] = str(depth)
        trials += read(json.dumps(said).encode(), "a.json")
    run = write_imported(tmp_path, "fio", trials, command=(), now=NOW)
    text = next(p for p in write_report([run.path], formats=("md",), out=None)).read_text()
    assert [int(n) for n in re.findall(r"^\| a \| depth (\d+) \|", text, re.MULTILINE)][:3] == [2, 16, 128], text


def test_each_client_of_fio_is_a_trial_and_a_job_that_ended_with_an_error_says_so():
    said = json.loads(MIXED)
    failed = json.loads(MIXED)
    failed["jobs"][0]["error"] = 5
    (trial,) = read(json.dumps(failed).encode())
    assert "error 5" in doubts(trial)
    said["client_stats"] = [said["jobs"][0] | {"hostname": host} for host in ("one", "two")]
    del said["jobs"]
    said["global options"] = [{"bs": "8k"}]
    assert [t.cell.links for t in read(json.dumps(said).encode())] == [("one", "two")]


def test_a_cut_report_of_fio_keeps_what_stands_before_the_cut_and_names_the_line():
    at = MIXED.index(b'"write"') + 40
    (trial,) = read(MIXED[:at])
    figures = trial.measured.figures["storage"]
    assert figures["iops.read"] == json.loads(MIXED)["jobs"][0]["read"]["iops"]
    assert "iops.write" not in figures
    assert f"line {MIXED[:at].count(10) + 1} cannot be read" in doubts(trial)


def test_the_report_of_storage_has_a_table_a_direction_and_says_what_was_asked_of_all(tmp_path):
    slower = json.loads(MIXED)
    slower["jobs"][0]["read"]["iops"] /= 2
    trials = [
        *read(MIXED, "a.json"),
        *read(json.dumps(slower).encode(), "b.json"),
        *read(FIO_CACHED.read_bytes(), "c.json"),
    ]
    run = write_imported(tmp_path, "fio", trials, command=(), now=NOW)
    text = next(p for p in write_report([run.path], formats=("md",), out=None)).read_text()
    assert "fio, 1 s, blocks of 4k" in text and "no difference is proven" in text
    assert "| c | random reads, by psync, job cache, numjobs 2, size 4M |" in text
    assert text.index("\nread") < text.index("\nwrite")
