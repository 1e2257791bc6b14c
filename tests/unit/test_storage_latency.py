"""Latency at a rate: settings that are refused, the order of rates, figures and doubts of literal outputs, and the stalls of a known drive."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from disk_experiments import BOTH, refused
from dutlab.errors import ToolFailed
from dutlab.plan.cell import Cell
from dutlab.report.gather import read_run
from dutlab.report.model.groups import Group
from dutlab.report.model.notes import NoteBook
from dutlab.report.model.table import Figure
from dutlab.report.sections.storage_latency import section
from dutlab.runner.stalling_drive import waited_ns
from dutlab.spec.drives import DriveSpec
from dutlab.spec.shape import TestbedBounds
from dutlab.spec.workloads.fio_rate import asked_iops, most_write_bytes_per_s, nearest_poisson, poisson_iops
from dutlab.spec.workloads.storage_latency import StorageLatencySetting, StorageLatencyWorkload, in_turn
from dutlab.store.record import TrialRecord
from dutlab.tools.fio import latency, open_loop
from dutlab.tools.fio.arrivals import missed
from dutlab.tools.fio.latency import Loops, slower_when_idle
from dutlab.tools.fio.open_loop import DriveReads
from dutlab.tools.fio.output import jobs_of

BOUNDS = TestbedBounds({}, {"server:d1": DriveSpec(name="d1", by_id="d1", destroy=True)})


def settings_of(**body: object) -> list[StorageLatencySetting]:
    made = [drive.setting for drive in StorageLatencyWorkload.model_validate(body).drives(BOUNDS)]
    assert all(isinstance(setting, StorageLatencySetting) for setting in made)
    return made  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("{rates: 0}", "rates"), ("{rates: 101%}", "rates"), ("{rates: 0%}", "rates"), ("{rates: fast}", "rates"), ("{rates: 2.5}", "rates"),
        ("{rates: 1000001}", "rates"), ("{rates: []}", "rates"), ("{rates: [50%, 50%]}", "rates"), ("{rates: [5, 5.0]}", "rates"),
        ("{reads_percent: 101}", "reads_percent"), ("{block_sizes: 1000}", "block_sizes"), ("{block_sizes: much}", "block_sizes"),
        ("{depth: 0}", "depth"), ("{depth: 4096, block_sizes: 1M}", "depth"), ("{order: shuffled}", "order"), ("{duration: 0s}", "duration"),
        ("{links: [[a]]}", "links"), ("{drives: [[server:d9]]}", "drives.0"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_measured_are_refused_with_their_place(tmp_path, body, at):
    faults = refused(tmp_path, "storage-latency", body, BOTH)
    assert any(fault.path.startswith(f"workloads.0.storage-latency.{at}") and fault.line == 5 for fault in faults)


def test_each_size_with_each_mix_is_a_trial_of_all_rates():
    made = settings_of(rates=[500, "2.50%"], block_sizes=["4k", "64k"], reads_percent=[100, 70], duration="10s", ramp="1s")
    assert len(made) == 4 and {s.rates for s in made} == {("500", "2.5%")}
    assert [s.writes for s in made] == [False, False, True, True]
    assert made[0].finds_most and made[0].parts_s == 5 * 11
    options = made[2].closed(1000.0).options
    assert (options["rate_process"], options["rw"]) == ("poisson", "randrw")
    assert [int(text) for text in options["rate_iops"].split(",")] == pytest.approx([700, 300], abs=1), "fio's gaps are whole microseconds"
    assert settings_of(rates=500)[0].closed(500.0).options["rate_iops"] == "500"
    assert settings_of(rates=500, reads_percent=0)[0].closed(500.0).options["rate_iops"] == ",500"


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_crossed_rates_have_each_place_once_in_as_many_repeats_and_then_run_backwards(count):
    rates = list(range(count))
    orders = [in_turn(rates, repeat, "crossed") for repeat in range(1, 2 * count + 1)]
    for half in (orders[:count], orders[count:]):
        assert all(sorted(order) == rates for order in half)
        assert all(sorted(places) == rates for places in zip(*half, strict=True))
    assert orders[0] == rates and orders[count] == rates[::-1]
    assert in_turn(rates, 2, "as-written") == rates


def test_a_job_writes_no_more_than_its_own_rate():
    assert most_write_bytes_per_s({"rw": "randwrite", "bs": "4k", "rate_iops": "100"}, 60) == 409_600
    assert most_write_bytes_per_s({"rw": "randrw", "bs": "4k", "rate_iops": "100,50", "numjobs": "2"}, 60) == 409_600
    assert most_write_bytes_per_s({"rw": "write", "bs": "64k", "rate": "1m"}, 60) == 1 << 20
    assert most_write_bytes_per_s({"rw": "randrw", "rate_iops": "100,"}, 60) is None, "only reads are limited"
    assert most_write_bytes_per_s({"rw": "randwrite", "bs": "4k", "bssplit": "4k/50:64k/50", "rate_iops": "100"}, 60) is None
    assert most_write_bytes_per_s({"rw": "randwrite", "rate": "fast"}, 60) is None
    poisson = most_write_bytes_per_s({"rw": "randwrite", "bs": "512", "rate_iops": "100", "rate_process": "poisson"}, 100)
    assert poisson is not None and 104 * 512 <= poisson < 104.1 * 512, "four standard deviations of 10,000 arrivals above their mean"
    first, most = settings_of(rates=[100, "50%"], reads_percent=0, duration="50s", ramp="0s")[0].writing[::2]
    assert first.most_s == 100 and first.most_bytes_per_s == pytest.approx(104 * 4096)
    assert (most.most_s, most.most_bytes_per_s) == (50, None)


def test_the_rate_of_fios_poisson_process_is_the_one_that_fio_3_33_made():
    """Measured with the engine `null` of fio 3.33: 180,910 IOPS for 150,000, and 395,343 for 300,000."""
    assert poisson_iops(150_000) == pytest.approx(180_910, rel=0.005)
    assert poisson_iops(300_000) == pytest.approx(395_343, rel=0.005)
    assert poisson_iops(500) == pytest.approx(500, rel=0.002)
    for iops in (90.0, 12_345.0, 150_000.0):
        assert abs(poisson_iops(nearest_poisson(iops)) - iops) <= abs(poisson_iops(round(iops)) - iops)
    assert asked_iops({"rate_iops": "150000", "rate_process": "poisson"})["read"] == poisson_iops(150_000)


def report(*, iops: float, deviation: float, windows: int = 119, seconds: int = 60, **options: str) -> str:
    """A report in the words of fio 3.33, shortened to the members that count."""
    return f"""{{"fio version": "fio-3.33", "timestamp_ms": 1795798968097, "jobs": [{{"jobname": "server:d1", "groupid": 0, "error": 0,
        "job options": {json.dumps({"rw": "randread", "bs": "4k", **options})}, "job_runtime": {seconds * 1000},
        "read": {{"total_ios": {round(iops * seconds)}, "iops": {iops}, "bw_bytes": {iops * 4096}, "runtime": {seconds * 1000},
        "iops_min": 400, "iops_max": 600, "iops_mean": {iops}, "iops_stddev": {deviation}, "iops_samples": {windows},
        "clat_ns": {{"N": 100, "mean": 1000.0, "max": 5000, "bins": {{"1000": 100}}}}}}}}]}}"""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (report(iops=499.8, deviation=31.9, rate_iops="500", rate_process="poisson"), []),
        (report(iops=499.8, deviation=1.1, rate_iops="500"), []),
        (report(iops=350.0, deviation=20.0, rate_iops="500"), ["350 IOPS"]),
        (report(iops=499.8, deviation=1.1, rate_iops="500", rate_process="poisson"), ["only"]),
        (report(iops=499.8, deviation=60.0, rate_iops="500", rate_process="poisson"), ["not a Poisson"]),
        (report(iops=430.0, deviation=60.0, rate_iops="500", rate_process="poisson"), ["430 IOPS", "not a Poisson"]),
        (report(iops=499.8, deviation=60.0, windows=3, rate_iops="500", rate_process="poisson"), []),
        (report(iops=181_000.0, deviation=900.0, rate_iops="150000", rate_process="poisson"), []),
        (report(iops=256.0, deviation=9.0, rate="1m"), []),
        (report(iops=200.0, deviation=9.0, rate="1m"), ["256 were asked"]),
        (report(iops=200.0, deviation=90.0), []),
    ],
)
def test_a_missed_rate_or_distribution_is_seen_in_fios_report(text, found):
    whys = missed(jobs_of(json.loads(text)))
    assert len(whys) == len(found)
    assert all(word in why for word, why in zip(found, whys, strict=True))


def output(buckets: dict[int, int], *, late: dict[int, int] | None = None, **fields: object) -> bytes:
    """Output of the engine's drive-load."""
    count = sum(buckets.values())
    nothing = {"ios": 0, "errors": 0, "latency": {"mean_ns": 0.0, "max_ns": 0, "buckets": []}}
    mean = sum(value * n for value, n in buckets.items()) / count if count else 0.0
    reads = {"ios": count, "errors": 0, "latency": {"mean_ns": mean, "max_ns": max(buckets, default=0), "buckets": sorted(buckets.items())}}
    lateness = sorted((late or {1000: count}).items())
    done = {
        "began_ns": 1, "due": count, "not_begun": 0, "short_of_threads": 0, "most_under_way": 3, "elapsed_ns": 10**10,
        "reads": reads, "writes": nothing, "late": {"mean_ns": 1.0, "max_ns": 1, "buckets": lateness}, "first_error": None,
    }  # fmt: skip
    return json.dumps({**done, **fields}).encode()


