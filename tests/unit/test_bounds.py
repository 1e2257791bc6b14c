"""Each door for files of others, with a file that is too large, a pipe, a link, a device: refused at once, named, and the rest goes on."""

from __future__ import annotations

import json
import os
import shutil
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest
from click.testing import CliRunner

from capability import need
from dutlab import bounds, outside
from dutlab.bounds import EVENT_LINE_BYTES, FileBound
from dutlab.cli.config_file import read_config
from dutlab.cli.main import dutlab
from dutlab.cli.serve import _token
from dutlab.cli.versions import VersionKind, version_of
from dutlab.errors import CommandSaidTooMuch, CommandTimedOut, DutlabError, FaultKind, InputError, SpecRefused
from dutlab.events import EVENTS, EventTail
from dutlab.hosts.kernels import release_of
from dutlab.hosts.local import LocalHost
from dutlab.hosts.ssh_command import Head, new_mark
from dutlab.interop.exports import samples_csv, samples_parquet
from dutlab.interop.imported_run import ImportOptions
from dutlab.interop.importers import read_files
from dutlab.interop.metrics import RunMetrics
from dutlab.labs.guest import last_words
from dutlab.outside import AtLink, AtPipe, Unfit, UnfitFile
from dutlab.publish.site import SiteRequest, merge, publish
from dutlab.report.gather import read_run
from dutlab.report.questions.cells import cells_of_table
from dutlab.report.questions.claims import read_card
from dutlab.runner.campaign_plan import read_head
from dutlab.runner.journal import read_journal
from dutlab.sensors import ipmi
from dutlab.serve.live import Following, RunState
from dutlab.spec.yaml_source import folder_of, read_file
from dutlab.store import samples
from dutlab.store.additions import add
from dutlab.store.beneath import Beneath
from dutlab.store.index import Wanted, list_runs, opened
from dutlab.store.run_folder import RunFolder
from dutlab.store.samples import ManySamples
from dutlab.tools.exact.machine import _console
from fake_run import NOW, build
from fake_run import Wanted as RunWanted

HUGE = 1 << 40
"""Bytes of a sparse file: whoever reads it whole never ends."""


@dataclass(frozen=True)
class Door:
    """Where a file of others lies, and who reads it."""

    name: str
    file: str
    enter: Callable[[Path, Path], object]
    """Folder and file → what the door makes of it; it raises DutlabError for what it refuses."""
    is_users: bool = False
    """The user names the file, so a link is followed."""


def record_of(folder: Path, _: Path) -> object:
    return RunFolder(folder).record(1)


def site_with(folder: Path, _: Path) -> object:
    return merge([folder], SiteRequest(folder.parent / "merged"))


def config_in(folder: Path, _: Path) -> object:
    os.environ["XDG_CONFIG_HOME"] = str(folder)
    return read_config()


def rules_of(_: Path, file: Path) -> object:
    if (found := version_of(str(file), None)).kind is VersionKind.RUN:
        raise InputError(str(file))
    return found


DOORS = (
    Door("record", "trials/0001/record.json", record_of),
    Door("plan", "plan.json", lambda folder, _: RunFolder(folder).plan),
    Door("resolved", "resolved.json", lambda folder, _: RunFolder(folder).resolved),
    Door("hosts", "hosts/dut.json", lambda folder, _: RunFolder(folder).hosts()),
    Door("findings", "doctor.json", lambda folder, _: RunFolder(folder).findings()),
    Door("calibration", "calibration.json", lambda folder, _: RunFolder(folder).calibration),
    Door("journal", "journal.jsonl", lambda _, file: read_journal(file)),
    Door("manifest", "MANIFEST.sha256", lambda folder, _: RunFolder(folder).verify_manifest()),
    Door("events", EVENTS, lambda folder, _: EventTail(folder).new()),
    Door("metrics", EVENTS, lambda folder, _: RunMetrics(folder).text()),
    Door("raw output", "trials/0001/raw/out", lambda folder, _: in_folder(folder, "trials/0001/raw/out")),
    Door("claim card", "report/claim-1.json", lambda _, file: read_card(file)),
    Door("site index", "index.json", site_with),
    Door("campaign", "plan.json", lambda folder, _: read_head(folder)),
    Door("import", "iperf3.json", lambda _, file: read_files("iperf3", [file], ImportOptions(None)), is_users=True),
    Door("input", "testbed.yaml", lambda _, file: read_file(file), is_users=True),
    Door("rule set", "rules.nft", rules_of, is_users=True),
    Door("kernel", "vmlinuz", lambda _, file: release_of(file), is_users=True),
    Door("table", "cells.csv", lambda _, file: cells_of_table(file, "v"), is_users=True),
    Door("attachment", "photo.jpg", lambda folder, file: add(folder, "a photo", now=NOW, file=file), is_users=True),
    Door("configuration", "dutlab/config.toml", config_in, is_users=True),
    Door("token", "token", lambda _, file: _token(file), is_users=True),
)


