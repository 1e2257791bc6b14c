"""Reading many runs into the index by several processes: the same rows, also when readers are killed or two read at once."""

from __future__ import annotations

import math
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from dutlab.store import run_readers
from dutlab.store.ask import ask
from dutlab.store.index import INDEX, opened
from indexed_runs import SECOND, listed, two_runs
from processes import eventually, running_with


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_runs(tmp_path_factory.mktemp("made"))


ALL = tuple(f"SELECT * FROM {table} ORDER BY ALL" for table in ("runs", "trials", "figures", "doubts"))
COPIES = 24


def rows_of(folder: Path, **how: object) -> list[object]:
    with opened(folder, **how) as index:  # type: ignore[arg-type]
        return [ask(index, folder, question).rows for question in ALL]


@pytest.fixture(scope="module")
def many_runs(made: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[object]]:
    """Runs of each kind, so many that the readers get several parts each, and what one process alone takes in."""
    folder = shutil.copytree(made, tmp_path_factory.mktemp("many") / "runs")
    for n in range(COPIES):
        shutil.copytree(folder / SECOND, folder / f"2026-11-03T0801Z-more-{n:04d}", copy_function=os.link)
    torn = folder / "2026-11-03T0801Z-more-0007" / "trials" / "0001" / "record.json"
    torn.unlink()
    torn.write_text('{"trial": ')
    (folder / "no-run").mkdir()
    with pytest.MonkeyPatch.context() as m:
        m.setattr(run_readers, "_ALONE_S", math.inf)
        return folder, rows_of(folder, rebuild=True)


@pytest.fixture
def many(many_runs: tuple[Path, list[object]], monkeypatch: pytest.MonkeyPatch) -> Path:
    """Without an index, and read by others at once."""
    for name, value in {"_ALONE_S": -1, "_WORTH_S": 0, "_READERS": 3, "_AT_ONCE": 3}.items():
        monkeypatch.setattr(run_readers, name, value)
    for path in many_runs[0].glob(f"{INDEX}*"):
        path.unlink()
    return many_runs[0]


@pytest.fixture
def expected(many_runs: tuple[Path, list[object]]) -> list[object]:
    return many_runs[1]


def children() -> list[int]:
    return [int(pid) for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]


def test_several_processes_take_in_what_one_does_and_leave_nothing(many: Path, expected: list[object]) -> None:
    before, notes = children(), list[str]()
    with opened(many, note=notes.append) as index:
        assert [ask(index, many, question).rows for question in ALL] == expected
        assert [name for (name,) in index.execute("SELECT name FROM runs ORDER BY rowid")] == sorted(p.name for p in many.glob("2026-*"))
    assert len(notes) == 1 and f"reading {COPIES + 3} runs" in notes[0]
    assert children() == before
    with opened(many, note=notes.append):
        assert len(notes) == 1


@pytest.mark.parametrize("harm", ["killed", "not started"])
def test_readers_that_are_gone_are_done_without(many: Path, expected: list[object], harm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if harm == "killed":
        take, taken = run_readers._Reader.take, list[object]()

        def killing(reader: run_readers._Reader, runs: Path) -> object:
            taken.append(take(reader, runs))
            for pid in running_with(str(many)) if len(taken) == 1 else ():
                os.kill(pid, signal.SIGKILL)
            return taken[-1]

        monkeypatch.setattr(run_readers._Reader, "take", killing)
    else:
        monkeypatch.setattr(sys, "executable", "/nowhere/python")
    assert rows_of(many) == expected


def test_who_is_killed_while_reading_leaves_whole_runs_and_no_process(many, expected, monkeypatch) -> None:
    code = (
        "import sys, pathlib\nfrom dutlab.store import index, run_readers\nrun_readers._ALONE_S = -1; run_readers._WORTH_S = 0\n"
        "run_readers._READERS = run_readers._AT_ONCE = 3; index._AT_ONCE = 5\ntake, taken = index._take_in, []\n"
        "def told(connection, runs, found):\n    take(connection, runs, found)\n    taken.append(found)\n"
        "    if len(taken) == 12:\n        print('twelve', flush=True)\n        sys.stdin.read()\n"
        "index._take_in = told\nwith index.opened(pathlib.Path(sys.argv[1])):\n    pass\n"
    )
    with subprocess.Popen([sys.executable, "-c", code, str(many)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "twelve\n"
        process.kill()
    assert eventually(lambda: not running_with(str(many)))
    with closing(sqlite3.connect(many / INDEX)) as left:
        found = left.execute("SELECT count(DISTINCT t.trial) FROM runs r LEFT JOIN trials t ON t.run = r.name GROUP BY r.name").fetchall()
    assert len(found) == 10 and {count for (count,) in found} <= {3, 4, 20}, "none is there in part"
    monkeypatch.setattr(run_readers, "_ALONE_S", math.inf)
    assert rows_of(many) == expected


def test_two_that_read_at_once_both_answer(many: Path, expected: list[object]) -> None:
    with ThreadPoolExecutor(2) as pool:
        one, other = pool.map(listed, [many, many])
    assert one == other and len(one) == COPIES + 2
    assert rows_of(many, look=False) == expected
