"""Whether pages that watch a run change what it measures: PAIRS=8 pairs of runs in the lab, one of each with pages and slow requests, in random order.

PAGES=200 are streams of `dutlab serve` on the same machine, each of which gets what a browser gets. SLOW=1300 are requests whose head never
ends, from other addresses of loopback: one byte a second each, and opened again when the server closes them. Prints the ratio of rates of each
pair and their median, then what `dutlab compare` says of all runs, each counted once: a difference, or the smallest that would have been
proven. Needs root and an idle machine; on a busy one (DUTLAB_DISTURBED=count) it shows only that it works.
"""

from __future__ import annotations

import json
import os
import random
import resource
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from math import exp, log
from pathlib import Path
from statistics import fmean, median
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).parents[1]))

from processes import cpu_s, memory_mb

PAIRS, PAGES, SLOW = (int(os.environ.get(name, default)) for name, default in (("PAIRS", "8"), ("PAGES", "200"), ("SLOW", "1300")))
EXPERIMENT = """
experiment: beside
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [64, 1518], links: [[a]], duration: 2s}
repeats: 3
"""
DUTLAB = [sys.executable, "-m", "dutlab"]
CROWD_ADDRESSES = ("127.0.0.2", "127.0.0.3", "127.0.0.4")
_TURN_S = 1.0


class ConnectionSet:
    """The clients: one thread, since they stand for other machines and shall cost little."""

    def __init__(self, address: str) -> None:
        url = urlsplit(address)
        self._server, self._path = (url.hostname or "", url.port or 0), url.path
        self._loop = selectors.DefaultSelector()
        self._slow = set[socket.socket]()
        self._pages = set[socket.socket]()
        self.opened = self.most = self.received = 0

    def open_pages(self, run: str) -> None:
        """PAGES streams of a run."""
        for _ in range(PAGES):
            page = socket.create_connection(self._server)
            page.sendall(f"GET {self._path}runs/{run}/events HTTP/1.1\r\nHost: {self._server[0]}:{self._server[1]}\r\n\r\n".encode())
            self._pages.add(page)
            self._follow(page)

    def turn(self) -> None:
        """A second: slow requests get a byte each, those that were closed are opened again, and all that comes is read."""
        for at in range(len(self._slow), SLOW):
            with suppress(OSError):  # the server's queue is full
                one = socket.create_connection(self._server, source_address=(CROWD_ADDRESSES[at % len(CROWD_ADDRESSES)], 0), timeout=0.1)
                one.sendall(b"GET / HTTP/1.1\r\nX: ")
                self._slow.add(one)
                self._follow(one)
                self.opened += 1
        self.most = max(self.most, len(self._slow))
        for one in list(self._slow):
            try:
                one.send(b"x")
            except OSError:
                self._close(one)
        until_s = time.monotonic() + _TURN_S
        while (left_s := until_s - time.monotonic()) > 0:
            for key, _ in self._loop.select(left_s):
                self._read(key.fileobj)  # type: ignore[arg-type]

    def report(self) -> dict[str, int]:
        """What became of it; ends every connection."""
        report = {"pages": len(self._pages), "received": self.received, "slow": len(self._slow), "most": self.most, "opened": self.opened}
        for one in (*self._pages, *self._slow):
            one.close()
        return report

    def _follow(self, one: socket.socket) -> None:
        one.setblocking(False)
        self._loop.register(one, selectors.EVENT_READ)

    def _read(self, one: socket.socket) -> None:
        try:
            part = one.recv(65536)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if part:
            self.received += len(part)
        else:
            self._close(one)

    def _close(self, one: socket.socket) -> None:
        self._loop.unregister(one)
        self._slow.discard(one)
        self._pages.discard(one)
        one.close()


