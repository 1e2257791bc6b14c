"""Fixtures of tests that make network namespaces, and the proof after each that nothing of it is left."""

from __future__ import annotations

import asyncio
import gc
import itertools
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import in_process
from capability import have_engine, have_netns, have_sshd, need
from dutlab import labs
from dutlab.hosts.host import Done, Host
from dutlab.hosts.keeper import KEEPER
from dutlab.hosts.ssh_login import Login
from dutlab.labs import inside, sshd
from dutlab.labs.state import StateFolder
from dutlab.tools.engine.binary import find_engine
from dutlab.tools.engine.engine import Engine
from forked import Forked, begin
from in_process import carried_out
from processes import children, eventually

NAMESPACES = Path("/run/netns")
_numbers = itertools.count()


def mine() -> str:
    """In every name that tests of this process give."""
    return f"t{os.getpid()}"


@pytest.fixture
def label() -> str:
    """A label for a lab, of this test alone."""
    return f"{mine()}-{next(_numbers)}"


@pytest.fixture(autouse=True)
def no_leak() -> Iterator[None]:
    """No namespace, no lab, no process, no change to the machine's own links and settings."""
    need("netns", have_netns())
    outside, namespaces, labs = machine_network(), names(), set(StateFolder().labels())
    yield
    KEEPER.close()
    gc.collect()  # a process or socket that was not closed complains now, in the test that left it
    gc.freeze()  # what is left is no garbage, and need not be searched after the next test
    assert eventually(lambda: not leaked(namespaces, labs), 60), f"left behind: {leaked(namespaces, labs)}"
    assert eventually(lambda: not children(), 60), f"processes left: {children()}"
    assert machine_network() == outside


def names() -> set[str]:
    """Of the network namespaces that are there now, those of doors apart, which stay for several tests."""
    return {n.name for n in NAMESPACES.glob("dutlab-*") if "-door-" not in n.name}


def leaked(namespaces: set[str], labs: set[str]) -> list[str]:
    """Namespaces and labs that are new. Nobody else's: these tests have a /run of their own (isolation.py)."""
    return sorted((set(StateFolder().labels()) - labs) | (names() - namespaces))


def machine_network() -> tuple[str, dict[str, str]]:
    """Links, addresses, rules and settings of the namespace that the tests run in."""
    asked = "link show\naddress show\nroute show\nneighbour show nud permanent\n"
    links = subprocess.run(["ip", "-j", "-batch", "-"], input=asked, capture_output=True, text=True, check=True).stdout
    watched = ["net.ipv4.ip_forward", "net.ipv4.conf.all.rp_filter", "net.ipv4.tcp_congestion_control", "net.ipv6.conf.all.disable_ipv6"]
    files = {name: Path("/proc/sys") / name.replace(".", "/") for name in watched}
    return links, {name: file.read_text() for name, file in files.items() if file.exists()}


@pytest.fixture
async def lab(label: str) -> AsyncIterator[labs.Lab]:
    """The embedded lab `three-node`; its DUT forwards nothing yet."""
    async with lab_up("three-node", label) as lab:
        yield lab


@pytest.fixture
def log() -> list[Done]:
    """Every command that ended on `hosts`."""
    return []


@pytest.fixture
async def hosts(lab: labs.Lab, log: list[Done]) -> AsyncIterator[Mapping[str, Host]]:
    """Of the lab, by role."""
    hosts = lab.hosts(log.append)
    yield hosts
    for host in hosts.values():
        await host.close()


@pytest.fixture
async def engine(lab: labs.Lab, hosts: Mapping[str, Host]) -> AsyncIterator[Engine]:
    """At work in the lab."""
    need("engine", have_engine())
    engine = Engine(hosts, lab.testbed, lab.cpus, str(find_engine()))
    yield engine
    await engine.close()


@asynccontextmanager
async def lab_up(name: str, label: str, **how: Any) -> AsyncIterator[labs.Lab]:
    """An embedded lab, taken down at the end."""
    lab = await labs.up(name, label=label, **how)
    try:
        yield lab
    finally:
        await labs.down(label)


@asynccontextmanager
async def engine_in(lab: labs.Lab) -> AsyncIterator[tuple[Mapping[str, Host], Engine]]:
    """Hosts of a lab and an engine on them, closed at the end."""
    hosts = lab.hosts()
    engine = Engine(hosts, lab.testbed, lab.cpus, str(find_engine()))
    try:
        yield hosts, engine
    finally:
        await engine.close()
        for host in hosts.values():
            await host.close()


