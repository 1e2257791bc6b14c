"""`dutlab serve` when somebody opens more than he may, sends nothing, or leaves no descriptors."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen

import pytest

from dutlab.bounds import CONNECTIONS, DESCRIPTORS_KEPT
from dutlab.serve import connections
from dutlab.serve.connections import ConnectionSet, capacity
from dutlab.serve.server import ServeRequest, listening, server_of
from processes import LIMIT_S, eventually

HALF = b"GET /login HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
POST = b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\ntoken="


@pytest.fixture
def place(tmp_path: Path) -> Iterator[tuple[str, int]]:
    """Where a server of this process listens."""
    asked = ServeRequest(tmp_path, None, "127.0.0.1", 0, None, "t" * 32, (), "", None, None, with_control=False, experiments=None)
    with listening(asked) as (listens, _):
        server = server_of(asked)
        thread = threading.Thread(target=server.run, args=([listens],), daemon=True)
        thread.start()
        assert eventually(lambda: server.started)
        yield listens.getsockname()
        server.should_exit = True
        thread.join(LIMIT_S)


def page(place: tuple[str, int]) -> int:
    with urlopen(f"http://{place[0]}:{place[1]}/login", timeout=LIMIT_S) as answer:
        return answer.status


def is_closed(connection: socket.socket) -> bool:
    connection.settimeout(LIMIT_S)
    try:
        return connection.recv(1) == b""
    except ConnectionError:
        return True


def test_unfinished_heads_hinder_only_each_other(monkeypatch: pytest.MonkeyPatch, place: tuple[str, int]) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_OF_ADDRESS", 20)
    opened = list[socket.socket]()
    try:
        for _ in range(60):
            opened.append(one := socket.create_connection(place))
            one.sendall(HALF)
        assert page(place) == 200
        assert all(map(is_closed, opened[:40]))
    finally:
        for one in opened:
            one.close()


@pytest.mark.parametrize("begun", [b"", HALF, POST], ids=["nothing", "head", "body"])
def test_a_request_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch, place: tuple[str, int], begun: bytes) -> None:
    monkeypatch.setattr(connections, "REQUEST_HEAD_S", 1000.0 if begun == POST else 0.2)
    monkeypatch.setattr(connections, "REQUEST_BODY_S", 0.2)
    with socket.create_connection(place) as one:
        one.sendall(begun)
        assert is_closed(one)


def test_a_second_request_on_an_open_connection_has_its_time_too(monkeypatch: pytest.MonkeyPatch, place: tuple[str, int]) -> None:
    with socket.create_connection(place) as one:
        one.sendall(HALF + b"no\r\n\r\n")
        one.settimeout(LIMIT_S)
        said = b""
        while b"</html>" not in said:
            said += one.recv(65536)
        monkeypatch.setattr(connections, "REQUEST_HEAD_S", 0.2)
        one.sendall(HALF)
        while part := one.recv(65536):
            assert part


def test_an_address_has_a_limit_and_others_have_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CONNECTIONS_OF_ADDRESS", 3)
    crowd = ConnectionSet(5)
    assert [crowd.admit("a") for _ in range(4)] == [True, True, True, False]
    assert [crowd.admit("b") for _ in range(3)] == [True, True, False], "all are five"
    crowd.left(SimpleNamespace(), "a")  # type: ignore[arg-type]
    assert crowd.admit("b")


@pytest.mark.parametrize(
    ("limits", "set_to", "most"),
    [((1024, 1024), None, 1024 - DESCRIPTORS_KEPT), ((64, 64), None, 1), ((1024, 1 << 20), CONNECTIONS + DESCRIPTORS_KEPT, CONNECTIONS)],
)
def test_connections_leave_descriptors_for_files(monkeypatch, limits, set_to, most) -> None:
    told = list[tuple[int, int]]()
    fake = SimpleNamespace(RLIMIT_NOFILE=0, RLIM_INFINITY=-1, getrlimit=lambda _: limits, setrlimit=lambda _, to: told.append(to))
    monkeypatch.setattr(connections, "resource", fake)
    assert capacity() == most
    assert set_to is None or told == [(set_to, limits[1])]


def test_with_few_descriptors_pages_are_answered_and_the_log_stays_short(tmp_path: Path) -> None:
    argv = ["sh", "-c", 'ulimit -n 128; exec "$@"', "sh", sys.executable, "-c", "from dutlab.cli.main import main; main()"]
    argv += ["serve", "--runs", str(tmp_path), "--port", "0", "--json"]
    with (tmp_path / "log").open("wb") as log:
        served = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log)
    opened = list[socket.socket]()
    try:
        assert served.stdout is not None
        address = served.stdout.readline().split(b'"address": "http://')[1].split(b'/"')[0].decode()
        host, _, port = address.partition(":")
        for _ in range(200):
            opened.append(one := socket.create_connection((host, int(port))))
            one.sendall(HALF)
        assert [page((host, int(port))) for _ in range(20)] == [200] * 20
    finally:
        for one in opened:
            one.close()
        served.send_signal(signal.SIGINT)
        served.wait(LIMIT_S)
        if served.stdout is not None:
            served.stdout.close()
    assert (tmp_path / "log").stat().st_size < 10_000