def in_folder(folder: Path, name: str) -> bytes:
    with Beneath.opened(folder) as below:
        return below.read(name, bounds.IMPORT)


def huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(HUGE)


def a_link(path: Path) -> None:
    (path.parent / "elsewhere").write_text("{}")
    path.symlink_to(path.parent / "elsewhere")


PLANTED: dict[str, Callable[[Path], object]] = {
    "too large": huge,
    "pipe": os.mkfifo,
    "link": a_link,
    "link to a device": lambda path: path.symlink_to("/dev/zero"),
    "folder": Path.mkdir,
    "device": lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
}


@pytest.mark.parametrize("what", PLANTED)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_a_door_refuses_it_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, door: Door, what: str) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    folder = tmp_path / "run"
    file = folder / door.file
    (folder / "trials").mkdir(parents=True)
    file.parent.mkdir(parents=True, exist_ok=True)
    try:
        PLANTED[what](file)
    except PermissionError:
        need("root", have=False)
    if door.is_users and what == "link":
        return  # it is followed, and what is behind it is read
    with pytest.raises(DutlabError) as refused:
        door.enter(folder, file)
    assert door.file.rpartition("/")[2] in str(refused.value)
    if isinstance(refused.value, UnfitFile):
        assert refused.value.kind is (
            Unfit.TOO_LARGE if what == "too large" else Unfit.LINK if what.startswith("link") else Unfit.NOT_PLAIN
        )


