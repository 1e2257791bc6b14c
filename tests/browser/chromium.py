"""A real Chromium, driven over a pipe by its DevTools protocol: no port, no extra package.

Messages are JSON, each ended by a NUL byte, on file descriptors 3 and 4 (--remote-debugging-pipe).
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Self

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-default-apps", "--hide-scrollbars", "--remote-debugging-pipe",
)  # fmt: skip
PATIENCE_S = 300.0


def program() -> str | None:
    """Where the browser is, or None."""
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


class Chromium:
    """One browser with one page. Ended, with all its processes and its profile, when the block ends."""

    def __enter__(self) -> Self:
        self._profile = tempfile.mkdtemp(prefix="dutlab-browser-")
        to_read, self._out = os.pipe()
        self._in, to_write = os.pipe()

        def pipes() -> None:
            # Above 4 first, so that neither is overwritten before it is moved.
            a, b = os.dup(to_read), os.dup(to_write)
            while a < 5:
                a = os.dup(a)
            while b < 5:
                b = os.dup(b)
            os.dup2(a, 3)
            os.dup2(b, 4)

        self._process = subprocess.Popen(
            [program() or "chromium", *FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, close_fds=False, start_new_session=True,
            preexec_fn=pipes,  # noqa: PLW1509 - two dup2 calls, and the tests have one thread
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._buffer, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Network", "Runtime", "Log"):
            self.send(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._out)
        os.close(self._in)
        shutil.rmtree(self._profile, ignore_errors=True)

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """A command and its answer; events that come meanwhile are kept. Fails the test on an error or on silence."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params} | ({"sessionId": self._session} if self._session else {})
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            found = self._receive()
            if found.get("id") == self._number:
                assert "error" not in found, (method, found)
                return dict(found["result"])
            self.events.append(found)

    def open(self, path: Path | str, *, width: int, height: int = 900, scheme: str = "light") -> None:
        """Shows a file, or an address, at a window size in a colour scheme, and waits until it is loaded."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events.clear()
        self.send("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self._receive())

    def evaluate(self, expression: str) -> Any:
        """The value of a JavaScript expression, which the page's own policy does not bind."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    @property
    def requested(self) -> list[str]:
        """Every address that the page asked for since it was opened."""
        return [e["params"]["request"]["url"] for e in self.events if e.get("method") == "Network.requestWillBeSent"]

    @property
    def complaints(self) -> list[str]:
        """What the browser wrote to the console since the page was opened."""
        said = [e["params"]["entry"]["text"] for e in self.events if e.get("method") == "Log.entryAdded"]
        return said + [e["params"]["exceptionDetails"]["text"] for e in self.events if e.get("method") == "Runtime.exceptionThrown"]

    def _receive(self) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(0.0, end - time.monotonic()))
            data = os.read(self._in, 1 << 20) if ready else b""
            assert data, "the browser ended or fell silent"
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))
