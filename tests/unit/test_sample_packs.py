"""Packs of samples beside the index: they change no answer, follow what becomes of runs, and are made anew when they cannot be read."""

from __future__ import annotations

import fcntl
import os
import resource
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from dutlab.store import packs
from dutlab.store.ask import QueryAnswer, ask
from dutlab.store.index import opened
from fake_run import Wanted, build

QUESTION = "SELECT run, trial, sensor, name, unit, host, count(*), sum(value), max(t_s) FROM samples GROUP BY ALL ORDER BY ALL"


SMALL = Wanted(repeats=1, sizes=(64,), seconds=1, cores=1, bad_luck=False, modes={"router": "router", "nat": "nat"})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    for n in range(3):
        build(folder, SMALL).rename(folder / f"2026-11-0{n + 1}T0801Z-run")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(packs, "LEAST", 10)
    return shutil.copytree(made, tmp_path / "runs")


def answer(folder: Path) -> QueryAnswer:
    with opened(folder) as index:
        return ask(index, folder, QUESTION)


def unpacked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """The answer of the files where they lie."""
    with monkeypatch.context() as m:
        m.setattr(packs, "LEAST", 10**9)
        (folder / ".index.sqlite").unlink(missing_ok=True)
        return answer(folder).rows


def kept(folder: Path) -> list[Path]:
    return sorted((folder / packs.PACKS).glob("*"))


def test_packs_change_no_answer_and_serve_without_the_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from_files = unpacked(folder, monkeypatch)
    assert not (folder / packs.PACKS).exists()
    assert answer(folder).rows == from_files
    assert len(kept(folder)) == 1
    for path in folder.glob("*/trials/*/samples.parquet"):
        path.unlink()
    assert answer(folder).rows == from_files


def test_a_run_that_goes_takes_its_samples_along_and_one_that_comes_brings_its_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer(folder)
    (gone, *_) = sorted(folder.glob("2026*"))
    shutil.copytree(gone, folder / "2026-12-01T0801Z-new")
    shutil.rmtree(gone)
    after = answer(folder).rows
    assert {row[0] for row in after} == {path.name for path in folder.glob("2026*")}
    assert after == unpacked(folder, monkeypatch)


def test_a_pack_that_cannot_be_read_is_made_again(folder: Path) -> None:
    before = answer(folder)
    for harm in ("cut", "emptied", "other bytes", "removed", "folder removed"):
        (pack,) = kept(folder)
        data = pack.read_bytes()
        if harm == "folder removed":
            shutil.rmtree(pack.parent)
        elif harm == "removed":
            pack.unlink()
        else:
            half = len(data) // 2
            pack.write_bytes({"cut": data[:half], "emptied": b"", "other bytes": bytes(b ^ 0x5A for b in data[:half]) + data[half:]}[harm])
        assert answer(folder) == before, harm
        assert answer(folder) == before, harm
        assert [path.read_bytes()[:4] for path in kept(folder)] == [b"PAR1"], harm


def test_damaged_samples_are_in_no_pack_and_are_named_as_ever(folder: Path) -> None:
    damaged = sorted(folder.glob("*/trials/*/samples.parquet"))[5]
    damaged.write_bytes(damaged.read_bytes()[:100])
    for _ in range(2):
        told = answer(folder)
        assert len(told.notes) == 1
        assert damaged.parts[-4] in told.notes[0]
        assert (damaged.parts[-4], int(damaged.parts[-2])) not in {row[:2] for row in told.rows}
    assert len(kept(folder)) == 1


def test_an_index_made_anew_leaves_no_packs_of_the_old_one(folder: Path) -> None:
    before = answer(folder).rows
    (old,) = kept(folder)
    with opened(folder, rebuild=True) as index:
        assert ask(index, folder, QUESTION).rows == before
    (new,) = kept(folder)
    assert new != old


def test_who_asks_meanwhile_reads_the_files(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = unpacked(folder, monkeypatch)
    place = folder / packs.PACKS
    place.mkdir()
    descriptor = os.open(place, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert answer(folder).rows == expected
    assert not kept(folder)
    os.close(descriptor)
    assert answer(folder).rows == expected
    assert kept(folder)


def test_who_comes_when_another_has_just_made_them_makes_none(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, alone = unpacked(folder, monkeypatch), packs._alone

    def after_another(place: Path) -> AbstractContextManager[bool]:
        monkeypatch.setattr(packs, "_alone", alone)
        assert answer(folder).rows == expected
        return alone(place)

    monkeypatch.setattr(packs, "_alone", after_another)
    assert answer(folder).rows == expected, "each sample once"
    assert len(kept(folder)) == 1


def test_where_a_pack_has_no_room_one_is_tried_and_the_files_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, copy, tried, notes = unpacked(folder, monkeypatch), packs._copy, list[Path](), list[str]()
    monkeypatch.setattr(packs, "_MOST", 10)
    monkeypatch.setattr(packs, "_copy", lambda runs, pack, trials: tried.append(pack) or copy(runs, pack, trials))  # type: ignore[func-returns-value]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    with opened(folder) as index:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            rows = ask(index, folder, QUESTION, notes.append).rows
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert rows == expected and len(tried) == 1 and not kept(folder)
    assert len(notes) == 1 and "24 trials" in notes[0]
    assert answer(folder).rows == expected and len(kept(folder)) == 3


def test_a_link_in_the_place_of_packs_is_not_followed(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = unpacked(folder, monkeypatch)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "letter").write_text("do not lose this")
    (folder / packs.PACKS).symlink_to(theirs)
    assert answer(folder).rows == expected
    assert [path.name for path in theirs.iterdir()] == ["letter"]
