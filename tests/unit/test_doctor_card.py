"""Ports that spoil measurements: MTUs, speeds, offloads, rings, interrupts, flow control, optics."""

from __future__ import annotations

import pytest

from dutlab.analysis.doctor import Inventory, InventoryLink, PassedMtu, examine
from patients import HOPS, HOST, PORTS, card, found_on, healthy, host, only, with_card, with_host


def test_different_mtus_cost_what_shorter_packets_carry_less() -> None:
    found = only(found_on(with_card("e0", mtu=9000) | {"sink": host("e1")}), "mtu-mismatch")
    # RFC 6349 section 4.1.1 with TCP timestamps: 9.4148 Gb/s of 10 at 1500, 9.9004 at 9000.
    assert found.price.percent == pytest.approx(100 * (1 - 9.4148 / 9.9004), abs=0.01)
    assert found.cure[0].command == "ip link set dev in0 mtu 9000"
    assert found.undo[0].command == "ip link set dev in0 mtu 1500"
    assert "dropped silently" in found.what  # source and DUT share that cable


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
    kinds = {passes: found_on(facts, carried=(PassedMtu("a", PORTS[0], PORTS[1], passes),)) for passes in (9000, 8982, 1500)}
    assert kinds[9000] == []
    assert only(kinds[8982], "jumbo-meaning").where == ("link a",)
    assert only(kinds[1500], "mtu-mismatch").price.percent == pytest.approx(4.9, abs=0.05)


def test_a_slower_port_costs_the_rest_of_its_line_rate() -> None:
    found = only(found_on(with_card("in0", speed_mbps=1000)), "speed-mismatch")
    assert found.price.percent == pytest.approx(90) and found.where == ("dut:in0",)
    no_speed = InventoryLink("a", PORTS, HOPS)
    assert "source:e0 has 10000" in only(found_on(with_card("in0", speed_mbps=1000), links=(no_speed,)), "speed-mismatch").what
    assert only(found_on(with_card("e1", duplex="half")), "half-duplex").price.percent == 50


def test_offloads_that_could_be_on_are_named_with_the_words_of_ethtool() -> None:
    off = ["generic-receive-offload", "tcp-segmentation-offload", "rx-all"]
    found = only(found_on(with_card("e0", offloads_off_by_choice=off)), "offloads-off")
    assert found.cure[0].command == "ethtool -K e0 gro on tso on"
    assert found.undo[0].command == "ethtool -K e0 gro off tso off"
    assert found.price.percent == 75  # of the two the dearer, TSO
    checksums = only(found_on(with_card("e0", offloads_off_by_choice=["rx-checksumming"])), "offloads-off")
    assert checksums.price.percent is None and "no published figure" in checksums.price.source
    veth = only(found_on(with_card("e0", kind="veth", offloads_off_by_choice=off)), "offloads-off")
    assert veth.price.percent == pytest.approx(100 * (9 - 5) / 9)
    assert veth.cure[0].command == "ethtool -K e0 gro on"


def test_a_ring_is_small_if_the_shortest_frames_fill_it_at_once() -> None:
    found = only(found_on(with_card("e0", rings={"most": {"rx": 4096}, "now": {"rx": 512}})), "small-ring")
    assert "fill it in 34 µs" in found.what  # 512 / 14.88e6
    assert found.cure[0].command == "ethtool -G e0 rx 4096"
    slow = with_card("e0", rings={"most": {"rx": 4096}, "now": {"rx": 512}}, speed_mbps=100)
    assert examine(Inventory({"source": slow["source"]})) == []  # 3.4 ms at 100 Mb/s


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
    assert "core 1" in only(found_on(healthy(), pinned={"source": (1,)}), "irq-one-core").what
    assert found_on(healthy(), pinned={"source": (3,)}) == []


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
    assert found.price.percent == 20
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
    read = {"Linux": "ethtool -m e1", "FreeBSD": "ifconfig -vvv e1", "OpenBSD": "ifconfig e1 sff"}
    for system, command in read.items():
        facts = with_card("e1", optic={"findings": [said]})
        facts["sink"]["kernel"] = {"name": system}
        found = only(found_on(facts), "weak-optics")
        assert said in found.what and found.evidence[0].read == command


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


FREEBSD, WINDOWS = {"name": "FreeBSD"}, {"name": "Windows"}
ONE = {"most": {"combined": 63}, "now": {"combined": 1}}
VETH = {"kind": "veth", "channels": {"most": {"rx": 4, "tx": 4}, "now": {"rx": 1, "tx": 1}}}
FORWARDS = {"net.ipv4.ip_forward": "1", "net.inet.ip.forwarding": "1"}


