"""`dutlab serve --fleet` as a process, over a real PostgreSQL that goes away and comes back."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

from dutlab.store.fleet_database import FLEET_DATABASE, PostgresDatabase
from dutlab.store.fleet_index import opened_fleet
from fake_run import Wanted, build
from postgres_cluster import postgres_cluster
from processes import eventually, running_with

HERE, STORED, ELSEWHERE, NO_RUN = (f"2026-11-2{n}T0801Z-firewall-modes-000{n}" for n in range(1, 5))
PASSWORD = "s3cret-of-the-database"


def test_the_pages_of_a_fleet_show_what_is_here_tell_where_the_rest_is_and_outlast_their_database(tmp_path: Path) -> None:
    fetched, made = tmp_path / "fetched here", tmp_path / "made"
    with postgres_cluster() as cluster:
        run = build(made, Wanted(repeats=1, seconds=5, sizes=(64,), cores=0))
        places = {
            HERE: str(made / HERE),
            STORED: f"s3://bucket/{STORED}",
            ELSEWHERE: f"/far/away/{ELSEWHERE}",
            NO_RUN: str(tmp_path / NO_RUN),
        }
        with opened_fleet(PostgresDatabase(cluster.where)) as index:
            for name, place in places.items():
                index.add(shutil.copytree(run, made / name), place, {})
        for name in (STORED, ELSEWHERE, NO_RUN):
            (made / name).rename(tmp_path / f".{name}")
        (tmp_path / NO_RUN).mkdir()
        (tmp_path / NO_RUN / "keys.txt").write_text("a secret of this machine")
        environment = {**os.environ, FLEET_DATABASE: cluster.where.replace("dutlab@", f"dutlab:{PASSWORD}@")}
        argv = [sys.executable, "-m", "dutlab", "serve", "--fleet", "--json", "--port", "0", "--runs", str(fetched)]
        with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None and server.stderr is not None
            address, told = json.loads(server.stdout.readline())["address"], list[str]()

            def get(path: str = "") -> tuple[int, str]:
                try:
                    with urllib.request.urlopen(address + path, timeout=60) as answer:
                        status, text = answer.status, answer.read().decode()
                except urllib.error.HTTPError as error:
                    status, text = error.code, error.read().decode()
                told.append(text)
                return status, text

            def linked(path: str = "") -> list[str]:
                return re.findall(r'href="/runs/([^/]+)/report/"', get(path)[1])

            listed = get()[1]
            assert linked() == [HERE] and "4 runs" in listed
            assert places[STORED] in listed and f"dutlab campaign fetch {STORED} --into &#39;{fetched}&#39;" in listed
            assert places[ELSEWHERE] in listed and f"fetch {ELSEWHERE}" not in listed
            assert "1 run<" in get(f"?words={HERE[-4:]}")[1] and linked("?testbed=nothing") == []
            assert get(f"runs/{HERE}/report/")[0] == get(f"runs/{HERE}/plan.json")[0] == get("history?experiment=firewall-modes")[0] == 200
            assert get(f"runs/{STORED}/report/")[0] == get(f"compare?run={HERE}&run={STORED}")[0] == 422
            assert get(f"runs/{NO_RUN}/keys.txt")[0] == 422, "a database may name any folder of this machine"
            assert get("runs/unknown/report/")[0] == 404
            (tmp_path / f".{STORED}").rename(fetched.mkdir() or fetched / STORED)  # type: ignore[func-returns-value]
            assert linked() == [STORED, HERE], "what `dutlab campaign fetch` brought"
            cluster.stop()
            status, said = get()
            assert status == 503 and "the database of the fleet does not answer" in said and FLEET_DATABASE in said
            assert get(f"runs/{HERE}/report/")[0] == get(f"runs/{STORED}/live")[0] == 200, "what was found goes on"
            cluster.start()
            assert eventually(lambda: get()[0] == 200)
            server.terminate()
            told.append(server.stderr.read())
        assert server.returncode in {0, -15}
        assert not [text for text in told if PASSWORD in text or "Traceback" in text or "a secret of" in text]
    assert not running_with(str(fetched))
