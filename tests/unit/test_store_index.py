"""The index over run folders, and questions to all of them: good runs, half-written, damaged, newer and hostile ones."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from dutlab.cli.runs import query, runs
from dutlab.errors import InputError, StoreError
from dutlab.runner.journal import Journal
from dutlab.store import run_readers
from dutlab.store.ask import QUESTION_THREAD, ask
from dutlab.store.index import INDEX, Wanted, list_runs, opened
from dutlab.store.run_folder import RunFolder
from fake_run import Wanted as Made
from fake_run import build
from indexed_runs import FIRST, SECOND, listed, two_runs
from processes import eventually


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return two_runs(tmp_path_factory.mktemp("made"))


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made, tmp_path / "runs")


@pytest.fixture(scope="module")
def asked(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs that questions only read, with their index."""
    listed(folder := shutil.copytree(made, tmp_path_factory.mktemp("asked") / "runs"))
    return folder


def answer(folder: Path, question: str) -> list[tuple[object, ...]]:
    with opened(folder) as index:
        return ask(index, folder, question).rows


def test_runs_are_listed_newest_first_and_found_by_what_they_are(asked: Path) -> None:
    with opened(asked) as index:
        newest, oldest = list_runs(index, Wanted())
    assert (newest.name, newest.lab, newest.modes, newest.worst_doubt) == (SECOND, True, ("nat",), "note")
    assert (oldest.status, oldest.planned, oldest.measured, oldest.failed + oldest.refused) == ("finished", 20, 17, 3)
    assert oldest.testbed == "e302-9d"
    for wanted, found in (
        ({"mode": "filter-default"}, [FIRST]), ({"testbed": "three-node"}, [SECOND]), ({"experiment": "firewall-modes"}, [SECOND, FIRST]),
        ({"status": "cut"}, []), ({"since": "2026-11-21"}, [SECOND, FIRST]), ({"since": "2027"}, []), ({"mode": "' OR 1=1 --"}, []),
    ):  # fmt: skip
        assert list(listed(asked, **wanted)) == found, wanted


def test_the_index_follows_the_folders_and_reads_a_run_that_goes_on_again(folder: Path) -> None:
    (folder / FIRST / "MANIFEST.sha256").unlink()
    late = folder / FIRST / "trials" / "0001"
    late.rename(folder / "away")
    assert listed(folder) == {FIRST: "cut", SECOND: "finished"}
    before = answer(folder, f"SELECT count(*) FROM trials WHERE run = '{FIRST}'")
    (folder / "away").rename(late)
    assert answer(folder, f"SELECT count(*) FROM trials WHERE run = '{FIRST}'") == [(before[0][0] + 1,)]  # type: ignore[operator]
    shutil.rmtree(folder / FIRST)
    assert list(listed(folder)) == [SECOND]
    assert [answer(folder, f"SELECT DISTINCT run FROM {table}") for table in ("figures", "doubts")] == [[(SECOND,)]] * 2


def test_a_finished_run_is_looked_at_once_unless_its_name_has_another_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(listed(folder)) == {FIRST, SECOND}
    looked = list[str]()
    signature = run_readers.signature
    monkeypatch.setattr(run_readers, "signature", lambda path: looked.append(Path(path).name) or signature(path))
    assert set(listed(folder)) == {FIRST, SECOND} and looked == []
    copied = shutil.copytree(folder, folder.parent / "copied")
    assert set(listed(copied)) == {FIRST, SECOND} and sorted(looked) == [FIRST, SECOND], "its folders are others"
    looked.clear()
    assert set(listed(copied)) == {FIRST, SECOND} and looked == []
    (folder / FIRST).rename(folder / ".away")  # it keeps its folder's number, so that no other gets it
    (folder / SECOND).rename(folder / FIRST)
    assert listed(folder) == {FIRST: "finished"} and looked == [FIRST]
    with opened(folder) as index:
        (line,) = list_runs(index, Wanted())
    assert line.modes == ("nat",), "the second run is what has the name now"


