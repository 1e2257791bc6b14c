"""Metrics of a run against promtool and a real Prometheus, on loopback."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from urllib.request import ProxyHandler, build_opener

import pytest
from click.testing import CliRunner

from capability import need_program
from dutlab.cli.export import export
from dutlab.interop.metrics import RunMetrics
from run_events import BEGUN, HOSTILE, begun, ended, reading, tell


@pytest.mark.parametrize("kind", ["metrics", "openmetrics"])
def test_promtool_finds_nothing_wrong_with_the_metrics(tmp_path: Path, kind: str) -> None:
    promtool = need_program("promtool")
    tell(tmp_path / "r", b"damaged\n", b'{"event": "reading"}\n', BEGUN, begun(1), ended(1), begun(2), reading(float(2**60)))
    text = CliRunner().invoke(export, [kind, str(tmp_path / "r")], catch_exceptions=False).output
    assert text.endswith("# EOF\n") == (kind == "openmetrics")
    checked = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, text=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_a_real_prometheus_scrapes_a_run_while_it_goes(tmp_path: Path) -> None:
    program = need_program("prometheus")
    tell(tmp_path / "r", BEGUN, begun(1), reading(5e5))

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            data = RunMetrics(tmp_path / "r").text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Page) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        threading.Thread(target=server.serve_forever, daemon=True).start()
        jobs = [{"job_name": "dutlab", "scrape_interval": "1s", "static_configs": [{"targets": [f"127.0.0.1:{server.server_port}"]}]}]
        (tmp_path / "prometheus.yml").write_text(json.dumps({"scrape_configs": jobs}))
        words = [
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        with subprocess.Popen([program, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as prometheus:
            try:
                assert asked(port, "dutlab_reading", 5e5)["where"] == HOSTILE
                tell(tmp_path / "r", reading(6e5))
                assert asked(port, "dutlab_reading", 6e5)["name"] == "received_pps"
                tell(tmp_path / "r", ended(1))
                assert asked(port, "dutlab_figure", 1e6)["link"] == "a"
                assert asked(port, "dutlab_run_trials_done", 1)["run"] == "r"
            finally:
                prometheus.terminate()
                server.shutdown()


def asked(port: int, name: str, value: float) -> dict[str, str]:
    """The labels of the metric, once Prometheus has it with this value."""
    opener, until = build_opener(ProxyHandler({})), time.monotonic() + 120
    while time.monotonic() < until:
        try:
            with opener.open(f"http://127.0.0.1:{port}/api/v1/query?query={name}", timeout=10) as reply:
                for found in json.load(reply)["data"]["result"]:
                    if float(found["value"][1]) == value:
                        return found["metric"]
        except (OSError, KeyError):
            pass
        time.sleep(0.2)
    raise AssertionError(f"{name} did not become {value}")
