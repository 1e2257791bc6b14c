"""What tests with a kernel of their own share: the command, and labs that boot once for a module and are found as they were after each test."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from capability import have_netns, have_strongswan, need, need_engine, need_program
from dutlab.labs.uml import MODULES
from forked import Forked, begin, run
from in_process import cheap_rig
from vm.shared_lab import SharedLab

FOLDER = Path(__file__).parent
GUESTS = ("raid", "qemu", "exact", "uml_sites", "uml_home", "uml_router")
"""How the fixtures of guests begin, those with most work first: tests with one of them run in one process, where it boots once."""
LIMIT_S = 780.0
"""Of one command: a guest beside other work has a small share of a core. Less than pytest's own limit, which ends all tests."""
OF_ROUTER = """{ ip -brief link; ip -brief address; } | grep -vE '@NONE|^(vec0|eth0) '; ip route; ip rule; ip neighbour show nud permanent
ip xfrm policy; ip xfrm state list nokeys; tc qdisc show dev in-a; tc qdisc show dev out-a; nft list ruleset
sysctl net.ipv4.ip_forward net.ipv4.ip_default_ttl net.ipv4.tcp_ecn net.ipv4.tcp_sack
ls -d /run/dutlab-*; cat /proc/[0-9]*/comm | grep -E 'charon|ping|iperf3|ppp'"""
"""What modes, levels and queues change of a guest that routes. Ports `@NONE` come with a module; a door has another MAC after each boot."""
OF_DRIVES = """for drive in /dev/ubd[a-f]; do wipefs -n -p $drive; done; grep active /proc/mdstat; ls /dev/mapper; readlink /dev/disk/by-id/*
cat /proc/sys/dev/raid/speed_limit_max; ls -d /run/own-ss /run/dutlab-*; cat /proc/[0-9]*/comm | grep -E 'fio|mdadm|python'"""
"""What arrays and loads change of a guest with drives."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the tests of one guest into one group; what has none comes last, since it is short or computes alone."""
    at = [n for n, item in enumerate(items) if item.path.is_relative_to(FOLDER)]
    order = sorted((items[n] for n in at), key=_guest_of)
    for n, item in zip(at, order, strict=True):
        items[n] = item
        if (guest := _guest_of(item)) < len(GUESTS):
            item.add_marker(pytest.mark.xdist_group(GUESTS[guest]))


def _guest_of(item: pytest.Item) -> int:
    """Which of GUESTS it takes."""
    fixtures = getattr(item, "fixturenames", ())
    return next((n for n, guest in enumerate(GUESTS) if any(name.startswith(guest) for name in fixtures)), len(GUESTS))


class Dutlab:
    """Runs the command in a folder, to its end or as a process that goes on."""

    def __init__(self, env: dict[str, str], cwd: Path) -> None:
        self._env, self._cwd = env, cwd

    def __call__(self, *args: str) -> subprocess.CompletedProcess[str]:
        with cheap_rig():
            return run(args, self._cwd, self._env, within_s=LIMIT_S)

    def begin(self, *args: str) -> Forked:
        """What it says is in `said` of the folder."""
        with cheap_rig():
            return begin(args, self._cwd, self._env, out=self._cwd / "said")


@pytest.fixture
def dutlab(python_env: dict[str, str], tmp_path: Path) -> Dutlab:
    """The command in an empty folder, the test's own."""
    return Dutlab(python_env, tmp_path)


@pytest.fixture(scope="module")
def shared_lab(python_env: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., SharedLab]]:
    """Labs of a module by their names, each built when the first test asks for it; its guests end with the module."""
    labs, command = dict[str, SharedLab](), Dutlab(python_env, tmp_path_factory.mktemp("labs"))

    def of(name: str, *guests: str, state: str) -> SharedLab:
        return labs.setdefault(name, SharedLab(command, name, f"t{os.getpid()}-{len(labs)}", guests, state))

    yield of
    for lab in labs.values():
        lab.down()


@pytest.fixture(scope="session")
def exact_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where guests of `exact` are saved: one boots for all tests."""
    for program in ("qemu-system-x86_64", "busybox", "ip", "nft"):
        need_program(program)
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def exact_command(python_env: dict[str, str], tmp_path: Path, exact_cache: Path) -> Dutlab:
    """The command in an empty folder, with that cache."""
    return Dutlab({**python_env, "XDG_CACHE_HOME": str(exact_cache)}, tmp_path)


def need_uml() -> None:
    """User-mode Linux can be a guest here."""
    need("netns", have_netns())
    need("uml", bool(shutil.which("linux.uml")) and MODULES.is_dir())


def need_clang() -> None:
    """It comes with what builds the engine, whose programs it compiles."""
    need("cargo", bool(shutil.which("clang")))


def need_qemu() -> None:
    """QEMU can boot a guest here."""
    need("netns", have_netns())
    need("qemu", bool(shutil.which("qemu-system-x86_64")) and any(Path("/boot").glob("vmlinuz-*-cloud-amd64")))
    need_program("busybox")


@pytest.fixture
def raid(shared_lab: Callable[..., SharedLab]) -> Iterator[str]:
    """Label of a lab `raid` that runs."""
    need_uml()
    for program in ("fio", "mdadm", "lvm", "mkfs.btrfs", "dmsetup"):
        need_program(program)
    with shared_lab("raid", "server", state=OF_DRIVES).lent() as label:
        yield label


@pytest.fixture
def uml_router(shared_lab: Callable[..., SharedLab]) -> Iterator[str]:
    """Label of a lab `uml-router` that runs."""
    need_uml()
    need_engine()
    with shared_lab("uml-router", "dut", state=OF_ROUTER).lent() as label:
        yield label


@pytest.fixture
def qemu_router(shared_lab: Callable[..., SharedLab]) -> Iterator[str]:
    """Label of a lab `qemu-router` that runs."""
    need_qemu()
    need_engine()
    with shared_lab("qemu-router", "dut", state=OF_ROUTER).lent() as label:
        yield label


@pytest.fixture
def uml_sites(shared_lab: Callable[..., SharedLab]) -> Iterator[str]:
    """Label of a lab `uml-two-sites` that runs."""
    need_uml()
    need("strongswan", have_strongswan())
    need_engine()
    with shared_lab("uml-two-sites", "source", "dut", state=OF_ROUTER).lent() as label:
        yield label


@pytest.fixture
def uml_home(shared_lab: Callable[..., SharedLab]) -> Iterator[str]:
    """Label of a lab `uml-home` that runs."""
    need_uml()
    need_program("pppd")
    need_program("pppoe-server")
    need_engine()
    with shared_lab("uml-home", "dut", "isp", state=OF_ROUTER).lent() as label:
        yield label


@pytest.fixture
def qemu_sites(shared_lab: Callable[..., SharedLab]) -> Iterator[str]:
    """Label of a lab `qemu-two-sites` that runs."""
    need_qemu()
    need_program("wg")
    need_engine()
    with shared_lab("qemu-two-sites", "source", "dut", state=OF_ROUTER).lent() as label:
        yield label
