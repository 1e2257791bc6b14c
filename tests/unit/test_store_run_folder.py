"""The run folder: written once, whole or absent, and readable by whoever comes later."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capability import have_mount, need
from cells import cell_of
from dutlab.bounds import RECORD
from dutlab.errors import InputError, StoreError
from dutlab.sensors.sensor import Sample
from dutlab.store.beneath import NameFault, OutsideFolder
from dutlab.store.details import CommandRecord, FlowHistograms, TrialDetails
from dutlab.store.names import UnsafeName, checked_component, checked_relative, run_name
from dutlab.store.record import TrialRecord
from dutlab.store.record_files import NewerRun, OlderRun
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import query_samples
from dutlab.store.write import AlreadyWritten, opened_to_append, write_once
from golden import Golden
from processes import LIMIT_S

NOW = datetime(2026, 11, 21, 8, 1, 30, tzinfo=UTC)
SRC = Path(__file__).parents[2] / "src"


def record(trial: int = 1) -> TrialRecord:
    cell = cell_of("iperf3", streams=4)
    return TrialRecord(
        trial=trial, status="measured", cell=cell, started=NOW, ended=NOW + timedelta(seconds=30), figures={"a": {"goodput_bps": 9.4e9}}
    )


def new_run(runs: Path, token: str = "3f2a") -> RunFolder:
    return RunFolder.create(
        runs, experiment="firewall-modes", experiment_yaml=b"experiment: firewall-modes\n", testbed_yaml=None,
        resolved={"experiment": {"name": "firewall-modes"}}, plan={"seed": 7, "trials": []}, now=NOW, token=token,
    )  # fmt: skip


def files(folder: Path) -> set[str]:
    return {p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()}


def test_a_run_is_named_by_time_experiment_and_token() -> None:
    assert run_name("firewall-modes", NOW, "3f2a") == "2026-11-21T0801Z-firewall-modes-3f2a"
    assert run_name("firewall-modes", NOW.astimezone(timezone(timedelta(hours=5))), "3f2a") == "2026-11-21T0801Z-firewall-modes-3f2a"


@given(st.text(max_size=200))
def test_any_experiment_name_gives_a_run_name_that_is_one_path_component(text: str) -> None:
    name = run_name(text, NOW, "3f2a")
    assert Path(name).name == name == checked_component(name)


def test_a_name_that_could_leave_the_folder_is_refused() -> None:
    for name in (
        "..",
        "../x",
        "/etc/passwd",
        "a//b",
        "a/../b",
        ".hidden",
        "-rf",
        "a b",
        "a\nb",
        "",
        "a/b/c/d/e",
        "x" * 101,
        "a\\b",
        "dut~2",
    ):
        with pytest.raises(UnsafeName):
            checked_relative(name)


def test_a_new_run_holds_what_was_given_and_no_temporary_files(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    assert run.name == "2026-11-21T0801Z-firewall-modes-3f2a"
    assert files(run.path) == {"experiment.yaml", "resolved.json", "plan.json", "seal.json"}
    assert RunFolder.open(run.path).plan == {"seed": 7, "trials": []}
    with pytest.raises(StoreError):
        new_run(tmp_path)  # of the same name
    assert [p.name for p in tmp_path.iterdir()] == [run.name]


def test_a_trial_comes_back_as_it_was_written(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    rows = [Sample(float(t), "dut", "cpu", "cpu0_busy_percent", "%", t * 10.0) for t in range(3)]
    kept = run.write_trial(record(), {"source/iperf3.json": b"{}", "log.txt": b"\x00\xff"}, rows)
    assert kept.raw == ["raw/log.txt", "raw/source/iperf3.json"]
    assert run.record(1) == kept
    assert list(run.records()) == [kept]
    assert (run.path / "trials/0001/raw/log.txt").read_bytes() == b"\x00\xff"
    path = run.samples_path(1)
    assert path is not None
    assert query_samples([path], "SELECT value, unit FROM samples ORDER BY t_s") == [(0.0, "%"), (10.0, "%"), (20.0, "%")]


def test_a_record_is_never_rewritten_and_a_finished_trial_not_discarded(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.write_trial(record(), {})
    assert run.samples_path(1) is None, "no samples leave no file"
    before = (run.path / "trials/0001/record.json").read_bytes()
    with pytest.raises(AlreadyWritten):
        run.write_trial(record().model_copy(update={"status": "failed", "why": "second try"}), {})
    with pytest.raises(StoreError, match="finished trial"):
        run.discard_incomplete(1)
    assert (run.path / "trials/0001/record.json").read_bytes() == before
    assert run.finished() == {1}


def test_an_unsafe_raw_name_stops_the_trial_before_anything_is_written(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    with pytest.raises(UnsafeName):
        run.write_trial(record(), {"good.txt": b"", "../../evil": b"x"})
    assert not (run.path / "trials/0001").exists()
    assert not list(tmp_path.rglob("evil"))


def test_nothing_is_appended_through_a_link_or_to_a_pipe(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "theirs")
    os.mkfifo(tmp_path / "pipe")
    for name, code in {"link": errno.ELOOP, "pipe": errno.ENXIO}.items():
        with pytest.raises(OSError, match=name) as refused:
            opened_to_append(tmp_path / name)
        assert refused.value.errno == code
    for _ in range(2):
        with opened_to_append(tmp_path / "file") as file:
            file.write(b"x")
    assert (tmp_path / "file").read_bytes() == b"xx" and not (tmp_path / "theirs").exists()


@pytest.mark.parametrize("link", ["trials", "trials/0001", "trials/0001/raw", "trials/0001/raw/dut"])
def test_a_link_in_a_run_from_elsewhere_leads_no_trial_out_of_its_folder(tmp_path: Path, link: str) -> None:
    run = new_run(tmp_path)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    place = run.path / link
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.exists():
        place.rmdir()
    place.symlink_to(elsewhere)
    with pytest.raises(OutsideFolder) as refused:
        run.write_trial(record(), {"dut/out.txt": b"x"})
    assert refused.value.kind is NameFault.LINK and not list(elsewhere.iterdir())


def test_a_record_is_written_after_every_output_and_folder_of_its_trial_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, synced, real = new_run(tmp_path), list[Path](), os.fsync

    def fsync(handle: int) -> None:
        synced.append(Path(f"/proc/self/fd/{handle}").readlink())
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    run.write_trial(record(), {"dut/run/01.out": b"one", "sink/run/01.out": b"two"})
    trial = run.path / "trials" / "0001"
    first = next(n for n, path in enumerate(synced) if path.name.startswith(".record.json"))
    raw = trial / "raw"
    names = {raw / "dut/run/01.out", raw / "sink/run/01.out", raw / "dut/run", raw / "sink/run", raw / "dut", raw / "sink", raw, trial}
    assert set(synced[:first]) == {*names, trial.parent}
    assert len(synced[:first]) == len(set(synced[:first])), "each once"


def test_a_cut_trial_is_moved_aside_and_can_be_done_again(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    for cut in (1, 2):
        (run.path / "trials/0007/raw").mkdir(parents=True)
        (run.path / "trials/0007/raw/half.json").write_bytes(b"{")
        assert run.discard_incomplete(7) == run.path / f"trials/0007.cut-{cut}"
        assert (run.path / f"trials/0007.cut-{cut}/raw/half.json").read_bytes() == b"{"
    assert run.discard_incomplete(7) is None
    run.write_trial(record(7), {})
    assert run.finished() == {7}


def test_killed_while_writing_a_trial_leaves_either_a_whole_record_or_none(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    code = (
        "import sys, os, signal; sys.path[:0] = [*sys.argv[1:3], sys.argv[2] + '/..']\n"
        "from pathlib import Path; import dutlab.store.run_folder as rf; from test_store_run_folder import record\n"
        "run, real = rf.RunFolder.open(Path(sys.argv[3])), rf.write_once\n"
        "for dies_at in (1, 2, 3):\n"  # two raw files, then the record
        "    if (child := os.fork()) == 0:\n"
        "        writes = []\n"
        "        def dying(path, data, sync, **of):\n"
        "            writes.append(path)\n"
        "            if len(writes) == dies_at: os.kill(os.getpid(), signal.SIGKILL)\n"
        "            real(path, data, sync, **of)\n"
        "        rf.write_once = dying\n"
        "        run.write_trial(record(), {'a.txt': b'a', 'b.txt': b'b'})\n"
        "        os._exit(0)\n"
        "    _, status = os.waitpid(child, 0)\n"
        "    print(os.waitstatus_to_exitcode(status), run.finished(), run.discard_incomplete(1) is not None)\n"
    )
    argv = [sys.executable, "-c", code, str(SRC), str(Path(__file__).parent), str(run.path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout == "-9 set() True\n" * 3, done.stderr
    run.write_trial(record(), {"a.txt": b"a"})
    assert run.finished() == {1}


def test_host_facts_of_a_resumed_run_stand_beside_the_first(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.write_host("dut", {"kernel": "6.1"})
    run.write_host("dut", {"kernel": "6.18"})
    run.write_host("dut", {"kernel": "6.19"})
    assert {n: f["kernel"] for n, f in run.hosts().items()} == {"dut": "6.1", "dut~2": "6.18", "dut~3": "6.19"}


@pytest.mark.parametrize("name", ["record.json", "plan.json"])
def test_a_file_of_a_newer_or_an_older_dutlab_is_refused_with_what_to_do(tmp_path: Path, name: str, golden: Golden) -> None:
    run = new_run(tmp_path)
    run.write_trial(record(), {})
    path = next(run.path.rglob(name))
    found = json.loads(path.read_text())
    for version, error in ((9, NewerRun), (1, OlderRun)):
        path.write_text(json.dumps({**found, "schema_version": version, "novelty": [1]}))
        with pytest.raises(error) as refused:
            _ = (list(run.records()), run.plan)
        golden.check(f"refusals-{error.__name__}-{path.stem}.txt", f"{refused.value}\n".replace(f"{tmp_path}/", ""))


def test_a_damaged_record_is_a_sentence_that_names_the_file(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.write_trial(record(), {})
    for damage in ("", "{", "[]", '{"trial": "x"}', "null", "\udcff"):
        (run.path / "trials/0001/record.json").write_bytes(damage.encode("utf-8", "surrogateescape"))
        with pytest.raises(StoreError, match=r"trials/0001/record\.json"):
            list(run.records())


def test_what_is_no_run_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a folder"):
        RunFolder.open(tmp_path / "absent")
    with pytest.raises(InputError, match=r"plan\.json"):
        RunFolder.open(tmp_path)


def test_the_manifest_names_each_changed_missing_and_extra_file(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.write_trial(record(), {"a.txt": b"a", "b.txt": b"b"})
    run.write_manifest()
    run.journal.write_text("appended after the run was closed")
    assert run.verify_manifest().none
    assert run.write_manifest() == run.path / "MANIFEST.sha256"
    assert subprocess.run(["sha256sum", "--check", "--quiet", "MANIFEST.sha256"], cwd=run.path, check=False).returncode == 0
    (run.path / "report").mkdir()
    (run.path / "report/report.html").write_text("made later")
    assert run.verify_manifest().none
    (run.path / "trials/0001/raw/a.txt").write_bytes(b"A")
    (run.path / "trials/0001/raw/b.txt").unlink()
    (run.path / "trials/0001/raw/c.txt").write_bytes(b"")
    found = run.verify_manifest()
    assert (found.changed, found.missing, found.extra) == (
        ("trials/0001/raw/a.txt",),
        ("trials/0001/raw/b.txt",),
        ("trials/0001/raw/c.txt",),
    )
    assert [part.split(": ")[1] for part in str(found).split("; ")] == [*found.missing, *found.changed, *found.extra]


def test_a_file_replaced_by_a_link_to_its_copy_is_a_change(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    run.write_trial(record(), {"a.txt": b"a"})
    with pytest.raises(StoreError, match="has not finished"):
        run.verify_manifest()
    run.write_manifest()
    path = run.path / "trials/0001/raw/a.txt"
    path.rename(tmp_path / "copy")
    path.symlink_to(tmp_path / "copy")
    assert run.verify_manifest().changed == ("trials/0001/raw/a.txt",)


def test_samples_of_several_trials_are_asked_at_once_even_under_odd_folder_names(tmp_path: Path) -> None:
    runs = tmp_path / "it's [odd] *"
    runs.mkdir()
    run = new_run(runs)
    for trial in (1, 2):
        run.write_trial(record(trial), {}, [Sample(0.0, "dut", "cpu", "cpu0_busy_percent", "%", trial * 10.0)])
    paths = [p for t in (1, 2) if (p := run.samples_path(t))]
    assert query_samples(paths, "SELECT file, avg(value) FROM samples GROUP BY file ORDER BY file") == [(0, 10.0), (1, 20.0)]


def test_a_forked_process_asks_a_database_of_its_own() -> None:
    code = (
        "import os; from dutlab.store.memory_database import in_memory\n"
        "def asked():\n    with in_memory() as connection:\n        return connection.execute('SELECT sum(range) FROM range(100000)').fetchall()\n"
        "ours = asked()\nif (child := os.fork()) == 0: os._exit(asked() != ours)\n"
        "print(os.waitpid(child, 0)[1], asked() == ours)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=LIMIT_S)
    assert done.stdout == "0 True\n", done.stderr


def test_a_full_disk_is_said_with_what_is_needed_and_leaves_no_half_trial(tmp_path: Path) -> None:
    code = (
        "import sys; sys.path[:0] = [*sys.argv[1:3], sys.argv[2] + '/..']\n"
        "import random; from dutlab.store.write import DiskFull; from test_store_run_folder import *\n"
        "run = new_run(Path(sys.argv[3]))\n"
        "run.write_trial(record(1), {'small.txt': b'x'})\n"
        "try: run.write_trial(record(2), {'first.txt': b'x' * 4096, 'large.bin': b'x' * 2**20})\n"
        "except DiskFull as full: error = full\n"
        "assert error.needed_bytes == 2**20 and 0 <= error.free_bytes < 2**20, error\n"
        "assert 'dutlab resume' in error.remedy\n"
        "rows = [Sample(float(i), 'dut', 'cpu', 'n', '%', random.random()) for i in range(60000)]\n"
        "try: run.write_trial(record(2), {}, rows)\n"
        "except DiskFull as full: print('samples too')\n"
        "assert run.finished() == {1} and [p.name for p in (run.path / 'trials').iterdir()] == ['0001']\n"
        "assert not list(run.path.rglob('.*')), list(run.path.rglob('.*'))\n"
        "run.write_trial(record(2), {'small.txt': b'x'})\n"
    )
    script = f"mount -t tmpfs -o size=400k none '{tmp_path}' && exec '{sys.executable}' -c \"$CODE\" '{SRC}' '{Path(__file__).parent}' '{tmp_path}'"
    need("mount", have_mount())
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script], env={**os.environ, "CODE": code}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "samples too\n"


def test_write_once_leaves_the_first_content_and_a_folder_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    write_once(tmp_path / "x", b"1")
    with pytest.raises(AlreadyWritten):
        write_once(tmp_path / "x", b"2")
    assert [p.name for p in tmp_path.iterdir()] == ["x"]
    assert (tmp_path / "x").read_bytes() == b"1"
    with pytest.raises(StoreError, match="cannot be written"):
        new_run(tmp_path / "x")


def test_what_is_larger_than_readers_take_is_kept_and_the_record_says_so(tmp_path: Path) -> None:
    run = new_run(tmp_path)
    notes = ["x" * RECORD.most_bytes]
    ran = CommandRecord(host="dut", argv=["true"], status=0, started=NOW, seconds=0.1)
    details = TrialDetails(commands=[ran], histograms=[FlowHistograms(link="a", latency_ns=((10, 2),))])
    run.write_trial(record().model_copy(update={"notes": notes}), {"tool.out": b"1"}, details=details)
    (kept,) = run.records()
    assert (kept.status, kept.notes, kept.raw) == ("failed", [], ["raw/too-large-record.json", "raw/tool.out"])
    assert kept.why and json.loads((run.path / "trials/0001/raw/too-large-record.json").read_text())["notes"] == notes
    assert run.details(1) == details
    run.write_trial(record(2), {})
    assert not run.details(2) and run.record(2).figures == record().figures
