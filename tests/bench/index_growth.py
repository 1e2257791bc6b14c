"""How the index of runs grows: 10³ to 10⁶ runs (SIZES=1000,10000,… unless told otherwise), in a folder and in a fleet's PostgreSQL.

By hand:

    PYTHONPATH=src:tests scripts/isolated .venv/bin/python tests/bench/index_growth.py

The rows of all runs but the first and the last are copies of those of one real run, and their folders are empty: a run that is in the index costs
no look into its folder. ON=/dev/shm makes them there: a million folders take a while on a disk.
tests/bench/index_of_runs.py takes whole runs in. CPU time, median of 3, is what other work disturbs least. DRAW=growth.svg draws it.
"""

from __future__ import annotations

import math
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path

from dutlab.report.model.curve import Curve, Line
from dutlab.report.model.words import Unit
from dutlab.report.plots.curve_plot import curve_plot
from dutlab.store.fleet_database import ANSWERS_S, FLEET_DATABASE, PostgresDatabase
from dutlab.store.fleet_index import opened_fleet
from dutlab.store.index import INDEX, opened
from dutlab.store.manifest import MANIFEST
from fake_run import Wanted, build
from postgres_cluster import PostgresCluster, postgres_cluster

SIZES = [int(size) for size in os.environ.get("SIZES", "1000,10000,100000,1000000").split(",")]
TIMES = 3
QUESTION = "SELECT mode, count(*), avg(value) FROM trials JOIN figures USING (run, trial) GROUP BY mode"
COPIED = (("runs", "name"), ("trials", "run"), ("figures", "run"), ("doubts", "run"))


def name_of(n: int) -> str:
    return f"2026-01-01T0000Z-run-{n:07d}"


def made(folder: Path) -> Path:
    """One real run of one trial."""
    one = build(folder, Wanted(repeats=1, seconds=2, sizes=(64,), modes={"router": "router"}, bad_luck=False))
    for trial in sorted((one / "trials").iterdir())[1:]:
        shutil.rmtree(trial)
    return one.rename(folder / name_of(0))


def fill_folder(folder: Path, size: int) -> None:
    with opened(folder) as index:
        inodes = []
        for n in range(1, size):
            (path := folder / name_of(n)).mkdir()
            inodes.append((path.name, path.stat().st_ino))
        with index:
            index.execute("CREATE TEMP TABLE made (name TEXT PRIMARY KEY, folder INTEGER)")
            index.executemany("INSERT INTO made VALUES (?, ?)", inodes)
            for table, column in COPIED:
                names = [row[1] for row in index.execute(f"PRAGMA table_info({table})")]
                copied = ", ".join("made.name" if name == column else "made.folder" if name == "folder" else f"t.{name}" for name in names)
                index.execute(f"INSERT INTO {table} SELECT {copied} FROM {table} t, made WHERE t.{column} = ?", (name_of(0),))


def fill_fleet(database: PostgresDatabase, one: Path, size: int) -> None:
    with opened_fleet(database) as index:
        for table in ("runs", "trials", "figures", "doubts", "places"):
            index.execute(f"TRUNCATE {table}")
        index.add(one, str(one), {})
        for table, column in (*COPIED, ("places", "run")):
            found = index.execute(
                "SELECT column_name FROM information_schema.columns WHERE table_name = ? AND table_schema = 'dutlab_index' ORDER BY ordinal_position",
                (table,),
            )
            copied = ", ".join("'2026-01-01T0000Z-run-' || lpad(n::text, 7, '0')" if name == column else name for (name,) in found)
            index.execute(
                f"INSERT INTO {table} SELECT {copied} FROM {table}, generate_series(1, {size - 1}) AS n WHERE {column} = ?", (one.name,)
            )
        index.execute("ANALYZE")


