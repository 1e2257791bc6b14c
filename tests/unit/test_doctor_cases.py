"""Causes that people searched for weeks, from public reports (tests/data/cases, each with its source): what ethtool, ip and /sys said, and
the findings that are right."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dutlab.analysis.doctor import Finding, Inventory, examine
from dutlab.hosts.facts import collect_facts
from dutlab.hosts.local import LocalHost
from dutlab.systems.optics import optic_of
from sysfs import PciDevice, pcie_registers, write_card

CASES = Path(__file__).parents[1] / "data" / "cases"
_PROGRAMS = {
    "ethtool": 'case $1 in --json) [ "$2" = -k ] && cat {case}/features.json;; *) cat {case}/ethtool"$1";; esac',
    "ip": 'case "$*" in *link*) cat {case}/link.json;; *) echo "[]";; esac',
    "lscpu": "cat {case}/lscpu.json",
    "nft": """echo '{{"nftables": []}}'""",
    "dmidecode": "exit 1",
}


async def findings_of(case: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Finding]:
    """Plays the machine of a case: its programs, and its /sys and /proc as files."""
    machine, root = json.loads((case / "machine.json").read_text()), folder / "root"
    for name, script in _PROGRAMS.items():
        (folder / name).write_text(f"#!/bin/sh\n{script.format(case=case)}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    registers = pcie_registers(payload=machine.get("payload", 256), payload_most=machine.get("payload_most", 256))
    way = [
        PciDevice(of["address"], of["speed"], of["width"], of["max_speed"], of["max_width"], registers,
                  {int(n): tuple(words) for n, words in of.get("irqs", {}).items()})
        for of in machine["pci"]
    ]  # fmt: skip
    write_card(root, machine["interface"], way)
    net = {f"/sys/class/net/{machine['interface']}/{file}": text for file, text in machine["net"].items()}
    for file, text in (machine["files"] | net).items():
        (root / file.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (root / file.lstrip("/")).write_text(f"{text}\n")
    facts = await collect_facts(LocalHost("dut"), [machine["interface"]], root=str(root))
    return {f.kind: f for f in examine(Inventory({"dut": facts}))}


@pytest.mark.parametrize(
    ("case", "cause", "others", "percent", "cure", "said"),
    [
        ("30-doctor-one-queue", "one-queue", set(), 87.5, "ethtool -L eth1 combined 8", ["1 queue, at most 63; 8 cores"]),
        ("32-doctor-conntrack", "conntrack-full", set(), 99.99, "sysctl net.netfilter.nf_conntrack_max=262144", ["65530", "65536"]),
        ("33-doctor-pi-10g", "narrow-slot", {"small-payload"}, 65.8, None, ["5.0 GT/s of 8.0", "1 of 4"]),
        ("34-doctor-ring-512", "small-ring", set(), None, "ethtool -G eth1 rx 8192", ["RX 512, at most 8192"]),
        # A hundred gigabits do not go through eight lanes of 8 GT/s either, which the report does not say.
        ("36-doctor-far-node", "far-node", {"narrow-slot"}, 20.0, "echo 0,2,4,6,8,10,12,14 > /proc/irq/40/smp_affinity_list", ["1", "3", "5", "7"]),
    ],
)  # fmt: skip
async def test_the_cause_is_found_with_its_cost_and_cure_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str, cause: str, others: set[str], percent: float | None, cure: str | None, said: list[str]
) -> None:  # fmt: skip
    found = await findings_of(CASES / case, tmp_path, monkeypatch)
    assert set(found) == {cause, *others}
    finding = found[cause]
    assert [e.said for e in finding.evidence] == said
    assert finding.price.percent == (percent if percent is None else pytest.approx(percent, abs=0.05))
    assert finding.cure[0].by_hand if cure is None else finding.cure[0].command == cure
    assert finding.undo and finding.proof.workload


@pytest.mark.parametrize(
    ("case", "identity", "values", "findings"),
    [
        ("25-optic-sfp28", ("SFP", "100G Base-SR4 or 25GBase-SR", "LC", 850.0, "2023-07-07"),
         {"rx_power_mw": (0.0001,), "tx_power_mw": (0.75,), "tx_bias_ma": (7.95,), "temperature_c": (53.1,), "voltage_v": (3.3,)},
         [("rx_power_mw", 1, "low_alarm")]),
        ("27-optic-dac", ("SFP", "100G Base-CR4 or 25G Base-CR CA-L", "Copper pigtail", None, "2023-07-07"), {}, []),
        ("28-optic-qsfp28", ("QSFP28", "100G Base-SR4 or 25GBase-SR", "MPO Parallel Optic", 850.0, "2019-01-01"),
         {"rx_power_mw": (0.91, 0.0, 0.93, 0.94), "tx_power_mw": (1.05, 1.04, 1.03, 1.02), "tx_bias_ma": (7.8,) * 4, "temperature_c": (38.2,),
          "voltage_v": (3.28,)}, [("rx_power_mw", 2, "low_alarm")]),
        ("29-optic-pfsense", ("SFP/SFP+/SFP28", "10G Base-SR", "LC", None, "2012-01-29"),
         {"rx_power_mw": (0.5598,), "tx_power_mw": (0.6109,), "temperature_c": (36.13,), "voltage_v": (3.31,)}, []),
    ],
)  # fmt: skip
def test_a_transceiver_is_read_and_judged_lane_by_lane(
    case: str, identity: tuple[Any, ...], values: dict[str, Any], findings: list[tuple[str, int, str]]
) -> None:
    (file,) = (CASES / case).glob("*.txt")
    optic = optic_of(file.read_text())
    assert optic is not None
    assert (optic.form, optic.kind, optic.connector, optic.wavelength_nm, optic.made) == identity
    assert optic.values == values
    assert [(f.quantity, f.lane, f.limit) for f in optic.findings()] == findings
