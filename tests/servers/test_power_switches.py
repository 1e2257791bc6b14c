"""Switches of power against the real servers of each protocol: SNMP, IPMI, Redfish."""

from __future__ import annotations

from pathlib import Path

import pytest

from capability import need_program
from network_devices import management_controller, redfish_service, snmp_agent
from power_switches import OF_SLOW, fault_of, insist_on_switching, said

TRAPS = "1.3.6.1.2.1.11.30.0"
"""snmpEnableAuthenTraps of SNMPv2-MIB: an integer that can be set, enabled(1) and disabled(2), as an outlet of many a unit."""


@pytest.fixture(autouse=True)
def _passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("right", "wrong", "lab", "write"):
        monkeypatch.setenv(f"T_{name.upper()}", name)


def test_an_outlet_of_a_distribution_unit_is_switched_by_snmp(tmp_path: Path) -> None:
    with snmp_agent(tmp_path) as port:
        at = {"kind": "snmp", "address": f"127.0.0.1:{port}", "oid": TRAPS, "community-from": "T_WRITE"}
        insist_on_switching(tmp_path, at)
        told = {**at, "state": f".{TRAPS}", "state-on": 2, "state-off": 1}  # it says the other way round what it was set to
        assert said(tmp_path, told, "status").output == "dut: off\n"
        assert "which is neither on (7) nor off (8)" in fault_of(said(tmp_path, {**told, "state-on": 7, "state-off": 8}, "status"))
        assert "they could not be distinguished" in fault_of(said(tmp_path, {**told, "state-on": 1}, "status"))
        reader = {**at, "community-from": "T_LAB", "may-switch": True}
        assert "cannot be set" in fault_of(said(tmp_path, reader, "off"))
        assert "which is neither on (5) nor off (6)" in fault_of(said(tmp_path, {**at, "on": 5, "off": 6}, "status"))


def test_a_server_is_switched_by_its_controller_over_ipmi(tmp_path: Path) -> None:
    need_program("ipmitool")
    with management_controller(tmp_path) as port:
        at = {"kind": "ipmi", "address": f"127.0.0.1:{port}", "user": "reader", "password-from": "T_RIGHT"}
        insist_on_switching(tmp_path, at, OF_SLOW)
        assert "it refuses access" in fault_of(said(tmp_path, {**at, "password-from": "T_WRONG"}, "status"))
    assert "ipmitool ended with status 1" in fault_of(said(tmp_path, at, "status"))


def test_a_server_is_switched_by_its_controller_over_redfish(tmp_path: Path) -> None:
    with redfish_service(tmp_path) as port:
        at = {"kind": "redfish", "url": f"http://127.0.0.1:{port}"}
        insist_on_switching(tmp_path, at, OF_SLOW)
        assert "404" in fault_of(said(tmp_path, {**at, "system": "/redfish/v1/Systems/nothing"}, "status"))
