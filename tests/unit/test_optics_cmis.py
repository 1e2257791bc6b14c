"""Modules with CMIS, as QSFP-DD and OSFP are: what ethtool prints of them."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.systems.optics import of_ethtool
from optic_outputs import CMIS, JSON_CMIS


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
    assert optic.note == "all after lane 4 measure nothing: taken as absent"
    assert sorted((f.quantity, f.lane, f.limit) for f in optic.findings()) == [
        ("rx_power_mw", 3, "low_alarm"), ("temperature_c", 1, "high_warning"), ("tx_bias_ma", 4, "high_alarm"),
    ]  # fmt: skip


def test_a_dead_lane_of_eight_is_no_absent_lane() -> None:
    lit = CMIS
    for lane, power in ((5, "1.5"), (6, "1.5"), (7, "1.5")):
        lit = re.sub(rf"(Transmit avg optical power \(Channel {lane}\)\s*: )0.0000 mW / -inf", rf"\g<1>{power}000 mW / 1.76", lit)
    optic = of_ethtool(lit)
    assert optic is not None
    assert ("tx_power_mw", 8, "low_alarm") in [(f.quantity, f.lane, f.limit) for f in optic.findings()]


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


@given(st.sampled_from([CMIS, JSON_CMIS]), st.data())
def test_output_that_was_cut_or_damaged_ends_in_an_optic_or_none(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    damaged = text[:at] + data.draw(st.text('0123456789.-:{}[]()" \tNaIinfdBm', max_size=6)) + text[at + data.draw(st.integers(0, 5)) :]
    optic = of_ethtool(damaged)
    assert optic is None or json.dumps(optic.to_json(), allow_nan=False)
