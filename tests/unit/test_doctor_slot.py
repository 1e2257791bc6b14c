"""PCIe slots that spoil measurements: narrow, shared, with small payloads, asleep."""

from __future__ import annotations

import pytest

from patients import STEP, card, found_on, host, only, with_card, with_host


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
    assert "Gen1 x4" in found.what and "Gen3 x8" in found.what
    assert "0000:00:1c.0" in found.evidence[0].read


def test_a_slot_with_fewer_lanes_than_its_card_is_at_its_best() -> None:
    in_the_slot = [{**STEP, "link_width": 4}, {**STEP, "address": "0000:00:1c.0", "link_width": 4, "link_width_most": 4}]
    assert found_on(with_card("e0", pcie=in_the_slot)) == []  # Gen3 x4 carries 10 Gb/s, and the slot has no more lanes
    above = [{**STEP, "address": f"0000:{at}", "link_width": 4} for at in ("01:00.0", "00:1c.0")]
    switch = [{**STEP, "address": "0000:02:08.0"}, *above]
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


def test_a_link_below_its_best_that_still_carries_everything_costs_nothing_and_is_told_of_a_port_that_is_down() -> None:
    below = [{**STEP, "link_width": 4}]
    assert only(found_on(with_card("e0", pcie=below)), "narrow-slot").price.percent == 0
    facts = {"source": host(interfaces={"e0": card(speed_mbps=None, pcie=below)})}
    found = only(found_on(facts, links=()), "narrow-slot")
    assert found.price.percent is None and "is unknown" in found.price.source


def test_a_small_payload_costs_what_headers_take_of_a_link_that_is_full() -> None:
    way = [{**STEP, "link_gts": 5.0, "link_gts_most": 5.0, "link_width": 2, "link_width_most": 2, "payload_bytes": 128}]
    found = {f.kind: f for f in found_on(with_card("e0", pcie=way))}["small-payload"]
    assert found.price.percent == pytest.approx(100 * (1 - (128 / 152) / (256 / 280)))
    assert found.cure[0].by_hand and "pci=pcie_bus_perf" in found.cure[0].by_hand
    roomy = [{**STEP, "payload_bytes": 128}]
    assert only(found_on(with_card("e0", pcie=roomy)), "small-payload").price.percent == 0


def test_sleeping_links_have_no_price_of_their_own_and_say_why() -> None:
    facts = with_card("e0", pcie=[{**STEP, "aspm": "L1"}])
    facts["source"]["pcie_aspm_policy"] = "powersave"
    found = only(found_on(facts), "pcie-power")
    assert found.price.percent is None and "36.5 MB/s became 55.7" in found.price.source
    assert found.undo[0].command == "echo powersave > /sys/module/pcie_aspm/parameters/policy"
    facts["source"]["pcie_aspm_policy"] = "performance"  # and yet the link sleeps: the kernel has no say in it
    assert "BIOS" in (only(found_on(facts), "pcie-power").cure[0].by_hand or "")