@pytest.fixture
async def box(label: str) -> AsyncIterator[str]:
    """The namespace at both ends of the lab `two-port`."""
    async with lab_up("two-port", label) as lab:
        yield lab.namespaces["source"]


@pytest.fixture
def cheap_rig() -> Iterator[None]:
    """The engine takes packet sockets, where it is not what is tested."""
    with in_process.cheap_rig():
        yield


@pytest.fixture
def dutlab(python_env: dict[str, str], tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Carries the command out to its end in an empty folder, the test's own; `env` comes to its environment."""

    def run(*args: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        return carried_out(args, cwd=tmp_path, env={**python_env, **(env or {})})

    return run


@pytest.fixture
def start(python_env: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Forked]]:
    """Begins the command in the same folder, in a child that was forked, and leaves it running; it is ended with the test at the latest."""
    started = list[Forked]()

    def run(*args: str, env: Mapping[str, str] | None = None) -> Forked:
        err = tmp_path / f"said-{len(started)}"
        with in_process.cheap_rig():
            started.append(begin(args, tmp_path, {**python_env, **(env or {})}, out=Path(os.devnull), err=err))
        return started[-1]

    yield run
    for running in started:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


@pytest.fixture
def standing_lab(dutlab: Callable[..., subprocess.CompletedProcess[str]], label: str) -> Iterator[str]:
    """The label of a lab `three-node` of the test's own, so that what a run leaves in it can be looked at."""
    up = dutlab("lab", "up", "three-node", "--label", label)
    assert up.returncode == 0, up.stderr
    yield label
    assert (done := dutlab("lab", "down", label)).returncode == 0, done.stderr


@pytest.fixture
def experiment(tmp_path: Path) -> Callable[[str], str]:
    """Writes an experiment's text into the test's folder; returns where it is."""

    def write(text: str) -> str:
        path = tmp_path / "experiment.yaml"
        path.write_text(text)
        return str(path)

    return write


@pytest.fixture
def marker() -> str:
    """A number of seconds that only this test sleeps for: how its processes are found."""
    return f"9{os.getpid()}.{next(_numbers):04d}"


@pytest.fixture
def namespace() -> Iterator[str]:
    """A network namespace, removed afterwards if it is still there."""
    name = f"dutlab-{mine()}-{next(_numbers)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    if (NAMESPACES / name).exists():
        subprocess.run(["ip", "netns", "del", name], check=True)


@pytest.fixture
async def ssh_login(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Login]:
    """How to log in to an OpenSSH server that runs inside `namespace`."""
    async with listening(namespace, "127.0.0.1", tmp_path_factory.mktemp("ssh") / "files") as config:
        yield Login("box", "box", (config,))


@pytest.fixture
async def ipv6_config(namespace: str, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Path]:
    """The ssh_config of a server that listens on ::1 inside `namespace`."""
    async with listening(namespace, "::1", tmp_path_factory.mktemp("ssh") / "files") as config:
        yield config


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Login]:
    """How to log in to a server that stays for all tests of a module, which leave it as it was."""
    need("sshd", have_sshd())
    name, folder = f"dutlab-{mine()}-door-{next(_numbers)}", tmp_path_factory.mktemp("ssh") / "files"
    doors = [sshd.SshServer("box", name, "127.0.0.1", via=name)]
    subprocess.run(["ip", "netns", "add", name], check=True)
    subprocess.run(["ip", "-n", name, "link", "set", "dev", "lo", "up"], check=True)
    sshd.write_files(folder, doors)
    asyncio.run(sshd.start(folder, doors))
    KEEPER.close()
    yield Login("box", "box", (sshd.config_file(folder),))
    identity = inside.namespace_id(NAMESPACES / name)
    assert identity is not None and inside.kill_all(identity) == []
    sshd.remove(folder)
    subprocess.run(["ip", "netns", "del", name], check=True)


@asynccontextmanager
async def listening(namespace: str, address: str, folder: Path) -> AsyncIterator[Path]:
    need("sshd", have_sshd())
    subprocess.run(["ip", "-n", namespace, "link", "set", "dev", "lo", "up"], check=True)
    doors = [sshd.SshServer("box", namespace, address, via=namespace)]
    sshd.write_files(folder, doors)
    await sshd.start(folder, doors)
    yield sshd.config_file(folder)
    identity = inside.namespace_id(NAMESPACES / namespace)
    assert identity is not None and inside.kill_all(identity) == []
    sshd.remove(folder)
