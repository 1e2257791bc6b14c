"""Reading what fio leaves behind: a json+ report with a million bins and logs with a million rows; time, and memory at most.

A drive's histogram has 1856 bins a direction at most, so a million bins are 270 jobs that read and write.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from dutlab.tools.fio.output import jobs_of, readings, total
from dutlab.tools.json_text import read_object

JOBS, ROWS = int(os.environ.get("JOBS", "270")), int(os.environ.get("ROWS", "1000000"))
BINS = [index if index < 128 else (1 << ((index >> 6) + 5)) + index % 64 * (1 << ((index >> 6) - 1)) for index in range(1856)]
"""Lower ends, which are as good as midpoints here: 128 of a nanosecond each, then 64 a power of two."""
LOGS = ("iops", "bw", "clat")


def make(folder: Path) -> None:
    """The report and the logs of a run of `JOBS` drives."""
    way = {"total_ios": sum(range(1, 1857)), "iops": 1e5, "bw_bytes": 4e8}
    way["clat_ns"] = {"mean": 1e6, "max": 1e9, "N": way["total_ios"], "bins": {str(value): n for n, value in enumerate(BINS, 1)}}
    jobs = [{"jobname": f"server:d{n}", "job options": {"rw": "randrw"}, "read": way, "write": way} for n in range(JOBS)]
    (folder / "report.json").write_text(json.dumps({"fio version": "fio-3.33", "jobs": jobs}, indent=2))
    for log in LOGS:
        rows = (f"{1_700_000_000_000 + n // 10}, {1000 + n % 7}, {n % 2}, 4096, 0\n" for n in range(ROWS // len(LOGS)))
        (folder / log).write_text("".join(rows))


def most_mib() -> float:
    """Of this process since it became this program (getrusage also counts what it was forked from)."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) / 1024


def read(folder: Path) -> None:
    """What a child of this program does, so that its memory is its own."""
    before = most_mib()
    began = time.process_time()
    document, _ = read_object((folder / "report.json").read_bytes())
    whole = total(jobs_of(document))
    bins_s = time.process_time() - began
    assert whole.ways["read"].clat.bins[BINS[-1]] == JOBS * 1856, "bins are added, each exactly"
    del document
    began = time.process_time()
    found = list(readings({log: (folder / log).read_bytes() for log in LOGS}, "server:d1"))
    logs_s = time.process_time() - began
    print(
        f"{JOBS * 2 * len(BINS)} bins: {bins_s:.2f} s of CPU time; {ROWS} rows of logs: {logs_s:.2f} s of CPU time, {len(found)} readings"
    )
    print(f"at most {most_mib():.0f} MiB, {before:.0f} MiB of them before anything was read")


def main() -> None:
    """Makes the files, and reads them in a child."""
    if len(sys.argv) > 1:
        read(Path(sys.argv[1]))
        return
    with tempfile.TemporaryDirectory() as name:
        make(Path(name))
        subprocess.run([sys.executable, __file__, name], check=True)


if __name__ == "__main__":
    main()
