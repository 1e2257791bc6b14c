"""Switches of power that need no server of others: commands, and plugs as their makers document them."""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from dutlab.errors import SpecRefused
from dutlab.spec.loader import given_testbed
from power_switches import fault_of, insist_on_switching, said
from web_server import served


def test_commands_switch_what_has_no_switch_of_its_own(tmp_path: Path) -> None:
    state = tmp_path / "state"
    at = {"kind": "command", "on": f"echo on > {state}", "off": f"echo off > {state}", "status": f"cat {state}"}
    insist_on_switching(tmp_path, at)
    state.write_text("perhaps")
    assert "printed 'perhaps'" in fault_of(said(tmp_path, at, "status"))
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


def plug_at(plug: Plug) -> AbstractContextManager[str]:
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

    return served(Answers)


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
    with plug_at(plug := Plug(single=channel == 0)) as url:
        insist_on_switching(tmp_path, {"kind": "plug", "model": model, "url": url, "channel": channel})
    assert plug.asked[0] == off


def test_what_is_not_there_is_said_with_what_to_write(tmp_path: Path) -> None:
    assert "switches dut" in fault_of(said(tmp_path, None, "status"))
    assert "has no host router" in fault_of(said(tmp_path, None, "status", "router"))
    for switch, why in (
        ({"kind": "magic"}, "'magic'"),
        ({"kind": "plug", "model": "shelly", "url": "http://me:pass@192.0.2.1"}, "password"),
        ({"kind": "command", "on": "true", "off": "true", "status": "true", "off-for": "1h"}, "10min"),
        ({"kind": "snmp", "address": "192.0.2.1", "oid": "x"}, "oid"),
    ):
        assert why in fault_of(said(tmp_path, switch, "status")), switch
    plug = {"kind": "plug", "model": "shelly", "url": "http://127.0.0.1:9", "user": "admin", "password-from": "T_NOTHING"}
    assert "T_NOTHING" in fault_of(said(tmp_path, plug, "status"))


PLUG = {"kind": "plug", "model": "shelly", "url": "http://192.0.2.41"}
SAME_OUTLET = {
    "plug": (PLUG, PLUG | {"url": "http://192.0.2.41:80/"}),
    "snmp": ({"kind": "snmp", "address": "192.0.2.40", "oid": "1.3.6.1.4"}, {"kind": "snmp", "address": "192.0.2.40:161", "oid": ".1.3.6.1.4"}),
    "ipmi": ({"kind": "ipmi", "address": "192.0.2.40", "user": "a", "password-from": "A"},
             {"kind": "ipmi", "address": "192.0.2.40:623", "user": "b", "password-from": "B"}),
    "redfish": ({"kind": "redfish", "url": "https://bmc"}, {"kind": "redfish", "url": "https://BMC:443"}),
    "command": ({"kind": "command", "on": "vm on", "off": "vm off", "status": "vm status"},
                {"kind": "command", "on": "vm up", "off": "vm off ", "status": "vm is"}),
}  # fmt: skip
YES = {"may-switch": "yes"}


def power_faults(**hosts: dict[str, Any]) -> list[str]:
    power = {name: {"ssh": f"root@{name}", **host} if "local" not in host else host for name, host in hosts.items()}
    try:
        given_testbed(json.dumps({"testbed": "bench", "hosts": power}).encode(), Path("testbed.yaml"))
    except SpecRefused as error:
        return [f"{f.path} {f.kind}" for f in error.faults]
    return []


@pytest.mark.parametrize("kind", SAME_OUTLET)
def test_what_would_cut_another_host_or_this_machine_is_refused(kind: str) -> None:
    first, second = SAME_OUTLET[kind]
    assert power_faults(dut={"power": first | YES}, sink={"power": second}) == ["hosts.dut.power conflict"]
    assert power_faults(dut={"power": first}, here={"power": second | YES, "local": True}) == ["hosts.here.power conflict"]
    both = power_faults(dut={"power": first | YES}, sink={"power": second | YES}, here={"power": second, "local": True})
    assert both == ["hosts.dut.power conflict", "hosts.sink.power conflict"]
    assert power_faults(dut={"power": first | YES}, sink={"power": second | YES}) == []
    assert power_faults(dut={"power": first}, here={"power": second, "local": True}) == []


def test_other_outlets_of_one_strip_are_others() -> None:
    assert (
        power_faults(dut={"power": PLUG | YES}, sink={"power": PLUG | {"channel": 1}}, source={"power": PLUG | {"url": "http://b"}}) == []
    )
