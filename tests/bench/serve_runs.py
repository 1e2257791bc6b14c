"""`dutlab serve` over RUNS=10000 runs: the time of its pages, its memory, and what it costs to follow FOLLOWED=10 runs once a second.

The runs are copies of one made-up run, by hard links, and lines of the index; the compared ones are whole. Each page is asked ROUNDS=20 times, and
the peer is the answer of the same server without any page (a file of the style), in the same minute.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

sys.path.insert(0, str(Path(__file__).parents[1]))

from dutlab.store.index import INDEX, Wanted, list_runs, opened
from fake_run import Wanted as Made
from fake_run import build
from processes import cpu_s, memory_mb

RUNS, ROUNDS, FOLLOWED = int(os.environ.get("RUNS", "10000")), int(os.environ.get("ROUNDS", "20")), int(os.environ.get("FOLLOWED", "10"))
SECONDS = 20
EVENT = {"event": "reading", "at": "2026-11-23T15:00:00Z", "trial": 1, "where": "dut", "who": "cpu"}


def many(runs: Path) -> list[str]:
    """Two whole runs, whose names are returned, and RUNS that the index and the folder have."""
    whole = build(runs, Made(repeats=3, seconds=2))
    shutil.copytree(whole, other := runs / "2026-11-22T0801Z-firewall-modes-0002")
    with opened(runs) as index:
        list_runs(index, Wanted())
    for n in range(RUNS):
        folder = runs / f"2025-01-01T0000Z-copy-{n:06d}"
        folder.mkdir()
        for name in ("plan.json", "MANIFEST.sha256"):
            os.link(whole / name, folder / name)
    with sqlite3.connect(runs / INDEX) as index:
        columns = [row[1] for row in index.execute("PRAGMA table_info(runs)")][1:]
        for n in range(RUNS):
            row = f"SELECT ?, {', '.join(columns)} FROM runs WHERE name = ?"
            index.execute(f"INSERT INTO runs {row}", (f"2025-01-01T0000Z-copy-{n:06d}", whole.name))
    return [whole.name, other.name]


def asked(address: str, path: str) -> float:
    begun = time.perf_counter()
    with urllib.request.urlopen(address + path, timeout=60) as answer:
        answer.read()
    return time.perf_counter() - begun


def following(runs: Path, address: str, pid: int) -> float:
    """CPU time of the server, a second, while each of FOLLOWED runs of ten hosts with 16 cores gets its readings and has a browser."""
    folders = [runs / f"live-{n}" for n in range(FOLLOWED)]
    for folder in folders:
        folder.mkdir()
        (folder / "plan.json").write_text("{}")
        (folder / "events.jsonl").write_text("")
    streams = [urllib.request.urlopen(f"{address}runs/{folder.name}/events", timeout=60) for folder in folders]
    time.sleep(2)
    before, begun = cpu_s(pid), time.monotonic()
    for second in range(SECONDS):
        values = {f"cpu{n}_busy_percent": float((second + n) % 100) for n in range(16)}
        for folder in folders:
            with (folder / "events.jsonl").open("a") as events:
                events.writelines(json.dumps({**EVENT, "where": f"h{n}", "values": values}) + "\n" for n in range(10))
        time.sleep(1)
    used = (cpu_s(pid) - before) / (time.monotonic() - begun)
    for stream in streams:
        stream.close()
    return used


def main() -> None:
    with TemporaryDirectory() as folder:
        runs = Path(folder)
        a, b = many(runs)
        argv = [sys.executable, "-m", "dutlab", "serve", "--json", "--port", "0", "--runs", str(runs)]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            address = json.loads(server.stdout.readline())["address"]
            pages = {"the style, the peer": "static/style.css", "list": "", "list, page 100": "?page=100", "list, one mode": "?mode=nat&doubt=severe",
                     "compare": f"compare?run={a}&run={b}", "report, made before": f"runs/{a}/report/"}  # fmt: skip
            first = {name: asked(address, path) for name, path in pages.items()}
            times: dict[str, list[float]] = {name: [] for name in pages}
            for _ in range(ROUNDS):
                for name, path in pages.items():
                    times[name].append(asked(address, path))
                    time.sleep(0.05)
            for name, found in times.items():
                print(
                    f"{name}: {median(found) * 1e3:.0f} ms ({min(found) * 1e3:.0f} to {max(found) * 1e3:.0f}); the first {first[name] * 1e3:.0f}"
                )
            print(f"memory {memory_mb(server.pid):.0f} MB with {RUNS} runs")
            print(f"following {FOLLOWED} runs of ten hosts with 16 cores: {following(runs, address, server.pid):.1%} of a core")
            print(f"load average {os.getloadavg()[0]:.1f}")
            server.terminate()


if __name__ == "__main__":
    main()
