"""fio on the drives of the lab `jbod`: held to their ratings, never on a drive that somebody uses, and nothing left behind."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from capability import have_loop, need, need_engine, need_program
from dutlab.hosts.local import LocalHost
from dutlab.labs import drives
from dutlab.spec.workloads.fio import FioSetting
from dutlab.stats.steady import steadiness
from dutlab.tools.fio import program
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.generator_tool import GeneratorSite
from main_job import only_run, recomputed, records
from processes import LIMIT_S, eventually, running_with

pytestmark = pytest.mark.timing

EXPERIMENT = """
experiment: storage
testbed: {lab: jbod}
factors: {mode: [as-found]}
workloads:
  - fio:
      drives: [[server:d1, server:d2]]
      options: {rw: WAY, bs: 4k, iodepth: 4}
      duration: 2s
repeats: 1
disturbed: count
"""
RATED = {"randread": 2000, "randwrite": 1000}


@pytest.fixture(autouse=True)
def able():
    need_program("fio")
    need("loop", have_loop())


def loops() -> str:
    return subprocess.run(["losetup", "-a"], capture_output=True, text=True, check=True).stdout


def left(label: str) -> list[Path]:
    return [path for path in (drives.folder_of(label), drives.group_of(label)) if path.exists()]


def device_of(label: str, drive: str) -> str:
    return str((drives.folder_of(label) / drive).resolve())


@pytest.fixture
def jbod(dutlab, label):
    done = dutlab("lab", "up", "jbod", "--label", label)
    assert done.returncode == 0, done.stderr
    yield label
    done = dutlab("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert not left(label) and f"drives-{label}/" not in loops()


def digest(label: str, drive: str) -> str:
    return hashlib.sha256((drives.folder_of(label) / f"{drive}.img").read_bytes()).hexdigest()


@pytest.fixture
def measured(dutlab, experiment, jbod, tmp_path):
    """Carries out an experiment of one trial on some drives of the lab, and holds that the others are not touched: the run, its record."""

    def of(text: str, *bystanders: str):
        before = {drive: digest(jbod, drive) for drive in bystanders}
        done = dutlab("run", experiment(text), "--lab", jbod)
        assert done.returncode == 0, done.stderr
        assert {drive: digest(jbod, drive) for drive in bystanders} == before
        run = only_run(tmp_path)
        (record,) = records(run)
        assert record["status"] == "measured", record["why"]
        return run, record

    return of


@pytest.mark.parametrize("way", ["randread", "randwrite"])
def test_drives_do_what_they_are_rated_and_bystanders_are_not_touched(dutlab, measured, tmp_path, way):
    _, record = measured(EXPERIMENT.replace("WAY", way), "d3", "d4")
    direction = way.removeprefix("rand")
    figures = record["figures"]
    both = figures["server:d1+server:d2"][f"iops.{direction}"]
    assert both == pytest.approx(sum(figures[d][f"iops.{direction}"] for d in ("server:d1", "server:d2")))
    assert both <= 2 * RATED[way] * 1.1, (
        "no drive is faster than the kernel lets it be; how much slower a busy machine makes it is not held"
    )
    assert figures["server:d1"][f"clat_p50_ns.{direction}"] > 0
    assert "/dev/loop" in record["tool_facts"]["server:d1_path"]
    samples = dutlab("query", "SELECT count(*) AS n FROM samples WHERE name LIKE 'iops.%'", "--runs", str(tmp_path / "runs"))
    assert samples.returncode == 0 and any(int(w) > 0 for w in samples.stdout.split() if w.isdecimal()), samples.stdout + samples.stderr


LIMIT = """
experiment: limit
testbed: {lab: jbod}
factors: {mode: [as-found]}
workloads:
  - storage-limit: {drives: [[server:d1]], block_sizes: 4k, reads_percent: 70, deepest: 8, ramp: 0s, duration: 200ms}
