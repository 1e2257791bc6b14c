"""`dutlab serve` as a process beside real runs: it starts, pauses, resumes and cancels them, and its own end is none of theirs."""

from __future__ import annotations

import contextlib
import http.cookiejar
import json
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capability import have_netns, need, need_program
from dutlab.store.manifest import MANIFEST
from processes import eventually, running_with

pytestmark = pytest.mark.timing

EXPERIMENT = """
experiment: slow
testbed: alone-testbed.yaml
factors: {mode: [as-found]}
workloads: [steps: {run: {here: [{run: "sleep SECONDS", name: sleeps}]}}]
repeats: REPEATS
"""


def wait(condition: Callable[[], bool]) -> None:
    """Until it holds."""
    assert eventually(condition, 180.0)


class Server:
    """One `dutlab serve` with --control."""

    def __init__(self, runs: Path, experiments: Path) -> None:
        argv = [sys.executable, "-m", "dutlab", "serve", "--json", "--port", "0", "--runs", str(runs), "--control"]
        self.process = subprocess.Popen([*argv, "--experiments", str(experiments)], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        told = json.loads(self.process.stdout.readline())
        self.address = told["address"]
        self._browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar := http.cookiejar.CookieJar()))
        self._browser.open(told["open"], timeout=60).close()
        (cookie,) = jar
        self._cookie = f"{cookie.name}={cookie.value}"

    def get(self, path: str = "") -> str:
        with self._browser.open(self.address + path, timeout=60) as answer:
            return str(answer.read().decode())

    def post(self, path: str, **fields: str) -> int:
        return self._posted(path, self.get("control?file=few.yaml"), **fields)[0]

    def start(self, file: str) -> str:
        """Starts a run after its plan was shown; the address of the page that follows."""
        plan = self.get(f"control?file={file}")
        seen = re.search(r'name="seen" value="(\w+)"', plan)
        assert seen is not None and "as-found" in plan and "about" in plan, plan
        status, address = self._posted("control", plan, file=file, seen=seen[1])
        assert status == 200
        return address.removeprefix(self.address)

    def _posted(self, path: str, page: str, **fields: str) -> tuple[int, str]:
        form = re.search(r'name="form" value="(\w+)"', page)
        assert form is not None
        data = urllib.parse.urlencode({"form": form[1], **fields}).encode()
        try:
            with self._browser.open(self.address + path, data=data, timeout=60) as answer:
                return int(answer.status), str(answer.url)
        except urllib.error.HTTPError as error:
            return error.code, ""

    def events(self, run: str) -> socket.socket:
        """A browser that watches a run."""
        place = urllib.parse.urlsplit(self.address)
        watching = socket.create_connection((place.hostname, place.port), timeout=60)
        watching.sendall(f"GET /runs/{run}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {self._cookie}\r\n\r\n".encode())
        return watching

    def end(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        with self.process:  # and its pipe is closed
            return self.process.wait(60)


@pytest.fixture
def folders(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    runs, experiments = tmp_path / "runs", tmp_path / "experiments"
    runs.mkdir()
    experiments.mkdir()
    (experiments / "alone-testbed.yaml").write_text("testbed: alone\nhosts: {here: {local: true}}\nlinks: {}\n")
    for name, repeats, seconds in (("few", "3", "2"), ("many", "200", "0.5")):
        (experiments / f"{name}.yaml").write_text(EXPERIMENT.replace("REPEATS", repeats).replace("SECONDS", seconds))
    yield runs, experiments
    assert not running_with(str(runs)), "nothing is left"


def begun(runs: Path) -> str:
    """The name of the run, once its first trial goes on."""
    wait(lambda: any("trial-begun" in p.read_text() for p in runs.glob("*/events.jsonl")))
    (run,) = [p.parent.name for p in runs.glob("*/events.jsonl")]
    return run


def test_a_run_that_was_started_here_goes_on_when_the_server_is_killed(folders: tuple[Path, Path]) -> None:
    runs, experiments = folders
    server = Server(runs, experiments)
    assert 'href="/runs/' not in server.get() and "few.yaml" in server.get("control")
    page = server.start("few.yaml")
    run = begun(runs)
    assert page == f"runs/{run}/live"
    with contextlib.closing(server.events(run)) as watching:
        assert b"text/event-stream" in watching.recv(4096)
        assert "as-found steps" in server.get(f"runs/{run}/live")
        assert server.end(signal.SIGKILL) == -signal.SIGKILL
    wait((runs / run / MANIFEST).exists)
    other = Server(runs, experiments)
    try:
        wait(lambda: "finished" in other.get())
        assert f"run {run}" in other.get(f"runs/{run}/report/")
    finally:
        assert other.end() == 0


def test_a_run_is_paused_after_its_trial_resumed_and_cancelled_by_the_page(folders: tuple[Path, Path]) -> None:
    runs, experiments = folders
    server = Server(runs, experiments)
    try:
        assert server.start("many.yaml").endswith("/live")
        run = begun(runs)
        assert "dutlab_run_running" in server.get("metrics")
        assert server.post(f"runs/{run}/resume") == 422, "it goes on"
        assert server.post(f"runs/{run}/pause") == 200
        wait(lambda: "paused after" in (runs / run / "events.jsonl").read_text())
        wait(lambda: not running_with(str(runs / run)) and "cut" in server.get("?status=cut"))
        counted = [p.parent.name for p in (runs / run / "trials").glob("*/record.json")]
        assert 0 < len(counted) < 200
        assert not (runs / run / "pause-asked").exists(), "the wish was granted"
        assert server.post(f"runs/{run}/pause") == 422, "it is paused"
        assert server.post(f"runs/{run}/resume") == 200
        wait(lambda: (runs / run / "events.jsonl").read_text().count("run-begun") == 2)
        wait(lambda: len(list((runs / run / "trials").glob("*/record.json"))) > len(counted))
        assert server.post(f"runs/{run}/cancel") == 200
        wait(lambda: "interrupted after" in (runs / run / "events.jsonl").read_text())
        wait(lambda: not running_with(str((runs / run).resolve())))
        assert "interrupted after" in server.get("control"), "what the command said"
    finally:
        assert server.end() == 0


def test_two_servers_and_five_hundred_browsers_are_all_answered(folders: tuple[Path, Path]) -> None:
    runs, experiments = folders
    (runs / "a-run").mkdir()
    (runs / "a-run" / "plan.json").write_text("{}")
    (runs / "a-run" / "events.jsonl").write_text("")
    servers = [Server(runs, experiments), Server(runs, experiments)]
    watching: list[socket.socket] = []
    try:
        watching = [servers[0].events("a-run") for _ in range(500)]
        assert all(b"200 OK" in one.recv(64) for one in watching)
        with contextlib.closing(servers[0].events("a-run")) as more:
            assert b"503" in more.recv(64)
        assert all("a-run" in server.get() for server in servers)
        for one in watching[:400]:
            one.close()
        again: list[socket.socket] = []

        def is_taken() -> bool:
            again.append(servers[0].events("a-run"))
            return b"200 OK" in again[-1].recv(64)

        wait(is_taken)
        watching += again
        descriptors = Path(f"/proc/{servers[0].process.pid}/fd")
        wait(lambda: len(list(descriptors.iterdir())) < 200)
    finally:
        for one in watching:
            one.close()
        assert [server.end() for server in servers] == [0, 0]


def test_a_unix_socket_answers_its_user_and_no_other(tmp_path: Path) -> None:
    need("netns", have_netns())  # root, to be another user
    setpriv, curl = need_program("setpriv"), need_program("curl")
    (runs := tmp_path / "runs").mkdir()
    with tempfile.TemporaryDirectory() as folder:  # not in tmp_path, which no other user may enter
        Path(folder).chmod(0o755)
        argv = [sys.executable, "-m", "dutlab", "serve", "--json", "--runs", str(runs), "--control", "--socket", f"{folder}/socket"]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            assert json.loads(server.stdout.readline()) == {
                "schema_version": 1, "address": f"unix:{folder}/socket", "token": None, "open": None,
            }  # fmt: skip
            ask = [curl, "--silent", "--unix-socket", f"{folder}/socket", "--write-out", "%{http_code}", "--output", "/dev/null"]
            ask.append("http://localhost/control")
            other = subprocess.run([setpriv, "--reuid", "65534", "--clear-groups", *ask], capture_output=True, text=True, check=False)
            assert (other.returncode, other.stdout) == (7, "000"), "curl could not connect"
            mine = subprocess.run(ask, capture_output=True, text=True, check=False)
            assert (mine.returncode, mine.stdout) == (0, "200")
            server.send_signal(signal.SIGINT)
            assert server.wait(60) == 0 and not Path(folder, "socket").exists()


def test_over_tls_with_a_token_of_ones_own_nothing_is_printed_and_nothing_is_seen_without_it(tmp_path: Path) -> None:
    openssl = need_program("openssl")
    cert, key, token, runs = (tmp_path / name for name in ("cert.pem", "key.pem", "token", "runs"))
    runs.mkdir()
    made = [
        openssl,
        *["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=t", "-addext", "subjectAltName=IP:127.0.0.2"],
    ]
    subprocess.run([*made, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    token.write_text("t" * 40)
    argv = [sys.executable, "-m", "dutlab", "serve", "--json", "--port", "0", "--runs", str(runs), "--bind", "127.0.0.2"]
    argv += ["--tls-cert", str(cert), "--tls-key", str(key), "--token-file", str(token)]
    token.chmod(0o644)
    refused = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 2 and "others can read it" in refused.stderr and "https" not in refused.stdout
    token.chmod(0o600)
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
        assert server.stdout is not None
        said = json.loads(server.stdout.readline())
        assert said["token"] is None and said["address"].startswith("https://127.0.0.2:")
        trusting = ssl.create_default_context(cafile=str(cert))
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"{said['address']}metrics", timeout=60, context=trusting)
        asked = urllib.request.Request(f"{said['address']}limits", headers={"Authorization": f"Bearer {'t' * 40}"})
        with urllib.request.urlopen(asked, timeout=60, context=trusting) as answer:
            assert answer.headers["strict-transport-security"] and b"14 880 952" in answer.read()
        with pytest.raises(OSError):
            urllib.request.urlopen(said["address"].replace("https", "http"), timeout=60)
        server.send_signal(signal.SIGINT)
        rest = server.stdout.read()
        assert server.wait(60) == 0 and "t" * 40 not in rest, rest
