"""Folders and files of this user keep their modes whatever umask dutlab was started with."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dutlab.cli.serve import _token
from dutlab.errors import InputError, StoreError
from dutlab.labs.sshd import write_files
from dutlab.labs.state import StateFolder
from dutlab.own_folder import own_folder, private_text
from dutlab.report.pages.compiled import KeptTemplates
from dutlab.report.pages.html import environment
from dutlab.runner.fleet.security import security_for
from dutlab.runner.journal import Journal
from dutlab.store.fleet_database import SqliteDatabase
from dutlab.store.seal import own_file, own_key
from dutlab.store.write import open_to_append, opened_to_append

REPORT = Path(__file__).parents[1] / "data" / "iperf3" / "ok.json"


@pytest.fixture
def _umask_000() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def templates(folder: Path) -> None:
    made = environment().overlay(bytecode_cache=KeptTemplates(folder / "templates"))
    made.get_template("site_files.html.j2")


DOORS: dict[str, Callable[[Path], object]] = {
    "the key of journals": lambda _: own_key(),
    "leases of a fleet": lambda place: SqliteDatabase(place / "fleet" / "fleet.sqlite").connected().__enter__(),
    "the state of labs": lambda place: StateFolder(place / "run" / "dutlab")._make(),
    "templates that are kept": templates,
    "keys of a lab": lambda place: write_files(place / "ssh" / "lab", []),
}


@pytest.mark.usefixtures("_umask_000")
@pytest.mark.parametrize("make", DOORS.values(), ids=DOORS)
def test_private_folders_are_private_under_any_umask(tmp_path, make, monkeypatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    make(tmp_path)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert made and {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}


@pytest.mark.usefixtures("_umask_000")
def test_a_folder_of_ours_is_taken_from_others_and_one_of_others_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "open").mkdir(mode=0o777)
    own_folder(tmp_path / "open")
    assert stat.S_IMODE((tmp_path / "open").stat().st_mode) == 0o700
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(PermissionError):
        own_folder(tmp_path / "open")


def test_nothing_that_a_command_makes_can_be_written_by_all_users(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", "import os; os.umask(0); from dutlab.cli.main import main; main()", "import", "iperf3"]
    subprocess.run([*argv, str(REPORT), "--runs", str(tmp_path / "runs")], check=True, capture_output=True)
    made = list(tmp_path.rglob("*"))
    assert made and not any(path.stat().st_mode & stat.S_IWOTH for path in made)


def others_can_read(path: Path) -> None:
    path.chmod(0o640)


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


SECRETS: dict[str, Callable[[Path], object]] = {
    "the token of the pages": _token,
    "a key of a fleet": lambda path: security_for("tls://192.0.2.1:8786"),
    "a key of journals": lambda path: own_file("token", bytes)[1] or private_text(path),
}


@pytest.mark.parametrize("harm", [others_can_read, a_pipe])
@pytest.mark.parametrize("read", SECRETS.values(), ids=SECRETS)
def test_a_secret_that_others_can_read_is_refused_at_every_door(tmp_path, read, harm, monkeypatch) -> None:
    monkeypatch.setenv("DUTLAB_FLEET_TLS", str(tmp_path / "dutlab"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "dutlab").mkdir()
    for name in ("token", "ca.pem", "cert.pem", "key.pem"):
        (tmp_path / "dutlab" / name).write_text("0123456789abcdef0123456789abcdef")
        (tmp_path / "dutlab" / name).chmod(0o600)
    for name in ("token", "key.pem"):
        harm(tmp_path / "dutlab" / name)
    with pytest.raises(InputError):
        read(tmp_path / "dutlab" / "token")


APPENDERS: dict[str, Callable[[Path], object]] = {
    "a journal": lambda path: Journal(path).close(),
    "events": lambda path: os.close(open_to_append(path, os.O_RDWR)),
    "a log": lambda path: opened_to_append(path).close(),
}


@pytest.mark.parametrize("append", APPENDERS.values(), ids=APPENDERS)
def test_nothing_is_appended_to_a_link_a_pipe_that_is_read_or_a_device(tmp_path: Path, append: Callable[[Path], object]) -> None:
    (theirs := tmp_path / "theirs").touch()
    (tmp_path / "link").symlink_to(theirs)
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        for path in (tmp_path / "link", tmp_path / "pipe", Path("/dev/null")):
            with pytest.raises((OSError, StoreError)):
                append(path)
    finally:
        os.close(reader)
