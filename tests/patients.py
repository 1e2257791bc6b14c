"""Facts of a testbed that nothing is wrong with, and ways to make something wrong with it."""

from __future__ import annotations

from typing import Any

from dutlab.analysis.doctor import Finding, Inventory, InventoryLink, InventoryPort, examine

PORTS = (InventoryPort("source", "e0"), InventoryPort("dut", "in0"), InventoryPort("dut", "out0"), InventoryPort("sink", "e1"))
HOPS = ("172.16.0.1", "172.16.0.2", "172.16.10.2", "172.16.10.1")
TEN_G = InventoryLink("a", PORTS, HOPS, 10e9)

STEP = {
    "address": "0000:03:00.0", "link_gts": 8.0, "link_width": 8, "link_gts_most": 8.0, "link_width_most": 8,
    "payload_bytes": 256, "payload_bytes_most": 256, "read_request_bytes": 512, "aspm": "off",
}  # fmt: skip
CARD = {
    "kind": "physical", "mtu": 1500, "speed_mbps": 10000, "duplex": "full",
    "rings": {"most": {"rx": 4096, "tx": 4096}, "now": {"rx": 4096, "tx": 4096}},
    "coalescing": {"adaptive_rx": False, "rx_usecs": 0, "rx_frames": 0},
    "offloads_off_by_choice": ["large-receive-offload", "hw-tc-offload"],
    "irqs": {"40": {"cores_allowed": "0-3", "cores_now": "0", "name": "e0-TxRx-0"},
             "41": {"cores_allowed": "0-3", "cores_now": "1", "name": "e0-TxRx-1"}},
    "pcie": [STEP, {**STEP, "address": "0000:00:1c.0"}],
    "optic": {"findings": []},
}  # fmt: skip
HOST = {
    "kernel": {"name": "Linux", "release": "6.12"},
    "clocksource": "tsc",
    "clocksources": ["tsc", "hpet"],
    "cpu": {"governor": "performance", "scaling_driver": "acpi-cpufreq", "boost": 1, "cores": 4, "idle_exit_latency_us": 2,
            "min_khz": 800_000, "max_khz": 3_200_000},
    "pcie_aspm_policy": "performance",
    "firewall": {"hooked_chains": [{"table": "inet empty", "hook": "input", "rules_in_table": 0}], "legacy_tables": [], "pf_enabled": False},
    "neighbours": {},
    "sysctls": {},
}  # fmt: skip


def card(**changes: Any) -> dict[str, Any]:
    return {**CARD, **changes}


def host(*cards: str, **changes: Any) -> dict[str, Any]:
    return {**HOST, "interfaces": dict.fromkeys(cards, CARD), **changes}


def healthy() -> dict[str, dict[str, Any]]:
    return {"source": host("e0"), "dut": host("in0", "out0"), "sink": host("e1")}


def found_on(facts: dict[str, dict[str, Any]], **of_patient: Any) -> list[Finding]:
    return examine(Inventory(facts, links=of_patient.pop("links", (TEN_G,)), **of_patient))


def only(findings: list[Finding], kind: str) -> Finding:
    assert [f.kind for f in findings] == [kind]
    return findings[0]


def with_card(interface: str, **changes: Any) -> dict[str, dict[str, Any]]:
    facts = healthy()
    owner = next(p.host for p in PORTS if p.interface == interface)
    facts[owner] = {**facts[owner], "interfaces": {**facts[owner]["interfaces"], interface: card(**changes)}}
    return facts


def with_host(name: str, **changes: Any) -> dict[str, dict[str, Any]]:
    facts = healthy()
    facts[name] = {**facts[name], **changes}
    return facts
