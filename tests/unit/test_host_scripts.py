"""What dutlab has a host's `sh` do, in every shell that may be one, and where there is nothing but BusyBox."""

from __future__ import annotations

import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from capability import need_program
from dutlab.hosts import private_folder
from dutlab.systems import posix_lease
from processes import eventually

SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "zsh": ["zsh", "--emulate", "sh"], "busybox": ["busybox", "sh"]}
_APPLETS = ("sh", "ls", "mkdir", "rm", "cat", "ln", "mktemp", "chmod", "tr", "sed", "dd", "readlink", "ps", "printf", "setsid")


@pytest.fixture(params=SHELLS)
def shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    program = need_program(SHELLS[request.param][0])
    if request.param == "busybox":
        (tmp_path / "bin").mkdir()
        for name in _APPLETS:
            (tmp_path / "bin" / name).symlink_to(program)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return [str(program), *SHELLS[request.param][1:]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o1777)
    return tmp_path / "shared"


def made(shell: list[str], path: Path, place: Path) -> subprocess.CompletedProcess[str]:
    argv = [*shell, "-c", private_folder._MAKE, "dutlab", str(path), str(place)]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_a_folder_is_made_for_its_owner_alone_and_only_once(shell: list[str], place: Path) -> None:
    done = made(shell, place / "ours", place)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert stat.S_IMODE((place / "ours").stat().st_mode) == 0o700
    assert made(shell, place / "ours", place).returncode != 0
    (place / "link").symlink_to(place / "ours")
    assert made(shell, place / "link", place).returncode != 0


def test_no_folder_is_made_where_others_may_rename_it(shell: list[str], place: Path) -> None:
    place.chmod(0o777)
    done = made(shell, place / "ours", place)
    assert done.returncode == 1 and "every user may rename" in done.stderr
    assert not (place / "ours").exists()


def test_a_held_folder_is_removed_when_its_input_ends(shell: list[str], place: Path) -> None:
    argv = [*shell, "-c", private_folder._MAKE + private_folder._HOLD, "dutlab", str(place / "ours"), str(place)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == b"made\n"
        (place / "ours" / "file").touch()
        holder.kill()  # as its group is when dutlab was killed
    assert eventually(lambda: not (place / "ours").exists())


@pytest.fixture
def hold(shell: list[str], place: Path) -> Iterator[list[str]]:
    """The lease's script, with folders of the test's own in place of those of the machine."""
    script = posix_lease.SCRIPT.replace(posix_lease.ROOTS, str(place / "none")).replace(posix_lease.SHARED, str(place))
    yield [*shell, "-c", script, "dutlab-lease"]
    shutil.rmtree(place)


def test_a_lease_that_a_living_process_holds_is_seen_by_the_next(hold: list[str]) -> None:
    with subprocess.Popen([*hold, "one", ""], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as first:
        assert first.stdout is not None and first.stdout.readline() == b"ours\n"
        second = subprocess.run([*hold, "two", "over"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
        assert second.stdout.splitlines() == [b"held", b"one"], second.stderr
        first.kill()
    third = subprocess.run([*hold, "three", ""], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert third.stdout.splitlines() == [b"left", b"one"], third.stderr
    fourth = subprocess.run([*hold, "four", "over"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert fourth.stdout.splitlines()[0] == b"ours", fourth.stderr
