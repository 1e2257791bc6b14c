"""What spoils measurements, from facts: each finding on a machine that has it, none on one that has not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.analysis.doctor import Carried, CoreShare, Finding, Link, Patient, Port, Price, Streams, Watched, examine
from dutlab.analysis.doctor.finding import by_price

PORTS = (Port("source", "e0"), Port("dut", "in0"), Port("dut", "out0"), Port("sink", "e1"))
HOPS = ("172.16.0.1", "172.16.0.2", "172.16.10.2", "172.16.10.1")
TEN_G = Link("a", PORTS, HOPS, 10e9)

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
    return examine(Patient(facts, links=of_patient.pop("links", (TEN_G,)), **of_patient))


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


def test_a_healthy_testbed_has_no_findings() -> None:
    quiet = {name: Watched(1.0, {0: CoreShare(2.0, 0.0)}) for name in healthy()}
    assert found_on(healthy(), watched=quiet, loads=(Streams("iperf3", 4),)) == []


def test_facts_that_are_not_there_are_no_findings() -> None:
    assert (
        found_on({"source": {}, "dut": {"interfaces": None, "cpu": None}, "sink": {"interfaces": {"e1": {"pcie": None, "optic": None}}}})
        == []
    )


def test_a_narrow_slot_costs_what_its_lanes_do_not_carry() -> None:
    narrow = {**STEP, "link_gts": 5.0, "link_width": 1, "link_gts_most": 5.0, "link_width_most": 1, "payload_bytes": 128}
    found = only([f for f in found_on(with_card("e0", pcie=[narrow])) if f.kind != "small-payload"], "narrow-slot")
    # Gen2 x1: 500e6 B/s, times 128 / 152 with 128-byte payloads. 10 Gb/s of 1518-byte frames: 1.25e9 B/s, of which 1514 of 1538 cross the bus.
    assert found.price.percent == pytest.approx(100 * (1 - 500e6 * 128 / 152 / (1.25e9 * 1514 / 1538)))
    assert found.where == ("source:e0",)
    assert "current_link_width" in found.evidence[1].read and found.evidence[1].said == "1 of 1"


def test_the_narrowest_link_counts_wherever_it_is_on_the_way() -> None:
    bridge = {**STEP, "address": "0000:00:1c.0", "link_gts": 2.5, "link_width": 4}
    found = only(found_on(with_card("e0", pcie=[STEP, bridge])), "narrow-slot")
    assert "Gen1 x4 where Gen3 x8 is possible" in found.what
    assert "0000:00:1c.0" in found.evidence[0].read


def test_a_slot_with_fewer_lanes_than_its_card_is_at_its_best() -> None:
    in_the_slot = [{**STEP, "link_width": 4}, {**STEP, "address": "0000:00:1c.0", "link_width": 4, "link_width_most": 4}]
    assert found_on(with_card("e0", pcie=in_the_slot)) == []  # Gen3 x4 carries 10 Gb/s, and the slot has no more lanes
    switch = [
        {**STEP, "address": "0000:02:08.0"},
        {**STEP, "address": "0000:01:00.0", "link_width": 4},
        {**STEP, "address": "0000:00:1c.0", "link_width": 4},
    ]
    found = only(
        found_on(with_card("e0", pcie=[STEP, *switch])), "narrow-slot"
    )  # the card's own link is whole, that above the switch is not
    assert "Gen3 x4 where Gen3 x8" in found.what and "0000:01:00.0" in found.evidence[0].read


def test_two_ports_of_one_card_share_its_lanes() -> None:
    ways = [[{**STEP, "address": f"0000:03:00.{n}", "link_width": 2, "link_width_most": 2}] for n in (0, 1)]
    facts = with_host("dut", interfaces={"in0": card(pcie=ways[0]), "out0": card(pcie=ways[1])})
    found = only(found_on(facts), "narrow-slot")  # Gen3 x2 carries one port of 10 Gb/s, not two
    assert found.where == ("dut:in0", "dut:out0")
    assert found.price.percent == pytest.approx(100 * (1 - 8e9 * 128 / 130 / 8 * 2 * 256 / 280 / (2 * 1.25e9 * 1514 / 1538)))
    assert found_on(with_host("dut", interfaces={"in0": card(pcie=ways[0])})) == []


def test_a_link_below_its_best_that_still_carries_everything_costs_nothing_now() -> None:
    found = only(found_on(with_card("e0", pcie=[{**STEP, "link_width": 4}])), "narrow-slot")
    assert found.price.percent == 0


def test_a_link_below_its_best_is_told_even_of_a_port_that_is_down() -> None:
    facts = {"source": host(interfaces={"e0": card(speed_mbps=None, pcie=[{**STEP, "link_width": 4}])})}
    found = only(found_on(facts, links=()), "narrow-slot")
    assert found.price.percent is None and "is not known" in found.price.source


def test_a_small_payload_costs_what_headers_take_of_a_link_that_is_full() -> None:
    way = [{**STEP, "link_gts": 5.0, "link_gts_most": 5.0, "link_width": 2, "link_width_most": 2, "payload_bytes": 128}]
    found = {f.kind: f for f in found_on(with_card("e0", pcie=way))}["small-payload"]
    assert found.price.percent == pytest.approx(100 * (1 - (128 / 152) / (256 / 280)))
    assert found.cure[0].command.startswith("by hand: add pci=pcie_bus_perf to the kernel's command line (Linux)")
    roomy = [{**STEP, "payload_bytes": 128}]
    assert only(found_on(with_card("e0", pcie=roomy)), "small-payload").price.percent == 0


def test_sleeping_links_have_no_price_of_their_own_and_say_why() -> None:
    facts = with_card("e0", pcie=[{**STEP, "aspm": "L1"}])
    facts["source"]["pcie_aspm_policy"] = "powersave"
    found = only(found_on(facts), "pcie-power")
    assert found.price.percent is None and "36.5 MB/s became 55.7" in found.price.source
    assert found.undo[0].command == "echo powersave > /sys/module/pcie_aspm/parameters/policy"
    facts["source"]["pcie_aspm_policy"] = "performance"  # and yet the link sleeps: the kernel has no say in it
    assert only(found_on(facts), "pcie-power").cure[0].command == "by hand: switch ASPM off in the BIOS"


def test_different_mtus_cost_what_shorter_packets_carry_less() -> None:
    found = only(found_on(with_card("e0", mtu=9000) | {"sink": host("e1")}), "mtu-mismatch")
    # RFC 6349 section 4.1.1 with TCP timestamps: 9.4148 Gb/s of 10 at 1500, 9.9004 at 9000.
    assert found.price.percent == pytest.approx(100 * (1 - 9.4148 / 9.9004), abs=0.01)
    assert found.cure[0].command == "ip link set dev in0 mtu 9000"
    assert found.undo[0].command == "ip link set dev in0 mtu 1500"
    assert "vanish" in found.what  # source and DUT share that wire


def test_a_router_between_two_mtus_can_say_so() -> None:
    facts = with_host("sink", interfaces={"e1": card(mtu=9000)})
    facts["dut"]["interfaces"] = {"in0": card(), "out0": card(mtu=9000)}
    assert "the router between" in only(found_on(facts), "mtu-mismatch").what
    del facts["dut"]["interfaces"]["out0"]  # and what is not told is not two ends that differ
    assert "the router between" in only(found_on(facts), "mtu-mismatch").what


@pytest.mark.parametrize("other", [9014, 9018, 9022])
def test_jumbo_sizes_that_differ_by_a_header_are_one_size_meant_differently(other: int) -> None:
    facts = {"source": host("e0"), "dut": host("in0", "out0"), "sink": host("e1")}
    for name, of in facts.items():
        of["interfaces"] = {i: card(mtu=other if name == "dut" else 9000) for i in of["interfaces"]}
    assert f"from 9000 to {other}" in only(found_on(facts), "jumbo-meaning").what


def test_a_wire_that_carries_less_than_both_its_ends_has_a_switch_that_counts_otherwise() -> None:
    facts = {name: {**of, "interfaces": {i: card(mtu=9000) for i in of["interfaces"]}} for name, of in healthy().items()}
    kinds = {passes: found_on(facts, carried=(Carried("a", PORTS[0], PORTS[1], passes),)) for passes in (9000, 8982, 1500)}
    assert kinds[9000] == []
    assert only(kinds[8982], "jumbo-meaning").where == ("link a",)
    assert only(kinds[1500], "mtu-mismatch").price.percent == pytest.approx(4.9, abs=0.05)


def test_a_slower_port_costs_the_rest_of_its_line_rate() -> None:
    found = only(found_on(with_card("in0", speed_mbps=1000)), "speed-mismatch")
    assert found.price.percent == pytest.approx(90) and found.where == ("dut:in0",)
    no_speed = Link("a", PORTS, HOPS)
    assert (
        "its other end source:e0 has 10000" in only(found_on(with_card("in0", speed_mbps=1000), links=(no_speed,)), "speed-mismatch").what
    )


def test_half_duplex_costs_one_way() -> None:
    assert only(found_on(with_card("e1", duplex="half")), "half-duplex").price.percent == 50


def test_offloads_that_could_be_on_are_named_with_the_words_of_ethtool() -> None:
    off = ["generic-receive-offload", "tcp-segmentation-offload", "rx-all"]
    found = only(found_on(with_card("e0", offloads_off_by_choice=off)), "offloads-off")
    assert found.cure[0].command == "ethtool -K e0 gro on tso on"
    assert found.undo[0].command == "ethtool -K e0 gro off tso off"
    veth = only(found_on(with_card("e0", kind="veth", offloads_off_by_choice=off)), "offloads-off")
    assert veth.cure[0].command == "ethtool -K e0 gro on"


def test_a_ring_is_small_if_the_shortest_frames_fill_it_at_once() -> None:
    found = only(found_on(with_card("e0", rings={"most": {"rx": 4096}, "now": {"rx": 512}})), "small-ring")
    assert "fill it in 34 µs" in found.what  # 512 / 14.88e6
    assert found.cure[0].command == "ethtool -G e0 rx 4096"
    slow = with_card("e0", rings={"most": {"rx": 4096}, "now": {"rx": 512}}, speed_mbps=100)
    assert examine(Patient({"source": slow["source"]})) == []  # 3.4 ms at 100 Mb/s


def test_moderation_is_told_in_microseconds() -> None:
    found = only(found_on(with_card("e0", coalescing={"adaptive_rx": True, "rx_usecs": 50})), "interrupt-moderation")
    assert found.cure[0].command == "ethtool -C e0 adaptive-rx off rx-usecs 0"
    assert found.undo[0].command == "ethtool -C e0 adaptive-rx on rx-usecs 50"
    fixed = only(found_on(with_card("e0", coalescing={"rx_usecs": 125})), "interrupt-moderation")
    assert "up to 125 µs" in fixed.what


def test_all_queues_on_one_core_and_the_generator_on_that_of_its_card() -> None:
    one = {n: {"cores_allowed": "0-3", "cores_now": "2", "name": f"e0-rx-{n}"} for n in ("40", "41")}
    found = only(found_on(with_card("e0", irqs=one)), "irq-one-core")
    assert "all 2 queues" in found.what and found.price.percent == 50
    assert found.undo[0].command == "echo 0-3 > /proc/irq/40/smp_affinity_list"
    assert "core 1, where the generator runs" in only(found_on(healthy(), pinned={"source": (1,)}), "irq-one-core").what
    assert found_on(healthy(), pinned={"source": (3,)}) == []


def test_generator_and_dut_on_one_core_of_a_machine() -> None:
    pinned: dict[str, tuple[int, ...]] = {"source": (0,), "dut": (0,), "sink": (1,)}
    cards = {name: {**of, "interfaces": {i: card(kind="veth", irqs=None) for i in of["interfaces"]}} for name, of in healthy().items()}
    assert only(found_on(cards, pinned=pinned, one_machine=True), "shared-core").where == ("source", "dut")
    assert found_on(cards, pinned=pinned) == []  # on two machines core 0 is not core 0


def test_only_interrupts_that_receive_are_queues() -> None:
    names = ("virtio2-config", "virtio2-input.0", "virtio2-output.0")
    one_queue = {str(n): {"cores_allowed": "0-3", "cores_now": "0", "name": name} for n, name in enumerate(names)}
    assert found_on(with_card("e0", irqs=one_queue)) == []
    of_the_link = {"39": {"cores_allowed": "0-3", "cores_now": "3", "name": "e0"}}
    queues = {str(n): {"cores_allowed": "0-3", "cores_now": "0", "name": f"e0-TxRx-{n}"} for n in (40, 41)}
    assert "all 2 queues" in only(found_on(with_card("e0", irqs=of_the_link | queues)), "irq-one-core").what


def test_queues_served_by_another_node_than_the_cards() -> None:
    facts = with_card("e0", near_cores="0,2-3")
    facts["source"]["cpu"] = {**HOST["cpu"], "numa_nodes": 2}  # type: ignore[dict-item]
    found = only(found_on(facts), "far-node")
    assert [e.read for e in found.evidence] == ["/proc/irq/41/effective_affinity_list"]  # core 1; core 0 is near
    assert (found.cure[0].command, found.undo[0].command) == (
        "echo 0,2-3 > /proc/irq/41/smp_affinity_list",
        "echo 0-3 > /proc/irq/41/smp_affinity_list",
    )


def test_flow_control_is_undone_as_it_was() -> None:
    found = only(found_on(with_card("e0", pause_frames={"autonegotiate": True, "rx": True, "tx": False})), "flow-control")
    assert found.cure[0].command == "ethtool -A e0 autoneg off rx off tx off"
    assert found.undo[0].command == "ethtool -A e0 autoneg on rx on tx off"
    assert found_on(with_card("e0", pause_frames={"autonegotiate": True, "rx": False, "tx": False})) == []


def test_a_module_beyond_its_limits_is_told_in_its_own_words() -> None:
    said = "rx power of lane 0 is -12.40 dBm, below its low warning threshold -11.10 dBm"
    assert said in only(found_on(with_card("e1", optic={"findings": [said]})), "weak-optics").what


def test_a_fixed_low_clock_has_a_price_and_a_governor_that_follows_the_load_has_none() -> None:
    low = only(found_on(with_host("dut", cpu={**HOST["cpu"], "governor": "powersave"})), "governor")  # type: ignore[dict-item]
    assert low.price.percent == pytest.approx(75)
    assert low.undo[0].command.endswith('do echo powersave > "$f"; done')
    follows = only(found_on(with_host("dut", cpu={**HOST["cpu"], "governor": "schedutil"})), "governor")  # type: ignore[dict-item]
    assert follows.price.percent is None
    own = {**HOST["cpu"], "governor": "powersave", "scaling_driver": "intel_pstate"}  # type: ignore[dict-item]
    assert only(found_on(with_host("dut", cpu=own)), "governor").price.percent is None


@pytest.mark.parametrize(
    ("key", "value", "cure"),
    [
        ("boost", 0, "echo 1 > /sys/devices/system/cpu/cpufreq/boost"),
        ("no_turbo", 1, "echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo"),
    ],
)
def test_boost_off_costs_at_most_what_it_would_add_to_the_clock(key: str, value: int, cure: str) -> None:
    cpu = {**HOST["cpu"], key: value, "base_khz": 2_400_000}  # type: ignore[dict-item]
    found = only(found_on(with_host("dut", cpu=cpu)), "boost-off")
    assert found.price.percent == pytest.approx(25) and found.cure[0].command == cure


def test_deep_idle_states_delay_a_frame_and_cost_no_rate() -> None:
    found = only(found_on(with_host("dut", cpu={**HOST["cpu"], "idle_exit_latency_us": 133})), "power-saving")  # type: ignore[dict-item]
    assert "133 µs" in found.what and found.price.percent is None


def test_a_processor_of_openbsd_at_its_lowest_has_the_published_price() -> None:
    found = only(found_on(with_host("dut", sysctls={"hw.setperf": "0", "hw.perfpolicy": "auto"})), "power-saving")
    assert found.price.percent == pytest.approx(100 * (55.7 - 38.9) / 55.7)
    assert found.undo[0].command == "sysctl hw.perfpolicy=auto"
    assert found_on(with_host("dut", sysctls={"hw.setperf": "100"}, kernel={"name": "OpenBSD"}, cpu={"governor": "manual"})) == []


def test_a_port_of_bsd_is_cured_in_the_words_of_its_system() -> None:
    facts = with_card("in0", mtu=1400, speed_mbps=1000, duplex="half")
    facts["dut"]["kernel"] = {"name": "FreeBSD"}
    found = {f.kind: f for f in found_on(facts)}
    assert (found["mtu-mismatch"].cure[0].command, found["mtu-mismatch"].undo[0].command) == (
        "ifconfig in0 mtu 1500",
        "ifconfig in0 mtu 1400",
    )
    assert found["speed-mismatch"].cure[0].command == found["half-duplex"].cure[0].command == "ifconfig in0 media autoselect"
    assert found["half-duplex"].evidence[0].read == "ifconfig in0"


def test_a_clock_that_needs_a_system_call() -> None:
    assert only(found_on(with_host("dut", clocksource="hpet")), "clock-source").cure[0].command.startswith("echo tsc > ")
    without = with_host("dut", clocksource="hpet", clocksources=["hpet"])
    assert only(found_on(without), "clock-source").cure[0].command.startswith("by hand: ")
    assert found_on(with_host("dut", clocksource="kvm-clock")) == []


@pytest.mark.parametrize(
    ("now", "choice", "cure"),
    [
        ("HPET", "ACPI-fast(900) HPET(950) i8254(0) TSC-low(1000) dummy(-1000000)", "sysctl kern.timecounter.hardware=TSC-low"),
        ("acpihpet0", "i8254(0) tsc(2000) acpihpet0(1000)", "sysctl kern.timecounter.hardware=tsc"),
        ("acpitimer0", "i8254(0) acpitimer0(1000)", "by hand: see in dmesg why there is no TSC"),
    ],
)
def test_a_timecounter_of_bsd_outside_the_processor(now: str, choice: str, cure: str) -> None:
    found = only(found_on(with_host("dut", clocksource=now, sysctls={"kern.timecounter.choice": choice})), "clock-source")
    assert found.cure[0].command == cure


def test_busy_and_stolen_cores_cost_what_was_read() -> None:
    watched = {"dut": Watched(1.0, {0: CoreShare(3.0, 0.5), 1: CoreShare(64.0, 7.0)})}
    busy, stolen = found_on(healthy(), watched=watched)
    assert (busy.kind, busy.price.percent, stolen.kind, stolen.price.percent) == ("busy-cpu", 64.0, "stolen-cpu", 7.0)
    assert busy.evidence[0].said == "core 1 64 % busy"


def test_a_firewall_in_the_way_is_kept_before_it_is_flushed() -> None:
    rules = {"hooked_chains": [{"table": "inet filter", "hook": "input", "rules_in_table": 12}], "legacy_tables": ["nat"]}
    found = only(found_on(with_host("sink", firewall=rules)), "firewall-in-the-way")
    assert [s.command for s in found.cure] == [
        "nft list ruleset > /root/rules-before.nft && nft flush ruleset",
        "iptables-legacy-save > /root/rules-before.iptables && iptables-legacy -F",
    ]
    assert len(found.undo) == 2 and found.price.percent is None


def test_pf_on_an_end_has_the_published_price_and_on_the_dut_is_its_mode() -> None:
    on = {"pf_enabled": True}
    assert only(found_on(with_host("source", firewall=on)), "firewall-in-the-way").price.percent == pytest.approx(
        100 * (55.7 - 46.8) / 55.7
    )
    assert found_on(with_host("dut", firewall=on)) == []


def test_checks_for_developers_and_work_after_boot() -> None:
    assert only(found_on(with_host("dut", sysctls={"kern.pool_debug": "1"})), "pool-debug").undo[0].command == "sysctl kern.pool_debug=1"
    assert found_on(with_host("dut", sysctls={"kern.pool_debug": "0"})) == []
    relinks = with_host("dut", kernel={"name": "OpenBSD", "relinks_at_boot": True})
    assert only(found_on(relinks), "kernel-relinking").cure[0].command == "rm /var/db/kernel.SHA256"


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"state": "PERMANENT", "confirmed_s": 900}, False), ({"state": "NOARP", "confirmed_s": 900}, False),
        ({"state": "REACHABLE", "confirmed_s": 2}, False), ({"state": "REACHABLE", "confirmed_s": 20}, True),
        ({"state": "STALE", "confirmed_s": 70}, True), ({"state": "FAILED", "confirmed_s": 9}, True),
    ],
)  # fmt: skip
def test_a_neighbour_that_must_be_asked_again(entry: dict[str, Any], found: bool) -> None:
    findings = found_on(with_host("dut", neighbours={"out0": [entry]}))
    assert [f.kind for f in findings] == (["neighbour-ageing"] if found else [])
    if found:
        assert "172.16.10.2" in findings[0].cure[0].command and findings[0].where == ("dut:out0",)


def test_one_stream_on_a_fast_link() -> None:
    assert only(found_on(healthy(), loads=(Streams("iperf3", 1),)), "one-stream").where == ("link a",)
    slow = {n: {**of, "interfaces": {i: card(speed_mbps=1000) for i in of["interfaces"]}} for n, of in healthy().items()}
    assert found_on(slow, links=(Link("a", PORTS, HOPS, 1e9),), loads=(Streams("iperf3", 1),)) == []


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9) | st.sampled_from(["half", "hpet", "0", "1-9", "STALE"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from([*STEP, "rx", "now", "most", "state", "table", "findings", "x"]), inner),
    max_leaves=8,
)  # fmt: skip


@given(
    of_card=st.dictionaries(st.sampled_from([*CARD, "near_cores", "pause_frames"]), JSON),
    of_host=st.dictionaries(st.sampled_from(list(HOST)), JSON),
)
def test_facts_of_a_damaged_file_never_end_the_examination(of_card: dict[str, Any], of_host: dict[str, Any]) -> None:
    facts = {p.host: {**HOST, **of_host, "interfaces": {p.interface: {**CARD, **of_card}}} for p in PORTS}
    for finding in found_on(facts):
        assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding


def test_the_dearest_stands_first_the_unknown_after_and_what_costs_nothing_last() -> None:
    def of(kind: str, percent: float | None) -> Finding:
        return Finding(kind, kind, Price(percent, "x", "y"), ("dut",), (), (), ())

    assert [f.kind for f in by_price([of("a", None), of("b", 0.0), of("c", 5.0), of("d", 40.0)])] == ["d", "c", "a", "b"]


def test_the_same_on_two_ports_is_one_finding_with_both() -> None:
    facts = with_host("dut", interfaces={"in0": card(duplex="half"), "out0": card(duplex="half")})
    found = only(found_on(facts), "half-duplex")
    assert found.where == ("dut:in0", "dut:out0") and len(found.cure) == len(found.undo) == 2


def test_a_name_that_is_a_command_is_quoted_in_cure_and_undo() -> None:
    name = "e0;reboot"
    facts = {"source": {**HOST, "interfaces": {name: card(duplex="half", offloads_off_by_choice=["generic-receive-offload"])}}}
    for finding in examine(Patient(facts)):
        for step in (*finding.cure, *finding.undo):
            assert "'e0;reboot'" in step.command


def test_every_kind_is_in_the_manual_and_no_other() -> None:
    root = Path(__file__).parents[2]
    source = "".join(p.read_text() for p in (root / "src/dutlab/analysis/doctor").glob("*.py"))
    kinds = {kind for call in re.findall(r"Finding\(\s*([^,]+),", source) for kind in re.findall(r'"([a-z-]+)"', call)}
    told = re.findall(r"^\| `([a-z-]+)` \|", (root / "docs/method/doctor.md").read_text(), re.MULTILINE)
    assert sorted(told) == sorted(kinds)


def test_a_finding_survives_json() -> None:
    for finding in found_on(with_card("e0", duplex="half", mtu=9000)):
        assert Finding.from_json(json.loads(json.dumps(finding.to_json()))) == finding
