"""Switches of power against the real servers of each protocol: SNMP, IPMI, Redfish, commands; plugs as their makers document them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from capability import need_program
from dutlab.cli.power import power
from dutlab.errors import DutlabError
from network_devices import management_controller, redfish_service, snmp_agent

TRAPS = "1.3.6.1.2.1.11.30.0"
"""snmpEnableAuthenTraps of SNMPv2-MIB: an integer that can be set, enabled(1) and disabled(2), as an outlet of many a unit."""


@pytest.fixture(autouse=True)
def _passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("right", "wrong", "lab", "write"):
        monkeypatch.setenv(f"T_{name.upper()}", name)


def bed(folder: Path, switch: dict[str, Any] | None) -> Path:
    host: dict[str, Any] = {"ssh": "root@192.0.2.1"} | ({} if switch is None else {"power": switch})
    (path := folder / "testbed.yaml").write_text(json.dumps({"testbed": "bench", "hosts": {"dut": host}}), encoding="utf-8")
    return path


def said(folder: Path, switch: dict[str, Any] | None, action: str, host: str = "dut") -> Result:
    return CliRunner().invoke(power, [host, action, "--testbed", str(bed(folder, switch))])


ALL = (("off", "off"), ("on", "on"), ("off", "off"), ("cycle", "on"), ("status", "on"))
OF_SLOW = (("off", "off"), ("on", "on"))


def insist_on_switching(folder: Path, switch: dict[str, Any], actions: tuple[tuple[str, str], ...] = ALL) -> None:
    """Off, on, off and on; and nothing of it where the testbed does not allow it."""
    for action, then in actions:
        found = said(folder, {**switch, "may-switch": "yes", "off-for": "100ms"}, action)
        assert found.output == f"dut: {then}\n", (action, found.exception)
    refused = said(folder, switch, "off")
    assert isinstance(refused.exception, DutlabError)
    assert "does not allow to switch dut" in str(refused.exception) and "may-switch: yes" in str(refused.exception.remedy)
    assert said(folder, switch, "status").output == "dut: on\n"


def fault_of(found: Result) -> str:
    assert isinstance(found.exception, DutlabError), found.output
    return str(found.exception)


def test_an_outlet_of_a_distribution_unit_is_switched_by_snmp(tmp_path: Path) -> None:
    with snmp_agent(tmp_path) as port:
        at = {"kind": "snmp", "address": f"127.0.0.1:{port}", "oid": TRAPS, "community-from": "T_WRITE"}
        insist_on_switching(tmp_path, at)
        told = {**at, "state": f".{TRAPS}", "state-on": 2, "state-off": 1}  # it says the other way round what it was set to
        assert said(tmp_path, told, "status").output == "dut: off\n"
        assert "which is neither on (7) nor off (8)" in fault_of(said(tmp_path, {**told, "state-on": 7, "state-off": 8}, "status"))
        assert "nothing could tell them apart" in fault_of(said(tmp_path, {**told, "state-on": 1}, "status"))
        reader = {**at, "community-from": "T_LAB", "may-switch": True}
        assert "cannot be set" in fault_of(said(tmp_path, reader, "off"))
        assert "which is neither on (5) nor off (6)" in fault_of(said(tmp_path, {**at, "on": 5, "off": 6}, "status"))


def test_a_server_is_switched_by_its_controller_over_ipmi(tmp_path: Path) -> None:
    need_program("ipmitool")
    with management_controller(tmp_path) as port:
        at = {"kind": "ipmi", "address": f"127.0.0.1:{port}", "user": "reader", "password-from": "T_RIGHT"}
        insist_on_switching(tmp_path, at, OF_SLOW)
        assert "it refuses us" in fault_of(said(tmp_path, {**at, "password-from": "T_WRONG"}, "status"))
    assert "ipmitool ended with status 1" in fault_of(said(tmp_path, at, "status"))


def test_a_server_is_switched_by_its_controller_over_redfish(tmp_path: Path) -> None:
    with redfish_service(tmp_path) as port:
        at = {"kind": "redfish", "url": f"http://127.0.0.1:{port}"}
        insist_on_switching(tmp_path, at, OF_SLOW)
        assert "404" in fault_of(said(tmp_path, {**at, "system": "/redfish/v1/Systems/nothing"}, "status"))


def test_commands_switch_what_has_no_switch_of_its_own(tmp_path: Path) -> None:
    state = tmp_path / "state"
    at = {"kind": "command", "on": f"echo on > {state}", "off": f"echo off > {state}", "status": f"cat {state}"}
    insist_on_switching(tmp_path, at)
    state.write_text("perhaps")
    assert "printed 'perhaps', neither on nor off" in fault_of(said(tmp_path, at, "status"))
    state.unlink()
    assert "ended with status 1" in fault_of(said(tmp_path, at, "status"))


class Plug:
    """An outlet as Shelly (Gen1; Gen2 and later) and Tasmota document theirs."""

    def __init__(self, single: bool = True) -> None:
        self.on, self.single, self.asked = True, single, list[str]()

    def answer(self, target: str, body: dict[str, Any]) -> object:
        path, _, query = target.partition("?")
        if path == "/rpc/Switch.GetStatus":
            return {"id": 1, "output": self.on, "apower": 12.5}
        if path == "/rpc/Switch.Set":
            was, self.on = self.on, body["on"]
            return {"was_on": was}
        if path == "/relay/1":
            self.on = {"turn=on": True, "turn=off": False}.get(query, self.on)
            return {"ison": self.on, "has_timer": False}
        word = query.removeprefix("cmnd=").split("&")[0]
        self.on = {"Power2%20on": True, "Power2%20off": False, "Power1%20on": True, "Power1%20off": False}.get(word, self.on)
        return {"POWER" if self.single else "POWER2": "ON" if self.on else "OFF"}


@contextmanager
def served(plug: Plug) -> Iterator[str]:
    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            plug.asked.append(f"{self.command} {self.path}")
            length = int(self.headers.get("Content-Length", 0))
            said = json.dumps(plug.answer(self.path, json.loads(self.rfile.read(length)) if length else {})).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_POST = do_GET  # noqa: N815 -- the server's name

        def log_message(self, *_: object) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Answers)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    ("model", "channel", "off"),
    [
        ("shelly", 1, "POST /rpc/Switch.Set"),
        ("shelly-gen1", 1, "GET /relay/1?turn=off"),
        ("tasmota", 0, "GET /cm?cmnd=Power1%20off"),
        ("tasmota", 1, "GET /cm?cmnd=Power2%20off"),
    ],
)
def test_a_plug_is_switched_as_its_maker_documents_it(tmp_path: Path, model: str, channel: int, off: str) -> None:
    with served(plug := Plug(single=channel == 0)) as url:
        insist_on_switching(tmp_path, {"kind": "plug", "model": model, "url": url, "channel": channel})
    assert plug.asked[0] == off


def test_what_is_not_there_is_said_with_what_to_write(tmp_path: Path) -> None:
    assert "does not say what switches dut" in fault_of(said(tmp_path, None, "status"))
    assert "has no host router" in fault_of(said(tmp_path, None, "status", "router"))
    for switch, why in (
        ({"kind": "magic"}, "unknown kind of switch 'magic'"),
        ({"kind": "plug", "model": "shelly", "url": "http://me:pass@192.0.2.1"}, "an address with a password would be kept"),
        ({"kind": "command", "on": "true", "off": "true", "status": "true", "off-for": "1h"}, "from above 0s to 10min"),
        ({"kind": "snmp", "address": "192.0.2.1", "oid": "x"}, "oid"),
    ):
        assert why in fault_of(said(tmp_path, switch, "status")), switch
    plug = {"kind": "plug", "model": "shelly", "url": "http://127.0.0.1:9", "user": "admin", "password-from": "T_NOTHING"}
    assert "the environment has no T_NOTHING" in fault_of(said(tmp_path, plug, "status"))