repeats: 1
disturbed: count
"""


def test_the_limit_of_a_drive_is_sought_over_depth_and_told_in_the_report(measured):
    run, record = measured(LIMIT, "d2", "d3", "d4")
    figures = record["figures"]["server:d1"]
    depths = {row["depth"]: row["iops"] for row in record["tables"]["depths"]}
    assert {1, 2, 4} <= depths.keys() <= set(range(1, 9)), depths
    assert figures["peak/iops"] == max(depths.values()) == depths[figures["peak/depth"]]
    assert figures["least/iops"] >= 0.95 * figures["peak/iops"] and figures["least/depth"] <= figures["peak/depth"]
    assert recomputed(run, record)["server:d1"] == pytest.approx(figures), "by its raw files alone"
    page = (run / "report" / "report.html").read_text()
    assert "Peak, knee and least depth" in page and "IOPS over depth" in page, "the table and the curve"


LATENCY = """
experiment: latency
testbed: WHERE
factors: {mode: [as-found]}
workloads:
  - storage-latency: {DRIVES, rates: [200, 50%], reads_percent: READS, depth: 32, ramp: 100ms, duration: 2s}
repeats: 1
disturbed: count
"""


def latency_text(where: str, drives: str, reads: int) -> str:
    return LATENCY.replace("WHERE", where).replace("DRIVES", drives).replace("READS", str(reads))


def test_the_latency_of_a_drive_at_a_rate_is_measured_in_both_loops(measured):
    need_engine()
    run, record = measured(latency_text("{lab: jbod}", "drives: [[server:d1]]", 70), "d2", "d3", "d4")
    figures = record["figures"]["server:d1"]
    rows = {row["rate"]: row for row in record["tables"]["rates"]}
    assert rows.keys() == {"200", "50%"} and {row["place"] for row in rows.values()} == {1, 2}
    assert 2 * 200 - 80 < rows["200"]["due"] < 2 * 200 + 80, "four standard deviations of a Poisson process"
    assert figures["most/iops"] <= 2000 / 0.7 * 1.1, "reads are limited to 2000 a second, and are 70 % of all"
    for part in ("200iops", "50%"):
        assert 0 < figures[f"{part}/lat_p50_ns"] <= figures[f"{part}/lat_max_ns"]
        closed = figures[f"{part}/clat_p50_ns"]
        assert figures[f"{part}/closed_error_p50_percent"] == pytest.approx(100 * (closed / figures[f"{part}/lat_p50_ns"] - 1))
    assert recomputed(run, record)["server:d1"] == pytest.approx(figures), "by its raw files alone"
    page = (run / "report" / "report.html").read_text()
    assert "Open loop" in page and "error at 99 %" in page


def test_the_latency_of_a_file_is_marked_and_the_file_is_removed(dutlab, experiment, tmp_path):
    need_engine()
    file = tmp_path / "in-place.img"
    (tmp_path / "testbed.yaml").write_text(
        f"testbed: file\nhosts:\n  here: {{local: true, drives: {{f: {{file: {file}, size: 16M, destroy: yes}}}}}}\n"
    )
    done = dutlab("run", experiment(latency_text("testbed.yaml", "drives: together", 100)))
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    assert record["status"] == "measured", record["why"]
    assert record["figures"]["here:f"]["200iops/lat_p50_ns"] > 0
    assert {"FILE_SYSTEM", "PAGE_CACHE"} <= {doubt["kind"] for doubt in record["doubts"]}, "it is smaller than memory"
    assert not file.exists()


PTS = """
experiment: pts
testbed: {lab: jbod}
factors: {mode: [as-found]}
workloads:
  - pts:
      drives: [[server:d1]]
      tests: iops
      purge: blkdiscard
      passes: 1
      block_sizes: 4k
      reads_percent: 0
      most_rounds: 5
      duration: 200ms
