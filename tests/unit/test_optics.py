from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.systems.optics import Optic, dbm, of_ethtool, of_freebsd, of_openbsd, optic_of
from optic_outputs import FREEBSD_QSFP, FREEBSD_SFP, JSON_LATER, JSON_QSFP, JSON_SFP, NEW_RX, OLD_RX, OPENBSD, OPENBSD_QSFP, QSFP, SFP


def test_values_of_an_sfp_are_judged_by_its_thresholds_not_by_its_flags() -> None:
    optic = of_ethtool(SFP)
    assert optic is not None
    assert (optic.vendor, optic.part, optic.wavelength_nm) == ("ACME OPTICS", "AC-10G-SR", 850.0)
    assert optic.values == {
        "tx_bias_ma": (6.5,), "tx_power_mw": (0.5,), "rx_power_mw": (0.02,), "temperature_c": (86.5,), "voltage_v": (3.3,),
    }  # fmt: skip
    assert optic.limits["temperature_c"] == {"high_alarm": 90.0, "high_warning": 85.0, "low_alarm": -10.0}
    assert [str(f) for f in optic.findings()] == [
        "rx power of lane 1 is -16.99 dBm, below its low alarm threshold -16.00 dBm",
        "temperature of lane 1 is 86.5 c, above its high warning threshold 85 c",
    ]


def test_lanes_of_a_qsfp_are_told_apart() -> None:
    optic = of_ethtool(QSFP)
    assert optic is not None
    assert optic.values == {"tx_bias_ma": (7.0, 0.0), "tx_power_mw": (1.0, 0.9)}
    assert [(f.quantity, f.lane, f.limit) for f in optic.findings()] == [("tx_bias_ma", 2, "low_alarm")]
    assert of_ethtool("netlink error: No such device\n") is None, "a port without a module"


@pytest.mark.parametrize("text", [JSON_SFP, JSON_LATER])
def test_json_of_an_sfp_keeps_value_and_thresholds_apart(text: str) -> None:
    optic = of_ethtool(text)
    assert optic is not None
    assert (optic.form, optic.kind, optic.connector, optic.serial, optic.made) == ("SFP", "1000BASE-LX", "LC", "A77", "2024-06-18")
    assert optic.values == {
        "tx_bias_ma": (15.604,), "tx_power_mw": (0.2461,), "rx_power_mw": (0.003,), "temperature_c": (26.5898,), "voltage_v": (3.3812,),
    }  # fmt: skip
    assert optic.limits["rx_power_mw"] == {"high_alarm": 0.5012, "low_alarm": 0.004, "low_warning": 0.005}
    assert [str(f) for f in optic.findings()] == ["rx power of lane 1 is -25.23 dBm, below its low alarm threshold -23.98 dBm"]


@pytest.mark.parametrize("received", [OLD_RX, NEW_RX])
def test_both_shapes_of_received_power_are_read(received: str) -> None:
    optic = of_ethtool(JSON_QSFP.replace('"RX"', received))
    assert optic is not None
    assert optic.values["rx_power_mw"] == (0.0388, 0.041, 0.0417, 0.0392)
    assert [(f.quantity, f.lane) for f in optic.findings()] == [("tx_bias_ma", 2)]


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
    page[8] = 0x04
    cable = of_freebsd(FREEBSD_SFP + "".join(f"\t{page[i : i + 16].hex(' ')}\n" for i in range(0, 128, 16)))
    assert cable is not None and cable.wavelength_nm is None, "of copper"


def test_limits_that_are_all_zero_are_those_of_a_module_without_any_and_dbm_is_relative_to_one_milliwatt() -> None:
    none = dict.fromkeys(("high_alarm", "low_alarm", "high_warning", "low_warning"), 0.0)
    for limits, found in ((none, []), (none | {"low_alarm": 3.3}, ["high_alarm"])):
        assert [f.limit for f in Optic(values={"voltage_v": (3.25,)}, limits={"voltage_v": limits}).findings()] == found
    assert (dbm(1.0), dbm(0.0)) == (0.0, float("-inf"))


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
    assert [(f.quantity, f.lane) for f in optic.findings()] == [("tx_bias_ma", 2), ("rx_power_mw", 2)]
    external = of_openbsd(OPENBSD.replace("\tvoltage", "\tcalibration: external (WARNING: needs more code)\n\tvoltage"))
    assert external is not None
    assert external.values == {}
    assert "calibration" in external.note


@given(st.text() | st.text('[]{}":, \n\t()-.0123456789abcdefRXTdBmin', max_size=200))
def test_any_text_ends_in_an_optic_or_none(text: str) -> None:
    optic = optic_of(text)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)


@given(st.sampled_from([SFP, QSFP, JSON_SFP, JSON_LATER, FREEBSD_QSFP, FREEBSD_SFP, OPENBSD, OPENBSD_QSFP]), st.data())
def test_real_output_that_was_cut_or_damaged_ends_in_an_optic_or_none(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text('0123456789.-:{}[]()" \tNaIinfdBm', max_size=6)) + text[at + data.draw(st.integers(0, 5)) :]
    optic = optic_of(damaged)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)
