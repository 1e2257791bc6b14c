"""Leases on testbeds, in SQLite and in a real PostgreSQL: one holder at a time, tokens that only grow, and clocks that are hours apart."""

from __future__ import annotations

import getpass
import os
import re
import signal
import subprocess
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from capability import need_program
from dutlab.errors import InputError, StoreError
from dutlab.hosts.lease import Holder
from dutlab.runner.fleet import leases as of_leases
from dutlab.runner.fleet.leases import LeaseStore, PostgresLeases, SqliteLeases, lease_store
from dutlab.store import fleet_tables
from dutlab.store.fleet_database import FLEET_DATABASE, FleetDatabaseAway, PostgresDatabase, SqliteDatabase
from postgres_cluster import PostgresCluster
from processes import eventually

LONG_S, SHORT_S = 3600.0, 0.2
WRONG_CLOCK = Path(__file__).parents[1] / "wrong_clock.c"


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[[], LeaseStore]]:
    """Opens the same empty store, as each process does for itself."""
    if request.param == "sqlite":
        yield lambda: SqliteLeases(SqliteDatabase(tmp_path / "below" / "leases.sqlite"))
        return
    where = request.getfixturevalue("cluster").emptied()
    yield lambda: PostgresLeases(PostgresDatabase(where))


def test_a_testbed_has_one_holder_and_each_lease_a_greater_token(opened: Callable[[], LeaseStore]) -> None:
    one, two = opened(), opened()
    assert one.identity() == two.identity()
    first = one.take("rack", "a", LONG_S)
    assert first is not None
    assert two.take("rack", "b", LONG_S) is None, "held"
    other = two.take("shelf", "b", LONG_S)
    assert other is not None and one.held() == [first, other], "another testbed is free"
    assert one.renew(first, LONG_S)
    one.give_back(first)
    assert one.held() == [other]
    assert not one.renew(first, LONG_S), "given back, it cannot be had again"
    second = two.take("rack", "b", LONG_S)
    assert second is not None and second.token > first.token
    one.give_back(first)
    assert second in two.held(), "who comes late gives nothing of another holder back"
    again = two.take("rack", "b", LONG_S)
    assert again is not None and again.token > second.token, "a holder whose answer was lost asks again"


def test_a_lease_that_ended_is_taken_over_and_its_holder_learns_of_it(opened: Callable[[], LeaseStore]) -> None:
    one, two = opened(), opened()
    first = one.take("rack", "a", SHORT_S)
    assert first is not None
    taken: list[object] = []
    assert eventually(lambda: bool(taken.append(two.take("rack", "b", LONG_S)) or taken[-1]))
    assert not one.renew(first, LONG_S)
    assert [lease.holder for lease in one.held()] == ["b"]


