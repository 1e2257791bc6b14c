"""New TCP connections a second through the same translator: the engine's two ends, and wrk with nginx, in turns; the ratio of their medians.

ROUNDS=7 rounds of SECONDS=5 s each way, about 80 s; the order changes from round to round. It needs root, the engine, and NEEDED. One object of
1 KByte a connection (RFC 9411 section 7.2), each connection ended after it. Both sides go as fast as they can. SOURCES=1: addresses that the
engine begins from; wrk has one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from dutlab.tools.engine.binary import find_engine

ROUNDS, SECONDS = int(os.environ.get("ROUNDS", "7")), int(os.environ.get("SECONDS", "5"))
SOURCES = ["10.9.1.2", *(f"10.9.1.{128 + n}" for n in range(int(os.environ.get("SOURCES", "1")) - 1))]
NEEDED = ("ip", "ss", "nft", "sysctl", "conntrack", "wrk", "nginx")
"""Programs; Debian: iproute2, nftables, procps, conntrack, wrk, nginx."""
_STARTS_S = 30.0
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
        until = time.monotonic() + _STARTS_S
        while "8080" not in run("ip", "netns", "exec", SINK, "ss", "-Hltn"):
            if server.poll() is not None or time.monotonic() > until:
                raise SystemExit("nginx does not listen")
            time.sleep(0.05)
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
    if missing := [name for name in NEEDED if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None]:
        raise SystemExit(f"not there: {', '.join(missing)}")
    found: dict[str, list[float]] = {"engine": [], "wrk": []}
    with tempfile.TemporaryDirectory() as name, translator():
        for number in range(ROUNDS):
            for side in ("engine", "wrk") if number % 2 == 0 else ("wrk", "engine"):
                subprocess.run(["ip", "netns", "exec", DUT, "conntrack", "-F"], check=True, capture_output=True)
                found[side].append(by_engine(number * 250_000) if side == "engine" else by_wrk(Path(name)))
            engine, wrk = (of[-1] for of in found.values())
            said = f"round {number + 1}: {engine:.0f} connections/s with the engine, {wrk:.0f} with wrk and nginx, ratio {engine / wrk:.2f}"
            print(said, flush=True)
    ratios = [engine / wrk for engine, wrk in zip(*found.values(), strict=True)]
    engine, wrk = (median(of) for of in found.values())
    print(
        f"engine ÷ wrk: {engine / wrk:.2f}, of medians {engine:.0f} and {wrk:.0f} connections/s; {min(ratios):.2f} to {max(ratios):.2f} in "
        f"{ROUNDS} rounds; load of the machine {os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
