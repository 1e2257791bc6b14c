"""An index of many runs: time to make it, to list them, to ask all samples; RUNS=10000 and SAMPLES=1000 a run unless told otherwise.

Each run is a copy (hard links) of one with a single trial, so that making them takes no longer than measuring.
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dutlab.store.index import opened
from fake_run import Wanted, build

RUNS, SAMPLES = int(os.environ.get("RUNS", "10000")), int(os.environ.get("SAMPLES", "1000"))
MOST_LINKS = 50_000
"""Names that a file system allows a file (ext4: 65,000)."""
QUESTION = "SELECT mode, count(*), avg(value) FROM samples JOIN trials USING (run, trial) GROUP BY mode"


def make(folder: Path) -> None:
    seconds = SAMPLES // 24  # four cores with six kinds of work each, once a second
    one = build(folder, Wanted(repeats=1, seconds=seconds, sizes=(64,), modes={"router": "router"}, bad_luck=False))
    for trial in sorted((one / "trials").iterdir())[1:]:
        shutil.rmtree(trial)
    for n in range(1, RUNS):
        fresh = n % MOST_LINKS == 0
        made = shutil.copytree(one, folder / f"2026-01-01T0000Z-run-{n:06d}", copy_function=shutil.copy2 if fresh else os.link)
        one = Path(made) if fresh else one


def command(*words: str) -> tuple[float, float]:
    """Seconds and MiB of a command."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, time.perf_counter()
    subprocess.run([sys.executable, "-m", "dutlab", *words], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began, max(before, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make(folder)
        began = time.perf_counter()
        with opened(folder) as index:
            (trials,) = index.execute("SELECT count(*) FROM trials").fetchone()
        print(
            f"index of {RUNS} runs, {trials} trials: {time.perf_counter() - began:.1f} s, {(folder / '.index.sqlite').stat().st_size / 2**20:.0f} MiB"
        )
        for what, words in (("list", ("runs",)), ("query of all samples", ("query", QUESTION))):
            seconds, mib = command(*words, "--runs", name)
            print(f"{what} ({RUNS} runs, {RUNS * SAMPLES // 10**6} million samples): {seconds:.2f} s, at most {mib:.0f} MiB")


if __name__ == "__main__":
    main()