def test_of_many_that_ask_at_once_one_gets_it_and_the_tables_are_made_once(opened: Callable[[], LeaseStore]) -> None:
    got: list[object] = []
    asking = [threading.Thread(target=lambda n=n: got.append(opened().take("rack", f"holder {n}", LONG_S))) for n in range(12)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert len(got) == 12 and sum(lease is not None for lease in got) == 1


def test_tables_of_a_newer_dutlab_are_refused(opened: Callable[[], LeaseStore], monkeypatch: pytest.MonkeyPatch) -> None:
    known = fleet_tables.MIGRATIONS
    monkeypatch.setattr(fleet_tables, "MIGRATIONS", (*known, ("CREATE TABLE dutlab_more (x integer)",)))
    assert opened().take("rack", "a", LONG_S) is not None
    monkeypatch.setattr(fleet_tables, "MIGRATIONS", known)
    with pytest.raises(StoreError, match="newer dutlab"):
        opened().held()
    monkeypatch.setattr(fleet_tables, "MIGRATIONS", (*known, ("CREATE TABLE dutlab_more (x integer)",), ("DROP TABLE dutlab_more",)))
    assert [lease.holder for lease in opened().held()] == ["a"], "what was there stays, and the missing step alone is taken"


def test_a_host_whose_clock_is_an_hour_off_neither_steals_nor_lends_a_lease(opened, tmp_path, python, python_env) -> None:
    library = tmp_path / "wrong_clock.so"
    subprocess.run([need_program("cc"), "-shared", "-fPIC", "-o", str(library), str(WRONG_CLOCK), "-ldl"], check=True)
    store = opened()
    held = store.take("rack", "a", 600.0)
    if isinstance(store, PostgresLeases):
        made = f"PostgresLeases(PostgresDatabase({store.database.where!r}))"
    else:
        made = f"SqliteLeases(SqliteDatabase(Path({str(store.database.path)!r})))"
    asks = (
        "import os, time\nfrom pathlib import Path\nfrom dutlab.runner.fleet.leases import PostgresLeases, SqliteLeases\n"
        "from dutlab.store.fleet_database import PostgresDatabase, SqliteDatabase\n"
        f"store = {made}\nfor hours in (1, -1):\n"
        "    Path(os.environ['WRONG_CLOCK']).write_text(str(hours * 3600))\n"
        "    print(time.time(), store.take('rack', 'b', 600.0), store.take(f'shelf{hours}', 'b', 600.0) is not None)"
    )
    env = {**python_env, "LD_PRELOAD": str(library), "WRONG_CLOCK": str(tmp_path / "added")}
    done = subprocess.run([python, "-c", asks], env=env, capture_output=True, text=True, check=True)
    for hours, line in zip((1, -1), done.stdout.splitlines(), strict=True):
        clock, *said = line.split()
        assert abs(float(clock) - time.time() - hours * 3600) < 1800, "its clock was off"
        assert said == ["None", "True"]
    assert held in store.held() and {lease.testbed for lease in store.held()} == {"rack", "shelf1", "shelf-1"}
    assert store.take("shelf1", "a", 600.0) is store.take("shelf-1", "a", 600.0) is None


def test_a_lease_of_an_earlier_boot_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteLeases(SqliteDatabase(tmp_path / "leases"))
    first = store.take("rack", "a", LONG_S)
    assert first is not None
    monkeypatch.setattr(of_leases, "_boot", lambda: "the next")
    assert store.held() == [] and not store.renew(first, LONG_S)
    second = store.take("rack", "b", LONG_S)
    assert second is not None and second.token > first.token


def test_leases_and_tokens_survive_a_crash_of_the_database_and_meanwhile_it_is_away(cluster: PostgresCluster) -> None:
    store = PostgresLeases(PostgresDatabase(cluster.where))
    lease = store.take("crashed", "a", LONG_S)
    assert lease is not None
    cluster.stop(signal.SIGQUIT)
    with pytest.raises(FleetDatabaseAway, match="PostgreSQL"):
        store.renew(lease, LONG_S)
    cluster.start()
    assert store.renew(lease, LONG_S) and PostgresLeases(PostgresDatabase(cluster.where)).take("crashed", "b", LONG_S) is None


def test_the_environment_names_the_store_and_its_faults_are_told(monkeypatch, tmp_path, cluster) -> None:
    monkeypatch.setenv(FLEET_DATABASE, str(tmp_path / "x"))
    assert lease_store() == SqliteLeases(SqliteDatabase(tmp_path / "x"))
    monkeypatch.setenv(FLEET_DATABASE, cluster.where)
    assert lease_store() == PostgresLeases(PostgresDatabase(cluster.where))
    monkeypatch.setenv(FLEET_DATABASE, "")
    assert isinstance(lease_store(), SqliteLeases), "this user's own"
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(FleetDatabaseAway, match=FLEET_DATABASE):
        SqliteLeases(SqliteDatabase(tmp_path / "file" / "leases")).held()
    keywords = "host=127.0.0.1 port=1 user=dutlab password=horse"
    monkeypatch.setenv(FLEET_DATABASE, keywords)
    assert lease_store() == PostgresLeases(PostgresDatabase(keywords))


@pytest.mark.parametrize(
    "where",
    [
        "postgresql://dutlab:zebra@quokka@127.0.0.1:1/fleet",
        "postgresql://dutlab:zebra/quokka@127.0.0.1:1/fleet",
        "postgresql://dutlab:zebra@quo/kka@127.0.0.1:1/fleet",
        "postgresql://dutlab:quokka@127.0.0.1:1/fleet?nonsense=1",
        "postgresql:dutlab:quokka@127.0.0.1:1/fleet",
        "mysql://dutlab:quokka@127.0.0.1/fleet",
        "host=127.0.0.1 password=quokka nonsense=1",
        "password = 'quokka",
        "postgresql://dutlab:quokka@127.0.0.1:1/fleet",
    ],
)
def test_no_error_shows_a_part_of_the_password_and_no_file_is_named_after_it(where, monkeypatch, tmp_path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(FLEET_DATABASE, where)
    with pytest.raises((InputError, FleetDatabaseAway)) as caught:
        lease_store().held()
    shown = "".join(traceback.format_exception(caught.value))
    assert not re.search("zeb|quo|kka", str(caught.value)), shown
    assert list(tmp_path.iterdir()) == []


# ---- Who has a machine, as its lease names them


def test_a_user_who_has_no_name_is_known_by_number(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert Holder.this_process(tmp_path, datetime.now(UTC)).who.startswith(f"user {os.getuid()}@")