def cost(*words: str, env: dict[str, str]) -> tuple[float, float]:
    """CPU seconds and MiB of a command; the latter no less than this process has."""
    process = subprocess.Popen([sys.executable, "-m", "dutlab", *words], env=env, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def measured(folder: Path, env: dict[str, str], size: int) -> dict[str, float]:
    """CPU seconds of each thing that users do, and sizes."""
    asked = {
        "list, folder": ("runs", "--runs", str(folder)), "question, folder": ("query", QUESTION, "--runs", str(folder)),
        "list, fleet": ("runs", "--fleet"), "question, fleet": ("query", QUESTION, "--fleet"),
    }  # fmt: skip
    found = {what: [cost(*words, env=env) for _ in range(TIMES)] for what, words in asked.items()}
    told = {what: statistics.median(cpu_s for cpu_s, _ in costs) for what, costs in found.items()}
    told["list, folder: MiB"] = max(mib for _, mib in found["list, folder"])
    told["question, folder: MiB"] = max(mib for _, mib in found["question, folder"])
    told["index, folder: MiB"] = (folder / INDEX).stat().st_size / 2**20
    return told


def one_more(folder: Path, one: Path, database: PostgresDatabase) -> dict[str, float]:
    """CPU seconds of this process to take one more run in."""
    found: dict[str, list[float]] = {"one more, folder": [], "one more, fleet": []}
    for n in range(TIMES):
        more = shutil.copytree(one, folder / f"2026-02-01T0000Z-more-{n}")

        def into_folder() -> None:
            with opened(folder):
                pass

        def into_fleet(more: Path = more) -> None:
            with opened_fleet(database, answers_s=ANSWERS_S) as index:
                index.add(more, str(more), {})

        for what, does in (("one more, folder", into_folder), ("one more, fleet", into_fleet)):
            found[what].append(cpu_of(does))
    return {what: statistics.median(values) for what, values in found.items()}


def cpu_of(does: Callable[[], None]) -> float:
    before = resource.getrusage(resource.RUSAGE_SELF)
    does()
    after = resource.getrusage(resource.RUSAGE_SELF)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def drawn(costs: Mapping[str, Mapping[int, float]]) -> bytes:
    """An SVG of CPU seconds over runs, both on logarithmic axes: what is linear rises as the faint line does."""
    sizes = [size for of in costs.values() for size in of]
    least, most = min(sizes), max(sizes)
    lines = [Line(what, tuple(sorted(of.items()))) for what, of in costs.items()]
    linear = Line("linear", ((least, 0.001), (most, 0.001 * most / least)), role="asked")
    plot = curve_plot(
        Curve(
            "index-growth", "What the index of runs costs", "runs", "runs", "CPU time", "cpu_s", (*lines, linear),
            scale="log", x_scale="log", y_unit=Unit("s", 1, 3), x_ticks=tuple((float(size), f"{size:,}") for size in sorted({*sizes})),
        ),
        [],
    )  # fmt: skip
    assert plot is not None
    return plot.svg()


def grown(sizes: list[int], values: list[float]) -> Iterator[str]:
    """The exponent of the growth from each size to the next: 1 is linear."""
    for (n, value), (more, other) in pairwise(zip(sizes, values, strict=True)):
        yield f"{math.log(other / value) / math.log(more / n):.2f}" if value > 0 and other > 0 else "–"


def table(cluster: PostgresCluster) -> None:
    database, told = PostgresDatabase(cluster.where), dict[int, dict[str, float]]()
    env = {**os.environ, FLEET_DATABASE: cluster.where}
    for size in SIZES:
        with tempfile.TemporaryDirectory(prefix="dutlab-growth-", dir=os.environ.get("ON")) as name:
            folder = Path(name)
            one = made(folder)
            assert (one / MANIFEST).exists()
            fill_folder(folder, size)
            fill_fleet(database, one, size)
            told[size] = measured(folder, env, size) | one_more(folder, one, database)
        print(f"{size}: " + ", ".join(f"{what} {value:.3g}" for what, value in told[size].items()), flush=True)
    print("| CPU seconds | " + " | ".join(map(str, SIZES)) + " | growth |\n|---|" + "---|" * (len(SIZES) + 1))
    for what in told[SIZES[0]]:
        values = [told[size][what] for size in SIZES]
        print(f"| {what} | " + " | ".join(f"{value:.3g}" for value in values) + f" | {', '.join(grown(SIZES, values))} |")
    if to := os.environ.get("DRAW"):
        Path(to).write_bytes(drawn({what: {size: of[what] for size, of in told.items()} for what in told[SIZES[0]] if "MiB" not in what}))
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


if __name__ == "__main__":
    with postgres_cluster() as running:
        table(running)
