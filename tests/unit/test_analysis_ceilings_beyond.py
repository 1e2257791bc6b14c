"""Tunnels, buses, drives, arrays and memory against published figures, to the digits that were printed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.physics.ceilings.ceiling import Ceiling
from dutlab.physics.ceilings.ethernet import Ip, ethernet_ceilings, tcp_ceilings, udp_ceilings
from dutlab.physics.ceilings.pcie import GENERATIONS, PcieLink, pcie_ceilings, shared_ceilings
from dutlab.physics.ceilings.storage import Array, DriveRating, disk_ceilings, memory_ceilings, raid_ceilings
from dutlab.physics.ceilings.tunnel import TUNNELS, Esp, TunnelWrapping, Vxlan, WireGuard, largest_inner, tunnel_ceilings
from dutlab.systems.modes import XFRM
from dutlab.units import BpsL1, Seconds
from golden import Golden
from refusal import refusals

TEN_G = BpsL1(10e9)
EXAMPLES = Path(__file__).parents[2] / "examples"
BY_NAME = {t.name: t for t in TUNNELS}


def esp(name: str, *, nat_t: bool = False) -> Esp:
    found = BY_NAME[f"esp-{name}"]
    assert isinstance(found, Esp)
    return replace(found, nat_t=nat_t)


def values(found: tuple[Ceiling, ...]) -> dict[str, float]:
    return {c.name: c.value for c in found}


# ---- tunnels


def test_published_calculators_agree_on_cbc_and_old_ciphers_are_the_sum_of_their_terms() -> None:
    # ipsec-overhead-calculator.netsec.us: 100 bytes inside IPv4 are 20 + 8 + 16 + 100 + 10 + 2 + 12 = 168.
    assert esp("aes-cbc-sha1").outer_bytes(100, Ip.V4) == 168
    assert esp("aes-cbc-sha1").formula(100, Ip.V4).startswith("20 + 8 + 16 + 100 + 10 + 2 + 12 ")
    assert esp("aes-cbc-sha256").outer_bytes(1500, Ip.V4) == 1564  # calculatorcove.com: 64 bytes of overhead
    assert esp("aes-cbc-sha1").outer_bytes(1438, Ip.V4) == 1496  # the largest in 1500 leaves four bytes unused
    for name, terms, inner in (
        ("null-sha256", (20, 8, 0, 1454, 0, 2, 16), 1454),  # RFC 2410 section 2: no IV; RFC 4868: ICV of 16
        ("3des-md5", (20, 8, 8, 1446, 0, 2, 12), 1446),  # RFC 2451 section 3: IV and block of 8; RFC 2403: ICV of 12
    ):
        assert esp(name).outer_bytes(inner, Ip.V4) == sum(terms)
        assert largest_inner(esp(name), Ip.V4, 1500) == inner


@pytest.mark.parametrize(
    ("kind", "outer", "most"),
    [
        (esp("aes-gcm"), Ip.V4, 1446), (esp("aes-gcm", nat_t=True), Ip.V4, 1438),
        (esp("chacha20-poly1305"), Ip.V4, 1446), (esp("aes-gcm-iiv"), Ip.V4, 1454),  # RFC 8750 saves 8 bytes
        (esp("aes-cbc-sha1"), Ip.V4, 1438), (esp("aes-cbc-sha1", nat_t=True), Ip.V4, 1422),
        (esp("aes-cbc-sha256"), Ip.V4, 1438), (esp("aes-cbc-sha256", nat_t=True), Ip.V4, 1422),
        (esp("aes-cbc-sha512"), Ip.V4, 1422), (esp("aes-cbc-sha512", nat_t=True), Ip.V4, 1406),
        (esp("aes-gcm"), Ip.V6, 1426), (esp("aes-gcm", nat_t=True), Ip.V6, 1418),
        (esp("aes-cbc-sha256"), Ip.V6, 1406), (esp("aes-cbc-sha256", nat_t=True), Ip.V6, 1406),
        (WireGuard(), Ip.V4, 1440), (WireGuard(), Ip.V6, 1420), (Vxlan(), Ip.V4, 1450), (Vxlan(), Ip.V6, 1430),
        (BY_NAME["gre"], Ip.V4, 1476), (BY_NAME["ipip"], Ip.V4, 1480), (BY_NAME["openvpn"], Ip.V4, 1448), (BY_NAME["gre"], Ip.V6, 1456),
    ],
    ids=str,
)  # fmt: skip
def test_the_largest_packet_in_an_mtu_of_1500(kind: TunnelWrapping, outer: Ip, most: int) -> None:
    assert largest_inner(kind, outer, 1500) == most


@pytest.mark.parametrize(
    ("kind", "outer", "inner", "mtu", "gbps"),
    [
        (esp("aes-gcm"), Ip.V4, None, 1500, 9.1417), (esp("aes-gcm", nat_t=True), Ip.V4, None, 1500, 9.0897),
        (esp("aes-cbc-sha256"), Ip.V4, None, 1500, 9.0897), (esp("aes-cbc-sha512"), Ip.V4, None, 1500, 8.9857),
        (WireGuard(), Ip.V4, None, 1500, 9.1027), (WireGuard(), Ip.V6, None, 1500, 8.9727), (WireGuard(), Ip.V4, 1420, 1500, 9.0909),
        (Vxlan(), Ip.V4, None, 1500, 9.1678), (Vxlan(), Ip.V4, 1500, 1550, 9.1940),
    ],
    ids=str,
)  # fmt: skip
def test_goodput_through_a_tunnel_on_10g(kind: TunnelWrapping, outer: Ip, inner: int | None, mtu: int, gbps: float) -> None:
    found = values(tunnel_ceilings(TEN_G, kind, outer=outer, mtu=mtu, inner=inner, timestamps=False))
    assert round(found["goodput_bps"] / 1e9, 4) == gbps


def test_the_table_of_the_example_says_what_is_computed() -> None:
    rows = [line.split("|") for line in (EXAMPLES / "ipsec/README.md").read_text().splitlines() if "| `esp-" in line]
    modes = {cells[2].split("`")[1]: cells[3].strip(" `") for cells in rows}
    assert modes == {mode.name: mode.tunnel.wrapping for mode in XFRM}
    for cells in rows:
        found = values(tunnel_ceilings(TEN_G, BY_NAME[cells[3].strip(" `")]))
        said = (cells[4].strip(), cells[5].strip())
        assert said == (f"{found['inner_mtu_bytes']:g}", f"{found['goodput_bps'] / 1e9:.2f} Gb/s"), cells[2]


def test_tcp_in_a_tunnel_has_timestamps_as_tcp_without_one_has() -> None:
    # 1440 bytes inside are 1388 of payload beside IPv4 20, TCP 20 and timestamps 12; outside they are 1500, and 38 around them.
    (goodput,) = (c for c in tunnel_ceilings(TEN_G, WireGuard()) if c.name == "goodput_bps")
    assert goodput.value == pytest.approx(10e9 * 1388 / 1538)
    plain = values(tcp_ceilings(TEN_G))["goodput_bps"]
    assert goodput.value / plain == pytest.approx(1388 / 1448)  # the same segments without 60 bytes of tunnel


def test_wireguard_pads_to_16_bytes_but_not_above_its_mtu() -> None:
    # 20 or 40 of IP, 8 of UDP, 16 of header, the packet, its padding, 16 of tag; wg-quick's MTU on 1500 is 1420, and nothing is padded above it.
    over4 = {1400: 1468, 1420: 1480, 1440: 1500, 100: 172, 112: 172}
    assert {inner: WireGuard().outer_bytes(inner, Ip.V4) for inner in over4} == over4
    assert [WireGuard().outer_bytes(inner, Ip.V6) for inner in (1420, 1400)] == [1500, 1488]
    assert [values(tunnel_ceilings(TEN_G, Vxlan(), outer=ip))["overhead_bytes"] for ip in Ip] == [50, 70]


@given(st.sampled_from(TUNNELS), st.sampled_from(Ip), st.integers(200, 9000))
def test_no_larger_packet_fits_than_the_largest(kind: TunnelWrapping, outer: Ip, mtu: int) -> None:
    most = largest_inner(kind, outer, mtu)
    assert kind.outer_bytes(most, outer, mtu) <= mtu < kind.outer_bytes(most + 1, outer, mtu)


# ---- PCI Express


def test_gigabytes_a_second_of_a_lane_and_of_a_link() -> None:
    lanes = {1: 0.25, 2: 0.5, 3: 0.9846, 4: 1.9692, 5: 3.9385, 6: 7.375}
    assert {gen: round(PcieLink(gen, 1).bytes_per_s / 1e9, 4) for gen in lanes} == lanes
    links = {(3, 4): 3.938, (3, 8): 7.877, (4, 4): 7.877, (4, 16): 31.508, (5, 4): 15.754, (5, 16): 63.015, (6, 16): 118.0}
    assert {link: round(PcieLink(*link).bytes_per_s / 1e9, 3) for link in links} == links


@pytest.mark.parametrize(
    ("link", "payload", "to_host", "from_host"),
    [
        (PcieLink(3, 4), 128, 3.317, None), (PcieLink(3, 4), 256, 3.601, None), (PcieLink(3, 4), 512, 3.762, None),
        (PcieLink(4, 4), 256, 7.202, None), (PcieLink(4, 4), 512, 7.524, None),
        (PcieLink(4, 16), 256, 28.807, 29.225), (PcieLink(4, 16), 512, 30.097, 30.323),
    ],
    ids=str,
)  # fmt: skip
def test_what_packet_headers_leave_of_a_link(link: PcieLink, payload: int, to_host: float, from_host: float | None) -> None:
    found = values(pcie_ceilings(link, payload=payload))
    assert round(found["to_host_bytes_per_s"] / 1e9, 3) == to_host
    assert from_host is None or round(found["from_host_bytes_per_s"] / 1e9, 3) == from_host


def test_the_share_of_a_packet_that_is_payload() -> None:
    for payload, writes, completions in ((128, 0.8421, 0.8649), (256, 0.9143, 0.9275), (512, 0.9552, 0.9624)):
        found = values(pcie_ceilings(PcieLink(3, 1), payload=payload))
        assert round(found["to_host_bytes_per_s"] / found["link_bytes_per_s"], 4) == writes
        assert round(found["from_host_bytes_per_s"] / found["link_bytes_per_s"], 4) == completions


def test_32_drives_behind_two_uplinks_are_oversubscribed_four_times() -> None:
    found = values(shared_ceilings(PcieLink(4, 4), 32, PcieLink(4, 16), 2, payload=256, spec_bytes_per_s=7e9))
    assert round(found["oversubscription_ratio"], 2) == 4.00
    assert round(found["uplinks_bytes_per_s"] / 1e9, 1) == 57.6
    assert found["spec_sum_bytes_per_s"] == 224e9
    assert round(found["reachable_ratio"] * 100, 1) == 25.7


@given(st.sampled_from(sorted(GENERATIONS)), st.sampled_from([1, 2, 4, 8, 16]))
def test_a_line_code_never_adds_bytes(gen: int, width: int) -> None:
    assert PcieLink(gen, width).bytes_per_s < GENERATIONS[gen].gigatransfers * 1e9 / 8 * width


# ---- drives, arrays, memory


def test_megabytes_a_second_of_a_cable_and_gigabytes_of_memory() -> None:
    cables = {("sata3", 1): 600, ("sas1", 1): 300, ("sas2", 1): 600, ("sas3", 1): 1200, ("sas3", 4): 4800, ("sas4", 1): 2400}
    assert {cable: values(disk_ceilings(*cable))["link_bytes_per_s"] / 1e6 for cable in cables} == pytest.approx(cables)
    memory = {(3200, 1): 25.6, (3200, 2): 51.2, (4800, 8): 307.2, (4800, 12): 460.8}
    assert {of: values(memory_ceilings(*of))["memory_bytes_per_s"] / 1e9 for of in memory} == pytest.approx(memory)


def test_a_mix_of_reads_and_writes_as_the_calculators_have_it_and_as_it_must_be() -> None:
    found = values(raid_ceilings(Array(5, 9), DriveRating(read_iops=100), write_share=0.16))
    assert found["mix_iops"] == pytest.approx(792)  # raw 900, 16 % writes
    # Of every 100 requests 84 cost one and 16 cost four: 148 of the 900 that the drives do in a second.
    assert found["mix_conserved_iops"] == pytest.approx(900 / 1.48)


def test_random_writes_of_an_array() -> None:
    classic = {10: 1.6, 5: 0.8, 6: 0.533}
    of = {level: values(raid_ceilings(Array(level, 16), DriveRating(write_iops=0.2e6)))["random_write_iops"] for level in classic}
    assert {level: round(iops / 1e6, 3) for level, iops in of.items()} == classic
    for level, millions in ((5, 1.333), (6, 0.889)):  # drives that read faster than they write
        found = values(raid_ceilings(Array(level, 16), DriveRating(read_iops=1e6, write_iops=0.2e6)))
        assert round(found["random_write_ssd_iops"] / 1e6, 3) == millions
    for level, drives in ((5, 3), (6, 4), (6, 5)):
        # N - m - 1 reads and 1 + m writes are N requests, so at one rate for both a small array does what one drive does.
        found = values(raid_ceilings(Array(level, drives), DriveRating(read_iops=100e3, write_iops=100e3)))
        assert found["random_write_ssd_iops"] == pytest.approx(100e3)
        assert found["random_write_ssd_iops"] == pytest.approx(found["random_write_md_iops"])
    assert [Array(*of).md_write_cost for of in ((5, 3), (5, 16), (6, 5))] == [3, 4, 5], "md reads the rest of a small stripe instead"


def test_nested_levels_are_their_groups_together() -> None:
    drive = DriveRating(1e6, 2e5, 7e9, 5e9)
    one, four = (values(raid_ceilings(a, drive, write_share=0.3, degraded=True)) for a in (Array(5, 8), Array(50, 32, 4)))
    assert four == {name: pytest.approx(4 * value) for name, value in one.items()}
    assert values(raid_ceilings(Array(60, 32, 2), drive))["sequential_write_bytes_per_s"] == pytest.approx((32 - 4) * 5e9)
    assert str(Array(60, 32, 2)) == "RAID 60 of 32 in 2 groups"


def test_reads_and_writes_with_one_drive_gone() -> None:
    # Healthy, each is drives × one drive. RAID 10 of 8: four pairs, each gives what the pair with one drive left gives.
    for array, iops, rate in (
        (Array(1, 2), 1.0, 1.0), (Array(10, 8), 4.0, 4.0), (Array(5, 8), 4.0, 7.0), (Array(6, 8), 7 * 8 / 13, 7.0), (Array(50, 16, 2), 8.0, 14.0),
    ):  # fmt: skip
        found = values(raid_ceilings(array, DriveRating(read_iops=1.0, read_bytes_per_s=1.0), degraded=True))
        assert found["degraded_random_read_iops"] == pytest.approx(iops), array
        assert found["degraded_sequential_read_bytes_per_s"] == pytest.approx(rate), array
    # Counted stripe by stripe. RAID 5 of 4: parity gone 0 reads and 1 write, block gone 2 and 1, another block gone 2 and 2, in 1, 1 and 2 of 4
    # stripes: 1.5 reads and 1.5 writes on 3 drives. RAID 6 of 8: a parity gone 2 and 2, block gone 5 and 2, another 3 and 3, in 2, 1 and 5 of 8.
    for array, iops in (
        (Array(5, 4), 3 / (1.5 + 1.5)), (Array(5, 16), 15 / (42 / 16 + 30 / 16)), (Array(6, 8), 7 / (24 / 8 + 21 / 8)),
        (Array(50, 16, 2), 2 * 7 / (18 / 8 + 14 / 8)), (Array(10, 8), 4.0), (Array(1, 2), 1.0),
    ):  # fmt: skip
        found = values(raid_ceilings(array, DriveRating(read_iops=1.0, write_iops=1.0), degraded=True))
        assert found["degraded_random_write_iops"] == pytest.approx(iops), array
    for level, times_one_drive in ((5, 8.0), (6, 8.28)):
        found = values(raid_ceilings(Array(level, 16), DriveRating(read_iops=1.0), degraded=True))
        assert (round(found["degraded_random_read_iops"], 2), found["random_read_iops"]) == (times_one_drive, 16)


def test_writes_with_one_drive_gone_are_bounded_by_each_kind_of_request() -> None:
    (found,) = [
        c
        for c in raid_ceilings(Array(5, 16), DriveRating(read_iops=10.0, write_iops=1.0), degraded=True)
        if "write_iops" in c.name and "gone" in c.what
    ]
    assert found.value == pytest.approx(15 / (42 / 16 / 10 + 30 / 16))
    alone = values(raid_ceilings(Array(5, 16), DriveRating(write_iops=1.0), degraded=True))
    assert alone["degraded_random_write_iops"] == pytest.approx(15 * 16 / 72)


def test_the_reviewed_array_of_32_drives_has_the_sums_its_reviewers_computed() -> None:
    found = values(raid_ceilings(Array(5, 32), DriveRating(610_200, 75_000, 2800e6, 2400e6)))
    assert round(found["random_read_iops"] / 1e6, 1) == 19.5
    assert found["sequential_write_bytes_per_s"] == 31 * 2400e6


def test_full_stripes_give_up_parity_or_copies() -> None:
    rate = DriveRating(write_bytes_per_s=1.0)
    of = {level: values(raid_ceilings(Array(level, 8), rate))["sequential_write_bytes_per_s"] for level in (0, 1, 5, 6, 10)}
    assert of == {0: 8, 1: 1, 5: 7, 6: 6, 10: 4}


# ---- Ethernet with its formulas


def test_every_formula_computes_its_value() -> None:
    found = (
        *ethernet_ceilings(TEN_G, {"68": 68, "imix": 4342 / 12}),
        *tcp_ceilings(TEN_G, vlan_tags=2, rtt=Seconds(0.001)),
        *udp_ceilings(TEN_G, mtu=9000, ip=Ip.V6),
        *pcie_ceilings(PcieLink(5, 8), payload=512),
        *shared_ceilings(PcieLink(4, 4), 32, PcieLink(4, 16), 2, payload=256, spec_bytes_per_s=7e9),
        *disk_ceilings("sas4", 8),
        *raid_ceilings(Array(6, 16), DriveRating(1e6, 2e5, 7e9, 5e9), write_share=0.3, degraded=True),
        *raid_ceilings(Array(50, 32, 4), DriveRating(1e6, 2e5, 7e9, 5e9), degraded=True),
        *raid_ceilings(Array(10, 8), DriveRating(1e6, 2e5, 7e9, 5e9), degraded=True),
        *tunnel_ceilings(TEN_G, WireGuard(), inner=1400)[1:],
        *memory_ceilings(4800, 12),
        *(c for t in TUNNELS for c in tunnel_ceilings(TEN_G, t) if c.name in {"goodput_bps", "overhead_bytes", "outer_bytes"}),
    )
    for c in found:
        said = c.formula.partition(" (IP")[0].replace("×", "*").replace(" s", "")
        assert eval(said, {"__builtins__": {}, "min": min}) == pytest.approx(c.value, rel=1e-6), c
        assert c.source


def test_a_vlan_tag_lengthens_the_frame_and_the_window_is_of_full_segments() -> None:
    assert round(values(ethernet_ceilings(TEN_G, {"1522": 1522}))["frames_pps"]) == 810_636  # RFC 5180 prints 810,635 for 1522
    # RFC 6349 section 3.3.1 has 100 Mb/s and 25 ms as 312.5 kB; of the goodput of full segments it is 94.9 % of that.
    found = values(tcp_ceilings(BpsL1(100e6), timestamps=False, rtt=Seconds(0.025)))
    assert found["window_bytes"] == pytest.approx(312.5e3 * 1460 / 1538)


def test_what_cannot_be_is_refused_with_all_that_is_wrong(golden: Golden) -> None:
    arrays = ((7, 8), (5, 2), (10, 5), (6, 3), (50, 12), (50, 12, 5), (60, 6, 2), (5, 6, 2))
    calls: list[Callable[[], object]] = [
        lambda: tunnel_ceilings(TEN_G, WireGuard(), inner=1500),
        lambda: PcieLink(7, 3),
        lambda: pcie_ceilings(PcieLink(6, 4), payload=300),
        *(partial(Array, *array) for array in arrays),
        lambda: raid_ceilings(Array(10, 4), DriveRating(write_iops=-1, read_bytes_per_s=float("nan")), write_share=2),
        lambda: raid_ceilings(Array(10, 4), DriveRating()),
        lambda: raid_ceilings(Array(0, 4), DriveRating(read_iops=1.0), degraded=True),
        lambda: ethernet_ceilings(TEN_G, {"60": 60}),
        *(partial(ethernet_ceilings, BpsL1(speed), {"64": 64}) for speed in (0.0, -1.0, float("nan"), float("inf"))),
    ]
    golden.check("refusals-ceilings.txt", refusals(ValueError, calls))