def test_an_open_loop_that_kept_its_instants_gets_no_doubt_and_others_do():
    usual = open_loop.read(output({100_000: 1000}), "server:d1")
    assert open_loop.missed("server:d1", usual) == []
    assert "not begun" in open_loop.missed("server:d1", open_loop.read(output({100_000: 1000}, not_begun=5), "server:d1"))[0]
    assert "`depth`" in open_loop.missed("server:d1", open_loop.read(output({100_000: 1000}, short_of_threads=5), "server:d1"))[0]
    slow = open_loop.missed("server:d1", open_loop.read(output({100_000: 1000}, late={20_000: 1000}), "server:d1"))
    assert len(slow) == 2 and "half" in slow[0] and "1 %" in slow[1]


def test_memory_that_answered_is_seen_in_the_devices_own_counter():
    load = open_loop.read(output({100_000: 1000}), "server:d1")
    assert open_loop.answered_by_memory("server:d1", load, DriveReads(1000, 4_096_000), 4096) == ""
    assert open_loop.answered_by_memory("server:d1", load, DriveReads(None, None), 4096) == "", "a device without a counter"
    assert open_loop.answered_by_memory("server:d1", load, DriveReads(250, 4_096_000), 4096) == "", "merged reads"
    assert "1024000 from the device" in open_loop.answered_by_memory("server:d1", load, DriveReads(250, 1_024_000), 4096)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "it printed nothing"), (b'{"error": "/dev/x: No such file or directory"}', "No such file"), (b"[]", "does not fit"),
        (output({1000: 5}, due=-1), "due"), (output({1000: 5}, late=None, reads=7), "reads"), (output({}), "no I/O was due"),
        (output({}, first_error="Input/output error"), "Input/output error"),
    ],
)  # fmt: skip
def test_output_without_a_result_is_an_error_with_its_reason(data, why):
    with pytest.raises(ToolFailed) as caught:
        open_loop.read(data, "server:d1")
    assert why in str(caught.value) and caught.value.host == "server" and list(caught.value.raw.values()) == [data]


