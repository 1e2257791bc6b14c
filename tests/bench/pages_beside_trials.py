"""Whether pages that watch a run change what it measures: PAIRS=8 pairs of runs in the lab, one of each with PAGES=20 open pages, in random order.

Prints what `dutlab compare` says of the runs with pages against those without, each run counted once: a difference, or the smallest that would have
been proven. The pages are streams of `dutlab serve` on the same machine, each of which gets what a browser gets. Needs root and an idle machine.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

PAIRS, PAGES = int(os.environ.get("PAIRS", "8")), int(os.environ.get("PAGES", "20"))
EXPERIMENT = """
experiment: beside
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64, 1518], links: [[a]], duration: 2s}
repeats: 3
"""
DUTLAB = [sys.executable, "-m", "dutlab"]


@contextmanager
def watched(runs: Path) -> Iterator[None]:
    """PAGES streams of the run that goes on, from when it is there."""
    argv = [*DUTLAB, "serve", "--json", "--port", "0", "--runs", str(runs)]
    over = threading.Event()
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server, ExitStack() as streams:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]

        def watch() -> None:
            while not over.wait(0.2) and not (found := [p.parent.name for p in runs.glob("*/events.jsonl") if p.stat().st_mtime > begun]):
                pass
            if not over.is_set():
                place = f"{address}runs/{max(found)}/events"
                for _ in range(PAGES):
                    threading.Thread(
                        target=drain, args=(streams.enter_context(urllib.request.urlopen(place, timeout=60)),), daemon=True
                    ).start()

        def drain(stream: object) -> None:
            try:
                while stream.read1(65536):  # type: ignore[attr-defined]
                    pass
            except (OSError, ValueError, AttributeError):  # the last: closed while it was read
                return

        begun = time.time()
        threading.Thread(target=watch, daemon=True).start()
        try:
            yield
        finally:
            over.set()
            server.terminate()


def run(folder: Path, runs: Path) -> str:
    """The folder of a run that was carried out."""
    before = set(runs.glob("2*"))
    subprocess.run([*DUTLAB, "run", str(folder / "beside.yaml"), "--runs", str(runs), "--json"], stdout=subprocess.DEVNULL, check=False)
    (made,) = set(runs.glob("2*")) - before
    return str(made)


def main() -> None:
    with TemporaryDirectory() as name:
        folder, runs = Path(name), Path(name, "runs")
        runs.mkdir()
        (folder / "beside.yaml").write_text(EXPERIMENT)
        made: dict[bool, list[str]] = {True: [], False: []}
        for _ in range(PAIRS):
            for with_pages in random.sample([True, False], 2):
                with watched(runs) if with_pages else ExitStack():
                    made[with_pages].append(run(folder, runs))
        against = [word for path in made[False] for word in ("--against", path)]
        subprocess.run([*DUTLAB, "compare", *made[True], *against], check=True)
        print(f"{PAIRS} pairs, {PAGES} pages, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