@pytest.mark.parametrize(
    ("kernel", "of_card", "kind", "percent", "cure", "undo"),
    [
        (None, {"channels": ONE}, "one-queue", 75.0, "ethtool -L in0 combined 4", "ethtool -L in0 combined 1"),
        (None, {"channels": {"most": {"rx": 2}, "now": {"rx": 1}}}, "one-queue", 50.0, "ethtool -L in0 rx 2", "ethtool -L in0 rx 1"),
        (None, VETH | {"offloads": {"generic-receive-offload": True}}, "one-queue", 75.0, "ethtool -L in0 rx 4", "ethtool -L in0 rx 1"),
        (None, {"rx_queues": 1, "driver": "r8169"}, "one-queue", 75.0, "echo f > /sys/class/net/in0/queues/rx-0/rps_cpus",
         "echo 0 > /sys/class/net/in0/queues/rx-0/rps_cpus"),
        (None, {"channels": {"most": {"combined": 1}, "now": {"combined": 1}}, "driver": "virtio_net"}, "one-queue", None, "queues='4'", None),
        (FREEBSD, {"rx_queues": 1, "driver": "ix"}, "one-queue", 75.0, "override_nrxqs", None),
        (WINDOWS, {"rss": False, "rx_queues": 8}, "one-queue", 75.0, "Enable-NetAdapterRss -Name 'in0'", "Disable-NetAdapterRss -Name 'in0'"),
        (None, {"offloads": {"large-receive-offload": True}}, "offloads-on-router", None, "ethtool -K in0 lro off", "ethtool -K in0 lro on"),
        (FREEBSD, {"offloads": {"LRO": True, "TSO4": True, "RXCSUM": True}}, "offloads-on-router", None, "ifconfig in0 -lro -tso4",
         "ifconfig in0 lro tso4"),
        (FREEBSD, {"pause_frames": {"rx": True, "tx": False}}, "flow-control", None, "sysctl dev.in.0.fc=0", "sysctl dev.in.0.fc=1"),
        (WINDOWS, {"pause_frames": {"autonegotiate": True, "rx": True, "tx": True}}, "flow-control", None,
         "Set-NetAdapterAdvancedProperty -Name 'in0' -RegistryKeyword '*FlowControl' -RegistryValue 0",
         "Set-NetAdapterAdvancedProperty -Name 'in0' -RegistryKeyword '*FlowControl' -RegistryValue 4"),
        (WINDOWS, {"interrupt_moderation": True}, "interrupt-moderation", None,
         "Set-NetAdapterAdvancedProperty -Name 'in0' -RegistryKeyword '*InterruptModeration' -RegistryValue 0",
         "Set-NetAdapterAdvancedProperty -Name 'in0' -RegistryKeyword '*InterruptModeration' -RegistryValue 1"),
        (WINDOWS, {"driver_date": "2019-05-01"}, "driver-age", None, "install the vendor's current driver", None),
    ],
)  # fmt: skip
def test_a_cause_in_a_card_is_cured_in_the_words_of_its_system(
    kernel: dict[str, str] | None, of_card: dict[str, object], kind: str, percent: float | None, cure: str, undo: str | None
) -> None:
    facts = with_card("in0", **of_card)
    facts["dut"] |= {"today": "2026-11-27", "sysctls": FORWARDS if kind == "offloads-on-router" else {}} | (
        {"kernel": kernel} if kernel else {}
    )
    if kernel == WINDOWS:
        facts["dut"]["cpu"] = {"cores": 4}
    found = only(found_on(facts), kind)
    assert (found.where, found.price.percent) == (("dut:in0",), percent)
    assert (found.cure[0].command, found.undo[0].command) == (cure, undo) if undo else cure in found.cure[0].by_hand


@pytest.mark.parametrize(
    "of_card",
    [
        VETH, {"channels": {"most": {"rx": 1}, "now": {"rx": 1}}, "kind": "veth", "offloads": {"generic-receive-offload": True}},
        {"channels": {"most": {"combined": 63}, "now": {"combined": 2}}}, {"channels": ONE, "speed_mbps": 100},
        {"offloads": {"large-receive-offload": True}}, {"driver_date": "2025-01-01"}, {"driver_date": "2006-06-21"}, {"interrupt_moderation": False},
    ],
)  # fmt: skip
def test_a_card_in_order_has_none_of_them(of_card: dict[str, object]) -> None:
    facts = with_card("in0", **of_card)
    facts["dut"]["today"] = "2026-11-27"
    assert examine(Inventory({"dut": facts["dut"]})) == []


def test_the_firewall_of_a_windows_is_in_the_way_of_an_end_only() -> None:
    on = {"kernel": WINDOWS, "firewall": {"profiles_on": ["Public"]}, "cpu": {}}
    found = only(found_on(with_host("sink", **on)), "firewall-in-the-way")
    assert found.cure[0].command == "Set-NetFirewallProfile -Name Public -Enabled False"
    assert found_on(with_host("dut", **on)) == []
