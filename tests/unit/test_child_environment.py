"""Passwords that dutlab was given: what it starts sees none of them, and no error shows one."""

from __future__ import annotations

import ast
import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

import dutlab
from dutlab.errors import DutlabError
from dutlab.hosts.local import LocalHost
from dutlab.hosts.proxy_command import ProxyCommand
from dutlab.power import HostPower
from dutlab.sensors.ipmi import IpmiSession
from dutlab.spec.devices import IpmiDevice
from dutlab.spec.power import CommandPower
from dutlab.store.object_store import fetch_run
from spec_faults import faults_of_testbed

SECRETS = {
    "PLUG_PASSWORD": "of-a-plug",
    "DUTLAB_FLEET_DB": "postgresql://dutlab:of-a-database@db/fleet",
    "DUTLAB_SERVE_TOKEN": "of-the-pages",
    "AWS_SECRET_ACCESS_KEY": "of-a-store",
    "DUTLAB_PASSWORD_DUT": "of-a-host",
}
WORDS = ("of-a-", "of-the-")
OWN = {
    "runner/fleet/carrier.py": "a process of dutlab",
    "runner/fleet/place.py": "a process of dutlab",
    "serve/control.py": "a process of dutlab",
    "store/run_readers.py": "a process of dutlab",
    "pytest_plugin.py": "a process of dutlab",
    "cli/userns.py": "a process of dutlab, and `true`",
    "cli/two_ports.py": "a process of dutlab",
    "cli/lab.py": "the user's shell",
    "labs/guest_shell.py": "the user's shell",
    "hosts/initramfs.py": "ldd, of a busybox of this machine",
    "labs/uml.py": "the compiler",
    "release.py": "git, in the folder that dutlab runs from",
}


@pytest.fixture(autouse=True)
def _secrets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "ipmitool"
    program.write_text(f"#!/bin/sh\nenv >{tmp_path}/seen\nenv\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=":")
    monkeypatch.chdir(tmp_path)


def of_a_command(_: Path) -> str:
    return asyncio.run(LocalHost("here").run(["env"])).text


def of_a_switch(place: Path) -> str:
    HostPower("dut", CommandPower(on="true", off="true", status=f"env >{place}/seen; echo on")).is_on()
    return (place / "seen").read_text()


def of_ipmitool(_: Path) -> str:
    said = IpmiSession(IpmiDevice.model_validate({"address": "192.0.2.1", "user": "a", "password-from": "PLUG_PASSWORD"}), "OPERATOR")
    return said.ask("chassis")[1].replace("IPMI_PASSWORD=of-a-plug", "")  # its own, as it is meant to be


def of_a_proxy(_: Path) -> str:
    async def said() -> str:
        proxy, sock = ProxyCommand.open(["env"])
        with sock:
            sock.setblocking(True)
            found = b"".join(iter(lambda: sock.recv(1 << 16), b""))
        proxy.end()
        return found.decode()

    return asyncio.run(said())


DOORS: dict[str, Callable[[Path], str]] = {
    "a command": of_a_command,
    "a switch": of_a_switch,
    "ipmitool": of_ipmitool,
    "a ProxyCommand": of_a_proxy,
}


@pytest.mark.parametrize("door", DOORS.values(), ids=DOORS)
def test_what_is_started_sees_no_password_of_ours(door: Callable[[Path], str], tmp_path: Path) -> None:
    seen = door(tmp_path)
    assert "PATH=" in seen
    assert not [word for word in WORDS if word in seen]


async def test_a_variable_that_is_named_is_passed_and_no_host_s_password_ever_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LICENSE_FILE", "/opt/licence")
    monkeypatch.setenv("DUTLAB_PASS_VARIABLES", "LICENSE_FILE, DUTLAB_PASSWORD_DUT")
    seen = (await LocalHost("here").run(["env"])).text
    assert "LICENSE_FILE=/opt/licence" in seen and "of-a-host" not in seen


def test_every_door_says_what_its_child_sees() -> None:
    """A new call that starts a program names its environment, or is listed above with what it starts."""
    starts = {"run", "Popen", "create_subprocess_exec", "create_subprocess_shell", "check_output", "check_call", "call", "start_in_session"}
    root = Path(dutlab.__file__).parent
    silent = set[str]()
    for path in root.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_bytes())):
            if not isinstance(call, ast.Call) or "env" in {k.arg for k in call.keywords}:
                continue
            match call.func:
                case ast.Attribute(value=ast.Name(id="subprocess" | "asyncio"), attr=name) | ast.Name(id="start_in_session" as name):
                    if name in starts and not (isinstance(call.func, ast.Attribute) and call.func.value.id == "asyncio" and name == "run"):
                        silent.add(path.relative_to(root).as_posix())
    assert silent <= OWN.keys(), silent - OWN.keys()


PLACES: dict[str, Callable[[str], object]] = {
    "a store": lambda where: fetch_run(f"{where}/run", Path()),
    "a device": lambda where: faults_of_testbed(
        json.dumps({"testbed": "b", "hosts": {"dut": {"ssh": "a@b", "power": {"kind": "plug", "model": "shelly", "url": where}}}})
    ),
    "a controller": lambda where: faults_of_testbed(
        json.dumps(
            {
                "testbed": "b",
                "hosts": {"dut": {"ssh": "a@b", "power": {"kind": "snmp", "address": where.partition("//")[2], "oid": "1.3.6.1"}}},
            }
        )
    ),
}


@pytest.mark.parametrize("where", ["http://bob:zebra@quokka@h:99999", "nothing://bob:zebra/quokka@h", "http://bob:zebra@h/a b@quokka"])
@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_no_address_is_shown_with_its_login(place: Callable[[str], object], where: str) -> None:
    try:
        said = "\n".join(map(str, place(where)))  # type: ignore[call-overload]
    except DutlabError as error:
        said = str(error)
    assert said and "bob" not in said and "zebra" not in said