def test_half_written_damaged_and_newer_runs_are_listed_as_such_and_the_rest_as_ever(folder: Path) -> None:
    for name in ("no-run", "empty-plan"):
        (folder / name).mkdir()
    (folder / "no-run" / "something").write_text("")
    (folder / "empty-plan" / "plan.json").write_text("")
    (shutil.copytree(folder / FIRST, folder / "newer") / "plan.json").write_text('{"schema_version": 99}')
    (shutil.copytree(folder / FIRST, folder / "torn") / "trials" / "0001" / "record.json").write_text('{"trial": ')
    (folder / "circle").symlink_to("circle")
    (folder / "linked").symlink_to(folder / SECOND)
    with opened(folder) as index:
        found = {r.name: r for r in list_runs(index, Wanted())}
    assert {name: run.status for name, run in found.items()} == {
        "torn": "damaged", "newer": "newer", "empty-plan": "damaged", "linked": "finished", FIRST: "finished", SECOND: "finished",
    }  # fmt: skip
    assert "record.json" in found["torn"].fault and "schema_version 99" in found["newer"].fault
    text = said(runs, "--runs", folder, "--limit", 5).output
    assert "and older ones" in text and "note: empty-plan: " in text
    assert json.loads(said(runs, "--runs", folder, "--json").output)["more"] is False
    assert said(runs, "--runs", folder, "--mode", "none").output.startswith("no such run")


def test_an_index_that_is_damaged_or_of_another_version_is_made_again(folder: Path) -> None:
    for damage in (b"", b"no database at all, but long enough to be read as one" * 40):
        for path in folder.glob(f"{INDEX}*"):
            path.unlink()
        (folder / INDEX).write_bytes(damage)
        assert len(listed(folder)) == 2
    with opened(folder) as index:
        index.execute("PRAGMA user_version = 77")
    assert len(listed(folder)) == 2


@pytest.mark.parametrize(
    "harm",
    [
        "CREATE TRIGGER harm BEFORE DELETE ON trials BEGIN SELECT raise(ABORT, 'harm'); END",
        "CREATE TRIGGER harm AFTER INSERT ON runs BEGIN DELETE FROM figures; END",
        "CREATE VIEW harm AS SELECT 1",
        "ALTER TABLE runs ADD COLUMN harm TEXT",
    ],
)
def test_an_index_that_is_not_as_we_make_it_is_made_again(folder: Path, harm: str) -> None:
    listed(folder)
    with closing(sqlite3.connect(folder / INDEX)) as index:
        index.executescript(harm)
    shutil.rmtree(folder / SECOND)
    done = CliRunner().invoke(runs, ["--runs", str(folder)])
    assert done.exception is None, done.exception
    assert list(listed(folder)) == [FIRST] and answer(folder, "SELECT count(*) > 0 FROM figures") == [(True,)]
    with opened(folder) as index:
        assert not index.execute("SELECT count(*) FROM sqlite_schema WHERE name = 'harm' OR sql LIKE '%harm%'").fetchone()[0]


def test_what_is_no_folder_of_runs_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"), opened(tmp_path / "absent"):
        pass


# ---- questions


def test_figures_samples_and_doubts_of_all_runs_answer_in_sql(asked: Path) -> None:
    rows = answer(asked, "SELECT mode, value FROM trials JOIN figures USING (run, trial) WHERE figure = 'goodput_bps' AND link = 'a' "
                         f"AND links = 'a' AND run = '{FIRST}' AND mode = 'router'")  # fmt: skip
    assert len(rows) == 1 and rows[0][0] == "router"
    assert 9.2e9 < float(str(rows[0][1])) < 9.6e9
    ((run, cores),) = answer(asked, "SELECT run, count(DISTINCT name) FROM samples WHERE name LIKE '%softirq%' GROUP BY run")
    assert (run, cores) == (FIRST, 2)
    joined = answer(asked, "SELECT DISTINCT workload FROM samples JOIN trials USING (run, trial) ORDER BY 1")
    assert joined == [("iperf3",), ("sweep",)]
    kinds = answer(asked, "SELECT kind, grade, count(*) AS times FROM doubts GROUP BY ALL ORDER BY ALL")
    records = [r for name in (FIRST, SECOND) for r in RunFolder.open(asked / name).records()]
    counted = Counter((d.kind, d.grade) for r in records for d in r.doubts)
    assert kinds == [(kind, grade, times) for (kind, grade), times in sorted(counted.items())] and len(kinds) > 1