repeats: 1
disturbed: count
"""


def test_a_drive_is_purged_preconditioned_and_measured_in_rounds(measured, jbod):
    device = Path(device_of(jbod, "d1"))
    mark = b"what was there before"
    with device.open("r+b") as drive:
        drive.write(mark)
    run, record = measured(PTS, "d2", "d3", "d4")
    (verdict,) = record["tables"]["verdict"]
    assert verdict["rounds"] == 5 == record["figures"]["server:d1"]["rounds"]
    tracked = [row["iops"] for row in record["tables"]["rounds"]]
    found = steadiness(tracked)
    assert found is not None
    assert verdict["state"] == ("steady" if found.is_steady else "not reached") == record["tool_facts"]["state"]
    assert ("NOT_STEADY" in {doubt["kind"] for doubt in record["doubts"]}) is not found.is_steady
    assert device.read_bytes()[: len(mark)] != mark, "the whole drive was erased and written"
    assert recomputed(run, record)["server:d1"] == pytest.approx(record["figures"]["server:d1"]), "by its raw rounds alone"
    assert f"iops: {verdict['state']}" in (run / "report" / "report.html").read_text()


PTS_LONG = PTS.replace("tests: iops", "tests: TEST").replace(
    "      block_sizes: 4k\n      reads_percent: 0\n",
    "      jobs: 1\n      interval: 300ms\n      saturation: 2s\n      histogram: 300ms\n      pauses: [1s]\n      burst: 2s\n      bursts: 2\n"
    "      stimuli: [3s, 2s, 3s]\n      threads: [2, 1]\n      depths: [2, 1]\n      prewrite: 200ms\n      point: 300ms\n"
    "      point_prewrite: 200ms\n      active_range: 50\n",
)
"""Tests of pts beyond rounds, with times as short as fio keeps them, on the first half of a drive."""
HEADS = {
    "write-saturation": ("first minute", "r0_4k/iops"),
    "host-idle-recovery": ("÷ without pause", "pause1s/after_idle_ratio"),
    "cross-stimulus-recovery": ("recovered after", "load3_end/bytes_per_s"),
    "demand-intensity": ("demand variation", "max/iops"),
    "composite": ("demand intensity", "t2q2/iops"),
}
"""Test → words that its report has, and a figure that its record has."""


@pytest.mark.parametrize("test", HEADS)
def test_pauses_loads_and_demands_stay_in_the_active_range_and_are_worked_out_again(measured, jbod, test):
    device = Path(device_of(jbod, "d1"))
    size = 256 << 20
    run, record = measured(PTS_LONG.replace("TEST", test).replace("purge: blkdiscard", "purge: none"), "d2", "d3", "d4")
    words, figure = HEADS[test]
    figures = record["figures"]["server:d1"]
    assert figures[figure] > 0 and words in (run / "report" / "report.html").read_text()
    assert recomputed(run, record)["server:d1"] == pytest.approx(figures), "by its raw files alone"
    (verdict,) = record["tables"]["verdict"]
    assert verdict["active_range_percent"] == 50 and verdict["write_cache"] == "unknown", "a loop device does not say"
    with device.open("rb") as drive:
        assert any(drive.read(size // 2)), "something was written to the first half"
        assert not any(drive.read(size // 2)), "and nothing to the second"


PARTITION_TABLE = bytes(446) + bytes.fromhex("0020210083 4141030008000000080000".replace(" ", "")) + bytes(48) + b"\x55\xaa"
"""A master boot record with one Linux partition of 1 MiB."""


SIGNATURES = {"mke2fs": "ext2", "mkswap": "swap", "dos": "dos"}


def spoil(device: str, how: str) -> None:
    """Leaves a signature on a drive, and nothing else."""
    subprocess.run(["blkdiscard", "--zeroout", device], check=True)
    if how == "dos":
        assert len(PARTITION_TABLE) == 512
        with Path(device).open("r+b") as drive:
            drive.write(PARTITION_TABLE)
    else:
        subprocess.run([need_program(how), "-q", *(["-F"] if how == "mke2fs" else []), device], check=True, capture_output=True)


def test_a_drive_that_has_something_on_it_is_read_and_never_written(dutlab, experiment, jbod):
    for how, name in SIGNATURES.items():
        spoil(device_of(jbod, "d2"), how)
        before = {drive: digest(jbod, drive) for drive in ("d1", "d2")}
        done = dutlab("run", experiment(EXPERIMENT.replace("WAY", "randwrite")), "--lab", jbod)
        assert done.returncode == 3, done.stderr
        assert f"signature of {name}" in done.stderr
        assert "server:d2" in done.stderr and "nothing was written" in done.stderr
        assert {drive: digest(jbod, drive) for drive in before} == before
    assert (done := dutlab("run", experiment(EXPERIMENT.replace("WAY", "randread")), "--lab", jbod)).returncode == 0, done.stderr
    assert {drive: digest(jbod, drive) for drive in before} == before


def test_a_mounted_drive_and_a_drive_that_is_gone_are_named_together(dutlab, experiment, jbod, tmp_path):
    need_program("mke2fs")
    at = tmp_path / "mnt"
    at.mkdir()
    subprocess.run(["mke2fs", "-q", "-F", device_of(jbod, "d1")], check=True, capture_output=True)
    subprocess.run(["mount", device_of(jbod, "d1"), str(at)], check=True)
    try:
        done = dutlab("run", experiment(EXPERIMENT.replace("WAY", "randwrite")), "--lab", jbod)
        assert (done.returncode, f"mounted at {at}" in done.stderr) == (3, True), done.stderr
    finally:
        subprocess.run(["umount", str(at)], check=True)
    (drives.folder_of(jbod) / "d2").unlink()
    done = dutlab("run", experiment(EXPERIMENT.replace("WAY", "randread")), "--lab", jbod)
    assert (done.returncode, "server: d2: " in done.stderr and "does not exist" in done.stderr) == (3, True), done.stderr


def fios_of(tmp_path: Path) -> list[int]:
    """Those of this test's run: in the control group of the lab that its journal names."""
    journals = list((tmp_path / "runs").glob("*/journal.jsonl"))
    lines = [json.loads(line) for p in journals for line in p.read_text().splitlines() if line.endswith("}")]
    groups = [drives.group_of(e["label"]) / "cgroup.procs" for e in lines if e["event"] == "lab-up"]
    inside = {int(pid) for group in groups if group.exists() for pid in group.read_text().split()}
    return [pid for pid in running_with("job.fio") if pid in inside]


