"""Sensors of the network against the real servers of each protocol, each as it should be and as it fails."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capability import need_program
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.sensors.asked import PolledSensor
from dutlab.sensors.ipmi_local import LocalIpmiLoop
from dutlab.sensors.sensor import WATCH_COST, SensorSite, Watched
from dutlab.sensors.watch import make
from dutlab.spec.sensor import SensorSpec
from dutlab.spec.sensors import SENSORS
from network_devices import broker, free_port, management_controller, redfish_service, snmp_agent, ups_server

HERE = SensorSite(LocalHost(THIS_MACHINE))
WATTS = "1.3.6.1.4.1.8072.1.3.2.3.1.1.5.119.97.116.116.115"  # NET-SNMP-EXTEND-MIB::nsExtendOutput1Line."watts"
UPTIME, IN_OCTETS = "1.3.6.1.2.1.1.3.0", "1.3.6.1.2.1.2.2.1.10.1"


@pytest.fixture(autouse=True)
def _passwords(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in {
        "RIGHT": "right",
        "WRONG": "wrong",
        "LAB": "lab",
        "SHORT": "short",
        "OTHER": "other-password",
        "SNMP": "right-password",
        "PRIVATE": "private-password",
    }.items():
        monkeypatch.setenv(f"T_{name}", value)
    return


def sensor(kind: str, **keys: Any) -> SensorSpec:
    """Of a testbed file."""
    return SENSORS[kind].model_validate({"name": "it", "every": "200ms", **keys})


async def read(spec: SensorSpec, *, readings: int = 1, faults: int = 1) -> Watched:
    """What it tells until there are so many readings, or so many faults."""
    asked = make(spec, HERE)
    assert isinstance(asked, PolledSensor)
    await asked.start()
    while len([r for r in asked._readings if r.quantities]) < readings and len(asked._faults) < faults:
        await asyncio.sleep(0.02)
    return await asked.stop(asked._began_s)


def values(found: Watched) -> dict[str, tuple[float, str]]:
    """The last value of each name."""
    return {s.name: (s.value, s.unit) for s in found.samples if s.name != WATCH_COST}


async def test_an_agent_of_snmp_tells_watts_in_all_versions_and_counters_as_rates(tmp_path: Path) -> None:
    with snmp_agent(tmp_path) as port:
        at = {"address": f"127.0.0.1:{port}", "community-from": "T_LAB"}
        for version in ("1", "2c"):
            found = await read(sensor("snmp", oid=WATTS, version=version, **at))
            assert values(found) == {"it": (70.4, "W")}, found.faults
        login = {"version": "3", "user": "reader", "password-from": "T_SNMP", "privacy-from": "T_PRIVATE"}
        found = await read(sensor("snmp", address=at["address"], oid=WATTS, scale=1000, unit="mW", **login))
        assert values(found) == {"it": (70400.0, "mW")}, found.faults
        found = await read(sensor("snmp", oid=IN_OCTETS, unit="B", **at), readings=2)
        assert values(found)["it"][1] == "B/s" and values(found)["it"][0] >= 0, found.faults
        found = await read(sensor("snmp", oid="1.3.6.1.4.1.8072.9.9.9", **at))
        assert found.faults[0].startswith("it: it has no 1.3.6.1.4.1.8072.9.9.9")
        (tmp_path / "watts").write_text("n/a\n", encoding="ascii")
        await asyncio.sleep(6)  # the agent keeps what a command said for five seconds
        found = await read(sensor("snmp", oid=WATTS, **at))
        assert "says 'n/a', which is not a number" in found.faults[0]
        for wrong, said in (("T_OTHER", "it refuses access"), ("T_SHORT", "takes passwords of 8 characters and more")):
            found = await read(sensor("snmp", address=at["address"], oid=WATTS, **{**login, "password-from": wrong}))
            assert said in found.faults[0] and "not asked again" in found.faults[0]


@pytest.mark.smoke
async def test_a_broker_hands_on_what_a_meter_publishes_now_and_not_what_it_kept(tmp_path: Path) -> None:
    publish = need_program("mosquitto_pub")
    with broker(tmp_path) as port:

        def say(message: str, *options: str) -> None:
            login = ["-u", "reader", "-P", "right"]
            subprocess.run([publish, "-p", str(port), *login, "-t", "plug/power", "-m", message, *options], check=True)

        say("9999", "-r")
        at = {"address": f"127.0.0.1:{port}", "topic": "plug/power", "user": "reader"}
        for message, keys in (("70.4", {}), ('{"ENERGY": {"Power": 70400}}', {"value": "ENERGY.Power", "scale": 0.001})):
            asked = make(sensor("mqtt", **at, **{"password-from": "T_RIGHT"}, **keys), HERE)
            assert isinstance(asked, PolledSensor)
            await asked.start()
            while not asked._readings:
                await asyncio.to_thread(say, message)
                await asyncio.sleep(0.1)
            assert values(await asked.stop(asked._began_s)) == {"it": (70.4, "W")}
        found = await read(sensor("mqtt", **at, **{"password-from": "T_WRONG"}))
        assert found.faults[0] == "it: the broker refuses access (Not authorized); not asked again"
    found = await read(sensor("mqtt", **{**at, "address": f"127.0.0.1:{free_port()}"}, **{"password-from": "T_RIGHT"}))
    assert "refused" in found.faults[0]


async def test_a_ups_tells_its_power(tmp_path: Path) -> None:
    with ups_server(tmp_path) as port:
        at = {"address": f"127.0.0.1:{port}", "ups": "lab"}
        assert values(await read(sensor("nut", **at))) == {"it": (315.0, "W")}
        assert "ERR VAR-NOT-SUPPORTED" in (await read(sensor("nut", **at, variable="ups.nothing"))).faults[0]
        assert "ERR UNKNOWN-UPS" in (await read(sensor("nut", **{**at, "ups": "other"}))).faults[0]
        found = await read(sensor("nut", **at, variable="ups.mfr"))
        assert "could not convert" in found.faults[0]


async def test_a_management_controller_tells_by_ipmi_and_is_asked_once_with_a_wrong_password(tmp_path: Path) -> None:
    need_program("ipmitool")
    with management_controller(tmp_path) as port:
        at = {"address": f"127.0.0.1:{port}", "user": "reader"}
        found = await read(sensor("ipmi", **at, **{"password-from": "T_RIGHT"}), readings=2)
        limit = {"cpu_temp_limit_celsius": (90.0, "degC")}
        assert values(found) == {"cpu_temp_celsius": (55.0, "degC"), "fan_1_rpm": (2100.0, "rpm"), "psu_power_watts": (90.0, "W"), **limit}
        found = await read(sensor("ipmi", **at, **{"password-from": "T_WRONG"}))
        assert found.faults[0] == "it: it refuses access (RAKP 2 HMAC is invalid); not asked again"
        found = await read(sensor("ipmi", **{**at, "user": "nobody"}, **{"password-from": "T_RIGHT"}))
        assert "unauthorized name" in found.faults[0] and "not asked again" in found.faults[0]
    found = await read(sensor("ipmi", **at, **{"password-from": "T_RIGHT"}), faults=2)
    assert found.faults[0].startswith("it: ipmitool ended with status 1"), "who does not answer may answer later"


async def test_a_controller_tells_its_own_host_what_it_tells_the_network(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator has no local interface, so the host's ipmitool is led to its port; the words on both sides are the real ones."""
    program = tmp_path / "bin" / "ipmitool"
    program.parent.mkdir()
    with management_controller(tmp_path) as port:
        real = f"{need_program('ipmitool')} -I lanplus -H 127.0.0.1 -p {port} -U reader -P right -L USER -N 2 -R 1"
        program.write_text(f'#!/bin/sh\nexec {real} "$@"\n', encoding="ascii")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
        local = make(sensor("ipmi-local", host="dut"), SensorSite(LocalHost("dut")))
        assert isinstance(local, LocalIpmiLoop)
        await local.start()
        while len(local._values) < 2 and not local._faults:
            await asyncio.sleep(0.02)
        found = await local.stop()
        assert found.faults == ()
        limit = {"cpu_temp_limit_celsius": (90.0, "degC")}
        assert values(found) == {"cpu_temp_celsius": (55.0, "degC"), "fan_1_rpm": (2100.0, "rpm"), "psu_power_watts": (90.0, "W"), **limit}
        assert {s.host for s in found.samples} == {"dut"}
    local = make(sensor("ipmi-local", host="dut"), SensorSite(LocalHost("dut")))
    assert isinstance(local, LocalIpmiLoop)
    await local.start()
    while not local._faults:
        await asyncio.sleep(0.02)
    assert "ipmitool printed no number" in (await local.stop()).faults[0]


async def test_a_management_controller_tells_by_redfish(tmp_path: Path) -> None:
    with redfish_service(tmp_path) as port:
        found = values(await read(sensor("redfish", url=f"http://127.0.0.1:{port}")))
    assert found["cpu_temp_celsius"] == (41.0, "degC")
    assert found["cpu_temp_limit_celsius"] == (45.0, "degC")
    assert found["chassis_intake_temp_celsius"] == (25.0, "degC")
    assert found["baseboard_system_fan_rpm"] == (2100.0, "rpm")
