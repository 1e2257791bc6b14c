"""Real proxies on the lab's DUT: what both ends count, TLS that the proxy ends, and a proxy whose delay is known."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capability import have_engine, have_netns, need, need_program
from dutlab.methods.connection_ports import ConnectionLoad, ProxyEnd
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.connections import EngineConnections
from dutlab.units import Seconds
from processes import eventually
from run_records import record_in

EXAMPLE = Path(__file__).parents[2] / "examples" / "proxies" / "experiment.yaml"
PLAIN, SECURE = ProxyEnd("8080-8083"), ProxyEnd("8443")
LOAD = ConnectionLoad("a", 200.0, 100, 3, 200, "100:2,70000:1", Seconds(20.0), to=PLAIN)

HAPROXY = """
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
frontend clients
  bind :8080-8083
  bind :8443 ssl crt {folder}/both.pem alpn h2,http/1.1
  bind :8090 proto h2
  default_backend sink
backend sink
  http-reuse always
  server sink 172.16.10.2:20000
"""
NGINX = """
user root;
worker_processes 1;
pid {folder}/pid;
events {{ worker_connections 1000; }}
http {{
  access_log off;
  proxy_temp_path {folder}/proxy;
  client_body_temp_path {folder}/body;
  ssl_certificate {folder}/cert.pem;
  ssl_certificate_key {folder}/key.pem;
  ssl_protocols TLSv1.2 TLSv1.3;
  ssl_session_cache shared:sessions:1m;
  server {{
    listen 8080-8083;
    listen 8443 ssl http2;
    listen 8090 http2;
    location / {{ proxy_pass http://172.16.10.2:20000; }}
  }}
}}
"""
SQUID = """
http_port 8080 accel defaultsite=172.16.10.2 vport=20000 no-vhost allow-direct
http_port 8081 accel defaultsite=172.16.10.2 vport=20000 no-vhost allow-direct
http_port 8082 accel defaultsite=172.16.10.2 vport=20000 no-vhost allow-direct
http_port 8083 accel defaultsite=172.16.10.2 vport=20000 no-vhost allow-direct
always_direct allow all
http_access allow all
cache deny all
access_log none
cache_log /dev/null
netdb_filename none
pinger_enable off
visible_hostname dut
shutdown_lifetime 0 seconds
pid_filename {folder}/pid
"""
# Each chunk that a client sends waits for so many seconds from the moment when it came; the others pass at once.
DELAY = """
import queue, socket, sys, threading, time
delay = float(sys.argv[1])
def pump(near, far):
    while data := near.recv(65536):
        far.sendall(data)
    far.shutdown(socket.SHUT_WR)
def stamp(near, chunks):
    while data := near.recv(65536):
        chunks.put((time.monotonic() + delay, data))
    chunks.put((0, b""))
def late(chunks, far):
    while (chunk := chunks.get())[1]:
        time.sleep(max(0, chunk[0] - time.monotonic()))
        far.sendall(chunk[1])
    far.shutdown(socket.SHUT_WR)
listener = socket.create_server(("172.16.0.1", 8080), backlog=100)
print("ready", flush=True)
while True:
    near, _ = listener.accept()
    far = socket.create_connection(("172.16.10.2", 20000))
    chunks = queue.Queue()
    for end in near, far:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for work, ends in (pump, (far, near)), (stamp, (near, chunks)), (late, (chunks, far)):
        threading.Thread(target=work, args=ends, daemon=True).start()
"""
COMMANDS = {
    "haproxy": (HAPROXY, ("-D", "-f", "{folder}/conf", "-p", "{folder}/pid")),
    "nginx": (NGINX, ("-p", "{folder}", "-c", "{folder}/conf", "-e", "{folder}/error.log")),
    "squid": (SQUID, ("-n", "dutlabtest", "-f", "{folder}/conf")),
}


def programs():
    return {name: need_program(name) for name in COMMANDS}


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need("engine", have_engine())
    need_program("openssl")
    programs()


@pytest.fixture
def connections(lab):
    hosts = lab.hosts()
    return EngineConnections(hosts, lab.testbed, {}, dict.fromkeys(hosts, str(find_engine())), lambda *_: None)


@pytest.fixture
async def start(lab, tmp_path):
    """Starts a proxy on the DUT; it is ended with the test."""
    pid = tmp_path / "pid"
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"

    async def begin(name):
        program, (config, argv) = programs()[name], COMMANDS[name]
        dut = lab.hosts()["dut"]
        made = ["-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=proxy", "-keyout", str(key), "-out", str(cert)]
        await dut.run(["openssl", "req", "-x509", *made])
        (tmp_path / "both.pem").write_bytes(cert.read_bytes() + key.read_bytes())
        (tmp_path / "conf").write_text(config.format(folder=tmp_path))
        # The daemon is in a group of its own from the start: what is left in that of a command ends with it.
        await dut.run(["setsid", "-w", program, *(word.format(folder=tmp_path) for word in argv)])
        assert eventually(pid.exists)
        for _ in range(200):
            if (await dut.run(["ss", "-Hltn", "sport = :8080"])).stdout:
                return
            await asyncio.sleep(0.1)
        pytest.fail(f"{name} does not listen")

    yield begin
    if pid.exists():
        number = int(pid.read_text().split()[0])
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGTERM)
        assert eventually(lambda: not Path(f"/proc/{number}").exists())


@pytest.mark.parametrize("name", ["haproxy", "nginx", "squid"])
async def test_both_ends_count_what_passes_a_proxy_and_who_closed(connections, start, name):
    await start(name)
    seen = await connections.carry_out(LOAD)
    server = seen.server
    assert (seen.completed, seen.transactions) == (seen.begun, 3 * seen.begun), seen
    assert (server.answered, server.body_bytes) == (seen.transactions, seen.body_bytes)
    assert (seen.reset_by_sink, seen.reset_by_path, server.reset) == (0, 0, 0)
    if name != "nginx":  # connections to the server are used again
        assert server.accepted < seen.completed
    else:  # nginx asks for each by a connection of HTTP/1.0, which the server closes
        assert server.accepted == server.closed_here == seen.transactions


@pytest.mark.parametrize("name", ["haproxy", "nginx"])
@pytest.mark.parametrize("version", ["1.2", "1.3"])
async def test_the_proxys_openssl_ends_tls_and_resumes_sessions(connections, start, name, version):
    await start(name)
    load = replace(LOAD, to=SECURE, rate_per_s=100.0, count=50, client_tls=version, requests=1)
    for resumes in (False, True):
        seen = await connections.carry_out(replace(load, resumes=resumes))
        assert (seen.completed, seen.tls.full + seen.tls.resumed) == (seen.begun, seen.begun), seen
        assert (seen.tls.resumed > 0) == resumes
        assert all(agreed.startswith(f"TLS {version} TLS_") for agreed in seen.tls.agreed)
        assert (seen.server.tls.full, seen.server.answered) == (0, seen.transactions)


async def test_a_proxy_without_tls_or_without_its_server_fails_by_that_kind(connections, start):
    await start("haproxy")
    load = replace(LOAD, rate_per_s=50.0, count=20, timeout=Seconds(2.0))
    seen = await connections.carry_out(replace(load, client_tls="any"))  # it takes a ClientHello for a request of HTTP
    assert (seen.failed["tls_failed"], bool(seen.tls.error)) == (seen.begun, True), seen
    seen = await connections.carry_out(replace(load, server_tls="any"))  # its plain requests reach a server that wants TLS
    assert (seen.failed["error_status"], sum(seen.statuses.values())) == (seen.begun, seen.begun), seen
    assert seen.server.tls.error


async def test_a_proxy_that_adds_50_ms_is_found_within_1_ms(lab, connections):
    """The handshake of TLS 1.3 has one flight of the client that an answer waits for, that of TLS 1.2 has two (RFC 8446 section 2)."""
    load = replace(LOAD, rate_per_s=40.0, count=30, requests=1, response_bytes="100", to=ProxyEnd("8080"))

    async def least(delay: float, version: str) -> dict[str, float]:
        proxy = await lab.hosts()["dut"].spawn([sys.executable, "-c", DELAY, str(delay)])
        try:
            assert await proxy.readline() == b"ready\n"
            seen = await connections.carry_out(replace(load, client_tls=version, server_tls=version))
        finally:
            await proxy.end(0.0)
        assert seen.completed == seen.begun, seen
        (client,) = json.loads(seen.raw["connections.json"])["clients"]
        of = client["connections"]
        return {name: of[name]["min_ns"] / 1e6 for name in ("handshake", "tls_handshake", "first_byte", "response")}

    for version, flights in (("", 0), ("1.3", 1), ("1.2", 2)):
        adds = {"handshake": 0, "tls_handshake": 50 * flights, "first_byte": 50 * (flights + 1), "response": 50}
        base, delayed = dict.fromkeys(adds, 1e9), dict.fromkeys(adds, 1e9)
        for _ in range(12):  # other work on the machine delays whole rounds
            for delay, found in ((0.0, base), (0.05, delayed)):
                found |= {name: min(ms, found[name]) for name, ms in (await least(delay, version)).items()}
            wrong = {name: delayed[name] - base[name] - ms for name, ms in adds.items()}
            if all(abs(ms) < 1 for ms in wrong.values()):
                break
        else:
            pytest.fail(f"TLS {version}: {wrong}")


def test_the_example_measures_both_proxies_and_leaves_nothing(dutlab: Callable, tmp_path: Path):
    sets = {"trial": "1s", "highest": 100, "timeout": "20s", "failed": "1%", "width": "40%"}
    words = [word for key, value in sets.items() for word in ("--set", f"workloads.connections.{key}={value}")]
    done = dutlab("run", str(EXAMPLE), *words, "--set", "disturbed=count")
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    records = [record_in(path) for path in sorted(folder.glob("trials/*/record.json"))]
    assert len(records) == 6
    for record in records:
        figures, (row, *_) = record["figures"]["a"], record["tables"]["connection_trials"]
        assert figures["connections_lower_per_s"] > 0
        assert row["server_answers_count"] >= row["completed_connections"]
        secure = record["cell"]["setting"].get("tls")
        assert {of["end"] for of in record["tables"].get("tls_agreed", ())} == ({"client"} if secure else set())
        assert (figures.get("tls_resumed_ratio", 0) > 0.5) == bool(record["cell"]["setting"].get("tls_resumes"))
    assert not list(Path("/run").glob("dutlab-haproxy-*")) + list(Path("/run").glob("dutlab-nginx-*"))
    assert "What TLS agreed on" in dutlab("report", str(folder), "--print", "--verbose").stdout


@pytest.mark.parametrize("name", ["haproxy", "nginx"])
async def test_clients_of_http_2_are_answered_through_the_proxy(connections, start, name):
    await start(name)
    plain = replace(LOAD, to=ProxyEnd("8090"), http2=True)
    secure = replace(plain, to=SECURE, client_tls="1.3", rate_per_s=100.0)
    for load in (plain, secure, replace(plain, requests=1, hold=True)):
        seen = await connections.carry_out(load)
        assert (seen.completed, seen.transactions) == (seen.begun, (2 if load.hold else 3) * seen.begun), seen
        assert (seen.server.answered, seen.server.body_bytes) == (seen.transactions, seen.body_bytes)
    if name == "haproxy":  # nginx takes the alert of the server that it cannot ask for an answer of HTTP/0.9
        seen = await connections.carry_out(replace(plain, count=20, server_tls="any"))
        assert (seen.failed["error_status"], set(seen.statuses)) == (seen.begun, {"502"}), seen
