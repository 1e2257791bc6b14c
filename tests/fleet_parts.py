"""The parts of a fleet as processes of a test: scheduler, workers and whoever carries the campaign out, on loopback."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from processes import LIMIT_S, at_work_below, ended, eventually

ADDRESS = "tcp://127.0.0.1:8786"
"""In the network of the test alone."""
QUICK = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "10s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "15s",
    "DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "5s",
}
"""A scheduler gives a silent worker up sooner than after five minutes."""


class FleetParts:
    """Each part has a name, writes into `NAME.said`, and is ended with the test."""

    def __init__(self, folder: Path, python: str, env: Mapping[str, str]) -> None:
        self.folder, self.running = folder, dict[str, subprocess.Popen[bytes]]()
        self._python, self.env = python, {**env, **QUICK}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self.running):
            self.kill(name)
        for pid in self.those_of_places():
            os.kill(pid, signal.SIGKILL)

    def begin(self, name: str, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """`dutlab campaign WORDS`."""
        with (self.folder / f"{name}.said").open("ab") as said:
            self.running[name] = subprocess.Popen(
                [self._python, "-m", "dutlab", "campaign", *words], cwd=self.folder, env={**self.env, **(env or {})},
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        return self.running[name]

    def scheduler(self) -> None:
        """Returns when it is ready."""
        self.begin("scheduler", "scheduler", "--listen", ADDRESS)
        self.said("scheduler", "ready for workers")

    def worker(self, name: str, *testbeds: str, env: Mapping[str, str] | None = None) -> None:
        """Beside some testbeds."""
        self.begin(name, "worker", "--scheduler", ADDRESS, *(word for testbed in testbeds for word in ("--testbed", testbed)), env=env)

    def said(self, name: str, words: str) -> str:
        """All that a part said, once it has said `words`."""
        file = self.folder / f"{name}.said"
        assert eventually(lambda: words in file.read_text()), file.read_text()
        return file.read_text()

    def kill(self, name: str) -> None:
        """As kill -9."""
        process = self.running.pop(name)
        process.kill()
        process.wait()

    def status(self, campaign: Path) -> list[dict[str, object]]:
        """What `campaign status --json` says of each planned run."""
        argv = [self._python, "-m", "dutlab", "campaign", "status", str(campaign), "--json"]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, check=True, timeout=LIMIT_S)
        return list(json.loads(done.stdout)["runs"])

    def those_of_places(self) -> list[int]:
        """Processes of dutlab at work on places of campaigns of this test, whoever began them."""
        return [pid for pid in at_work_below(self.folder / "campaigns") if not ended(pid)]
