"""Names from outside are opened below one folder, or not at all; with openat2(2) and without it."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from capability import need
from dutlab.bounds import RAW
from dutlab.store import beneath
from dutlab.store.beneath import Beneath, NameFault, OutsideFolder, parts_of


@pytest.fixture(params=["openat2", "a part at a time"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Beneath]:
    if request.param == "openat2":
        need("openat2", beneath._has_openat2())
    else:
        monkeypatch.setattr(beneath, "_has_openat2", lambda: False)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "secret").write_bytes(b"secret")
    (tmp_path / "in").mkdir()
    with Beneath.opened(tmp_path / "in") as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("/etc/passwd", NameFault.ABSOLUTE), ("../x", NameFault.DOTS), ("a/../x", NameFault.DOTS), (".", NameFault.DOTS), ("", NameFault.EMPTY_PART),
        ("a//b", NameFault.EMPTY_PART), ("a/", NameFault.EMPTY_PART), ("a\0b", NameFault.CONTROL), ("a\nb", NameFault.CONTROL),
    ],
)  # fmt: skip
def test_a_name_that_leads_elsewhere_is_refused_with_its_kind(name: str, kind: NameFault, folder: Beneath) -> None:
    for refuse in (parts_of, folder.open, folder.make_folder, lambda n: folder.write_new(n, io.BytesIO())):
        with pytest.raises(OutsideFolder) as refused:
            refuse(name)
        assert (refused.value.name, refused.value.kind) == (name, kind)


def test_files_are_written_once_and_read_below_the_folder(folder: Beneath, tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    folder.write_new("a/b/c d..é", io.BytesIO(b"1"))
    folder.write_new("x", io.BytesIO(b"2"))
    assert (tmp_path / "in/a/b/c d..é").read_bytes() == b"1"
    with pytest.raises(FileExistsError):
        folder.write_new("x", io.BytesIO(b"3"))
    with folder.open_plain("x", RAW) as file:
        assert file.read() == b"2"
    with pytest.raises(FileNotFoundError):
        folder.open("absent/x")
    with pytest.raises(NotADirectoryError):
        folder.make_folder("x/y")
    assert len(list(Path("/proc/self/fd").iterdir())) == before, "no descriptor is left"


def test_no_link_is_followed_and_no_pipe_waited_for(folder: Beneath, tmp_path: Path) -> None:
    inside = tmp_path / "in"
    (inside / "real").mkdir()
    for name, target in {
        "up": tmp_path / "elsewhere",
        "file": tmp_path / "elsewhere" / "secret",
        "here": "real",
        "gone": tmp_path / "made",
    }.items():
        (inside / name).symlink_to(target)
    os.mkfifo(inside / "pipe")
    actions = [folder.open, lambda n: folder.open_plain(n, RAW), lambda n: folder.open(n, os.O_WRONLY | os.O_CREAT)]
    for act, name in [*((a, n) for a in actions for n in ("file", "gone", "up/secret", "here/x")), (folder.make_folder, "up/new"),
                      (folder.make_folder, "here"), (lambda n: folder.write_new(n, io.BytesIO(b"x")), "up/new")]:  # fmt: skip
        with pytest.raises(OutsideFolder) as refused:
            act(name)
        assert refused.value.kind is NameFault.LINK
    with pytest.raises(OutsideFolder) as refused:
        folder.open_plain("pipe", RAW)
    assert refused.value.kind is NameFault.NOT_PLAIN
    with pytest.raises(FileExistsError):
        folder.write_new("gone", io.BytesIO(b"x"))
    assert [p.name for p in (tmp_path / "elsewhere").iterdir()] == ["secret"] and not (tmp_path / "made").exists()


def test_a_folder_that_is_swapped_for_a_link_meanwhile_gets_nothing(folder: Beneath, tmp_path: Path) -> None:
    folder.write_new("a/first", io.BytesIO(b"1"))
    (tmp_path / "in/a").rename(tmp_path / "in/away")
    (tmp_path / "in/a").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OutsideFolder):
        folder.write_new("a/second", io.BytesIO(b"2"))
    assert not (tmp_path / "elsewhere/second").exists()
