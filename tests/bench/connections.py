"""New TCP connections a second through the same translator: the engine's two ends, and wrk with nginx, in turns; the ratio, round by round.

ROUNDS=3 rounds of SECONDS=3 s each way; the order changes from round to round. Root, wrk, nginx and nft are needed. One object of 1 KByte a
connection (RFC 9411 section 7.2), each connection ended after it. Both sides go as fast as they can. SOURCES=1: addresses that the engine begins
from; wrk has one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from dutlab.tools.engine.binary import find_engine

ROUNDS, SECONDS = int(os.environ.get("ROUNDS", "3")), int(os.environ.get("SECONDS", "3"))
SOURCES = ["10.9.1.2", *(f"10.9.1.{128 + n}" for n in range(int(os.environ.get("SOURCES", "1")) - 1))]
ASKED_PER_S = 60_000
"""More than this kernel takes."""
SOURCE, DUT, SINK = (f"bench{os.getpid()}-{end}" for end in ("source", "dut", "sink"))
NGINX = """
worker_processes 1; daemon off; pid {folder}/nginx.pid; error_log stderr crit;
events {{ worker_connections 16384; }}
http {{ access_log off; keepalive_timeout 0; client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 10.9.2.2:8080 backlog=65535; location / {{ return 200 "{body}"; }} }} }}
"""


def run(*words: str) -> str:
    """Its output."""
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


@contextmanager
def translator() -> Iterator[None]:
    """Three namespaces: the one in the middle translates."""
    try:
        for name in (SOURCE, DUT, SINK):
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        for end, port, net in ((SOURCE, "d0", "10.9.1"), (SINK, "d1", "10.9.2")):
            run("ip", "link", "add", "e0", "netns", end, "type", "veth", "peer", "name", port, "netns", DUT)
            for name, at, address in ((end, "e0", f"{net}.2/24"), (DUT, port, f"{net}.1/24")):
                run("ip", "-n", name, "address", "add", address, "dev", at)
                run("ip", "-n", name, "link", "set", at, "up")
            run("ip", "-n", end, "route", "add", "default", "via", f"{net}.1")
        for address in SOURCES[1:]:
            run("ip", "-n", SOURCE, "address", "add", f"{address}/32", "dev", "e0")
        run("ip", "netns", "exec", DUT, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        rules = "add table ip t; add chain ip t p { type nat hook postrouting priority 100; }; add rule ip t p oifname d1 masquerade"
        run("ip", "netns", "exec", DUT, "nft", rules)
        yield
    finally:
        for name in (SOURCE, DUT, SINK):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def by_engine(first: int) -> float:
    """Connections a second that were begun and answered."""
    engine = str(find_engine())
    server = subprocess.Popen(["ip", "netns", "exec", SINK, engine, "tcp-server", "10.9.2.2"], stdin=-1, stdout=-1)
    try:
        server.stdout.readline()
        client = ["tcp-client", "--from", ",".join(SOURCES), "--to", "10.9.2.2", "--rate", str(ASKED_PER_S)]
        client += ["--count", str(ASKED_PER_S * SECONDS)]
        said = json.loads(run("ip", "netns", "exec", SOURCE, engine, *client, "--first", str(first)))["connections"]
    finally:
        server.stdin.close()
        server.wait(10)
    return float(said["completed"]) / (said["begun_ns"] / 1e9)


def by_wrk(folder: Path) -> float:
    """Connections a second: each has one request."""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, body="x" * 1024))
    server = subprocess.Popen(["ip", "netns", "exec", SINK, "nginx", "-p", str(folder), "-c", str(folder / "nginx.conf")])
    try:
        for _ in range(100):
            if "8080" in run("ip", "netns", "exec", SINK, "ss", "-Hltn"):
                break
        wrk = ["wrk", "-t1", "-c64", f"-d{SECONDS}s", "-H", "Connection: close", "http://10.9.2.2:8080/1024"]
        said = run("ip", "netns", "exec", SOURCE, *wrk)
    finally:
        server.terminate()
        server.wait(10)
    found = re.search(r"Requests/sec:\s*([0-9.]+)", said)
    if found is None:
        raise SystemExit(f"wrk printed no rate: {said}")
    return float(found[1])


def main() -> None:
    """In turns, behind the same translator."""
    ratios = []
    with tempfile.TemporaryDirectory() as name, translator():
        for number in range(ROUNDS):
            forget = ("ip", "netns", "exec", DUT, "conntrack", "-F")
            found = {}
            for side in ("engine", "wrk") if number % 2 == 0 else ("wrk", "engine"):
                subprocess.run(forget, check=False, capture_output=True)
                found[side] = by_engine(number * 250_000) if side == "engine" else by_wrk(Path(name))
            ratios.append(found["engine"] / found["wrk"])
            print(
                f"round {number + 1}: {found['engine']:.0f} connections/s with the engine, {found['wrk']:.0f} with wrk and nginx, "
                f"ratio {ratios[-1]:.2f}",
                flush=True,
            )
    print(f"ratio: median {median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f} of {ROUNDS} rounds")


if __name__ == "__main__":
    main()
