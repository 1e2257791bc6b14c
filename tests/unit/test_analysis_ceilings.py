"""Ceilings against published figures, to the digits that were printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.physics.ceilings import Ip, frames, tcp_goodput, udp_goodput
from dutlab.units import BpsL1

TEN_G, ONE_G = BpsL1(10e9), BpsL1(1e9)

# RFC 5180 appendix A prints whole frames a second, some cut and some rounded.
RFC5180 = [
    (64, 1_488_095, 14_880_952), (128, 844_594, 8_445_945), (256, 452_898, 4_528_985), (512, 234_962, 2_349_624),
    (1024, 119_731, 1_197_318), (1280, 96_153, 961_538), (1518, 81_274, 812_743), (1522, 81_063, 810_635),
    (2048, 60_444, 604_448), (9216, 13_534, 135_339),
]  # fmt: skip


def test_frame_rates_are_those_of_rfc_5180() -> None:
    for size, at_1g, at_10g in RFC5180:
        assert abs(frames(ONE_G, size).pps - at_1g) < 1 and abs(frames(TEN_G, size).pps - at_10g) < 1, size


def test_frame_rates_at_10m_are_those_of_rfc_2544_appendix_b_and_rfc_5180_misprints_4096_bytes() -> None:
    printed = {64: 14880, 128: 8445, 256: 4528, 512: 2349, 768: 1586, 1024: 1197, 1280: 961, 1518: 812}
    assert {size: int(frames(BpsL1(10e6), size).pps) for size in printed} == printed
    # Its table says 30,396 at 1G and 303,691 at 10G; its formula, 10^9 / (8 * (4096 + 20)), gives 30,369 and 303,692.
    assert int(frames(ONE_G, 4096).pps) == 10**9 // 32928 == 30_369
    assert int(frames(TEN_G, 4096).pps) == 10**10 // 32928 == 303_692


def test_a_mix_on_10g_and_the_layers_of_a_full_link() -> None:
    mean = (7 * 64 + 4 * 594 + 1518) / 12
    assert (round(mean, 2), round(frames(TEN_G, mean).pps)) == (361.83, 3_273_680)
    shortest = frames(TEN_G, 64)  # layers differ by preamble and gap
    assert (round(shortest.bps_l2 / 1e9, 3), shortest.bps_l1) == (7.619, 10e9)
    # APU6 review: 96.93 kpps of 64-byte frames were 65.14 Mb/s, 6.51 % of 1G, on the wire.
    assert round(96.93e3 * 84 * 8 / 1e6, 2) == 65.14
    assert round(96.93e3 / frames(ONE_G, 64).pps * 100, 2) == 6.51


@pytest.mark.parametrize(
    ("gbps", "digits", "found"),
    [
        (9.4928, 4, tcp_goodput(TEN_G, timestamps=False)),
        (9.4148, 4, tcp_goodput(TEN_G)),
        (9.3628, 4, tcp_goodput(TEN_G, ip=Ip.V6, timestamps=False)),
        (9.2848, 4, tcp_goodput(TEN_G, ip=Ip.V6)),
        (9.5709, 4, udp_goodput(TEN_G)),
        (9.4408, 4, udp_goodput(TEN_G, ip=Ip.V6)),
        (9.4682, 4, tcp_goodput(TEN_G, vlan_tags=1, timestamps=False)),
        (9.3904, 4, tcp_goodput(TEN_G, vlan_tags=1)),
        (9.9137, 4, tcp_goodput(TEN_G, mtu=9000, timestamps=False)),
        (9.9004, 4, tcp_goodput(TEN_G, mtu=9000)),
        (9.8783, 4, tcp_goodput(TEN_G, mtu=9000, ip=Ip.V6)),
        (9.9270, 4, udp_goodput(TEN_G, mtu=9000)),
        (9.9048, 4, udp_goodput(TEN_G, mtu=9000, ip=Ip.V6)),
        (0.94148, 5, tcp_goodput(ONE_G)),
        (23.537, 3, tcp_goodput(BpsL1(25e9))),
        (94.148, 3, tcp_goodput(BpsL1(100e9))),
        (0.0949, 4, tcp_goodput(BpsL1(100e6), timestamps=False)),  # RFC 6349 section 4.1.1: 94.9 Mb/s
    ],
)
def test_goodput_is_what_the_headers_leave(gbps: float, digits: int, found: float) -> None:
    assert round(found / 1e9, digits) == gbps


def test_a_published_factor_table_has_the_same_ceilings() -> None:
    # OpenBSD on an APU2, 1G: (1500-40)/(38+1500) and (9000-40)/(38+9000) of 119.2 MB/s (MB of 2^20 bytes).
    assert round(tcp_goodput(ONE_G, timestamps=False) / 8 / 2**20, 1) == 113.2
    assert round(tcp_goodput(ONE_G, mtu=9000, timestamps=False) / 8 / 2**20, 1) == 118.2


def test_an_mtu_without_room_for_the_headers_is_refused() -> None:
    with pytest.raises(ValueError, match="too small"):
        udp_goodput(TEN_G, mtu=28)


@given(st.floats(1e6, 1e12), st.integers(64, 9216))
def test_a_link_never_carries_more_than_its_speed(speed: float, size: int) -> None:
    ceiling = frames(BpsL1(speed), size)
    assert ceiling.bps_l2 < ceiling.bps_l1 == speed
    assert ceiling.pps * (size + 20) * 8 == pytest.approx(speed)
