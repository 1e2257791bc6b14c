from __future__ import annotations

import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.hosts.optics import dbm, of_dump, of_ethtool, of_freebsd, of_openbsd, of_sff8472, of_sff8636, optic_of
from optic_outputs import FREEBSD_QSFP, FREEBSD_SFP, JSON_LATER, JSON_QSFP, JSON_SFP, NEW_RX, OLD_RX, OPENBSD, OPENBSD_QSFP, QSFP, SFP


def test_values_of_an_sfp_are_judged_by_its_thresholds_not_by_its_flags() -> None:
    optic = of_ethtool(SFP)
    assert optic is not None
    assert (optic.vendor, optic.part, optic.wavelength_nm) == ("ACME OPTICS", "AC-10G-SR", 850.0)
    assert optic.values == {
        "tx_bias_ma": (6.5,),
        "tx_power_mw": (0.5,),
        "rx_power_mw": (0.02,),
        "temperature_c": (86.5,),
        "voltage_v": (3.3,),
    }
    assert optic.limits["temperature_c"] == {"high_alarm": 90.0, "high_warning": 85.0, "low_alarm": -10.0}
    assert [str(f) for f in optic.findings()] == [
        "rx power of lane 0 is -16.99 dBm, below its low alarm threshold -16.00 dBm",
        "temperature of lane 0 is 86.5 c, above its high warning threshold 85 c",
    ]


def test_lanes_of_a_qsfp_are_told_apart() -> None:
    optic = of_ethtool(QSFP)
    assert optic is not None
    assert optic.values == {"tx_bias_ma": (7.0, 0.0), "tx_power_mw": (1.0, 0.9)}
    assert [(f.quantity, f.lane, f.limit) for f in optic.findings()] == [("tx_bias_ma", 1, "low_alarm")]


def test_what_ethtool_says_of_a_port_without_a_module_is_none() -> None:
    assert of_ethtool("netlink error: No such device\n") is None


