"""The index of a fleet's runs, in SQLite and in a real PostgreSQL: it answers as the index of a folder with the same runs."""

from __future__ import annotations

import math
import shutil
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.campaign import fetch
from dutlab.cli.history import history
from dutlab.cli.runs import query, runs
from dutlab.errors import InputError, StoreError
from dutlab.store.ask import ask, ask_source
from dutlab.store.fleet_database import ANSWERS_S, FLEET_DATABASE, FleetDatabase, PostgresDatabase, SqliteDatabase
from dutlab.store.fleet_index import FleetIndex, opened_fleet
from dutlab.store.index import Wanted, choices, count_runs, figures_of, list_runs, opened
from fake_run import Wanted as Made
from fake_run import build

FIRST, SECOND = "2026-11-01T0801Z-firewall-modes-0001", "2026-11-02T0801Z-firewall-modes-0002"
QUESTIONS = (
    "SELECT count(*), sum(value) FROM figures",
    "SELECT * FROM trials ORDER BY ALL",
    "SELECT * FROM doubts ORDER BY ALL",
    "SELECT run, trial, host, name, count(*), sum(value) FROM samples GROUP BY ALL ORDER BY ALL",
    "DESCRIBE trials",
    "SHOW TABLES",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("runs")
    build(made, Made(repeats=1, sizes=(64, "imix"), seconds=5, cores=2)).rename(made / FIRST)
    hostile = Made(repeats=1, sizes=(64,), seconds=5, cores=0, lab=True, bad_luck=False, hostile="50 % of? it's instr(modes)")
    build(made, hostile).rename(made / SECOND)
    return made


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> FleetDatabase:
    if request.param == "sqlite":
        return SqliteDatabase(tmp_path / "fleet.sqlite")
    return PostgresDatabase(request.getfixturevalue("cluster").emptied())


def filled(database: FleetDatabase, folder: Path) -> None:
    for name in (FIRST, SECOND):
        with opened_fleet(database, answers_s=ANSWERS_S) as index:
            index.add(folder / name, str(folder / name), {})


def test_a_fleet_answers_as_a_folder_with_the_same_runs(database: FleetDatabase, folder: Path) -> None:
    filled(database, folder)
    wanted = [
        Wanted(), Wanted(experiment="firewall-modes"), Wanted(testbed="e302-9d"), Wanted(mode="nat"), Wanted(mode="na%"), Wanted(workload="sweep"),
        Wanted(words="FIREWALL e302"), Wanted(words="50 %"), Wanted(since="2026-11-21", until="2026-11"), Wanted(doubt="severe"),
        Wanted(doubt="none"), Wanted(status="cut"), Wanted(mode="' OR 1=1 --"),
    ]  # fmt: skip
    assert {name for w in wanted for name in fields(w) if getattr(w, name.name)} == set(fields(Wanted)), "every way to narrow is tried"
    with opened(folder) as ours, opened_fleet(database) as theirs:
        for one in wanted:
            assert list_runs(theirs, one) == list_runs(ours, one), one
            assert count_runs(theirs, one) == count_runs(ours, one), one
        assert list_runs(theirs, Wanted(), limit=1, skip=1) == list_runs(ours, Wanted(), limit=1, skip=1)
        assert choices(theirs) == choices(ours)
        assert list(figures_of(theirs, "firewall-modes")) == list(figures_of(ours, "firewall-modes")) != []
        for question in QUESTIONS:
            assert ask_source(theirs, question) == ask(ours, folder, question), question


def test_a_run_comes_in_once_and_another_of_its_name_is_refused(database: FleetDatabase, folder: Path, tmp_path: Path) -> None:
    filled(database, folder)
    filled(database, folder)
    other = tmp_path / "other"
    build(tmp_path, Made(repeats=1, sizes=(64,), seconds=5, cores=0)).rename(other)
    moved = shutil.copytree(folder / FIRST, tmp_path / "moved" / FIRST)
    with opened_fleet(database) as index:
        assert count_runs(index, Wanted()) == 2
        index.add(moved, "s3://away/" + FIRST, {})
        assert index.places([FIRST, SECOND, "none"]) == {FIRST: "s3://away/" + FIRST, SECOND: str(folder / SECOND)}
        answer = ask_source(index, "SELECT DISTINCT run FROM samples")
        assert answer.rows == [] and len(answer.notes) == 1 and ": 1 runs" in answer.notes[0], "the second has no samples"
        other.rename(tmp_path / SECOND)
        record = next((tmp_path / SECOND).glob("trials/*/record.json"))
        record.write_text(record.read_text().replace("2026-", "2025-"))
        with pytest.raises(StoreError, match="this name"):
            index.add(tmp_path / SECOND, "elsewhere", {})
        assert index.places([SECOND]) == {SECOND: str(folder / SECOND)} and count_runs(index, Wanted()) == 2, "nothing half done"


def test_what_one_of_the_databases_cannot_keep_is_kept_as_near_as_it_can(database, folder, monkeypatch) -> None:
    rows = {"figures": [("r\0", 1, "a", "half \ud800", math.nan), ("r", 1, "a", "b", math.inf)]}
    monkeypatch.setattr(
        "dutlab.store.fleet_index.rows_of", lambda *_: {"runs": [("r", "s", 0, *[""] * 2, 0, *[""] * 2, *[0] * 5, *[""] * 4)], **rows}
    )
    with opened_fleet(database) as index:
        index.add(folder / FIRST, "x", {})
        assert sorted(map(tuple, index.execute("SELECT run, figure, value FROM figures"))) == [
            ("r", "b", math.inf), ("r\ufffd", "half ?", None),
        ]  # fmt: skip


def test_commands_ask_the_fleet_that_the_environment_names(database, folder, monkeypatch, tmp_path) -> None:
    filled(database, folder)
    monkeypatch.setenv(FLEET_DATABASE, database.where if isinstance(database, PostgresDatabase) else str(database.path))
    monkeypatch.chdir(tmp_path)

    def told(command: object, *words: str) -> str:
        done = CliRunner().invoke(command, words, catch_exceptions=False)  # type: ignore[arg-type]
        assert done.exit_code == 0, done.output
        return done.output

    listed = told(runs, "--fleet")
    assert FIRST in listed and str(folder / SECOND) in listed
    assert f'"place": "{folder / FIRST}"' in told(runs, "--fleet", "--json")
    assert told(query, "SELECT count(*) AS n FROM runs", "--fleet", "--format", "csv") == "n\n2\n"
    assert "router" in told(history, "firewall-modes", "--fleet")
    assert told(fetch, FIRST) == f"{folder / FIRST}\n", "it can be read where it is"
    with opened_fleet(database) as index:
        index.add(folder / FIRST, f"/far/away/{FIRST}", {})
    with pytest.raises(InputError, match=f"/far/away/{FIRST}"):
        told(fetch, FIRST, SECOND)


def test_tables_of_an_earlier_dutlab_get_what_is_missing(database: FleetDatabase, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dutlab.store import fleet_tables  # noqa: PLC0415

    known = fleet_tables.MIGRATIONS
    monkeypatch.setattr(fleet_tables, "MIGRATIONS", known[:1])
    with database.connected() as db:
        (before,) = db.execute("SELECT id FROM dutlab_store").fetchone()
    monkeypatch.setattr(fleet_tables, "MIGRATIONS", known)
    newer = PostgresDatabase(database.where) if isinstance(database, PostgresDatabase) else SqliteDatabase(database.path)
    filled(newer, folder)
    with opened_fleet(newer) as index:
        assert isinstance(index, FleetIndex) and index.identity() == before, "leases and their database stay what they were"
