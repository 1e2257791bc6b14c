"""Facts of a Windows, from what its documentation says that a script of ours would print; nothing here is a recording."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest

from dutlab.analysis.doctor import Inventory, examine
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.host import Done, Host
from dutlab.systems import windows_facts
from dutlab.systems.windows import WINDOWS

SAID: dict[str, Any] = {
    "os": [{"Caption": "Microsoft Windows Server 2022 Standard", "Version": "10.0.20348", "TotalVisibleMemorySize": 67006028}],
    "cpu": [{"Name": "AMD EPYC 7313", "NumberOfCores": 16, "NumberOfLogicalProcessors": 32, "CurrentClockSpeed": 3000}] * 2,
    "machine": {"Manufacturer": "Supermicro", "Model": "AS-1024"},
    "bios": [{"SMBIOSBIOSVersion": "2.4"}],
    "adapters": [
        {"Name": "Ethernet 2", "InterfaceDescription": "X710", "MacAddress": "3C-FD-FE-0A-0B-0C", "Speed": 10**10, "MtuSize": 9014,
         "FullDuplex": True, "DriverVersionString": "1.16.202.10", "DriverFileName": "i40ea68.sys"},
        {"Name": "Ethernet 3", "Speed": None, "MacAddress": None, "FullDuplex": None},
    ],
    "scheme": "GUID des Energieschemas: 8C5E7FDA-e8bf-4a96-9a85-a6e23a8c635c  (Höchstleistung)",
    "today": "2026-11-27", "firewall": [{"Name": "Domain", "Enabled": 0}, {"Name": "Public", "Enabled": 1}],
    "drivers": [{"Name": "Ethernet 2", "DriverDate": "2019-05-01"}],
    "properties": [{"Name": "Ethernet 2", "RegistryKeyword": "*InterruptModeration", "RegistryValue": ["1"]},
                   {"Name": "Ethernet 2", "RegistryKeyword": "*FlowControl", "RegistryValue": ["3"]}],
    "rss": [{"Name": "Ethernet 2", "Enabled": False, "NumberOfReceiveQueues": 8}],
    "memory": [{"DeviceLocator": "DIMM_A1", "Speed": 3200, "ConfiguredClockSpeed": 2666}],
}  # fmt: skip


class Answering:
    """A host that prints one thing."""

    name, system = "pc", WINDOWS

    def __init__(self, stdout: str, stderr: str = "", status: int = 0) -> None:
        self.done = Done("pc", ("powershell.exe",), status, stdout.encode(), stderr.encode(), 0.0, 0.1)
        self.asked: list[tuple[str, ...]] = []

    async def run(self, argv: tuple[str, ...], **_: object) -> Done:
        self.asked.append(tuple(argv))
        return self.done


async def facts_of(host: Answering, *names: str) -> dict[str, Any]:
    return await collect_facts(cast("Host", host), names)


async def test_machine_and_adapters_are_told_by_the_names_of_linuxs_facts() -> None:
    host = Answering(json.dumps(SAID) + "\r\n")
    found = await facts_of(host, "Ethernet 2", "Ethernet 3", "Ethernet 9")
    assert host.asked == [tuple(WINDOWS.shell.text(script)) for script in windows_facts.SCRIPTS]
    assert (found["os"], found["kernel"]["release"], found["memory_bytes"]) == (
        "Microsoft Windows Server 2022 Standard", "10.0.20348", 67006028 * 1024,
    )  # fmt: skip
    assert found["cpu"] == {
        "model": "AMD EPYC 7313", "cores": 64, "threads_per_core": 2, "sockets": 2, "now_mhz": 3000, "governor": "high performance",
        "power_scheme": "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c",
    }  # fmt: skip
    assert found["machine"] == {"vendor": "Supermicro", "product": "AS-1024", "bios": "2.4"}
    card = found["interfaces"]["Ethernet 2"]
    assert (card["mac"], card["mtu"], card["speed_mbps"], card["duplex"]) == ("3c:fd:fe:0a:0b:0c", 9014, 10_000, "full")
    assert found["interfaces"]["Ethernet 3"]["speed_mbps"] is None
    assert (card["interrupt_moderation"], card["pause_frames"]) == (True, {"autonegotiate": False, "rx": True, "tx": True})
    kinds = {f.kind for f in examine(Inventory({"sink": found}))}
    assert kinds == {"one-queue", "interrupt-moderation", "flow-control", "driver-age", "slow-memory", "firewall-in-the-way"}
    assert found["absent"]["interfaces/Ethernet 9/mtu"] == "not stated"


@pytest.mark.parametrize("stdout", ["", "[1]", "Get-CimInstance : Zugriff verweigert"])
async def test_a_windows_that_does_not_answer_so_has_no_facts_and_says_why(stdout: str) -> None:
    found = await facts_of(Answering(stdout, "Get-CimInstance : Zugriff verweigert\r\n", 1), "Ethernet")
    assert found["kernel"] == {"name": None}
    assert "Zugriff verweigert" in found["absent"]["kernel.name"]
