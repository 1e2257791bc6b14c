"""Public files of fio, pkt-gen and smartctl (tests/data/cases, each with its source and its right answer), and others of their kinds."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.fio_run import device_of
from dutlab.interop.imported_run import ImportOptions, write_imported
from dutlab.interop.importers import read_data, read_files
from dutlab.report.write import write_report
from dutlab.systems.linux_facts.drives import health_of
from dutlab.tools.fio.output import jobs_of
from dutlab.units import BpsL1

CASES = Path(__file__).parents[1] / "data" / "cases"
FIO = Path(__file__).parents[1] / "data" / "fio"


def case(number: int, kind: str, *names: str, said: ImportOptions = ImportOptions()):  # noqa: B008 -- it never changes
    (folder,) = CASES.glob(f"{number}-*")
    trials, faults = read_files(kind, [folder / name for name in names], said)
    assert not faults
    return trials


@pytest.mark.parametrize(
    ("number", "name", "figures", "doubts"),
    [
        (14, "ssd.json", {"storage": {"iops.read": 100_000, "fio_cpu_cores": 0.6}}, []),
        (15, "ssd.json", {"storage": {"iops.read": 70_000, "iops.write": 30_000, "iops": 100_000}}, []),
        (16, "hdd.json", {"storage": {"iops.read": 180}}, [DoubtKind.TOOL_INCOMPLETE, DoubtKind.STORAGE_ERRORS]),
        (
            17,
            "cluster.json",
            {"node-a": {"iops.read": 6000}, "node-b": {"iops.read": 5900}, "node-a+node-b": {"iops.read": 11_900, "clat_p99_ns.read": 1.5e6}},
            [],
        ),
        (18, "disk.txt", {"storage": {"iops.read": 5400, "bytes_per_s.read": 21600 * 1024, "clat_mean_ns.read": 180_200}}, []),
        (
            20,
            "hdd.txt",
            {"storage": {"iops.read": 1048576 / 72.472, "bytes_per_s.read": 57_875 * 1024, "clat_mean_ns.read": 1_087_670, "clat_p99_ns.read": 2_352_000, "slat_mean_ns.read": 13_450}},
            [],
        ),
        (
            45,
            "disk.txt",
            {"storage": {"iops.read": 4981375 / 60.144, "bytes_per_s.read": 324 * 2**20, "clat_mean_ns.read": 3_091_200, "clat_p99_ns.read": 12_256_000, "clat_p999_ns.read": 16_712_000, "fio_cpu_cores": 0.632}},
            [],
        ),
    ],
)  # fmt: skip
def test_a_file_of_fio_is_one_test_with_these_figures(number, name, figures, doubts) -> None:
    (trial,) = case(number, "fio", name)
    for place, of in figures.items():
        assert {figure: trial.measured.figures[place][figure] for figure in of} == pytest.approx(of)
    assert set(trial.measured.figures) == set(figures)
    assert [d.kind for d in trial.measured.doubts] == doubts


def test_the_spread_between_jobs_is_a_detail() -> None:
    (trial,) = case(14, "fio", "ssd.json")
    assert [row["iops"] for row in trial.measured.tables["jobs"]] == [24_800, 25_000, 25_100, 25_100]


def test_a_folder_is_a_device_where_files_are_called_by_their_options() -> None:
    trials = case(44, "fio", "one-ssd/randread-16-1.json", "raid0-of-3/randread-16-1.json")
    assert {t.cell.mode: t.measured.figures["storage"]["iops.read"] for t in trials} == {"one-ssd": 47_400, "raid0-of-3": 62_100}


def test_a_sender_faster_than_its_line_is_doubted() -> None:
    (trial,) = case(22, "pkt-gen", "tx.txt", said=ImportOptions(BpsL1(1e10)))
    figures = trial.measured.figures["a"]
    assert trial.cell.params["frame_size"] == 16_388
    assert figures["offered_bps_l1"] == pytest.approx(79.18e9, rel=1e-3)
    assert {DoubtKind.QUEUED_NOT_SENT, DoubtKind.ABOVE_LINE_RATE} <= {d.kind for d in trial.measured.doubts}


def test_a_drive_without_a_sensor_has_no_temperature() -> None:
    (folder,) = CASES.glob("37-*")
    text = (folder / "sdd.json").read_text()
    assert {name: of for name, of in health_of(text).items() if name in ("temperature_c", "hours")} == {"hours": 21_000}
    warm = re.sub(r'("temperature": \{\s*"current": )0', r"\g<1>31", text)
    assert health_of(warm)["temperature_c"] == 31
    assert "temperature_c" not in health_of('{"temperature": 0, "power_on_hours": 5}'), "kelvin of nvme-cli"


def read(kind: str, data: bytes | str, name: str = "device.txt", line: float | None = None):
    return read_data(kind, name, data.encode() if isinstance(data, str) else data, ImportOptions(None if line is None else BpsL1(line)))


@pytest.mark.parametrize(("version", "trials"), [(2, 2), (3, 1), (4, 1), (5, 1)])
def test_lines_of_semicolons_of_one_job_are_one_moment_where_their_disks_say_so(version: int, trials: int) -> None:
    data = (FIO / f"terse-{version}.txt").read_bytes()
    found = read("fio", data)
    fields = [line.split(";") for line in data.decode().splitlines()]
    first = 5 if version > 2 else 4
    assert len(found) == trials
    assert sum(t.measured.figures["storage"]["iops.read"] for t in found) == sum(int(of[first + 2]) for of in fields)
    kinds = [d.kind for t in found for d in t.measured.doubts]
    assert kinds == ([DoubtKind.TOOL_INCOMPLETE] if trials == 2 else [DoubtKind.PAGE_CACHE]), "version 2 names no disks"
    shorter = b"\n".join(line.rpartition(b";")[0] for line in data.splitlines()) if version == 2 else data.replace(b";0;0;", b";0;")
    with pytest.raises(InputError):
        read("fio", shorter[: len(shorter) // 4])


def test_reads_and_writes_that_are_also_told_together_count_once() -> None:
    (trial,) = read("fio", (FIO / "unified-both.txt").read_bytes())
    of = trial.measured.figures["storage"]
    assert of["iops"] == pytest.approx(of["iops.read"] + of["iops.write"], rel=0.001)
    (job,) = jobs_of(
        {"jobs": [{"jobname": "a", **{way: {"total_ios": n, "iops": n} for way, n in (("read", 7), ("write", 3), ("mixed", 10))}}]}
    )
    assert (job.ios, job.both.iops) == (10, 10)


JOB = {"jobname": "a", "groupid": 0, "job options": {"rw": "read"}, "read": {"total_ios": 60, "iops": 10.0, "runtime": 6000}}


@pytest.mark.parametrize(
    ("jobs", "links"),
    [
        ([JOB, {**JOB, "jobname": "b"}], [("a", "b")]),  # two files at once
        ([JOB, {**JOB, "jobname": "b", "groupid": 1}], [("storage",), ("storage",)]),  # one after the other
        ([JOB, {**JOB, "groupid": 1}], [("storage",), ("storage",)]),  # the same again
        ([JOB, {**JOB, "job options": {"rw": "write"}}], [("storage",), ("storage",)]),  # a reader beside a writer
        ([{**JOB, "job options": {}}, {**JOB, "jobname": "b", "job options": {}}], [("storage",), ("storage",)]),  # nobody knows of what
    ],
)
def test_what_ran_at_once_with_the_same_options_is_one_test(jobs, links) -> None:
    found = read("fio", json.dumps({"jobs": jobs}))
    assert [t.cell.links for t in found] == links
    assert sum(t.measured.figures[t.cell.link_label]["iops.read"] for t in found) == 20


@pytest.mark.parametrize(
    ("path", "device"),
    [
        ("ssd.json", "ssd"),
        ("lab/nvme0n1/4k/randread-1-1.json", "nvme0n1"),
        ("lab/old/run2/randwrite-qd32-4k.json", "old"),
        ("lab/ssd/980-randread.json", "980-randread"),
        ("lab/980/read.json", "980"),
    ],
)
def test_a_name_that_says_options_only_is_no_device(path: str, device: str) -> None:
    assert device_of(path) == device


def test_runs_of_fio_in_one_file_are_tests_of_their_own() -> None:
    at = {"fio version": "fio-3.36", "timestamp": 1000}
    runs = [
        {**at, "jobs": [JOB]},
        {**at, "timestamp": 1100, "jobs": [JOB]},
        {**at, "timestamp": 1103, "jobs": [{**JOB, "read": {**JOB["read"], "runtime": 9000}}]},
    ]
    found = read("fio", "\n".join(json.dumps(run, indent=1) for run in runs))
    assert [(len(t.left_out), t.ended and t.ended.timestamp()) for t in found] == [(0, 1000), (1, 1103)], "the last two are of one run"


def pkt_gen(size: int, pps: float, *, way: str = "Sent", seconds: int = 4, scale: str = "K", at: float = 100.0) -> str:
    by = {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}[scale]
    lines = [
        f"{at + n:010.6f} main_thread [2781] {pps / 1e3:.3f} Kpps ({pps / 1e3:.3f} Kpkts {pps * size * 8 / by:.3f} {scale}bps in 1000000 usec) 5.00 avg_batch 0 min_space"
        for n in range(seconds)
    ]
    end = f"{way} {pps * seconds:.0f} packets {pps * seconds * size:.0f} bytes 9 events {size} bytes each in {seconds:.2f} seconds."
    return "\n".join([*lines, end, ""])


def test_each_size_of_one_log_of_pkt_gen_survives() -> None:
    sizes = {60: 1_488_000.0, 508: 200_000.0, 1514: 81_000.0}
    sent = read("pkt-gen", "".join(pkt_gen(size, pps) for size, pps in sizes.items()))
    assert {t.cell.params["frame_size"]: t.measured.figures["a"]["offered_pps"] for t in sent} == {
        size + 4: pps for size, pps in sizes.items()
    }
    # A receiver runs on while sizes change, and closes with one mean of all.
    lines = [line for size, pps in sizes.items() for line in pkt_gen(size, pps, seconds=5).splitlines()[:-1]]
    between = "103.500000 main_thread [2781] 90.000 Kpps (90.000 Kpkts 90.001 Mbps in 1000000 usec) 5.00 avg_batch 0 min_space"
    log = "\n".join(
        [*lines[:5], between, *lines[5:], "Received 8845000 packets 4100000000 bytes 9 events 463 bytes each in 16.00 seconds.", ""]
    )
    came = read("pkt-gen", log)
    assert {t.cell.params["frame_size"]: t.measured.figures["a"]["received_pps"] for t in came} == {
        size + 4: pps for size, pps in sizes.items()
    }
    assert [(of.what, of.count) for of in came[0].left_out] == [("reports", 1), ("closing accounts", 1)]


@pytest.mark.parametrize(("scale", "size"), [("G", 9000), ("T", 9000)])
def test_pkt_gen_counts_in_giga_and_tera(scale: str, size: int) -> None:
    (trial,) = read("pkt-gen", pkt_gen(size, 20e6, scale=scale))
    assert trial.cell.params["frame_size"] == size + 4
    # Rates that no line carries are doubted in what was sent too.
    (above,) = read("pkt-gen", pkt_gen(60, 15.88e6, scale=scale), line=1e10)
    assert DoubtKind.ABOVE_LINE_RATE in {d.kind for d in above.measured.doubts}


@pytest.mark.parametrize(
    ("log", "figures"),
    [
        ("Sent 14000000 packets, 60 bytes each, in 10.00 seconds.\n", [{"offered_pps": 1.4e6, "offered_bps_l1": 1.4e6 * 84 * 8}]),  # 2015
        ("Received 14000000 packets, in 10.00 seconds.\n", [{"received_pps": 1.4e6}]),
        (f"Source\n{pkt_gen(60, 1e6).rpartition('Sent')[0]}\nSink\n{pkt_gen(60, 9e5, at=50.0).rpartition('Sent')[0]}", [{"offered_pps": 1e6}, {"received_pps": 9e5}]),
        ("100.0 x\n010.000000 main [2735] interface is netmap:ix0\n012.000000 receiver_body [1] reading\n" + pkt_gen(60, 9e5).rpartition("Sent")[0], [{"received_pps": 9e5}]),
        ("010.000000 main [2960] Sending 512 packets every  0.000512000 s\n" + pkt_gen(60, 1e6), [{"offered_pps": 1e6, "intended_pps": 1e6}]),
    ],
)  # fmt: skip
def test_who_sent_and_who_received_is_told_by_the_log(log: str, figures) -> None:
    found = read("pkt-gen", log)
    assert [{name: t.measured.figures["a"][name] for name in of} for t, of in zip(found, figures, strict=True)] == figures


IPGEN_TABLE = """
rfc2544 tolerable error rate: 0.5000%
rfc2544 trial duration: 60 sec
framesize|0G  1G   2G   3G   4G   5G   6G   7G   8G   9G   10Gbps
---------+----+----+----+----+----+----+----+----+----+----+
      64 |##################                                  3571.43Mbps,  6975446/14880952pps,  46.87%
    1518 |##################################################  9848.48Mbps,   811000/  812743pps,  99.79%

