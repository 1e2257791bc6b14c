"""Folders and files of this user keep their modes whatever umask dutlab was started with."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dutlab.labs.sshd import write_files
from dutlab.labs.state import StateFolder
from dutlab.own_folder import own_folder
from dutlab.report.pages.compiled import KeptTemplates
from dutlab.report.pages.html import environment
from dutlab.store.fleet_database import SqliteDatabase
from dutlab.store.seal import own_key

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
def test_private_folders_are_private_under_any_umask(
    tmp_path: Path, make: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
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
