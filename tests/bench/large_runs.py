"""A run of many trials, read: CPU time and memory of each command; TRIALS=20000 unless told otherwise. Fails beyond SECONDS=10 and MIB=500.

CPU time, not the clock: other work on the machine takes no part in it.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from dutlab.store.write import Sync
from fake_run import PPS, SIZES, Wanted, build

TRIALS, SECONDS, MIB = (int(os.environ.get(name, most)) for name, most in (("TRIALS", "20000"), ("SECONDS", "10"), ("MIB", "500")))
CELLS = len(PPS) * (3 + len(SIZES))
COMMANDS = (
    "report {run}",
    "compare {run}",
    "check {run} --baseline {older}",
    "cost {run}",
    "effects {run}",
    "rescore {run}",
    "runs --rebuild --runs {runs}",
    "history firewall-modes --runs {runs}",
)
"""`check` reads two runs, so it may take twice as long."""


def command(*words: str) -> tuple[float, float, int]:
    """CPU seconds, MiB and status of a command."""
    pid = os.fork()
    if pid == 0:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.execv(sys.executable, [sys.executable, "-m", "dutlab", *words])
    _, status, used = os.wait4(pid, 0)
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, os.waitstatus_to_exitcode(status)


def main() -> None:
    too_much = []
    with tempfile.TemporaryDirectory() as name:
        began = time.perf_counter()
        run = build(Path(name) / "runs", Wanted(repeats=max(TRIALS // CELLS, 1), seconds=2, cores=0, sync=Sync.AT_END))
        older = shutil.copytree(run, Path(name) / "older" / run.name)
        trials = sum(1 for _ in (run / "trials").iterdir())
        print(f"{trials} trials made in {time.perf_counter() - began:.0f} s", flush=True)
        for words in COMMANDS:
            argv = words.format(run=run, older=older, runs=run.parent).split()
            seconds, mib, status = command(*argv)
            print(f"{argv[0]} of {trials} trials: {seconds:.1f} s of CPU time, {mib:.0f} MiB, status {status}", flush=True)
            if seconds > SECONDS * sum(words.count(of) for of in ("{run}", "{older}", "{runs}")) or mib > MIB or status:
                too_much.append(argv[0])
    if too_much:
        sys.exit(f"more than {SECONDS} s of CPU time or {MIB} MiB: {', '.join(too_much)}")


if __name__ == "__main__":
    main()
