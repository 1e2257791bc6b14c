"""Quantities: what users write, and the arithmetic of the wire against figures from the standards."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.units import (
    RFC2544_FRAME_SIZES,
    BpsL1,
    Pps,
    UnitError,
    l1_rate,
    l2_rate,
    line_rate,
    parse_bit_rate,
    parse_duration,
    parse_pps,
    si,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30s", 30),
        ("500ms", 0.5),
        ("2 min", 120),
        ("1.5h", 5400),
        (".5s", 0.5),
        *((f"10{u}", 1e-5) for u in ("us", "µs", "μs")),
        ("1d", 86400),
    ],
)
def test_durations_are_read_with_their_unit(text, seconds):
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("text", "bps"),
    [("10G", 10e9), ("2.5 Gbit/s", 2.5e9), ("100M", 100e6), ("100Mbps", 100e6), ("1b/s", 1), ("1.6T", 1.6e12), ("9600bit/s", 9600)],
)
def test_bit_rates_have_decimal_prefixes(text, bps):
    assert parse_bit_rate(text) == pytest.approx(bps)


@pytest.mark.parametrize(
    ("parse", "example", "texts"),
    [
        (parse_duration, "as in 30s", ("30", "", "s", "-1s", "1e3s", "30 sec", "1m", "٣s", "1" * 400 + "s", "5s\n5s", "nans", "infs")),
        (parse_bit_rate, r"10 ?Gbit/s", ("10 Gb", "10Gbit", "10 GB", "10Gbits")),  # an amount of bits, without its time
        (parse_bit_rate, "as in 10G", ("10", "", "10 g", "10 Gibit/s", "G", "-10G", "10 Gb/min")),
        (parse_pps, "as in 100kpps", ("100k", "100", "100 packets", "max")),
    ],
)
def test_what_is_no_quantity_is_refused_with_an_example(parse, example, texts):
    for text in texts:
        with pytest.raises(UnitError, match=example):
            parse(text)


def test_frame_rates_are_read_with_their_unit():
    assert parse_pps("100kpps") == 100e3
    assert parse_pps("1.488 Mpps") == pytest.approx(1.488e6)
    assert parse_pps("0.0010000000000000002pps") == 0.0010000000000000002


# RFC 2544 appendix B gives these for 10 Mb/s Ethernet, cut to whole frames.
@pytest.mark.parametrize(
    ("size", "fps"), [(64, 14880), (128, 8445), (256, 4528), (512, 2349), (768, 1586), (1024, 1197), (1280, 961), (1518, 812)]
)
def test_line_rate_is_that_of_rfc_2544_appendix_b(size, fps):
    assert int(line_rate(BpsL1(10e6), size)) == fps


def test_shortest_frames_fill_10g_at_14_88_mpps_and_published_rates_agree():
    # IEEE 802.3: 7 + 1 + 12 bytes around a frame; 10^10 / ((64 + 20) * 8)
    assert line_rate(BpsL1(10e9), 64) == pytest.approx(14_880_952.38, abs=0.01)
    # A published rate agrees with its published bit rate.
    # APU6 load test: 96.93 kpps of 64-byte frames were given as 65.14 Mb/s on the wire
    assert l1_rate(Pps(96.93e3), 64) == pytest.approx(65.14e6, rel=1e-4)


@given(st.floats(1e3, 1e12), st.sampled_from(RFC2544_FRAME_SIZES))
def test_frames_at_line_rate_fill_the_line(speed, size):
    rate = line_rate(BpsL1(speed), size)
    assert l1_rate(rate, size) == pytest.approx(speed)
    assert l2_rate(rate, size) == pytest.approx(speed * size / (size + 20))


@given(st.text(max_size=30))
def test_any_text_is_a_quantity_or_a_unit_error(text):
    for parse in (parse_duration, parse_bit_rate, parse_pps):
        said = repr(text)
        try:
            value = parse(text)
        except UnitError as error:
            value, said = 0.0, str(error)
        assert 0 <= value < float("inf")
        assert repr(text) in said


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1488095, "1.49 Mpps"), (0, "0 pps"), (999.6, "1 kpps"), (999.4, "999 pps"), (0.25, "0.25 pps"), (2e15, "2000 Tpps"),
        (-1500, "-1.5 kpps"), (14.88e6, "14.9 Mpps"), (1000, "1 kpps"), (999_900_000, "1 Gpps"),
    ],
)  # fmt: skip
def test_si_keeps_figures_readable(value, text):
    assert si(value, "pps") == text


@given(st.floats(0, 1e15), st.integers(3, 6))
def test_si_never_shows_an_exponent_and_keeps_its_digits(value, digits):
    number, unit = si(value, "pps", digits).split(" ")
    scale = {"pps": 1, "kpps": 1e3, "Mpps": 1e6, "Gpps": 1e9, "Tpps": 1e12}[unit]
    assert "e" not in number or value < 1
    assert float(number) * scale == pytest.approx(value, rel=0.51 * 10 ** (1 - digits), abs=1e-300)