def test_raw_pages_of_an_sfp_in_the_units_of_sff_8472() -> None:
    a0 = bytearray(256)
    a0[20:36], a0[40:56], a0[60:62], a0[92] = b"ACME OPTICS     ", b"AC-10G-SR       ", (850).to_bytes(2, "big"), 0x68
    a2 = bytearray(256)
    struct.pack_into(">hhhh", a2, 0, 90 * 256, -10 * 256, 85 * 256, -5 * 256)
    struct.pack_into(">HHHH", a2, 32, 0x2710, 251, 0x2710, 398)  # 0x2710 is 1 mW, 0 dBm
    struct.pack_into(">hHHHH", a2, 96, -(256 // 2), 33_000, 3250, 0x2710, 300)
    optic = of_sff8472(bytes(a0), bytes(a2))
    assert (optic.vendor, optic.part, optic.wavelength_nm) == ("ACME OPTICS", "AC-10G-SR", 850.0)
    assert optic.values == {
        "temperature_c": (-0.5,),
        "voltage_v": (3.3,),
        "tx_bias_ma": (6.5,),
        "tx_power_mw": (1.0,),
        "rx_power_mw": (0.03,),
    }
    assert optic.limits["temperature_c"] == {"high_alarm": 90.0, "low_alarm": -10.0, "high_warning": 85.0, "low_warning": -5.0}
    assert optic.limits["rx_power_mw"]["low_warning"] == pytest.approx(0.0398)
    assert dbm(optic.values["tx_power_mw"][0]) == 0.0
    assert [f.limit for f in optic.findings() if f.quantity == "rx_power_mw"] == ["low_warning"]


def test_pages_that_are_too_short_are_refused() -> None:
    with pytest.raises(ValueError, match="A0h has 8 bytes"):
        of_sff8472(bytes(8))
    with pytest.raises(ValueError, match="A2h has 20 bytes"):
        of_sff8472(bytes(92) + b"\x68" + bytes(163), bytes(20))
    with pytest.raises(ValueError, match="page 00h has 128 bytes"):
        of_sff8636(bytes(128))
    with pytest.raises(ValueError, match="identifier 0e"):
        of_dump(b"\x0e" + bytes(255))
    assert of_sff8472(bytes(256), bytes(256)).values == {}  # no diagnostics


def test_a_module_that_stores_raw_counts_is_calibrated() -> None:
    """SFF-8472 section 9.3: value = slope x count + offset; received power is a polynomial of the fourth degree."""
    a0, a2 = bytearray(256), bytearray(256)
    a0[92] = 0x58
    struct.pack_into(">fffff", a2, 56, 0, 0, 0, 0.5, 20)  # 0.5 x count + 20, in 0.1 uW
    struct.pack_into(">Hh", a2, 76, 0x0200, -100)  # bias: twice the count less 100, in 2 uA
    struct.pack_into(">Hh", a2, 80, 0x0080, 0)  # transmitted power: half the count
    struct.pack_into(">Hh", a2, 84, 0x0100, 256)  # temperature: one degree more
    struct.pack_into(">Hh", a2, 88, 0x0100, 0)
    struct.pack_into(">hHHHH", a2, 96, 30 * 256, 33_000, 1000, 20_000, 960)
    struct.pack_into(">H", a2, 34, 460)  # low alarm of received power, a count too
    optic = of_sff8472(bytes(a0), bytes(a2))
    assert optic.values == {
        "temperature_c": (31.0,),
        "voltage_v": (3.3,),
        "tx_bias_ma": (3.8,),
        "tx_power_mw": (1.0,),
        "rx_power_mw": (0.05,),
    }
    assert optic.limits["rx_power_mw"]["low_alarm"] == pytest.approx(0.025)


def qsfp_dump() -> bytearray:
    """As drivers hand it out: the lower page, then upper pages 00h to 03h; 640 bytes."""
    raw = bytearray(640)
    raw[0], raw[130], raw[131], raw[147] = 0x11, 0x0C, 0x04, 0x00
    raw[148:164], raw[168:184], raw[196:212], raw[212:218] = b"ACME OPTICS     ", b"AC-40G-SR4      ", b"A1234           ", b"240618"
    raw[186:188] = (850 * 20).to_bytes(2, "big")
    struct.pack_into(">h", raw, 22, 41 * 256 + 128)
    struct.pack_into(">H", raw, 26, 32_500)
    struct.pack_into(">HHHH", raw, 34, 0x2710, 5000, 100, 0x2710)
    struct.pack_into(">HHHH", raw, 42, 3250, 3250, 3250, 0)
    struct.pack_into(">HHHH", raw, 50, 0x2710, 0x2710, 0x2710, 0x2710)
    struct.pack_into(">hhhh", raw, 512, 75 * 256, -5 * 256, 70 * 256, 0)
    struct.pack_into(">HHHH", raw, 512 + 48, 21_878, 446, 17_378, 1122)
    struct.pack_into(">HHHH", raw, 512 + 56, 5000, 1000, 4500, 1500)
    return raw


def test_raw_pages_of_a_qsfp_in_the_places_of_sff_8636() -> None:
    optic = of_dump(bytes(qsfp_dump()))
    assert (optic.form, optic.kind, optic.connector) == ("QSFP28", "40GBASE-SR4", "MPO 1x12")
    assert (optic.vendor, optic.part, optic.serial, optic.made, optic.wavelength_nm) == (
        "ACME OPTICS", "AC-40G-SR4", "A1234", "2024-06-18", 850.0,
    )  # fmt: skip
    assert optic.values["temperature_c"] == (41.5,)
    assert optic.values["voltage_v"] == (3.25,)
    assert optic.values["rx_power_mw"] == (1.0, 0.5, 0.01, 1.0)
    assert optic.limits["temperature_c"] == {"high_alarm": 75.0, "low_alarm": -5.0, "high_warning": 70.0, "low_warning": 0.0}
    assert not any(optic.limits["voltage_v"].values())  # it has none, so nothing is beyond them
    assert [(f.quantity, f.lane, f.limit) for f in optic.findings()] == [
        ("tx_bias_ma", 3, "low_alarm"),
        ("rx_power_mw", 2, "low_alarm"),
    ]


def test_a_copper_cable_has_neither_wavelength_nor_values() -> None:
    raw = qsfp_dump()
    raw[147], raw[22:24] = 0xA0, b"\0\0"
    assert (of_dump(bytes(raw)).wavelength_nm, of_dump(bytes(raw)).values) == (None, {})
    a0 = bytearray(256)
    a0[0], a0[8], a0[60:62] = 0x03, 0x04, b"\x01\x00"
    assert of_dump(bytes(a0)).wavelength_nm is None


def test_a_module_that_is_not_ready_says_so() -> None:
    raw = qsfp_dump()
    raw[2] = 0x01
    assert of_dump(bytes(raw)).values == {}
    assert of_dump(bytes(raw)).note == "the module's values were not ready"


@pytest.mark.parametrize("text", [JSON_SFP, JSON_LATER])
def test_json_of_an_sfp_keeps_value_and_thresholds_apart(text: str) -> None:
    optic = of_ethtool(text)
    assert optic is not None
    assert (optic.form, optic.kind, optic.connector, optic.serial, optic.made) == ("SFP", "1000BASE-LX", "LC", "A77", "2024-06-18")
    assert optic.values == {
        "tx_bias_ma": (15.604,),
        "tx_power_mw": (0.2461,),
        "rx_power_mw": (0.003,),
        "temperature_c": (26.5898,),
        "voltage_v": (3.3812,),
    }
    assert optic.limits["rx_power_mw"] == {"high_alarm": 0.5012, "low_alarm": 0.004, "low_warning": 0.005}
    assert [str(f) for f in optic.findings()] == ["rx power of lane 0 is -25.23 dBm, below its low alarm threshold -23.98 dBm"]


@pytest.mark.parametrize("received", [OLD_RX, NEW_RX])
def test_both_shapes_of_received_power_are_read(received: str) -> None:
    optic = of_ethtool(JSON_QSFP.replace('"RX"', received))
    assert optic is not None
    assert optic.values["rx_power_mw"] == (0.0388, 0.041, 0.0417, 0.0392)
    assert [(f.quantity, f.lane) for f in optic.findings()] == [("tx_bias_ma", 1)]


def test_freebsds_words_old_and_new() -> None:
    old, new = of_freebsd(FREEBSD_QSFP), of_freebsd(FREEBSD_SFP)
    assert old is not None
    assert new is not None
    assert (old.form, old.kind, old.connector, old.part) == ("QSFP+", "40GBASE-LR4", "MPO Parallel Optic", "OP-QSFP-40G-LR4")
    assert old.values["rx_power_mw"] == (0.4775, 0.0)
    assert old.values["tx_power_mw"] == (2.7925, 2.799)
    assert (new.vendor, new.serial, new.made) == ("ACME OPTICS", "A1", "2019-08-07")
    assert new.values == {"temperature_c": (-3.5,), "voltage_v": (3.3,), "rx_power_mw": (0.5,), "tx_bias_ma": (6.5,)}
    assert new.findings() == []
    assert "no thresholds" in new.note
    page = bytearray(128)
    page[60:62] = (850).to_bytes(2, "big")
    lines = [page[i : i + 16].hex(" ").upper() for i in range(0, 128, 16)]
    dumped = of_freebsd(FREEBSD_SFP + "".join(f"\t{line}\n" for line in lines))
    assert dumped is not None
    assert dumped.wavelength_nm == 850.0
    ended = of_freebsd((FREEBSD_SFP + "\n".join(f"\t{line}" for line in lines)).strip())
    assert ended is not None
    assert ended.wavelength_nm == 850.0, "the dump ends the output, without a blank behind its last byte (ifconfig_netlink.c)"


def test_openbsds_words_are_judged_by_their_limits_not_by_its_alarms() -> None:
    optic = of_openbsd(OPENBSD)
    assert optic is not None
    assert (optic.form, optic.connector, optic.wavelength_nm) == ("SFP", "LC", 850.0)
    assert (optic.vendor, optic.part, optic.serial, optic.made) == ("FINISAR CORP.", "FTLX8571D3BCL", "AQG28W3", "2013-10-19")
    assert optic.values["voltage_v"] == (3.36,)
    assert [(f.quantity, f.limit) for f in optic.findings()] == [("rx_power_mw", "low_alarm")]


def test_openbsds_channels_are_lanes_and_uncalibrated_values_are_left_out() -> None:
    optic = of_openbsd(OPENBSD_QSFP)
    assert optic is not None
    assert (optic.part, optic.serial) == ("AC-100G", "B1")
    assert optic.values["tx_bias_ma"] == (6.5, 0.0)
    assert [(f.quantity, f.lane) for f in optic.findings()] == [("tx_bias_ma", 1), ("rx_power_mw", 1)]
    external = of_openbsd(OPENBSD.replace("\tvoltage", "\tcalibration: external (WARNING: needs more code)\n\tvoltage"))
    assert external is not None
    assert external.values == {}
    assert "calibration" in external.note


@given(st.binary(max_size=700), st.sampled_from([b"\x03", b"\x0c", b"\x0d", b"\x11"]))
def test_any_pages_end_in_an_optic_or_a_reason(raw: bytes, kind: bytes) -> None:
    try:
        optic = of_dump(kind + raw)
    except ValueError as e:
        assert "bytes" in str(e)  # noqa: PT017 both ends are right
        return
    assert json.dumps(optic.to_json(), allow_nan=False)
    assert all(f.lane < 4 for f in optic.findings())


@given(st.text() | st.text('[]{}":, \n\t()-.0123456789abcdefRXTdBmin', max_size=200))
def test_any_text_ends_in_an_optic_or_none(text: str) -> None:
    optic = optic_of(text)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)


@given(st.binary(min_size=512, max_size=512))
def test_any_calibration_gives_numbers(raw: bytes) -> None:
    external = bytearray(raw)
    external[0], external[92] = 0x03, 0x58
    assert json.dumps(of_dump(bytes(external)).to_json(), allow_nan=False)


@given(st.sampled_from([SFP, QSFP, JSON_SFP, JSON_LATER, FREEBSD_QSFP, FREEBSD_SFP, OPENBSD, OPENBSD_QSFP]), st.data())
def test_real_output_that_was_cut_or_damaged_ends_in_an_optic_or_none(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text('0123456789.-:{}[]()" \tNaIinfdBm', max_size=6)) + text[at + data.draw(st.integers(0, 5)) :]
    optic = optic_of(damaged)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)


@given(st.integers(0, 639), st.integers(0, 255))
def test_one_wrong_byte_changes_an_optic_but_breaks_nothing(at: int, byte: int) -> None:
    raw = qsfp_dump()
    raw[at] = byte
    if at:
        assert json.dumps(of_dump(bytes(raw)).to_json(), allow_nan=False)