def test_a_run_that_is_killed_leaves_no_drive_no_group_and_no_fio_and_goes_on(start, dutlab, experiment, tmp_path):
    running = start("run", experiment(EXPERIMENT.replace("WAY", "randwrite").replace("1s", "8s")))
    assert eventually(lambda: fios_of(tmp_path), LIMIT_S)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    assert eventually(lambda: not fios_of(tmp_path)), "fio goes with the run that started it"
    run = only_run(tmp_path)
    (up,) = [e for line in (run / "journal.jsonl").read_text().splitlines() if (e := json.loads(line))["event"] == "lab-up"]
    assert (done := dutlab("undo", str(run))).returncode == 0, done.stderr
    assert not left(up["label"]) and f"drives-{up['label']}/" not in loops()
    done = dutlab("resume", str(run))
    assert done.returncode == 0, done.stderr
    assert [r["status"] for r in records(run)] == ["measured"]
    labels = {e["label"] for line in (run / "journal.jsonl").read_text().splitlines() if (e := json.loads(line))["event"] == "lab-up"}
    assert len(labels) == 2 and not any(left(label) or f"drives-{label}/" in loops() for label in labels)


def test_a_file_in_place_of_a_drive_is_measured_as_such_and_removed(dutlab, experiment, tmp_path):
    file = tmp_path / "in-place.img"
    (tmp_path / "testbed.yaml").write_text(
        f"testbed: file\nhosts:\n  here: {{local: true, drives: {{f: {{file: {file}, size: 8M, destroy: yes}}}}}}\n"
    )
    text = EXPERIMENT.replace("{lab: jbod}", "testbed.yaml").replace("[[server:d1, server:d2]]", "together").replace("WAY", "randwrite")
    done = dutlab("run", experiment(text))
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    assert "FILE_SYSTEM" in {doubt["kind"] for doubt in record["doubts"]} and not file.exists()
    file.write_bytes(b"precious")
    done = dutlab("run", experiment(text))
    assert (done.returncode, "exists already" in done.stderr, file.read_bytes()) == (3, True, b"precious"), done.stderr