REFUSED = (
    "DROP TABLE runs", "SELECT 1; SELECT 2", "COPY (SELECT 1) TO 'x'", "SELEC", "", "SELECT * FROM nothing", "SELECT * FROM read_csv('/etc/passwd')",
    "SELECT nonsense FROM runs", "ATTACH 'x.db'", "INSTALL httpfs", "SHOW TABLES; DROP TABLE runs", "DESCRIBE runs; SELECT 1", "DESCRIBE nothing",
    "WITH x AS (INSERT INTO runs SELECT * FROM runs RETURNING *) SELECT * FROM x", "WITH x AS (DELETE FROM trials RETURNING *) SELECT * FROM x",
    "WITH x AS (UPDATE runs SET name = '' RETURNING *) SELECT * FROM x", "SELECT * FROM read_text('{}/plan.json')", "SELECT * FROM '{}/plan.json'",
    "SELECT * FROM read_parquet('{}/trials/*/samples.parquet')", "SELECT * FROM glob('{}/*')", "SELECT * FROM query('SELECT 1')",
    "SELECT * FROM json_execute_serialized_sql(json_serialize_sql('SELECT 1'))", "SELECT * FROM index", "PRAGMA database_list",
)  # fmt: skip
WRITES = [
    "WITH x AS (COPY (SELECT 1) TO '{}') SELECT * FROM x",
    "SELECT * FROM (WITH x AS (COPY (SELECT 1) TO '{}') SELECT * FROM x)",
    "WITH x AS (COPY (SELECT 1 AS t_s) TO '{}' (FORMAT PARQUET)) SELECT * FROM x, samples",
    "WITH x AS (SELECT 1), y AS (COPY x TO '{}') FROM y UNION ALL FROM x",
    "FROM query('WITH x AS (COPY (SELECT 1) TO ''{}'') SELECT * FROM x')",
]


def test_what_is_no_question_reads_other_files_or_would_write_one_is_refused(folder: Path) -> None:
    listed(folder)
    samples = next((folder / FIRST).glob("trials/*/samples.parquet"))
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.name.startswith(INDEX)}
    written = [question.format(samples.with_name(name)) for question in WRITES for name in ("record.json", "samples.parquet", "new.csv")]
    with opened(folder) as index:
        for question in (*(question.format(folder / FIRST) for question in REFUSED), *written):
            try:
                ask(index, folder, question)
            except InputError:
                continue
            pytest.fail(f"answered: {question}")
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file() and not p.name.startswith(INDEX)} == before


def test_a_question_may_be_any_select_over_our_tables(asked: Path) -> None:
    assert answer(asked, "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 5) SELECT max(n) FROM t; -- five") == [
        (5,)
    ]
    assert answer(asked, "WITH x AS MATERIALIZED (FROM runs) SELECT count(*) FROM x, range(2), unnest([1, 2])") == [(8,)]
    assert len(answer(asked, "SELECT mode FROM trials INTERSECT SELECT mode FROM trials")) > 1
    ((now, n, listed_now),) = answer(asked, "SELECT now() AS a, 1 AS a, [now()] AS b")  # times with a zone are texts
    assert isinstance(now, str) and now.startswith("20")
    assert (n, listed_now) == (1, f"['{now}']")
    for question in ("SHOW TABLES", " show tables ; ", "SHOW ALL TABLES"):
        tables = answer(asked, question)
        assert [row[0] for row in tables] == ["runs", "trials", "figures", "doubts", "results", "samples"]
    with opened(asked) as index:
        for table, columns in tables:
            assert ", ".join(name for name, *_ in ask(index, asked, f"DESCRIBE {table}").rows) == columns
            assert ", ".join(ask(index, asked, f"SELECT * FROM {table} LIMIT 0").columns) == columns


