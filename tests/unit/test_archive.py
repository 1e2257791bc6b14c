"""Archives of strangers: names that lead elsewhere, links, files that are there twice, bombs and indexes are refused."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path

import pytest

from dutlab import bounds
from dutlab.errors import DutlabError, InputError
from dutlab.publish import archive
from dutlab.publish.archive import unpack


def zipped(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as of:
        for name, data in entries:
            of.writestr(name, data)
    return path


def link(name: str, to: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
    return info, to


def refused(path: Path, folder: Path) -> InputError:
    with pytest.raises(InputError) as found:
        unpack(path, folder)
    assert found.value.exit_status == 2
    return found.value


@pytest.mark.parametrize("name", ["../evil", "a/../../evil", "/etc/evil", "a//b", "./a", "a\nb", ".."])
def test_a_name_that_leads_elsewhere_is_refused_before_anything_is_written(tmp_path: Path, name: str) -> None:
    (inside := tmp_path / "in").mkdir()
    refused(zipped(tmp_path / "x.zip", ("good", b"1"), (name, b"2")), inside)
    assert not list(inside.iterdir()) and not (tmp_path / "evil").exists()


def test_links_and_names_that_are_there_twice_are_refused(tmp_path: Path) -> None:
    (inside := tmp_path / "in").mkdir()
    refused(zipped(tmp_path / "link.zip", link("x", b"/etc"), ("x/y", b"2")), inside)
    with pytest.warns(UserWarning, match="Duplicate name"):
        zipped(tmp_path / "twice.zip", ("x", b"1"), ("x", b"2"))
    refused(tmp_path / "twice.zip", inside)
    assert not list(inside.iterdir())


def test_a_file_in_place_of_a_folder_is_refused(tmp_path: Path) -> None:
    (inside := tmp_path / "in").mkdir()
    with pytest.raises(DutlabError):
        unpack(zipped(tmp_path / "x.zip", ("x", b"1"), ("x/y", b"2")), inside)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ARTIFACT", bounds.FileBound("artifact", 100_000, "for this test"))
    monkeypatch.setattr(archive, "ARTIFACT_FILES", 5)


def test_bombs_are_refused(small: None, tmp_path: Path) -> None:
    (inside := tmp_path / "in").mkdir()
    refused(zipped(tmp_path / "many.zip", *((f"f{n}", b"") for n in range(6))), inside)
    refused(zipped(tmp_path / "large.zip", ("zeros", bytes(200_000))), inside)
    lying = zipped(tmp_path / "lying.zip", ("zeros", bytes(200_000)))
    lying.write_bytes(lying.read_bytes().replace((200_000).to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    refused(lying, inside)
    assert sum(p.stat().st_size for p in inside.rglob("*") if p.is_file()) <= 100_000


def test_an_index_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "ARTIFACT_INDEX_BYTES", 100)
    (inside := tmp_path / "in").mkdir()
    assert "index" in refused(zipped(tmp_path / "x.zip", *((f"name-{n}", b"") for n in range(9))), inside).what
    monkeypatch.setattr(zipfile, "ZIP_FILECOUNT_LIMIT", 3)  # from here on zip64
    assert "index" in refused(zipped(tmp_path / "y.zip", *((f"name-{n}", b"") for n in range(9))), inside).what