@pytest.fixture
def small_file_system(tmp_path):
    """16 MB that no room is kept in: a file takes it as it is written."""
    need_program("mke2fs")
    image, at = tmp_path / "small.img", tmp_path / "small"
    with image.open("wb") as made:
        made.truncate(16 << 20)
    at.mkdir()
    subprocess.run(["mke2fs", "-q", "-F", "-t", "ext2", str(image)], check=True, capture_output=True)
    subprocess.run(["mount", "-o", "loop", str(image), str(at)], check=True)
    yield at
    subprocess.run(["umount", str(at)], check=True)


def test_a_file_system_that_fills_up_in_a_trial_gives_no_figures_and_is_named(start, dutlab, experiment, tmp_path, small_file_system):
    file = small_file_system / "in-place.img"
    (tmp_path / "testbed.yaml").write_text(
        f"testbed: file\nhosts:\n  here: {{local: true, drives: {{f: {{file: {file}, size: 12M, destroy: yes}}}}}}\n"
    )
    text = EXPERIMENT.replace("{lab: jbod}", "testbed.yaml").replace("[[server:d1, server:d2]]", "together").replace("WAY", "randwrite")
    text = text.replace("iodepth: 4", "iodepth: 4, rate_iops: 50, fallocate: none").replace("1s", "10min")
    running = start("run", experiment(text))
    assert eventually(lambda: file.exists() or running.poll() is not None, LIMIT_S)
    assert running.poll() is None, running.said.read_text()
    with contextlib.suppress(OSError), (small_file_system / "others").open("wb", buffering=0) as others:
        while True:
            others.write(bytes(1 << 16))
    said = running.ended()
    (record,) = records(only_run(tmp_path))
    assert record["status"] == "failed" and "No space left on device" in record["why"], (record, said)
    assert running.returncode == 1 and "No space left on device" in said and "Traceback" not in said, said
    assert not file.exists()
    (small_file_system / "others").unlink()
    (tmp_path / "again.yaml").write_text(text.replace("10min", "1s"))
    done = dutlab("run", "again.yaml", "--runs", str(tmp_path / "again"))
    assert done.returncode == 0, done.stderr


async def test_whoever_looks_on_is_told_meanwhile_what_fio_does(tmp_path):
    told: list[tuple[str, str, dict[str, float]]] = []
    host, file = LocalHost("server"), tmp_path / "drive.img"
    file.write_bytes(bytes(1 << 20))
    site = GeneratorSite({"server": host}, None, {}, None, lambda where, who, values: told.append((where, who, dict(values))))
    found = {"server": {"d1": FoundDrive("server:d1", str(file), 1 << 20, is_file=True, stays=True)}}
    options = {"rw": "randread", "bs": "4k", "ioengine": "psync", "rate_iops": "500"}
    for _ in range(10):  # on a busy machine fio itself is late with its lines
        ran = await program.run(site, found, FioSetting(options=options, writes=False, ramp_s=0, duration_s=2))
        if told:
            break
    assert told and {(where, who) for where, who, _ in told} == {("server", "fio")}, told
    assert any(values.get("iops.read", 0) > 0 for _, _, values in told), told
    assert ran.whole.figures["iops.read"] > 0