framesize|0   |1m  |2m  |3m  |4m  |5m  |6m  |7m  |8m  |9m  |10m |11m |12m |13m |14m |15m pps
---------+----+----+----+----+----+----+----+----+----+----+----+----+----+----+----+
      64 |##################################                                          6975446/14880952pps,  46.87%
    1518 |####                                                                         811000/  812743pps,  99.79%
"""


def test_ipgens_table_is_its_answer_and_no_rate_at_full_speed() -> None:
    found = read("ipgen", IPGEN_TABLE)
    assert [(t.cell.params["frame_size"], t.measured.figures["a"]["received_pps"]) for t in found] == [(64, 6_975_446), (1518, 811_000)]
    assert [(t.cell.params["loss_percent"], t.cell.params["duration_s"]) for t in found] == [(0.5, 60.0)] * 2
    assert all("intended_pps" in t.measured.figures["a"] for t in found)


def test_a_rate_that_was_set_is_not_the_most_that_comes_through(tmp_path: Path) -> None:
    rows = "mode,workload,frame_size,rate_pps,received_pps\nrouter,sweep,64,1000000,1000000\nnat,sweep,64,1000000,800000\n"
    trials = read("figures", rows, "table.csv")
    assert [t.measured.figures["a"]["intended_pps"] for t in trials] == [1e6, 1e6]
    run = write_imported(tmp_path, "x", trials, command=(), now=datetime(2026, 11, 27, tzinfo=UTC))
    text = next(p for p in write_report([run.path], formats=("md",), out=None)).read_text()
    assert "Forwarding rate (RFC 2285 section 3.6.1)" in text and "FRMOL" not in text


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        ("2.25 Gbits/sec\n2.34 Gbits/sec\n", [("goodput_bps", 2.25e9), ("goodput_bps", 2.34e9)]),
        ("# of iperf3\n329 MBytes   276 Mbits/sec\n\n", [("goodput_bps", 276e6)]),
        ("1.4 Mpps\n", [("received_pps", 1.4e6)]),
        ("144                  \n143 \n", [("value", 144.0), ("value", 143.0)]),
    ],
)
def test_each_line_for_ministat_is_a_repeat(text: str, figures) -> None:
    found = read("ministat", text, "Tests/iperf-null/output")
    assert [next(iter(t.measured.figures["a"].items())) for t in found] == figures
    assert {t.cell.mode for t in found} == {"iperf-null"}
    assert [a.unit for a in found[0].assumed] == (["none"] if figures[0][0] == "value" else [])


def test_a_real_sender_and_receiver_of_several_sizes_have_the_same_sizes() -> None:
    logs = {end: read("pkt-gen", (FIO.parent / "pkt-gen" / f"{end}.log").read_bytes()) for end in ("tx", "rx")}
    assert {end: [t.cell.params["frame_size"] for t in of] for end, of in logs.items()} == {end: [64, 512, 1518] for end in logs}
