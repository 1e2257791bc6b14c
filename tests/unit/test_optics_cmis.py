"""Modules with CMIS, as QSFP-DD and OSFP are: pages as literal bytes, and what ethtool prints of them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.hosts.optics import Optic, of_cmis, of_dump, of_ethtool
from optic_outputs import CMIS, JSON_CMIS

LOWER, PAGE_00, PAGE_01, PAGE_02, PAGE_11 = 0, 128, 256, 384, 640
"""Where each page lies in a dump."""


def put(raw: bytearray, page: int, offset: int, hexadecimal: str) -> None:
    """Bytes at the offset that the specification gives them: upper pages begin at 128."""
    at = page + (offset - 128 if page else offset)
    data = bytes.fromhex(hexadecimal)
    raw[at : at + len(data)] = data


def dump() -> bytearray:
    """A 400GBASE-DR4 module in an OSFP port: lower memory, pages 00h, 01h, 02h, 10h and 11h, 768 bytes."""
    raw = bytearray(768)
    put(raw, LOWER, 0, "19 50 00 06")  # OSFP, revision 5.0, paged memory, ModuleReady
    put(raw, LOWER, 14, "2e 80 80 e8")  # 46.5 degrees, 33000 x 100 uV
    put(raw, LOWER, 85, "02 11 1c 44 0f")  # single mode; host 11h, media 1Ch: 400GBASE-DR4; four lanes each
    put(raw, PAGE_00, 129, b"ACME OPTICS     ".hex())
    put(raw, PAGE_00, 148, b"AC-400G-DR4     ".hex())
    put(raw, PAGE_00, 166, b"X4210           ".hex())
    put(raw, PAGE_00, 182, b"240531  ".hex())
    put(raw, PAGE_00, 203, "0c")  # MPO 1x12
    put(raw, PAGE_00, 210, "f0 00 06")  # media lanes 5 to 8 are not there; 1310 nm EML
    put(raw, PAGE_01, 138, "66 58")  # 26200 x 0.05 nm
    put(raw, PAGE_01, 159, "03 0f")  # temperature and voltage; bias, in steps of 2 x 2 uA, and both powers
    put(raw, PAGE_02, 128, "4b 00 fb 00 46 00 00 00")  # 75, -5, 70, 0 degrees
    put(raw, PAGE_02, 136, "8d cc 77 24 87 5a 7a 76")  # 3.63, 3.05, 3.465, 3.135 V
    put(raw, PAGE_02, 176, "8a 99 0f ea 6e 18 14 09")  # 3.5481, 0.4074, 2.8184, 0.5129 mW
    put(raw, PAGE_02, 184, "7e f4 09 c4 7a 12 0e a6")  # 32500, 2500, 31250, 3750 x 4 uA: 130, 10, 125, 15 mA
    put(raw, PAGE_02, 192, "8a 99 05 08 6e 18 07 fa")  # 3.5481, 0.1288, 2.8184, 0.2042 mW
    put(raw, PAGE_11, 154, "3e 67 40 66 3f cd 38 33 00 00 00 00 00 00 00 00")  # 1.5975, 1.6486, 1.6333, 1.4387 mW
    put(raw, PAGE_11, 170, "51 d7 4f f5 47 31 80 07 00 00 00 00 00 00 00 00")  # 20951, 20469, 18225, 32775 x 4 uA
    put(raw, PAGE_11, 186, "57 d9 48 c5 05 00 47 27 00 00 00 00 00 00 00 00")  # 2.2489, 1.8629, 0.1280, 1.8215 mW
    return raw


def test_pages_are_read_in_the_places_and_units_of_the_specification() -> None:
    optic = of_dump(bytes(dump()))
    assert (optic.form, optic.kind, optic.connector) == ("OSFP", "400GBASE-DR4", "MPO 1x12")
    assert (optic.vendor, optic.part, optic.serial, optic.made, optic.wavelength_nm) == (
        "ACME OPTICS", "AC-400G-DR4", "X4210", "2024-05-31", 1310.0,
    )  # fmt: skip
    assert optic.values["temperature_c"] == (46.5,)
    assert optic.values["voltage_v"] == (3.3,)
    assert optic.values["tx_power_mw"] == (1.5975, 1.6486, 1.6333, 1.4387)
    assert optic.values["tx_bias_ma"] == (83.804, 81.876, 72.9, 131.1)
    assert optic.values["rx_power_mw"] == (2.2489, 1.8629, 0.128, 1.8215)
    assert optic.limits["temperature_c"] == {"high_alarm": 75.0, "low_alarm": -5.0, "high_warning": 70.0, "low_warning": 0.0}
    assert optic.limits["voltage_v"] == {"high_alarm": 3.63, "low_alarm": 3.05, "high_warning": 3.465, "low_warning": 3.135}
    assert optic.limits["tx_bias_ma"] == {"high_alarm": 130.0, "low_alarm": 10.0, "high_warning": 125.0, "low_warning": 15.0}
    assert optic.limits["rx_power_mw"]["low_alarm"] == 0.1288


def test_values_are_judged_by_the_modules_own_thresholds() -> None:
    assert [str(f) for f in of_dump(bytes(dump())).findings()] == [
        "tx bias of lane 3 is 131.1 ma, above its high alarm threshold 130 ma",
        "rx power of lane 2 is -8.93 dBm, below its low alarm threshold -8.90 dBm",
    ]


def test_a_module_measures_only_what_it_says_it_does() -> None:
    raw = dump()
    put(raw, PAGE_01, 159, "01 04")  # no voltage, no bias, no transmitted power
    assert set(of_dump(bytes(raw)).values) == {"temperature_c", "rx_power_mw"}


def test_a_copper_cable_has_one_page_and_nothing_to_measure() -> None:
    raw = dump()[:256]
    put(raw, LOWER, 2, "80")
    put(raw, PAGE_00, 212, "0a")
    cable = of_dump(bytes(raw))
    assert (cable.part, cable.values, cable.wavelength_nm) == ("AC-400G-DR4", {}, None)


def test_lanes_of_a_module_that_is_not_ready_are_not_judged() -> None:
    raw = dump()
    put(raw, LOWER, 3, "02")
    asleep = of_dump(bytes(raw))
    assert set(asleep.values) == {"temperature_c", "voltage_v"}
    assert asleep.note == "the module is in state ModuleLowPwr, in which its lanes measure nothing"


def test_a_dump_that_ends_early_has_what_its_pages_hold() -> None:
    assert set(of_dump(bytes(dump()[:512])).values) == {"temperature_c", "voltage_v"}
    assert of_dump(bytes(dump()[:256])).values == {}
    with pytest.raises(ValueError, match="page 00h has 200 bytes"):
        of_dump(bytes(dump()[:200]))


@pytest.mark.parametrize("said", [CMIS, JSON_CMIS], ids=["text", "json"])
def test_ethtools_words_are_read_without_the_lanes_that_the_module_has_not(said: str) -> None:
    optic = of_ethtool(said)
    assert optic is not None
    assert (optic.form, optic.connector, optic.part, optic.serial, optic.made, optic.wavelength_nm) == (
        "QSFP-DD", "MPO Parallel Optic", "AC-400G-DR4", "X4210", "2024-05-31", 1311.0,
    )  # fmt: skip
    assert optic.values["tx_bias_ma"] == (83.806, 81.878, 72.9, 131.1)
    assert optic.values["rx_power_mw"] == (2.2489, 1.8629, 0.0, 1.8215)
    assert (optic.values["temperature_c"], optic.values["voltage_v"]) == ((70.49,), (3.2186,))
    assert optic.note == "all after lane 3 measure nothing: taken as absent"
    assert sorted((f.quantity, f.lane, f.limit) for f in optic.findings()) == [
        ("rx_power_mw", 2, "low_alarm"), ("temperature_c", 0, "high_warning"), ("tx_bias_ma", 3, "high_alarm"),
    ]  # fmt: skip


def test_a_dead_lane_of_eight_is_no_absent_lane() -> None:
    lit = CMIS
    for lane, power in ((5, "1.5"), (6, "1.5"), (7, "1.5")):
        lit = re.sub(rf"(Transmit avg optical power \(Channel {lane}\)\s*: )0.0000 mW / -inf", rf"\g<1>{power}000 mW / 1.76", lit)
    optic = of_ethtool(lit)
    assert optic is not None
    assert ("tx_power_mw", 7, "low_alarm") in [(f.quantity, f.lane, f.limit) for f in optic.findings()]


@pytest.mark.parametrize(
    "said", [CMIS.replace("0x03 (ModuleReady)", "0x01 (ModuleLowPwr)"), JSON_CMIS.replace('"module_state": 3', '"module_state": 1')]
)
def test_a_sleeping_module_is_not_called_dark(said: str) -> None:
    optic = of_ethtool(said)
    assert optic is not None
    assert "rx_power_mw" not in optic.values
    assert "ModuleLowPwr" in optic.note


def test_each_bank_of_a_sixteen_lane_module_adds_its_lanes() -> None:
    bank = '"laser_tx_bias_current": [ 83.806,81.878,72.9,131.1,0,0,0,0 ],'
    two = JSON_CMIS.replace(bank, bank.replace("0,0,0,0 ]", "70,70,70,70 ]") * 2)
    optic = of_ethtool(two)
    assert optic is not None
    assert len(optic.values["tx_bias_ma"]) == 16


@given(st.binary(max_size=800), st.sampled_from([b"\x18", b"\x19", b"\x1b", b"\x1e", b"\x1f", b"\x20"]))
def test_any_pages_end_in_an_optic_or_a_reason(raw: bytes, kind: bytes) -> None:
    try:
        optic: Optic = of_dump(kind + raw)
    except ValueError as e:
        assert "bytes" in str(e)  # noqa: PT017 both ends are right
        return
    assert json.dumps(optic.to_json(), allow_nan=False)
    assert all(f.lane < 8 for f in optic.findings())


@given(st.integers(0, 767), st.integers(0, 255))
def test_one_wrong_byte_changes_an_optic_but_breaks_nothing(at: int, byte: int) -> None:
    raw = dump()
    raw[at] = byte
    if at:
        assert json.dumps(of_dump(bytes(raw)).to_json(), allow_nan=False)


@given(st.sampled_from([CMIS, JSON_CMIS]), st.data())
def test_output_that_was_cut_or_damaged_ends_in_an_optic_or_none(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text('0123456789.-:{}[]()" \tNaIinfdBm', max_size=6)) + text[at + data.draw(st.integers(0, 5)) :]
    optic = of_ethtool(damaged)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)


def test_a_short_page_is_refused() -> None:
    with pytest.raises(ValueError, match="page 00h has 8 bytes with the lower memory; 256 are needed"):
        of_cmis(bytes(8))