def test_each_bound_has_a_reason_and_a_file_of_that_size_is_read(tmp_path: Path) -> None:
    found = [value for value in vars(bounds).values() if isinstance(value, FileBound)]
    assert len(found) > 10 and all(bound.why and bound.most_bytes > 0 for bound in found)
    small, file = FileBound("thing", 10, "ten"), tmp_path / "file"
    file.write_bytes(b"0123456789")
    (tmp_path / "link").symlink_to(file)
    assert outside.read(file, small) == outside.read(tmp_path / "link", small, AtLink.FOLLOWED) == b"0123456789"
    file.write_bytes(b"01234567890")
    for path in (file, Path("/proc/self/maps")):  # the second says that it has 0 bytes
        with pytest.raises(UnfitFile) as refused:
            outside.read(path, small)
        assert (refused.value.kind, refused.value.most_bytes) == (Unfit.TOO_LARGE, 10)
    with pytest.raises(UnfitFile) as refused:
        outside.read(tmp_path / "link", small)
    assert refused.value.kind is Unfit.LINK


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs; one has a record of a terabyte."""
    runs = tmp_path_factory.mktemp("runs")
    build(runs, RunWanted(experiment="other"))
    run = build(runs)
    (run / "trials/0001/record.json").unlink()
    huge(run / "trials/0001/record.json")
    return runs


def run_in(runs: Path, word: str) -> Path:
    return next(path for path in runs.iterdir() if word in path.name)


def test_a_record_that_is_too_large_is_named_and_the_others_are_shown(runs: Path) -> None:
    spoilt = run_in(runs, "firewall")
    read = read_run(spoilt)
    assert len(read.records) == len(list(spoilt.glob("trials/*"))) - 1
    assert ["0001/record.json" in fault for fault in read.faults] == [True]
    with opened(runs, rebuild=True) as index:
        lines = {line.name: line for line in list_runs(index, Wanted())}
    assert lines[spoilt.name].status == "damaged" and "0001/record.json" in lines[spoilt.name].fault
    assert lines[run_in(runs, "other").name].status == "finished"
    asked = CliRunner().invoke(dutlab, ["query", "SELECT count(*) FROM runs", "--runs", str(runs)])
    assert asked.exit_code == 0 and "2" in asked.stdout


def test_events_are_streamed_and_a_line_that_is_none_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = b'{"event": "note", "at": "2026-11-26T08:00:00Z", "text": "%s"}\n'
    with (tmp_path / EVENTS).open("wb") as file:
        file.write(note % b"one")
        file.truncate(64 << 20)  # a line of zeros
        file.seek(0, 2)
        file.write(b"\n" + note % b"two" + note % (b"x" * EVENT_LINE_BYTES) + note % b"three")
    tail = EventTail(tmp_path)
    assert [event["text"] for event in tail.new()[1]] == ["one", "two", "three"]
    assert list(tail.new()[1]) == []
    monkeypatch.setattr(bounds, "EVENTS", bounds.EVENTS._replace(most_bytes=100))
    with pytest.raises(UnfitFile):
        tail.new()


@pytest.mark.parametrize("number", ["1" * 400, "1e999", "NaN", "Infinity"])
def test_an_event_with_a_number_that_nothing_counts_to_is_left_out(tmp_path: Path, number: str) -> None:
    head = '{"at": "2026-11-26T08:00:00Z", "event": '
    begun = head + '"run-begun", "folder": "f", "experiment": "e", "trials": 2, "done": 1, "estimate_s": %s, "seed": 1}\n'
    reading = head + '"reading", "trial": 1, "where": "dut", "who": "wall", "values": {"w": %s}}\n'
    (tmp_path / EVENTS).write_text(begun % 60 + begun % number + reading % number + reading % 3)
    assert "dutlab_run_left_seconds" in RunMetrics(tmp_path).text() and number not in RunMetrics(tmp_path).text()
    drawn = list[RunState]()
    Following(tmp_path, lambda state, *_: drawn.append(state) or "").look()
    assert (drawn[0].left_s, [list(of.values) for of in drawn[0].readings.values()]) == (60.0, [[3.0]])


@pytest.mark.parametrize("what", ["pipe", "link to a device", "too large"])
def test_a_page_of_a_run_says_that_its_events_cannot_be_read(tmp_path: Path, what: str) -> None:
    PLANTED[what](tmp_path / EVENTS)
    faults = list[str]()
    Following(tmp_path, lambda _state, _now, fault: faults.append(fault) or "").look()
    assert [EVENTS in fault for fault in faults] == [True]


def test_a_raw_file_that_is_too_large_is_neither_hashed_nor_copied(runs: Path, tmp_path: Path) -> None:
    run = shutil.copytree(run_in(runs, "other"), tmp_path / "run")
    named = next(line.split(maxsplit=1)[1] for line in (run / "MANIFEST.sha256").read_text().splitlines() if "/raw/" in line)
    (run / named).unlink()
    huge(run / named)
    with pytest.raises(UnfitFile):
        RunFolder.open(run).verify_manifest()
    with pytest.raises(UnfitFile):
        publish([run], SiteRequest(tmp_path / "site"))


def test_samples_are_streamed_up_to_a_bound(runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = shutil.copytree(run_in(runs, "other"), tmp_path / "run")
    file = run / "trials/0001/samples.parquet"
    file.unlink()
    duckdb.sql(
        "COPY (SELECT i::DOUBLE AS t_s, 'dut' AS host, 'cpu' AS sensor, 'load' AS name, '%' AS unit, i::DOUBLE AS value"
        f" FROM range(100_000) t(i)) TO '{file}' (FORMAT PARQUET)"
    )
    for path in run.glob("trials/*/samples.parquet"):
        if path != file:
            path.unlink()
    opened_run = RunFolder.open(run)
    assert sum(1 for _ in samples_csv([opened_run])) == 100_001
    monkeypatch.setattr(samples, "SAMPLE_ROWS", 99_999)
    with pytest.raises(ManySamples) as refused:
        list(samples_csv([opened_run]))
    assert (refused.value.path, refused.value.rows) == (file, 100_000)
    assert samples_parquet([opened_run], tmp_path / "all.parquet") == 100_000, "DuckDB streams these itself"


async def test_a_command_that_prints_without_end_keeps_a_part_and_counts_the_rest() -> None:
    fed = LocalHost("box")
    with pytest.raises(CommandSaidTooMuch) as refused:
        await fed.run(["head", "-c", "1000000", "/dev/zero"], most_bytes=1000)
    assert (refused.value.host, refused.value.most_bytes, refused.value.dropped_bytes) == ("box", 1000, 999_000)
    with pytest.raises(CommandTimedOut):
        await fed.run(["cat", "/dev/zero"], timeout_s=0.5)
    process = await fed.spawn([sys.executable, "-c", "import sys; sys.stderr.write('x' * (17 << 20)); sys.stdout.write('y' * (65 << 20))"])
    done = await process.wait(600.0)
    assert (len(done.stdout), done.dropped_bytes) == (bounds.OUTPUT_BYTES, 2 << 20)
    assert bounds.QUESTION_BYTES < len(done.stderr) < bounds.QUESTION_BYTES + 100


def test_a_table_has_lines_of_any_system_and_a_cell_without_end_is_refused() -> None:
    assert outside.csv_of('a,b\rc\r\n"d\ne"\n') == [["a", "b"], ["c"], ["d\ne"]]
    with pytest.raises(ValueError):
        outside.csv_of("x" * 200_000)
    with pytest.raises(ValueError):
        list(ipmi.records("x" * 200_000))


def test_the_end_of_a_console_is_read(tmp_path: Path) -> None:
    huge(tmp_path / "console")
    assert len(_console(tmp_path)) == len(last_words(tmp_path / "console")) == bounds.CONSOLE_BYTES
    assert last_words(tmp_path / "absent") == ""
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(UnfitFile):
        last_words(tmp_path / "fifo")


def test_a_login_that_prints_without_end_is_not_kept() -> None:
    head = Head(mark := new_mark())
    for _ in range(100):
        assert head.take(b"noise" * 10_000) == b""
    assert len(head.noise) <= bounds.NOISE_BYTES
    assert head.take(mark + b"42\nsaid") == b"said" and head.line == b"42"


def test_a_link_that_the_user_names_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real.yaml").write_text("a: 1\n")
    (tmp_path / "link.yaml").symlink_to(tmp_path / "real.yaml")
    assert read_file(tmp_path / "link.yaml") == b"a: 1\n"
    with pytest.raises(InputError):
        outside.read_given(tmp_path / "absent", bounds.INPUT)


EXPERIMENT = b"experiment: e\ntestbed: {lab: three-node}\nfactors: {mode: [router]}\nworkloads: [{path-mtu: {links: [[a]]}}]\n"


@contextmanager
def fed(text: bytes, *, again: bool = False, held: bool = False) -> Iterator[Path]:
    """A pipe with `text`, as a shell names it, once or again and again; `held` open until the block ends."""
    reads, writes = os.pipe()
    closes = [writes]

    def write() -> None:
        with suppress(OSError):
            os.write(writes, text)
            while again:
                os.write(writes, text)
        if not held:
            os.close(closes.pop())

    writer = threading.Thread(target=write)
    writer.start()
    yield Path(f"/dev/fd/{reads}")
    os.close(reads)
    writer.join()
    for handle in closes:
        os.close(handle)


@pytest.mark.parametrize("name", ["pipe", "standard input"])
def test_an_experiment_may_come_by_a_pipe(name: str) -> None:
    with fed(EXPERIMENT) as path:
        before = os.dup(0)
        os.dup2(int(path.name), 0)
        try:
            done = CliRunner().invoke(dutlab, ["plan", "-" if name == "standard input" else str(path), "--json"])
        finally:
            os.dup2(before, 0)
            os.close(before)
    assert done.exit_code == 0 and json.loads(done.stdout)["trials"], done.output
    assert folder_of(path) == folder_of(Path("-")) == Path() and folder_of(Path("a/b.yaml")) == Path("a")


@pytest.mark.parametrize(
    ("how", "kind"),
    [("never written", Unfit.TOO_LATE), ("never closed", Unfit.TOO_LATE), ("endless", Unfit.TOO_LARGE), ("device", Unfit.NOT_PLAIN)],
)
def test_a_pipe_that_never_ends_is_refused_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str, kind: Unfit) -> None:
    monkeypatch.setattr(bounds, "PIPE_S", 0.2 if kind is Unfit.TOO_LATE else 600.0)
    os.mkfifo(tmp_path / "fifo")
    with fed(EXPERIMENT, again=how == "endless", held=how == "never closed") as pipe:
        path = {"never written": tmp_path / "fifo", "device": Path("/dev/zero")}.get(how, pipe)
        with pytest.raises(UnfitFile) as refused:
            outside.read(path, bounds.INPUT, AtLink.FOLLOWED, AtPipe.READ)
    assert refused.value.kind is kind
    with fed(b"") as pipe, pytest.raises(SpecRefused) as unread:
        read_file(pipe)
    assert [fault.kind for fault in unread.value.faults] == [FaultKind.UNREADABLE], "a file that is read again is no pipe"