def loops(median_ns: int, count: int) -> Loops:
    spread = {median_ns * (90 + step) // 100: count // 21 for step in range(21)}
    (job,) = jobs_of(json.loads(report(iops=100.0, deviation=1.0)))
    return Loops([open_loop.read(output(spread), "server:d1")], job)


def test_a_drive_that_answers_later_at_a_low_rate_is_named():
    assert slower_when_idle({"100": loops(100_000, 2100), "1000": loops(100_000, 21_000)}) == []
    assert slower_when_idle({"100": loops(105_000, 2100), "1000": loops(100_000, 21_000)}) == [], "less than a tenth"
    (why,) = slower_when_idle({"1000": loops(100_000, 21_000), "100": loops(150_000, 2100)})
    assert all(value in why for value in ("150 µs", "100iops", "100 µs", "1000iops"))
    assert slower_when_idle({"100": loops(150_000, 21), "1000": loops(100_000, 21_000)}), "21 I/Os are enough for this difference"
    few = Loops([open_loop.read(output({80_000: 20, 130_000: 22}), "server:d1")], loops(1000, 21).closed)
    assert slower_when_idle({"100": few, "1000": loops(100_000, 21_000)}) == [], "the median of so few may be either"


def test_figures_are_computed_again_from_the_raw_files_and_a_missing_one_is_refused():
    (setting,) = settings_of(rates=[100], duration="10s")
    raw = {
        "rate-01-drive-load-server-d1.json": output({1_000_000: 998, 200_000_000: 12}),
        "rate-01-closed-fio-server.json": report(iops=100.0, deviation=1.0).encode(),
    }
    figures = latency.again(setting, raw)
    assert figures["100iops/iops"] == 101.0 and figures["100iops/lat_p99_ns"] == 200_000_000
    assert figures["100iops/lat_p50_ns"] == 1_000_000 and "100iops/lat_p999_ns" not in figures, "fewer than ten I/Os took longer"
    assert figures["100iops/closed_error_p50_percent"] == pytest.approx(-99.9)
    with pytest.raises(ValueError, match="kept"):
        latency.again(setting, {name: data for name, data in raw.items() if "closed" in name})


def test_the_wait_of_a_known_share_follows_from_the_stalls():
    stalls = [(n * 10**10 + 5 * 10**9, n * 10**10 + 5 * 10**9 + 200_000_000) for n in range(6)]
    assert waited_ns(stalls, 0, 60.0, 0.001) == pytest.approx(190e6, rel=1e-6), "a thousandth of 10 s is the first 10 ms of a stall"
    assert waited_ns([*stalls, (10**12, 10**12 + 10**9)], 0, 60.0, 0.001) == pytest.approx(190e6, rel=1e-6), "after the load"
    # Of a stall that has begun before the load, only the instants after its begin count.
    assert waited_ns([(0, 200_000_000)], 150_000_000, 10.0, 0.001) == pytest.approx(40e6, rel=1e-6)
    assert waited_ns([(0, 1_000_000)], 0, 60.0, 0.001) == pytest.approx(0.0, abs=1.0)


def test_the_report_has_both_loops_with_the_error_of_the_closed_one_for_each_rate(built: Callable[..., Path]) -> None:
    (setting,) = settings_of(rates=[200, "50%"], duration="10s")
    cell = Cell(mode="as-found", factors={"mode": "as-found"}, tool="fio", links=("server:d1",), setting=setting, repeat=1)
    figures = {
        f"{part}/{name}": value
        for part, iops in (("200iops", 200.0), ("50%", 1000.0))
        for name, value in (("iops", iops), ("lat_p50_ns", 1e6), ("lat_p99_ns", 2e8), ("clat_p50_ns", 1e6), ("clat_p99_ns", 2e6),
                            ("closed_error_p50_percent", 0.0), ("closed_error_p99_percent", -99.0))
    }  # fmt: skip
    now = datetime(2026, 11, 23, tzinfo=UTC)
    record = TrialRecord(trial=1, status="measured", cell=cell, started=now, ended=now, figures={"server:d1": figures})
    groups = [Group("as-found", cell, [1], [record])]
    part = section(read_run(built(seconds=2, cores=0, sizes=(64, 1518))), groups, ["as-found"], NoteBook(groups))
    opened, closed = part.tables
    assert [row.cells[:4] for row in opened.rows] == [("server:d1", "random reads", "4k", rate) for rate in ("200", "50%")]
    errors = [row.cells[[column.figure for column in closed.columns].index("closed_error_p99_percent")] for row in closed.rows]
    assert [error.median for error in errors if isinstance(error, Figure)] == [-99.0, -99.0]
    (curve,) = part.curves
    assert [line.points for line in curve.lines] == [((200.0, 2e8), (1000.0, 2e8)), ((200.0, 2e6), (1000.0, 2e6))]
    assert [("at 200 IOPS" in words, "at 50%" in words) for words in part.words] == [(True, False), (False, True)]
    assert all("99 % of the I/Os" in words and "-99 %" in words for words in part.words)
