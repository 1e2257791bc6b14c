"""The capabilities a test can ask for, found by trying. A test says `need("netns", have_netns())`."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from dutlab.errors import ToolMissing
from dutlab.tools.engine.binary import find_engine


def need(capability: str, have: bool) -> None:
    """Skips a test whose capability is missing, unless DUTLAB_PROMISED lists it, or is `all`: then it fails."""
    if not have:
        promised = os.environ.get("DUTLAB_PROMISED", "").split(",")
        (pytest.fail if {capability, "all"} & set(promised) else pytest.skip)(f"no {capability}")


def need_program(name: str) -> str:
    """Where the program is, also for a user whose PATH ends before sbin; the capability is its name."""
    found = shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/local/sbin", "/usr/sbin", "/sbin"]))
    need(name, found is not None)
    return str(found)


def need_engine() -> Path:
    """The engine, built."""
    need("engine", have_engine())
    return Path(find_engine())


def needs(*names: str) -> object:
    """A fixture for a module whose tests all need these programs; `engine` is dutlab's own."""

    @pytest.fixture(autouse=True)
    def _machine() -> None:
        for name in names:
            need_engine() if name == "engine" else need_program(name)

    return _machine


def have_root() -> bool:
    """User 0, of this machine or of a user namespace."""
    return os.geteuid() == 0


@cache
def have_netns() -> bool:
    """Network namespaces with veth can be made and entered here: tried, not guessed."""
    if not have_root() or not shutil.which("ip"):
        return False
    name = f"dutlab-can-{os.getpid()}"
    try:
        made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False)
        veth = ["ip", "-n", name, "link", "add", "name", "v-0", "type", "veth", "peer", "name", "v-1"]
        return made.returncode == 0 and subprocess.run(veth, capture_output=True, check=False).returncode == 0
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@cache
def have_loop() -> bool:
    """Loop devices can be made, and a control group can be held to rates on them."""
    controllers = Path("/sys/fs/cgroup/cgroup.controllers")
    blkio = Path("/sys/fs/cgroup/blkio").is_dir() or (controllers.is_file() and "io" in controllers.read_text(encoding="ascii").split())
    asked = ["losetup", "--find"]
    return (
        have_root() and blkio and bool(shutil.which("losetup")) and subprocess.run(asked, capture_output=True, check=False).returncode == 0
    )


@cache
def have_esp() -> bool:
    """The kernel encrypts by ESP."""
    asked = "xfrm state add src 192.0.2.1 dst 192.0.2.2 proto esp spi 0x1000 mode tunnel enc cbc(aes) "
    asked += f"0x{'00' * 16} auth-trunc hmac(sha256) 0x{'00' * 32} 128\n"
    way = ["unshare", "--net", "ip", "-batch", "-"]
    return have_netns() and subprocess.run(way, input=asked.encode(), capture_output=True, check=False).returncode == 0


@cache
def have_strongswan() -> bool:
    """The IKE daemon, its plugin for AES-GCM and curves, and the program that tells it what to do are there, to be started by a test."""
    programs = all(shutil.which(name, path="/usr/sbin:/sbin") for name in ("swanctl", "charon-systemd"))
    return have_netns() and programs and any(Path("/usr/lib").glob("*/plugins/libstrongswan-openssl.so"))


@cache
def have_mount() -> bool:
    """File systems can be mounted in a namespace of their own."""
    return (
        bool(shutil.which("unshare")) and subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode == 0
    )


@cache
def have_user_namespaces() -> bool:
    """An ordinary user could be root of a namespace of their own."""
    return bool(shutil.which("unshare")) and subprocess.run(["unshare", "-Urnm", "true"], capture_output=True, check=False).returncode == 0


@cache
def have_sshd() -> bool:
    """OpenSSH's server is there, and we may start it: it needs root of the machine itself."""
    return have_netns() and bool(shutil.which("sshd", path="/usr/sbin:/sbin")) and _own_root()


def have_engine() -> bool:
    """dutlab-engine has been built."""
    try:
        return bool(find_engine())
    except ToolMissing:
        return False


def _own_root() -> bool:
    return Path("/proc/self/uid_map").read_text(encoding="ascii").split() == ["0", "0", str(2**32 - 1)]
