"""A hundred hosts over ssh that begin one phase together, against `ssh` with ControlMaster to the same servers, in turns.

    python tests/bench/ssh_barrier.py [--hosts 100] [--rounds 5]

Each host is a network namespace with an OpenSSH server of its own; this process is in one more, joined to them by a bridge. Each host's
command writes a file, and the kernel stamps the file: the spread of the stamps is that of the starts. The peer has its connections open
too, and starts all of its clients at once from a shell. Needs root and openssh-server.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from dutlab.hosts.host import Host
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from dutlab.labs import inside, sshd
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.tools.steps.account import Account
from dutlab.tools.steps.steps import Steps

AIM_MS = 20.0
NAME = f"dutlab-bench{os.getpid()}"
CLOCK_REALTIME_COARSE = 5  # linux/time.h; files are stamped with it
STANDS_IN = "DUTLAB_BENCH_NAMESPACE"


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


@contextmanager
def namespaces(count: int) -> Iterator[str]:
    """NAME-0 for this process, NAME-1 to NAME-`count` for the hosts, the addresses 10.0.0.0/16 on a bridge of the first. Yields the prefix."""
    places = [f"{NAME}-{n}" for n in range(count + 1)]
    try:
        for n, place in enumerate(places):
            ip("netns", "add", place)
            if n == 0:
                ip("-n", place, "link", "add", "bridge", "type", "bridge")
                ip("-n", place, "addr", "add", "10.0.255.1/16", "dev", "bridge")
                ip("-n", place, "link", "set", "bridge", "up")
                continue
            ip("-n", place, "link", "add", "eth0", "type", "veth", "peer", "name", f"v{n}", "netns", places[0])
            ip("-n", places[0], "link", "set", f"v{n}", "master", "bridge", "up")
            ip("-n", place, "addr", "add", f"{address(n)}/16", "dev", "eth0")
            ip("-n", place, "link", "set", "eth0", "up")
        yield NAME
    finally:
        for place in places:
            if identity := inside.namespace_id(Path("/run/netns", place)):
                inside.kill_all(identity)
                ip("netns", "del", place)


def address(n: int) -> str:
    return f"10.0.{n // 250}.{n % 250 + 1}"


@contextmanager
def servers(prefix: str, count: int, folder: Path) -> Iterator[Path]:
    """An sshd in each namespace of a host; yields an ssh_config that names them h1, h2 and so on."""
    doors = [sshd.SshServer(f"h{n}", f"{prefix}-{n}", address(n), via=f"{prefix}-0") for n in range(1, count + 1)]
    sshd.write_files(folder / "ssh", doors)
    try:
        asyncio.run(sshd.start(folder / "ssh", doors))
        config = folder / "config"
        told = sshd.config_file(folder / "ssh").read_text().splitlines(keepends=True)
        config.write_text("".join(line for line in told if "ProxyCommand" not in line))  # the bridge leads there
        yield config
    finally:
        for door in doors:
            if identity := inside.namespace_id(Path("/run/netns", door.namespace)):
                inside.kill_all(identity)
        sshd.remove(folder / "ssh")


class Stamps:
    """One file a host, whose time of change the kernel keeps, to a tick."""

    def __init__(self, folder: Path, count: int) -> None:
        self.files = [folder / f"stamp-{n}" for n in range(1, count + 1)]

    def clear(self) -> None:
        for file in self.files:
            file.write_bytes(b"")

    def spread_ms(self) -> float:
        """Raises RuntimeError when a host has not begun."""
        if missing := [file.name for file in self.files if not file.read_bytes()]:
            raise RuntimeError(f"{len(missing)} hosts did not begin: {missing[0]}")
        stamps = [file.stat().st_mtime_ns for file in self.files]
        return (max(stamps) - min(stamps)) / 1e6


def command(stamp: Path) -> str:
    return f"echo >>{stamp}"


async def ours(hosts: dict[str, Host], stamps: Stamps) -> Account:
    account = Account()
    steps = {name: [command(file)] for name, file in zip(hosts, stamps.files, strict=True)}
    await Steps(hosts).carry_out(StepsWorkload.model_validate({"run": steps}), account)
    if account.failed:
        raise RuntimeError(f"{len(account.failed)} steps failed: {account.failed[0].why}")
    return account


def theirs(ssh: str, stamps: Stamps) -> None:
    lines = [f"{ssh} h{n} '{command(file)}' &" for n, file in enumerate(stamps.files, 1)]
    subprocess.run(["sh", "-c", "\n".join([*lines, "wait"])], check=True)


async def compare(count: int, rounds: int, config: Path, folder: Path) -> None:
    stamps = Stamps(folder, count)
    ssh = f"ssh -F {config} -o ControlPath={folder}/%h"
    masters = "\n".join(f"{ssh} -M -N -f h{n} 2>/dev/null" for n in range(1, count + 1))
    before = time.perf_counter()
    await asyncio.to_thread(subprocess.run, ["sh", "-c", masters], check=True)
    their_connects_s, before = time.perf_counter() - before, time.perf_counter()
    hosts: dict[str, Host] = {f"h{n}": SshHost(Login(f"h{n}", f"h{n}", (config,))) for n in range(1, count + 1)}
    await asyncio.gather(*(host.run(["true"]) for host in hosts.values()))
    our_connects_s = time.perf_counter() - before
    spreads: dict[str, list[float]] = {"ours": [], "bound": [], "theirs": []}
    phases: dict[str, list[float]] = {"ours": [], "theirs": []}
    for _ in range(rounds):
        stamps.clear()
        before = time.perf_counter()
        account = await ours(hosts, stamps)
        phases["ours"].append(time.perf_counter() - before)
        spreads["ours"].append(stamps.spread_ms())
        spreads["bound"].append(account.skew_ns / 1e6)
        stamps.clear()
        before = time.perf_counter()
        await asyncio.to_thread(theirs, ssh, stamps)
        phases["theirs"].append(time.perf_counter() - before)
        spreads["theirs"].append(stamps.spread_ms())
    await asyncio.gather(*(host.close() for host in hosts.values()))
    exits = "\n".join(f"{ssh} -O exit h{n} 2>/dev/null" for n in range(1, count + 1))
    await asyncio.to_thread(subprocess.run, ["sh", "-c", exits], check=True)
    report(count, spreads, phases, our_connects_s / their_connects_s)


def report(count: int, spreads: dict[str, list[float]], phases: dict[str, list[float]], connects: float) -> None:
    mid: Callable[[Sequence[float]], float] = statistics.median
    rounds, tick_ms = len(phases["ours"]), time.clock_getres(CLOCK_REALTIME_COARSE) * 1e3
    print(
        f"{count} hosts, {rounds} rounds: they begin within {mid(spreads['ours']):.1f} ms (median; {min(spreads['ours']):.1f} to "
        f"{max(spreads['ours']):.1f}, in ticks of {tick_ms:g} ms; aim {AIM_MS:g}), OpenSSH with ControlMaster {mid(spreads['theirs']):.1f} ms, "
        f"ratio {mid(spreads['ours']) / mid(spreads['theirs']):.3f}; the bound that dutlab states itself: {mid(spreads['bound']):.1f} ms"
    )
    print(
        f"the whole phase with its clocks compared {mid(phases['ours']):.2f} s, OpenSSH {mid(phases['theirs']):.2f} s, "
        f"ratio {mid(phases['ours']) / mid(phases['theirs']):.2f}; opening all connections, ratio {connects:.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=5)
    asked = parser.parse_args()
    if folder := os.environ.get(STANDS_IN):
        asyncio.run(compare(asked.hosts, asked.rounds, Path(folder, "config"), Path(folder)))
        return
    with tempfile.TemporaryDirectory() as made, namespaces(asked.hosts) as prefix, servers(prefix, asked.hosts, Path(made)):
        again = ["ip", "netns", "exec", f"{prefix}-0", sys.executable, *sys.argv]
        subprocess.run(again, check=True, env={**os.environ, STANDS_IN: made})


if __name__ == "__main__":
    main()
