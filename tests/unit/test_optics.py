from __future__ import annotations

import struct

import pytest

from dutlab.hosts.optics import dbm, of_ethtool, of_sff8472

# The layout is that of ethtool's sfpdiag.c; a receiver that gets too little light.
SFP = """\
	Identifier                                : 0x03 (SFP)
	Laser wavelength                          : 850nm
	Vendor name                               : ACME OPTICS
	Vendor OUI                                : 00:00:5e
	Vendor PN                                 : AC-10G-SR
	Laser bias current                        : 6.500 mA
	Laser output power                        : 0.5000 mW / -3.01 dBm
	Receiver signal average optical power     : 0.0200 mW / -16.99 dBm
	Module temperature                        : 86.50 degrees C / 187.70 degrees F
	Module voltage                            : 3.3000 V
	Laser rx power low alarm                  : Off
	Module temperature high alarm threshold   : 90.00 degrees C / 194.00 degrees F
	Module temperature high warning threshold : 85.00 degrees C / 185.00 degrees F
	Module temperature low alarm threshold    : -10.00 degrees C / 14.00 degrees F
	Laser rx power low alarm threshold        : 0.0251 mW / -16.00 dBm
	Laser rx power low warning threshold      : 0.0398 mW / -14.00 dBm
"""
QSFP = """\
	Identifier                                : 0x11 (QSFP28)
	Vendor name                               : ACME OPTICS
	Vendor PN                                 : AC-100G-SR4
	Laser tx bias current (Channel 1)         : 7.000 mA
	Laser tx bias current (Channel 2)         : 0.000 mA
	Transmit avg optical power (Channel 1)    : 1.0000 mW / 0.00 dBm
	Transmit avg optical power (Channel 2)    : 0.9000 mW / -0.46 dBm
	Laser bias current low alarm threshold    : 2.000 mA
"""


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


def test_pages_that_cannot_be_read_rightly_are_refused() -> None:
    with pytest.raises(ValueError, match="A0h has 8 bytes"):
        of_sff8472(bytes(8))
    external = bytearray(256)
    external[92] = 0x58
    with pytest.raises(ValueError, match="external calibration"):
        of_sff8472(bytes(external), bytes(256))
    assert of_sff8472(bytes(256), bytes(256)).values == {}  # no diagnostics