def crowd(address: str, runs: Path) -> None:
    """The process of the clients, until it is terminated: slow ones at once, pages from when the run is there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard) if soft < hard else (soft, hard))
    clients, over, are_pages_open = ConnectionSet(address), threading.Event(), False
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    begun_s = time.time()
    while not over.is_set():
        clients.turn()
        if not are_pages_open and (found := [p.parent.name for p in runs.glob("*/events.jsonl") if p.stat().st_mtime > begun_s]):
            clients.open_pages(max(found))
            are_pages_open = True
    sys.stdout.write(json.dumps(clients.report()) + "\n")


@contextmanager
def watched(runs: Path) -> Iterator[None]:
    """The server and its clients, while a run goes on."""
    argv = [*DUTLAB, "serve", "--json", "--port", "0", "--runs", str(runs)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        assert server.stdout is not None
        address = json.loads(server.stdout.readline())["address"]
        with subprocess.Popen([sys.executable, __file__, "crowd", address, str(runs)], stdout=subprocess.PIPE, text=True) as clients:
            try:
                time.sleep(3)  # the slow ones are there
                begun_s, before_s = time.monotonic(), cpu_s(server.pid)
                yield
                share = (cpu_s(server.pid) - before_s) / (time.monotonic() - begun_s)
                clients.terminate()
                said = json.loads(clients.communicate()[0])
                print(
                    f"  {said['pages']} pages got {said['received'] / 1e6:.1f} MB; {said['slow']} slow requests open at the end, {said['most']} "
                    f"at most, {said['opened']} opened; the server took {share:.1%} of a core and {memory_mb(server.pid):.0f} MB",
                    flush=True,
                )
            finally:
                clients.kill()
                server.terminate()


def run(folder: Path, runs: Path) -> Path:
    """The folder of a run that was carried out."""
    before = set(runs.glob("2*"))
    subprocess.run([*DUTLAB, "run", str(folder / "beside.yaml"), "--runs", str(runs), "--json"], stdout=subprocess.DEVNULL, check=False)
    (made,) = set(runs.glob("2*")) - before
    return made


def rates(of: Path) -> dict[str, float]:
    """The median rate of each cell."""
    found = defaultdict[str, list[float]](list)
    for path in of.glob("trials/[0-9][0-9][0-9][0-9]/record.json"):
        record = json.loads(path.read_text())
        for entry in record["figures"]:
            if "received_pps" in entry["values"]:
                found[json.dumps([entry["subject"], record["cell"]], sort_keys=True)].append(entry["values"]["received_pps"])
    return {cell: median(values) for cell, values in found.items()}


def ratio(with_pages: Path, without: Path) -> float:
    """The mean ratio of the rates of two runs."""
    first, second = rates(with_pages), rates(without)
    return exp(fmean(log(first[cell] / second[cell]) for cell in first.keys() & second.keys()))


def main() -> None:
    with TemporaryDirectory() as name:
        folder, runs = Path(name), Path(name, "runs")
        runs.mkdir()
        (folder / "beside.yaml").write_text(EXPERIMENT)
        made: dict[bool, list[Path]] = {True: [], False: []}
        ratios = list[float]()
        for pair in range(1, PAIRS + 1):
            for with_pages in random.sample([True, False], 2):
                with watched(runs) if with_pages else ExitStack():
                    made[with_pages].append(run(folder, runs))
            ratios.append(ratio(made[True][-1], made[False][-1]))
            print(f"{pair}: the rate with pages is {ratios[-1]:.4f} of that without", flush=True)
        against = [word for path in made[False] for word in ("--against", str(path))]
        subprocess.run([*DUTLAB, "compare", *map(str, made[True]), *against], check=True)
        spread = f"{min(ratios):.4f} to {max(ratios):.4f}"
        print(
            f"ratio {median(ratios):.4f} ({spread}) of {PAIRS} pairs, {PAGES} pages, {SLOW} slow requests, load average {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    if sys.argv[1:2] == ["crowd"]:
        crowd(sys.argv[2], Path(sys.argv[3]))
    else:
        main()