def test_a_question_leaves_no_temporary_files(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (empty := tmp_path / "empty").mkdir()
    monkeypatch.chdir(empty)
    monkeypatch.setattr("dutlab.store.ask.DATABASE_MEMORY", "30MB")
    with pytest.raises(InputError, match="30MB"):
        answer(folder, "SELECT list(range) FROM range(10000000)")
    assert not list(empty.iterdir())


@pytest.mark.parametrize("cut", [0, 16, -2000, -1])
def test_a_trial_with_damaged_samples_is_left_out_and_named(folder: Path, cut: int) -> None:
    whole = len(list(folder.glob("*/trials/*/samples.parquet")))
    path = next((folder / FIRST).glob("trials/*/samples.parquet"))
    data = path.read_bytes()
    path.write_bytes(data[:cut] if cut != -2000 else bytes(b ^ 0x55 if 4 < n < 2000 else b for n, b in enumerate(data)))
    with opened(folder) as index:
        found = ask(index, folder, "SELECT count(DISTINCT run || trial), avg(value), min(t_s), min(host) FROM samples")
    assert found.rows[0][0] == whole - 1
    (note,) = found.notes
    assert f"{FIRST} trial {int(path.parent.name)}: " in note
    if not cut:
        assert f"note: {note[:40]}" in said(query, "SELECT avg(value) FROM samples", "--runs", folder).stderr


def test_a_link_in_the_place_of_the_index_is_not_followed(folder: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "theirs.sqlite")) as theirs:
        theirs.execute("CREATE TABLE runs (mine TEXT)")
    before = (tmp_path / "theirs.sqlite").read_bytes()
    (folder / INDEX).symlink_to(tmp_path / "theirs.sqlite")
    assert answer(folder, "SELECT count(*) FROM runs") == [(2,)]
    assert (tmp_path / "theirs.sqlite").read_bytes() == before


def test_ctrl_c_ends_a_question_that_runs(asked: Path) -> None:
    def interrupt() -> None:
        if eventually(lambda: any(thread.name == QUESTION_THREAD for thread in threading.enumerate())):
            os.kill(os.getpid(), signal.SIGINT)

    interrupter = threading.Thread(target=interrupt)
    interrupter.start()
    with pytest.raises(KeyboardInterrupt):  # one that runs to its end is an error
        answer(asked, "SELECT CASE WHEN sum(range % 7) > 0 THEN error('it ran to its end') END FROM range(1000000000)")
    interrupter.join()


def test_folders_and_modes_of_hostile_names_are_read_and_stay_text(folder: Path) -> None:
    odd = folder.rename(folder.with_name("it's [odd]*"))
    assert answer(odd, "SELECT count(DISTINCT run) FROM samples") == [(1,)]
    build(odd, Made(repeats=1, sizes=(), seconds=5, cores=0, modes={"router": "\x1b[2J'; DROP"}, bad_luck=False))
    text = said(runs, "--runs", odd).output
    assert "\x1b" not in text and "?[2J'; DROP" in text
    assert "?[2J'; DROP" in said(query, "SELECT DISTINCT mode FROM trials", "--runs", odd).output


# ---- the command line


def said(command: object, *words: object) -> Result:
    return CliRunner().invoke(command, [str(w) for w in words])  # type: ignore[arg-type]


