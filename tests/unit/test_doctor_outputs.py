"""From what programs print and files hold to findings, for a card and a processor that no lab has: outputs in the layout of their sources."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dutlab.analysis.doctor import Finding, Inventory, examine
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost
from optic_outputs import SFP
from sysfs import PciDevice, pcie_registers, write_card

NAME = "e9"
# ethtool's netlink/rings.c, coalesce.c, pause.c; features in its JSON, ip's in that of iproute2.
OUTPUTS = {
    "-g": "Ring parameters for e9:\nPre-set maximums:\nRX:\t\t4096\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t4096\n"
    "Current hardware settings:\nRX:\t\t64\nRX Mini:\tn/a\nRX Jumbo:\tn/a\nTX:\t\t64\n",
    "-c": "Coalesce parameters for e9:\nAdaptive RX: on  TX: on\nstats-block-usecs:\tn/a\nsample-interval:\tn/a\n\nrx-usecs:\t50\nrx-frames:\tn/a\n"
    "rx-usecs-irq:\tn/a\n\ntx-usecs:\t50\ntx-frames:\tn/a\n",
    "-a": "Pause parameters for e9:\nAutonegotiate:\ton\nRX:\t\ton\nTX:\t\toff\nRX negotiated: on\nTX negotiated: off\n",
    "-i": "driver: i40e\nversion: 6.12.0\nfirmware-version: 9.40 0x8000ecd3 1.3429.0\nexpansion-rom-version: \nbus-info: 0000:03:00.0\n",
    "-l": "Channel parameters for e9:\nPre-set maximums:\nRX:\t\tn/a\nCombined:\t64\nCurrent hardware settings:\nRX:\t\tn/a\nCombined:\t2\n",
    "-m": SFP,
}
FEATURES = [{
    "ifname": NAME,
    "rx-checksumming": {"active": True, "fixed": False, "requested": True},
    "tcp-segmentation-offload": {"active": False, "fixed": False, "requested": False},
    "generic-receive-offload": {"active": True, "fixed": False, "requested": True},
    "tx-vlan-stag-hw-insert": {"active": False, "fixed": True, "requested": False},
}]  # fmt: skip


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that is before all others."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for option, text in OUTPUTS.items():
        (folder / f"ethtool{option}").write_text(text)
    (folder / "features").write_text(json.dumps(FEATURES))
    (folder / "link").write_text(json.dumps([{"ifname": NAME, "mtu": 1500, "address": "3c:ec:ef:00:00:01", "num_rx_queues": 2}]))
    programs = {
        "ethtool": f"case $1 in --json) cat {folder}/features;; *) cat {folder}/ethtool$1;; esac",
        "ip": f'case "$*" in *link*) cat {folder}/link;; *) echo "[]";; esac',
    }
    for name, script in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """Files of a machine of two nodes whose card has a slow port above it and both of its queues on one far core."""
    root = tmp_path / "root"
    registers = pcie_registers(payload=128, payload_most=256, aspm=2)
    queues = {40: ("0-7", "5", f"i40e-{NAME}-TxRx-0"), 41: ("0-7", "5", f"i40e-{NAME}-TxRx-1")}
    port = PciDevice("0000:00:1c.4", width=1, registers=registers)
    write_card(root, NAME, [port, PciDevice("0000:03:00.0", width=1, registers=registers, irqs=queues)])
    write(root / "sys/class/net" / NAME, {"speed": "1000", "duplex": "half", "operstate": "up"})
    write(root / "sys/devices/pci0000:00/0000:00:1c.4/0000:03:00.0", {"numa_node": "0", "local_cpulist": "0-3"})
    cpu = root / "sys/devices/system/cpu"
    write(cpu / "cpufreq/policy0", {"scaling_governor": "powersave", "scaling_driver": "acpi-cpufreq",
                                    "cpuinfo_min_freq": "800000", "cpuinfo_max_freq": "3200000"})  # fmt: skip
    write(cpu / "cpu0/cpufreq", {"scaling_driver": "acpi-cpufreq", "cpuinfo_min_freq": "800000", "cpuinfo_max_freq": "3200000"})
    write(cpu / "cpufreq", {"boost": "0"})
    write(cpu / "cpu0/cpuidle/state3", {"latency": "890", "disable": "0"})
    clocks = "sys/devices/system/clocksource/clocksource0"
    write(root / clocks, {"current_clocksource": "hpet", "available_clocksource": "tsc hpet acpi_pm"})
    write(root / "sys/module/pcie_aspm/parameters", {"policy": "default performance [powersave] powersupersave"})
    return root


def write(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(f"{text}\n")


async def findings(root: Path) -> dict[str, Finding]:
    facts = await collect_facts(LocalHost("dut"), [NAME], root=str(root))
    facts["cpu"]["numa_nodes"] = 2  # of this machine, as lscpu tells it
    facts["cpu"]["cores"] = 8
    return {f.kind: f for f in examine(Inventory({"dut": facts}))}


async def test_what_spoils_measurements_is_found_from_ethtools_words_and_files(programs: Path, machine: Path) -> None:
    found = await findings(machine)
    assert all(fact in found["small-ring"].what for fact in ("64 frames", "4096", "43 µs"))
    assert {"half-duplex", "weak-optics"} <= set(found)
    cures = {
        "small-ring": "ethtool -G e9 rx 4096", "offloads-off": "ethtool -K e9 tso on", "far-node": "echo 0-3 > /proc/irq/40/smp_affinity_list",
        "pcie-power": "echo performance > /sys/module/pcie_aspm/parameters/policy", "boost-off": "echo 1 > /sys/devices/system/cpu/cpufreq/boost",
        "clock-source": "echo tsc > /sys/devices/system/clocksource/clocksource0/current_clocksource",
    }  # fmt: skip
    undos = {
        "small-ring": "ethtool -G e9 rx 64", "interrupt-moderation": "ethtool -C e9 adaptive-rx on rx-usecs 50",
        "flow-control": "ethtool -A e9 autoneg on rx on tx off",
    }  # fmt: skip
    assert {kind: found[kind].cure[0].command for kind in cures} == cures
    assert {kind: found[kind].undo[0].command for kind in undos} == undos
    assert "Gen3 x1" in found["narrow-slot"].what and "Gen3 x8" in found["narrow-slot"].what
    assert "128 bytes" in found["small-payload"].what and "256" in found["small-payload"].what
    assert "2 queues" in found["irq-one-core"].what and found["irq-one-core"].what.endswith(" 5")
    assert found["governor"].price.percent == 75
    assert "890 µs" in found["power-saving"].what


async def test_a_card_without_faults_has_no_findings(programs: Path, tmp_path: Path) -> None:
    (programs / "ethtool-g").write_text(OUTPUTS["-g"].replace("64", "4096"))
    (programs / "ethtool-c").write_text(OUTPUTS["-c"].replace("RX: on", "RX: off").replace("50", "0"))
    (programs / "ethtool-a").write_text(OUTPUTS["-a"].replace("\ton", "\toff"))
    (programs / "ethtool-m").write_text("netlink error: Operation not supported\n")
    (programs / "features").write_text(json.dumps(FEATURES).replace("tcp-segmentation-offload", "rx-all"))
    registers = pcie_registers(payload=256, payload_most=256)
    write_card(tmp_path, NAME, [PciDevice("0000:03:00.0", registers=registers, irqs={40: ("0", "0", "a-rx-0"), 41: ("1", "1", "a-rx-1")})])
    write(tmp_path / "sys/class/net" / NAME, {"speed": "10000", "duplex": "full"})
    facts = await collect_facts(LocalHost("dut"), [NAME], root=str(tmp_path))
    of_the_card = {"interfaces": facts["interfaces"], "kernel": facts["kernel"]}
    assert examine(Inventory({"dut": of_the_card})) == []
