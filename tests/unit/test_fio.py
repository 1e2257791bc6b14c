"""fio's settings, its job file, and what it prints: bins added, percentiles of the sum, seconds of the logs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from disk_experiments import D1, KEPT, loaded, refused
from dutlab.errors import TestbedError, ToolFailed
from dutlab.hosts.host import Done
from dutlab.plan.cell import Cell
from dutlab.spec.drives import DriveSpec, parse_size
from dutlab.spec.known import FAMILY_MODES, MDRAID
from dutlab.spec.shape import TestbedBounds
from dutlab.spec.workloads.fio import FioSetting, FioWorkload, sections
from dutlab.tools.fio.drives import FoundDrive, find, find_own_array, require_space_on_drives, require_unused_drives
from dutlab.tools.fio.histogram import merged, percentile, percentiles
from dutlab.tools.fio.output import cached_reads, jobs_of, rates_now, readings, total
from dutlab.tools.fio.program import FioResult, _jobs_of, doubts_of, job_file

RECORDED = Path(__file__).parents[1] / "data" / "fio"

OWN = "modes: {own: {array: /dev/mapper/own, apply: [make], restore: [unmake]}}\n"


class Lsblk:
    """A host of which lsblk lists `drives`; it notes what it was asked."""

    name = "server"

    def __init__(self, *drives, signatures="", kernel_name=""):
        self.drives, self.signatures, self.kernel_name, self.asked = drives, signatures, kernel_name, []

    async def run(self, argv, **_):
        self.asked.append(argv[0] if argv[0] == "lsblk" else "look" if "wipefs" in argv[2] else "path")
        listed = json.dumps({"blockdevices": [{"type": "disk", "size": "1073741824", "serial": "S1", **d} for d in self.drives]})
        said = f"{self.kernel_name}\n" if "KNAME" in argv else listed if argv[0] == "lsblk" else self.signatures
        return Done("server", tuple(argv), 0, said.encode(), b"", 0.0, 0.0)


@pytest.mark.parametrize(
    ("body", "at"),
    [
        ("{options: {rw: randread, filename: /dev/sda}}", "options.filename"),
        ("{options: {rw: randread, exec_prerun: reboot}}", "options.exec_prerun"),
        ("{options: {rw: randread, directory: /etc}}", "options.directory"),
        ("{options: {rw: randread, ioengine: http}}", "options.ioengine"),
        ("{options: {rw: randread, ioengine: 'external:/tmp/x.so'}}", "options.ioengine"),
        ("{options: {rw: randread, bs: '4k\\nfilename=/dev/sda'}}", "options.bs"),
        ("{options: {rw: randread, bs: '${HOME}'}}", "options.bs"),
        ("{options: {rw: randraed}}", "options.rw"),
        ("{options: {bs: 4k}}", "options.rw"),
        ("{options: {rw: read, runtime: 60}}", "options.runtime"),
        ("{options: {rw: [read, read]}}", "options.rw"),
        ("{}", "options"),
        ("{options: {rw: read}, links: [[a]]}", "links"),
        ("{options: {rw: read}, drives: [[server:d7]]}", "drives.0"),
        ("{options: {rw: read}, drives: [server:d1]}", "drives.0"),
        ("{options: {rw: read}, drives: [[server:d1, 3]]}", "drives.0"),
        ('{job: "[a]\\nrw=read\\nfilename=/dev/sda\\nexec_prerun=id\\n"}', "job"),
        ("{job: 'no job'}", "job"),
    ],
)
def test_what_would_touch_anything_but_the_drives_or_is_wrong_is_refused_with_its_place(tmp_path, body, at):
    fault, *_ = refused(tmp_path, "fio", body)
    assert (fault.line, fault.path) == (5, f"workloads.0.fio.{at}")


@pytest.mark.parametrize(
    ("drives", "at"),
    [
        ("d1: {by-id: sda}", "d1.by-id"), ("d1: {by-id: /dev/nvme0n1}", "d1.by-id"), ("d1: {by-id: ../../sda}", "d1.by-id"),
        ("d1: {serial: nvme0n1}", "d1.serial"), ("d1: {}", "d1.by-id"), ("d1: {by-id: a, serial: b}", "d1.by-id"),
        ("d1: {file: /dev/sda, size: 1G}", "d1.file"), ("d1: {file: /tmp/x}", "d1.size"), ("d1: {serial: X}, d2: {serial: X}", "d2"),
        ("d1: {by-id: a, folder: /tmp}", "d1.folder"),
    ],
)  # fmt: skip
def test_a_drive_is_named_by_what_stays_and_once(tmp_path, drives, at):
    assert [fault.path for fault in refused(tmp_path, "fio", "{options: {rw: read}}", drives)] == [f"hosts.server.drives.{at}"]


def test_nothing_is_written_without_leave(tmp_path, golden):
    bodies = [f"{{options: {{rw: [read, '{rw}']}}}}" for rw in ("randwrite", "write", "randrw", "trim", "trimwrite", "write:8k")]
    faults = [refused(tmp_path, "fio", body, KEPT) for body in (*bodies, '{job: "[a]\\nreadwrite=randwrite\\n"}')]
    assert {fault.path for of in faults for fault in of} == {"workloads.0.fio.options.rw", "workloads.0.fio.job"}
    assert loaded(tmp_path, "fio", "{options: {rw: [read, randread]}}", KEPT)
    faults += [refused(tmp_path, "fio", READS, of_four(), "raid50"), refused(tmp_path, "fio", READS, of_four("size: 1G"), "raid5")]
    faults += [
        refused(tmp_path, "fio", EACH, of_four(), "raid5"),
        refused(tmp_path, "fio", READS, "d1: {by-id: sda}"),
        refused(tmp_path, "fio", "{}"),
    ]
    golden.check("refusals-drives.txt", "".join(f"{fault.path}: {fault.what}\n" for of in faults for fault in of))


def test_each_list_is_a_trial_each_and_depths_are_numbers_and_what_a_run_keeps_of_it_is_read_back(tmp_path):
    drives = {f"server:d{i}": DriveSpec(name=f"d{i}", by_id=f"d{i}") for i in (1, 2, 3)}
    bounds = TestbedBounds({}, drives)
    work = FioWorkload.model_validate(
        {"drives": ["each", "together", "halves"], "options": {"rw": ["read", "randread"], "iodepth": [1, 16], "bs": "4k"}}
    )
    found = list(work.drives(bounds))
    assert work.count(bounds) == len(found) == (3 + 1 + 1) * 2 * 2  # the half of one drive is that drive alone
    assert {d.links for d in found} == {(n,) for n in drives} | {tuple(drives), ("server:d2", "server:d3")}
    assert {d.setting.params["iodepth"] for d in found} == {1, 16}
    experiment = loaded(tmp_path, "fio", "{options: {rw: [read, randread], iodepth: [1, 4]}, ramp: 1s}")
    assert type(experiment).model_validate(experiment.model_dump(mode="json")) == experiment


def test_a_job_file_names_the_drives_and_nothing_else():
    setting = FioSetting(options={"rw": "randread", "bs": "4k"}, writes=False, ramp_s=0.5, duration_s=2)
    text = job_file(
        setting, {"d1": FoundDrive("server:d1", "/dev/nvme0n1", 1 << 30), "d2": FoundDrive("server:d2", "/dev/nvme1n1", 1 << 29)}
    )
    jobs = sections(text)
    assert list(jobs) == ["server:d1", "server:d2"]
    assert jobs["server:d1"]["filename"] == "/dev/nvme0n1" and jobs["server:d2"]["size"] == str(1 << 29)
    assert all((j["direct"], j["runtime"], j["ramp_time"], j["time_based"]) == ("1", "2000ms", "500ms", "1") for j in jobs.values())
    own = FioSetting(
        options={"iodepth": "8"}, job="[global]\nbs=64k\nfilename=/dev/sda\n[a]\nrw=read\niodepth=1\n", writes=False, ramp_s=0, duration_s=2
    )
    (only,) = sections(job_file(own, {"d1": FoundDrive("server:d1", "/dev/nvme0n1", 1 << 30)})).values()
    assert (only["filename"], only["bs"], only["iodepth"], only["rw"]) == ("/dev/nvme0n1", "64k", "8", "read")


@pytest.mark.parametrize(("text", "found"), [("512", 512), ("4k", 4096), ("1M", 1 << 20), ("10G", 10 << 30), ("2TiB", 2 << 40)])
def test_sizes_are_binary(text, found):
    assert parse_size(text) == found


BINS = st.dictionaries(st.integers(0, 1 << 34), st.integers(1, 1000), min_size=1, max_size=30)


@settings(max_examples=30)
@given(st.lists(BINS, min_size=1, max_size=5), st.floats(0.001, 1))
def test_bins_added_are_those_of_one_histogram_of_all(parts, share):
    values = sorted(v for part in parts for v, n in part.items() for _ in range(n))
    together = merged(parts)
    assert sum(together.values()) == len(values)
    rank = next(i for i in range(1, len(values) + 1) if i >= share * len(values))
    assert percentile(together, share) == values[rank - 1]


def test_a_percentile_that_too_few_ios_lie_beyond_is_not_told():
    assert set(percentiles({100: 999})) == {"p50"}
    assert set(percentiles({100: 10_000})) == {"p50", "p99", "p999"}


def test_seconds_of_several_jobs_are_added_and_latencies_are_not():
    logs = {
        "iops": b"1700000001000, 100, 0, 4096, 0\n1700000001003, 150, 0, 4096, 0\n1700000002001, 90, 1, 4096, 0\n17000",
        "bw": b"1700000001000, 400, 0, 4096, 0\n",
        "clat": b"1700000001000, 1000, 0, 4096, 0\n1700000001003, 3000, 0, 4096, 0\n",
    }
    found = {(r.at_s, r.name): r.value for r in readings(logs, "server:d1")}
    assert found == {
        (1700000001.0, "iops.read"): 250,
        (1700000002.0, "iops.write"): 90,
        (1700000001.0, "bytes_per_s.read"): 400 * 1024,
        (1700000001.0, "clat_mean_ns.read"): 2000,
    }


def test_our_percentiles_of_a_recorded_report_are_fios_own():
    document = json.loads((RECORDED / "jbod-json-plus.json").read_text())
    jobs = jobs_of(document)
    assert len(jobs) == 4
    for job, raw in zip(jobs, document["jobs"], strict=True):
        of_fio = raw["read"]["clat_ns"]["percentile"]
        mine = job.figures
        for name, key in (("p50", "50.000000"), ("p99", "99.000000"), ("p999", "99.900000")):
            if f"clat_{name}_ns.read" in mine:
                assert mine[f"clat_{name}_ns.read"] == pytest.approx(of_fio[key], rel=1 / 64)
        assert mine["iops.read"] == raw["read"]["iops"]
    whole = total(jobs).figures
    assert whole["iops.read"] == pytest.approx(sum(raw["read"]["iops"] for raw in document["jobs"]))
    assert whole["clat_max_ns.read"] == max(raw["read"]["clat_ns"]["max"] for raw in document["jobs"])


def test_what_fio_reports_twice_is_counted_once_and_percentiles_need_bins():
    job = {"jobname": "a", "usr_cpu": 25.0, "sys_cpu": 25.0, "read": {"total_ios": 1, "iops": 1.0}}
    grouped = jobs_of({"jobs": [{**job, "job options": {"numjobs": "4", "group_reporting": ""}}]})
    alone = jobs_of({"jobs": [{**job, "job options": {"numjobs": "4"}}] * 4})
    assert total(grouped).figures["fio_cpu_cores"] == total(alone).figures["fio_cpu_cores"] == 2.0
    # The sum that fio makes over its clients is not counted again.
    job = {"jobname": "a", "hostname": "one", "read": {"total_ios": 10, "iops": 5.0, "clat_ns": {"mean": 2.0, "bins": {"100": 10}}}}
    jobs = jobs_of({"client_stats": [job, {**job, "hostname": "two"}, {**job, "jobname": "All clients"}]})
    assert [of.client for of in jobs] == ["one", "two"]
    whole = total(jobs)
    assert (whole.ways["read"].iops, whole.ways["read"].clat.bins, whole.ways["read"].clat.mean_ns) == (10.0, {100: 20}, 2.0)
    # Percentiles of several jobs without bins are not told.
    job = {"jobname": "a", "read": {"total_ios": 10, "iops": 5.0, "clat_ns": {"mean": 2.0, "percentile": {"99.000000": 7}}}}
    assert total(jobs_of({"jobs": [job]})).figures["clat_p99_ns.read"] == 7
    assert "clat_p99_ns.read" not in total(jobs_of({"jobs": [job, job]})).figures


@pytest.mark.parametrize(("options", "through_memory"), [
    ({}, True), ({"direct": "0"}, True), ({"buffered": "1"}, True), ({"direct": "1"}, False), ({"direct": ""}, False), ({"buffered": "0"}, False),
    ({"ioengine": "null"}, False), ({"ioengine": "io_uring"}, True),
])  # fmt: skip
def test_what_memory_may_have_answered_is_known_from_the_options_of_a_job(options, through_memory):
    (job,) = jobs_of({"jobs": [{"jobname": "a", "job options": options, "read": {"total_ios": 1, "iops": 1.0}}]})
    assert bool(job.buffered) is through_memory


@pytest.mark.parametrize(
    ("devices", "words"),
    [
        ([{"name": "nvme0n1", "read_ios": 9600, "read_merges": 0}], ""),
        ([{"name": "nvme0n1", "read_ios": 100, "read_merges": 4000}], ""),  # neighbours that the scheduler put together
        ([{"name": "nvme0n1", "read_ios": 12, "read_merges": 3}], "15"),
        ([], ""),
        ("none", ""),
    ],
)
def test_reads_that_never_reached_a_device_are_known(devices, words):
    document = {"jobs": [{"jobname": "a", "read": {"total_ios": 8000, "iops": 1.0}}], "disk_util": devices}
    assert words in (said := cached_reads(document, jobs_of(document))) and bool(said) is bool(words)


def test_a_file_that_memory_holds_is_a_severe_doubt():
    small = FoundDrive("server:f", "/data/f", 1 << 30, {"file_system": "ext4", "memory_bytes": str(8 << 30)}, is_file=True)
    large = FoundDrive("server:f", "/data/f", 16 << 30, {"file_system": "ext4", "memory_bytes": str(8 << 30)}, is_file=True)
    assert [d.kind.name for d in doubts_of({"server": {"f": small}})] == ["FILE_SYSTEM", "PAGE_CACHE"]
    assert [d.kind.name for d in doubts_of({"server": {"f": large}})] == ["FILE_SYSTEM"]


def test_a_report_of_a_killed_fio_is_refused_and_kept():
    whole = json.dumps(
        {"fio version": "fio-3.33", "jobs": [{"jobname": "server:d1", "error": 0, "read": {"total_ios": 5, "iops": 5.0}}]}
    ).encode()
    killed = Done("server", ("fio",), 137, b"", b"fio: terminating on signal 9", 0.0, 0.0)
    for report in (b"", whole[:-20], whole):
        raw = {"fio-server.json": report}
        with pytest.raises(ToolFailed, match="signal 9") as failed:
            _jobs_of("server", killed, report, raw)
        assert failed.value.raw == raw


@pytest.mark.parametrize(
    ("mode", "drives", "needs"),
    [
        ("raid50", 5, "6"), ("raid60", 9, "even"), ("raid5-degraded", 2, "3"), ("lvm-raid6", 4, "5"), ("btrfs-raid10-degraded", 3, "4"),
        ("lvm-raid10", 5, "even"), ("raid6", 4, ""), ("lvm-raid10-rebuilt", 4, ""), ("raid10", 5, ""), ("zfs-raidz1", 3, ""), ("as-found", 1, ""),
    ],
)  # fmt: skip
def test_a_mode_says_how_many_drives_its_array_takes(mode, drives, needs):
    array = FAMILY_MODES[MDRAID][mode].array
    said = array.misfit(drives) if array else ""
    assert needs in said if needs else not said


def of_four(said="destroy: yes"):
    return ", ".join(f"d{i}: {{by-id: nvme-ACME_{i}, {said}}}" for i in range(1, 5))


READS, EACH = "{options: {rw: read}}", "{options: {rw: read}, drives: [each]}"


@pytest.mark.parametrize(
    ("body", "drives", "mode", "at"),
    [
        (READS, of_four(), "raid50", "factors.mode.0"),
        (READS, of_four("size: 1G"), "raid5", "factors.mode.0"),
        (EACH, of_four(), "raid5", "workloads.0.fio.drives"),
        ("{options: {rw: read}, drives: [[server:d1]]}", of_four(), "raid5", "workloads.0.fio.drives"),
        (READS, of_four(), "raid0-degraded", "factors.mode.0"),
        (READS, of_four(), "lvm-raid50", "factors.mode.0"),
        (READS, of_four(), "lvm-raid6", "factors.mode.0"),
        (READS, of_four("size: 1G"), "btrfs-raid1", "factors.mode.0"),
        (EACH, of_four(), "zfs-mirror", "workloads.0.fio.drives"),
        (READS, D1 + ", f: {file: /tmp/x, size: 1G, destroy: yes}", "raid0", "factors.mode.0"),
        (READS, KEPT, "own", "factors.mode.0"),
        (EACH, D1, "own", "workloads.0.fio.drives"),
    ],
)
def test_an_array_that_cannot_be_made_is_refused_before_anything_is_touched(tmp_path, body, drives, mode, at):
    assert at in {fault.path for fault in refused(tmp_path, "fio", body, drives, mode, more=OWN if mode == "own" else "")}


def test_an_array_that_can_be_made_is_taken(tmp_path):
    assert loaded(tmp_path, "fio", READS, of_four(), "raid5-rebuilding").factors["mode"] == ("raid5-rebuilding",)
    assert loaded(tmp_path, "fio", READS, mode="own", more=OWN).modes["own"].array == "/dev/mapper/own"


@pytest.mark.parametrize(("purge", "is_refused"), [("blkdiscard", True), ("nvme-format", True), ("none", False)])
def test_a_purge_of_an_array_is_refused_before_anything_is_touched(tmp_path, purge, is_refused):
    how = (tmp_path, "pts", f"{{purge: {purge}}}", of_four("destroy: yes, purge: yes"), "raid5")
    if is_refused:
        assert [fault.path for fault in refused(*how)] == ["workloads.0.pts.purge"]
    else:
        assert loaded(*how).factors["mode"] == ("raid5",)


def cell_of(**options):
    setting = FioSetting(options={"rw": "read", **options}, writes=False, ramp_s=0, duration_s=1)
    return Cell(mode="m", factors={"mode": "m"}, tool="fio", links=("server:d1",), setting=setting, repeat=1)


def test_a_job_that_would_begin_beyond_the_end_of_its_drive_is_refused():
    drives = {"d1": FoundDrive("server:d1", "/dev/nvme0n1", 1 << 30), "d2": FoundDrive("server:d2", "/dev/nvme1n1", 1)}
    for numjobs, step in (("4", "256M"), ("1", "2G"), ("4", "25%"), ("8", "0")):
        require_space_on_drives([cell_of(numjobs=numjobs, offset_increment=step)], drives)
    for numjobs, step in (("5", "256M"), ("3", "512M"), ("5", "25%")):
        with pytest.raises(TestbedError, match=f"server:d1: job {numjobs} .*{1 << 30}"):
            require_space_on_drives([cell_of(numjobs=numjobs, offset_increment=step)], drives)


def found_on(host, **how):
    return asyncio.run(find(host, {"d1": DriveSpec(name="d1", serial="S1", destroy=True)}, **how))


def test_a_drive_in_use_or_of_the_system_or_with_the_number_of_another_is_refused_where_it_will_be_written():
    host = Lsblk({"path": "/dev/sdx", "mountpoints": ["/data"]})
    require_unused_drives(found_on(host))
    assert "look" not in host.asked
    with pytest.raises(TestbedError, match="/data"):
        require_unused_drives(found_on(host, written={"d1"}))
    assert "look" in host.asked
    # A serial number that two drives have is refused with both.
    with pytest.raises(TestbedError, match="/dev/sdx, /dev/sdy") as both:
        found_on(Lsblk({"path": "/dev/sdx"}, {"path": "/dev/sdy"}))
    assert "by-id" in str(both.value)
    # The drive of the system itself is refused with all reasons at once.
    part = {"path": "/dev/sdx2", "type": "part", "size": "1000000000", "mountpoints": ["/"]}
    signatures = "signature /dev/sdx gpt at 0x200\nsignature /dev/sdx2 ext4 at 0x438\n"
    host = Lsblk({"path": "/dev/sdx", "mountpoints": [None], "children": [part]}, signatures=signatures)
    with pytest.raises(TestbedError) as all_reasons:
        require_unused_drives(found_on(host, written={"d1"}))
    assert all(why in str(all_reasons.value) for why in ("mounted at /", "gpt", "ext4"))


@pytest.mark.parametrize(
    ("kernel_name", "of", "why"), [("dm-0", "xy", "/dev/sdy"), ("sdx", "xy", "itself"), ("", "xy", "not a block device"), ("dm-0", "x", "")]
)
def test_an_array_of_the_users_own_is_made_of_the_drives_that_are_named_and_no_other(kernel_name, of, why):
    made = {"path": "/dev/mapper/own", "kname": "dm-0", "type": "dm", "size": "1073741824"}
    drives = [{"path": f"/dev/sd{d}", "kname": f"sd{d}", "serial": f"SD{d.upper()}", "children": [made] if d in of else []} for d in "xy"]
    host = Lsblk(*drives, kernel_name=kernel_name)
    looked = find_own_array(host, "/dev/mapper/own", "own", {"d1": DriveSpec(name="d1", serial="SDX", destroy=True)}, look=False)
    if not why:
        assert {name: drive.path for name, drive in asyncio.run(looked).items()} == {"array": "/dev/mapper/own"}
        return
    with pytest.raises(TestbedError, match=why):
        asyncio.run(looked)


@pytest.mark.parametrize(("told", "goes_on"), [("all", True), ("read", True), ("none", False), (None, False)])
def test_a_job_that_was_told_to_go_on_after_errors_has_figures_and_a_count_of_them(told, goes_on):
    document = json.loads((RECORDED / "randrw.json").read_text())
    document["jobs"][0] |= {"error": 5, "total_err": 1024, "first_error": 5}
    if told is not None:
        document["jobs"][0]["job options"]["continue_on_error"] = told
    (job,) = jobs_of(document)
    assert (job.continued_after_errors, job.errors) == (goes_on, 1024)


def test_bins_of_several_hosts_are_added_and_percentiles_taken_from_the_sum():
    def on(host, bins):
        clat = {"clat_ns": {"N": sum(bins.values()), "mean": 1.0, "max": 9, "bins": {str(k): v for k, v in bins.items()}}}
        (job,) = jobs_of({"jobs": [{"jobname": f"{host}:d1", "read": {"total_ios": sum(bins.values()), "iops": 100.0, **clat}}]})
        return FioResult({host: "3.33"}, {f"{host}:d1": job}, (), {}, (), {})

    quick, slow = {1000: 99_000}, {1000: 500, 8_000_000: 500}
    whole = FioResult.of([on("a", quick), on("b", slow)]).whole.figures
    assert (whole["iops.read"], whole["clat_p99_ns.read"], whole["clat_p999_ns.read"]) == (200.0, 1000, 8_000_000)
    alone = [on("a", quick).whole.figures["clat_p99_ns.read"], on("b", slow).whole.figures["clat_p99_ns.read"]]
    assert sum(alone) / 2 > 4e6, "an average of the hosts' percentiles is nobody's"


@pytest.mark.parametrize(
    ("line", "rates"),
    [
        ("Jobs: 1 (f=1): [m(1)][-.-%][r=20.5MiB/s,w=20.7MiB/s][r=5243,w=5302 IOPS][eta 00m:00s]", {"iops.read": 5243, "iops.write": 5302}),
        ("Jobs: 4 (f=4): [r(4)][50.0%][r=312MiB/s][r=79.9k IOPS][eta 00m:03s]", {"iops.read": 79_900}),
        ("Jobs: 1 (f=1): [w(1)][10.0%][w=3.1GiB/s][w=1.2M IOPS][eta 01d:03h:00m:03s]", {"iops.write": 1_200_000}),
        ("Jobs: 1 (f=1)", {}),
        ("Jobs: 1 (f=1): [L(1)][100.0%][eta 00m:00s]", {}),
        ("Jobs: 1 (f=1): [r(1)][r=.k IOPS]", {}),
        ("", {}),
    ],
)
def test_what_fio_does_is_read_from_the_line_that_it_prints_each_second(line, rates):
    assert rates_now(line) == rates