def test_answers_come_as_table_csv_and_json(asked: Path) -> None:
    question = "SELECT run, count(*) AS n FROM trials GROUP BY run ORDER BY run LIMIT 1"
    assert said(query, question, "--runs", asked).output.splitlines()[2].split() == [FIRST, "20"]
    assert said(query, question, "--runs", asked, "--format", "csv").output == f"run,n\n{FIRST},20\n"
    assert json.loads(said(query, question, "--runs", asked, "--format", "json").output) == [{"run": FIRST, "n": 20}]


def test_a_run_that_somebody_carries_out_is_told_from_one_that_was_cut(folder: Path) -> None:
    (folder / FIRST / "MANIFEST.sha256").unlink()
    assert listed(folder)[FIRST] == "cut"
    journal = Journal(folder / FIRST / "journal.jsonl")
    assert listed(folder) == {FIRST: "running", SECOND: "finished"}
    assert listed(folder, status="running") == {FIRST: "running"}
    assert answer(folder, "SELECT name FROM runs WHERE status = 'running'") == [(FIRST,)]
    journal.close()
    assert listed(folder)[FIRST] == "cut"
    (folder / FIRST / "journal.jsonl").unlink()
    os.mkfifo(folder / FIRST / "journal.jsonl")
    assert listed(folder)[FIRST] == "cut", "a pipe is no running run"


def test_who_asks_whether_a_run_is_carried_out_keeps_nobody_from_it(folder: Path) -> None:
    (folder / FIRST / "journal.jsonl").touch()
    asked = os.open(folder / FIRST / "journal.jsonl", os.O_RDONLY)
    fcntl.flock(asked, fcntl.LOCK_SH)
    timer = threading.Timer(0.01, os.close, [asked])
    timer.start()
    Journal(folder / FIRST / "journal.jsonl").close()
    timer.join()


# ---- an index that cannot be used


@pytest.mark.parametrize("question", [None, "SELECT count(*) FROM figures"])
def test_an_index_that_is_damaged_inside_is_made_anew(folder: Path, question: str | None) -> None:
    expected = answer(folder, "SELECT count(*) FROM figures")
    with opened(folder) as index:
        size, tables = index.execute("PRAGMA page_size").fetchone()[0], "('figures')" if question else "('runs', 'figures')"
        roots = [root for (root,) in index.execute(f"SELECT rootpage FROM sqlite_schema WHERE name IN {tables}")]
        index.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    with (folder / INDEX).open("r+b") as file:
        for root in roots:
            file.seek((root - 1) * size)
            file.write(b"\xff" * size)
    if question:
        with pytest.raises(StoreError, match="is damaged"):
            answer(folder, question)
    assert answer(folder, "SELECT count(*) FROM figures") == expected


def test_where_the_index_cannot_be_written_another_user_is_answered_from_memory(made: Path, tmp_path: Path) -> None:
    """As a colleague who may read the runs: the index is there, and a run is new."""
    code = (
        "import os, sys, pathlib\nfrom dutlab.store.index import Wanted, list_runs, opened\n"
        "def told(place):\n    with opened(pathlib.Path(place)) as index:\n        return [run.name for run in list_runs(index, Wanted())]\n"
        "told(sys.argv[1])\n"  # whatever is imported late: another user may not read this Python
        "os.setgroups([])\nos.setgid(65534)\nos.setuid(65534)\nprint(*told(sys.argv[2]))\ntold(sys.argv[3])\n"
    )
    with tempfile.TemporaryDirectory(prefix="dutlab-index-") as name:
        Path(name).chmod(0o755)
        folder, closed = shutil.copytree(made, Path(name, "runs")), Path(name, "closed")
        folder.chmod(0o755)
        closed.mkdir(mode=0o700)
        with opened(folder):
            pass
        shutil.copytree(folder / SECOND, folder / "2026-11-04T0801Z-new")
        argv = [sys.executable, "-c", code, str(shutil.copytree(made, tmp_path / "own")), str(folder), str(closed)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["2026-11-04T0801Z-new", SECOND, FIRST], done.stderr
    assert f"dutlab.errors.InputError: {closed}: " in done.stderr
