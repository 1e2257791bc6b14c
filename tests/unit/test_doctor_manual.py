"""Every finding of the manual on one sick testbed: its evidence, its price or why there is none, its cure and the way back."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from dutlab.analysis.doctor import (
    KINDS,
    CoreShare,
    Finding,
    Inventory,
    InventoryLink,
    InventoryPort,
    PassedMtu,
    Streams,
    WatchedCores,
    examine,
)

MANUAL = Path(__file__).parents[2] / "docs" / "method" / "doctor.md"
PORTS = (InventoryPort("source", "e0"), InventoryPort("dut", "in0"), InventoryPort("dut", "out0"), InventoryPort("sink", "e1"))
LINK = InventoryLink("a", PORTS, ("172.16.0.1", "172.16.0.2", "172.16.10.2", "172.16.10.1"), 10e9)
SLOW_LINK = {
    "address": "0000:03:00.0", "link_gts": 2.5, "link_width": 1, "link_gts_most": 8.0, "link_width_most": 8,
    "payload_bytes": 128, "payload_bytes_most": 512, "aspm": "L1",
}  # fmt: skip
SICK_CARD: dict[str, Any] = {
    "kind": "physical", "mtu": 1500, "speed_mbps": 1000, "duplex": "half",
    "rings": {"most": {"rx": 4096}, "now": {"rx": 64}}, "coalescing": {"adaptive_rx": True, "rx_usecs": 50},
    "offloads_off_by_choice": ["tcp-segmentation-offload"], "pause_frames": {"autonegotiate": True, "rx": True, "tx": True},
    "irqs": {"40": {"cores_allowed": "0-3", "cores_now": "2", "name": "e0-TxRx-0"}, "41": {"cores_allowed": "0-3", "cores_now": "2", "name": "e0-TxRx-1"}},
    "near_cores": "0-1", "channels": {"most": {"combined": 8}, "now": {"combined": 1}}, "offloads": {"large-receive-offload": True},
    "pcie": [SLOW_LINK], "optic": {"findings": ["rx power of lane 0 is -20 dBm, below its low alarm threshold -18 dBm"]},
}  # fmt: skip
SICK_HOST: dict[str, Any] = {
    "kernel": {"name": "Linux"}, "clocksource": "hpet", "clocksources": ["tsc", "hpet"], "pcie_aspm_policy": "powersave",
    "cpu": {"governor": "powersave", "scaling_driver": "acpi-cpufreq", "boost": 0, "cores": 4, "numa_nodes": 2, "idle_exit_latency_us": 133,
            "min_khz": 800_000, "base_khz": 2_000_000, "max_khz": 3_000_000},
    "firewall": {"hooked_chains": [{"table": "ip t", "hook": "input", "rules_in_table": 3}], "tracked_connections": 65530},
    "neighbours": {"e0": [{"state": "STALE", "confirmed_s": 60}]},
    "dimms": [{"mts": 3200, "mts_now": 2133}],
    "sysctls": {"net.ipv4.ip_forward": "1", "net.netfilter.nf_conntrack_max": "65536", "net.netfilter.nf_conntrack_buckets": "1024"},
    "interfaces": {"e0": SICK_CARD},
}  # fmt: skip
SICK_BSD: dict[str, Any] = {
    "kernel": {"name": "OpenBSD", "relinks_at_boot": True}, "sysctls": {"kern.pool_debug": "1", "hw.setperf": "0"},
    "interfaces": {"in0": {"mtu": 9000}, "out0": {"mtu": 9000}},
}  # fmt: skip


SICK_FREEBSD: dict[str, Any] = {
    "kernel": {"name": "FreeBSD"}, "cpu": {"cores": 8}, "sysctls": {"net.isr.numthreads": "1", "net.isr.dispatch": "deferred"},
}  # fmt: skip
SICK_WINDOWS: dict[str, Any] = {"kernel": {"name": "Windows"}, "today": "2026-11-27", "interfaces": {"e2": {"driver_date": "2012-01-01"}}}


@cache
def everything() -> list[Finding]:
    facts: dict[str, dict[str, Any]] = {
        "source": SICK_HOST, "dut": SICK_BSD, "sink": {"interfaces": {"e1": {"mtu": 9014}}}, "fan": SICK_FREEBSD, "pc": SICK_WINDOWS,
    }  # fmt: skip
    facts = {name: {**of, "programs": {"iperf3": "3.7" if name == "source" else "3.21"}} for name, of in facts.items()}
    return examine(
        Inventory(
            facts,
            links=(LINK,),
            watched={"source": WatchedCores(0.5, {0: CoreShare(60.0, 9.0)})},
            carried=(PassedMtu("a", PORTS[3], PORTS[2], 8982),),
            pinned={"source": (0,), "dut": (0,)},
            one_machine=True,
            loads=(Streams("iperf3", 1, both_ways=True), Streams("matrix", 4)),
        )
    )


def test_the_manual_has_every_finding_with_its_proof_and_no_other() -> None:
    described = dict(re.findall(r"^\| `([a-z0-9-]+)` \|.*\| ([^|]+) \|$", MANUAL.read_text(), re.MULTILINE))
    assert {f.kind for f in everything()} == set(described) == set(KINDS)
    assert described == {kind: of.proof.words for kind, of in KINDS.items()}


def test_each_has_evidence_a_price_or_why_not_a_cure_and_a_way_back() -> None:
    for finding in everything():
        assert finding.where and finding.evidence and finding.cure and finding.undo, finding.kind
        assert all(e.read and e.said for e in finding.evidence), finding.kind
        assert len(finding.price.source) > 20, finding.kind
        assert (finding.price.percent is None) == (finding.price.of == ""), finding.kind
        for step in (*finding.cure, *finding.undo):
            assert step.host in {"source", "dut", "sink", "fan", "pc"}, finding.kind
            assert step.by_hand or not step.command.startswith("by hand"), finding.kind
        if finding.price.percent is not None:
            assert finding.price.source.split(":")[0] in {"computed", "published", "read"}, finding.kind
            assert 0 <= finding.price.percent <= 100
