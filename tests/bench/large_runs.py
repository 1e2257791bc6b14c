"""A run of many real trials, read: time, CPU time and memory of each command, as a table. TRIALS=20000, SECONDS=10 and MIB=500 unless given.

    PYTHONPATH=src .venv/bin/python tests/bench/large_runs.py

MEASURED names a measured run, which is multiplied (multiplied_run.py); without it one is measured first, by `dutlab demo --quick`, as root.
Fails where a command takes more CPU time or memory: the clock tells of other work on the machine too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from multiplied_run import multiplied, sizes

from dutlab.store.run_folder import RunFolder

TRIALS, SECONDS, MIB = (int(os.environ.get(name, most)) for name, most in (("TRIALS", "20000"), ("SECONDS", "10"), ("MIB", "500")))
COMMANDS = (
    "report {run}",
    "compare {run}",
    "check {run} --baseline {older}",
    "cost {run}",
    "effects {run}",
    "rescore {run}",
    "runs --rebuild --runs {runs}",
    "history {experiment} --runs {runs}",
)
"""`check` reads two runs, so it may take twice as long."""


def command(*words: str) -> tuple[float, float, float, int]:
    """Seconds, CPU seconds, MiB and status of a command."""
    began = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(sys.executable, [sys.executable, "-m", "dutlab", *words])
    _, status, used = os.wait4(pid, 0)
    return time.perf_counter() - began, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def measured(folder: Path) -> Path:
    """The run that is multiplied."""
    if given := os.environ.get("MEASURED"):
        return Path(given)
    argv = [sys.executable, "-m", "dutlab", "demo", "--quick", "--runs", str(folder)]
    subprocess.run(argv, env={**os.environ, "DUTLAB_DISTURBED": "count"}, check=True, stdout=subprocess.DEVNULL)
    (run,) = folder.iterdir()
    return run


def main() -> None:
    too_much = []
    with tempfile.TemporaryDirectory() as name:
        run = multiplied(measured(Path(name) / "measured"), Path(name) / "runs", TRIALS)
        older = shutil.copytree(run, Path(name) / "older" / run.name, copy_function=os.link)
        print(*sizes(run), f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, Linux {os.uname().release}\n", sep=", ")
        print("| command | time | CPU time | memory | status |\n|---|---|---|---|---|", flush=True)
        for words in COMMANDS:
            experiment = RunFolder.open(run).plan["experiment"]
            argv = words.format(run=run, older=older, runs=run.parent, experiment=experiment).split()
            wall, seconds, mib, status = command(*argv)
            print(f"| `{argv[0]}` | {wall:.1f} s | {seconds:.1f} s | {mib:.0f} MiB | {status} |", flush=True)
            if seconds > SECONDS * sum(words.count(of) for of in ("{run}", "{older}", "{runs}")) or mib > MIB or status:
                too_much.append(argv[0])
    if too_much:
        sys.exit(f"more than {SECONDS} s of CPU time or {MIB} MiB: {', '.join(too_much)}")


if __name__ == "__main__":
    main()
