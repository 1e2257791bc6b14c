"""Devices that tell their readings over the network, played by the real servers of each protocol, on loopback and with files of a test's own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from capability import need, need_program

PATIENCE_S = 60.0


def free_port(kind: socket.SocketKind = socket.SOCK_STREAM) -> int:
    """A port of loopback that nobody has just now."""
    with socket.socket(socket.AF_INET, kind) as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def answers_tcp(port: int) -> bool:
    """Whether somebody listens there."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


@contextmanager
def running(argv: Sequence[str], ready: Callable[[], bool], log: Path, environment: dict[str, str] | None = None) -> Iterator[None]:
    """The program, from when it is `ready` to the end of the block."""
    with log.open("wb") as out:
        program = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env={**os.environ, **(environment or {})})
        try:
            until = time.monotonic() + PATIENCE_S
            while not ready():
                assert program.poll() is None, f"{argv[0]} has ended: {log.read_text(errors='replace')}"
                assert time.monotonic() < until, f"{argv[0]} does not answer: {log.read_text(errors='replace')}"
                time.sleep(0.05)
            yield
        finally:
            program.terminate()
            program.wait(PATIENCE_S)


@contextmanager
def snmp_agent(folder: Path) -> Iterator[int]:
    """net-snmp's agent; its objects below 1.3.6.1.4.1.8072.1.3 are what commands print. Yields its port."""
    port = free_port(socket.SOCK_DGRAM)
    said = folder / "watts"
    said.write_text("70.4\n", encoding="ascii")
    (folder / "snmpd.conf").write_text(
        f"rocommunity lab 127.0.0.1\nrwcommunity write 127.0.0.1\n"
        f"agentAddress udp:127.0.0.1:{port}\n"
        "createUser reader SHA right-password AES private-password\nrouser reader authpriv\n"
        f"extend watts /bin/cat {said}\n",
        encoding="ascii",
    )
    argv = [need_program("snmpd"), "-f", "-Lo", "-C", "-c", str(folder / "snmpd.conf"), "-p", str(folder / "snmpd.pid")]
    log = folder / "snmpd.log"
    with running(argv, lambda: "NET-SNMP" in log.read_text(errors="replace"), log, {"SNMP_PERSISTENT_DIR": str(folder)}):
        yield port


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    """Mosquitto, which lets in the user `reader` with the password `right`. Yields its port."""
    port, passwords = free_port(), folder / "passwords"
    mosquitto = need_program("mosquitto")
    subprocess.run([need_program("mosquitto_passwd"), "-b", "-c", str(passwords), "reader", "right"], check=True, capture_output=True)
    own = "" if os.geteuid() else "user root\n"
    (folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\npassword_file {passwords}\n{own}", encoding="ascii")
    with running([mosquitto, "-c", str(folder / "mosquitto.conf")], lambda: answers_tcp(port), folder / "mosquitto.log"):
        yield port


@contextmanager
def ups_server(folder: Path) -> Iterator[int]:
    """The server of Network UPS Tools with its dummy driver, a UPS `lab` that gives 315 W. Yields its port."""
    port = free_port()
    driver, upsd = (shutil.which(name, path="/lib/nut:/usr/lib/nut:/usr/libexec/nut") for name in ("dummy-ups", "upsd"))
    need("upsd", driver is not None and upsd is not None)
    (folder / "lab.dev").write_text("ups.realpower: 315\nups.status: OL\nups.mfr: dutlab\n", encoding="ascii")
    (folder / "ups.conf").write_text(f"[lab]\ndriver = dummy-ups\nport = {folder / 'lab.dev'}\nmode = dummy-once\n", encoding="ascii")
    (folder / "upsd.conf").write_text(f"LISTEN 127.0.0.1 {port}\nSTATEPATH {folder}\n", encoding="ascii")
    (folder / "upsd.users").write_text("", encoding="ascii")
    for file in ("ups.conf", "upsd.conf", "upsd.users"):
        (folder / file).chmod(0o640)
    own = {"NUT_CONFPATH": str(folder), "NUT_STATEPATH": str(folder), "NUT_ALTPIDPATH": str(folder)}
    as_root = [] if os.geteuid() else ["-u", "root"]
    waits = running([str(driver), "-D", "-a", "lab", *as_root], (folder / "dummy-ups-lab").exists, folder / "driver.log", own)
    with waits, running([str(upsd), "-D", *as_root], lambda: _knows_power(port), folder / "upsd.log", own):
        yield port


@contextmanager
def management_controller(folder: Path) -> Iterator[int]:
    """OpenIPMI's simulator: 55 degrees of 90 at most, 2100 rpm, 90 W; the user `reader` with the password `right`. Yields its port."""
    port, state, chassis = free_port(socket.SOCK_DGRAM), folder / "state", folder / "chassis"
    simulator = need_program("ipmi_sim")
    state.mkdir()
    power = folder / "power"  # `chassis set power 0`, `chassis get power`
    power.write_text("1\n", encoding="ascii")
    chassis.write_text(f'#!/bin/sh\ncase $1 in set) echo "$3" > {power};; get) echo "power:$(cat {power})";; esac\n', encoding="ascii")
    chassis.chmod(0o755)
    levels = "".join(f"    allowed_auths_{level} none md2 md5 straight\n" for level in ("callback", "user", "operator", "admin"))
    (folder / "lan.conf").write_text(
        f'name "bmc"\nset_working_mc 0x20\n  startlan 1\n    addr 127.0.0.1 {port}\n    priv_limit admin\n{levels}'
        "    guid a123456789abcdefa123456789abcdef\n  endlan\n"
        f'  chassis_control "{chassis}"\n'
        '  user 1 false "" "" user 10 none md2 md5 straight\n  user 2 true "reader" "right" admin 10 none md2 md5 straight\n',
        encoding="ascii",
    )
    lines = ["mc_setbmc 0x20", "mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02"]
    none = " ".join(["000000000000000"] * 4)
    for number, (name, unit, kind, factor, raw) in enumerate(
        [("CPU Temp", 1, 1, 1, 55), ("FAN 1", 18, 4, 50, 42), ("PSU Power", 6, 11, 2, 45)], 1
    ):
        lines += [
            f"sensor_add 0x20 0 {number} {kind} 1",
            f"sensor_set_value 0x20 0 {number} {raw} 0",
            f"main_sdr_add 0x20 {_record(number, name, unit, kind, factor)}",
            *(["sensor_set_threshold 0x20 0 1 readable 010000 0 90 0 0 0 0"] if kind == 1 else []),
            f"sensor_set_event_support 0x20 0 {number} enable scanning per-state {none}",
        ]
    (folder / "emulator").write_text("\n".join([*lines, "mc_enable 0x20"]) + "\n", encoding="ascii")
    argv = [simulator, "-c", str(folder / "lan.conf"), "-f", str(folder / "emulator"), "-s", str(state), "-n"]
    with running(argv, lambda: _answers_rmcp(port), folder / "ipmi_sim.log"):
        yield port


@contextmanager
def redfish_service(folder: Path) -> Iterator[int]:
    """The emulator of OpenStack's sushy-tools with systems of its own. Yields its port."""
    port = free_port()
    emulator = Path(sys.executable).parent / "sushy-emulator"
    need("sushy-emulator", emulator.exists())
    argv = [str(emulator), "--fake", "-i", "127.0.0.1", "-p", str(port)]
    with running(argv, lambda: answers_tcp(port), folder / "redfish.log"):
        yield port


def _knows_power(port: int) -> bool:
    """Whether the server has heard of its driver."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as line:
            line.sendall(b"GET VAR lab ups.realpower\n")
            return line.recv(512).startswith(b"VAR ")
    except OSError:
        return False


def _answers_rmcp(port: int) -> bool:
    """Whether a controller answers a question that needs no login (IPMI 2.0 section 22.13, Get Channel Authentication Capabilities)."""
    question = bytes.fromhex("0600ff07 00000000000000000009 2018c88100388e04b5".replace(" ", ""))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.settimeout(0.2)
        try:
            line.sendto(question, ("127.0.0.1", port))
            return bool(line.recv(512))
        except OSError:
            return False


def _record(number: int, name: str, unit: int, kind: int, factor: int) -> str:
    """A full sensor record (IPMI 2.0 section 43.1) whose reading is `factor` times the raw value."""
    head = bytes(
        [
            0x20,
            0,
            number,
            7,
            1,
            0x7F,
            0x68,
            kind,
            1,
            *[0] * 4,
            0x10 if kind == 1 else 0,
            0,
            0,
            unit,
            0,
            0,
            factor,
            *[0] * 5,
            7,
            0x30,
            0x50,
            0x10,
            0xFF,
            *[0] * 12,
        ]
    )
    body = head + bytes([0xC0 | len(name)]) + name.encode("ascii")
    return " ".join(f"{byte:#04x}" for byte in bytes([number, 0, 0x51, 1, len(body)]) + body)
