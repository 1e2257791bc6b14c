"""What ethtool and ifconfig print of transceivers, literally."""

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
# An SFP by ethtool 6.15: a value and its thresholds have one key; flags that say nothing of it are left in on purpose.
JSON_SFP = """[ {
        "identifier": 3, "identifier_description": "SFP", "connector": 7, "connector_description": "LC",
        "transceiver_type": "Ethernet: 1000BASE-LX", "laser_wavelength": 1310,
        "vendor_name": "ACME OPTICS", "vendor_pn": "AC-1G-LX", "vendor_sn": "A77", "date_code": "240618",
        "optical_diagnostics_support": true,
        "laser_bias_current": 15.604, "laser_output_power": 0.2461,
        "rx_power": { "value": 0.0030, "type": "Receiver signal average optical power" },
        "module_temperature": 26.5898, "module_voltage": 3.3812,
        "laser_rx_power_low_alarm": false, "module_temperature_high_alarm": true,
        "laser_bias_current": { "high_alarm_threshold": 80, "low_alarm_threshold": 2, "high_warning_threshold": 70, "low_warning_threshold": 3 },
        "laser_output_power": { "high_alarm_threshold": 0.7943, "low_alarm_threshold": 0.0794 },
        "module_temperature": { "high_alarm_threshold": 110, "low_alarm_threshold": -45 },
        "laser_rx_power": { "high_alarm_threshold": 0.5012, "low_alarm_threshold": 0.004, "low_warning_threshold": 0.005, "units": "mW" }
} ]"""
# The same by the versions after it.
JSON_LATER = (
    JSON_SFP.replace('"laser_bias_current": 15.604', '"laser_tx_bias_current": 15.604')
    .replace('"laser_output_power": 0.2461', '"transmit_avg_optical_power": 0.2461')
    .replace('"module_temperature": 26.5898, "module_voltage"', '"module_temperature_measurement": 26.5898, "module_voltage_measurement"')
)
JSON_QSFP = """[ { "identifier": 17, "identifier_description": "QSFP28", "vendor_name": "ACME OPTICS", "vendor_pn": "AC-100G-SR4",
        "laser_tx_bias_current": [ 7.1,0,7,7 ], "laser_tx_bias_current_units": "mA",
        "transmit_avg_optical_power": [ 1,1,1,1 ],
        "RX", "laser_rx_power_low_alarm": [ true,true,true,true ],
        "laser_bias_current": { "high_alarm_threshold": 8.5, "low_alarm_threshold": 5.492, "units": "mA" } } ]"""
OLD_RX = '"rcvr_signal_avg_optical_power": [ 0.0388,0.041,0.0417,0.0392 ], "rcvr_signal_avg_optical_power_units": "mW"'
NEW_RX = '"rx_power": { "values": [ 0.0388,0.041,0.0417,0.0392 ], "type": "Rcvr signal avg optical power" }'
# As sbin/ifconfig/sfp.c prints it: 40GBASE-LR4 of the commit that brought it, an SFP of today's.
FREEBSD_QSFP = """\
cxl1: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> metric 0 mtu 1500
	status: active
	plugged: QSFP+ 40GBASE-LR4 (MPO Parallel Optic)
	vendor: OEM PN: OP-QSFP-40G-LR4 SN: 20140318001 DATE: 2014-03-18
	module temperature: 64.06 C voltage: 3.26 Volts
	lane 1: RX: 0.47 mW (-3.21 dBm) TX: 2.78 mW (4.46 dBm)
	lane 2: RX: 0.00 mW (-inf dBm) TX: 2.80 mW (4.47 dBm)
"""
FREEBSD_SFP = """\
	plugged: SFP/SFP+/SFP28 10G Base-SR (LC)
	vendor: ACME OPTICS PN: AC-10G-SR SN: A1 DATE: 2019-08-07
	module temperature: -3.50 C voltage: 3.30 Volts
	lane 1: RX power: 0.50 mW (-3.01 dBm) TX bias: 6.50 mA

	SFF8472 DUMP (0xA0 0..127 range):
"""
# As sbin/ifconfig/sff.c prints it; the flag on rx is left out on purpose: its value alone says that it is too low.
OPENBSD = """\
ix1: flags=8843<UP,BROADCAST,RUNNING,SIMPLEX,MULTICAST> mtu 1500
	transceiver: SFP LC, 850 nm, 80m OM2, 300m OM3
	model: FINISAR CORP. FTLX8571D3BCL rev A
	serial: AQG28W3, date: 2013-10-19
	voltage: 3.36 V, bias current: 7.99 mA
	temp: 34.60 C (low -13.00 C, high 78.00 C)
	tx: -2.13 dBm (low -7.30 dBm, high 1.00 dBm) [ALARM]
	rx: -20.00 dBm (low -18.01 dBm, high 1.00 dBm)
"""
OPENBSD_QSFP = """\
	transceiver: QSFP28 MPO, 850 nm, 100m OM3
	model: ACME AC-100G rev 1A
	serial: B1 date: 2020-01-02 lot: 7
	max case temp: 70 C
	channel 1 bias current: 6.50 mA (low 1.00 mA, high 10.00 mA)
	channel 1 rx: -1.00 dBm (low -12.00 dBm, high 3.40 dBm)
	channel 2 bias current: 0.00 mA (low 1.00 mA, high 10.00 mA) [ALARM]
	channel 2 rx: -inf dBm (low -12.00 dBm, high 3.40 dBm) [ALARM]
"""
# A four-lane module in a QSFP-DD port, by ethtool 6.x: eight lanes are printed, and the line of the temperature was broken by a mail program.
CMIS = """\
	Identifier                                : 0x18 (QSFP-DD Double Density 8X Pluggable Transceiver (INF-8628))
	Power class                               : 5
	Max power                                 : 10.00W
	Connector                                 : 0x0c (MPO Parallel Optic)
	Transmitter technology                    : 0x06 (1310 nm EML)
	Laser wavelength                          : 1311.000nm
	Laser wavelength tolerance                : 6.500nm
	Vendor name                               : ACME OPTICS
	Vendor PN                                 : AC-400G-DR4
	Vendor SN                                 : X4210
	Date code                                 : 240531
	Revision compliance                       : Rev. 4.0
	Rx loss of signal                         : None
	Module State                              : 0x03 (ModuleReady)
	Module temperature                        : 70.49 degrees C / 158.89
	Module voltage                            : 3.2186 V
	Laser tx bias current (Channel 1)         : 83.806 mA
	Laser tx bias current (Channel 2)         : 81.878 mA
	Laser tx bias current (Channel 3)         : 72.900 mA
	Laser tx bias current (Channel 4)         : 131.100 mA
	Laser tx bias current (Channel 5)         : 0.000 mA
	Laser tx bias current (Channel 6)         : 0.000 mA
	Laser tx bias current (Channel 7)         : 0.000 mA
	Laser tx bias current (Channel 8)         : 0.000 mA
	Transmit avg optical power (Channel 1)    : 1.5975 mW / 2.03 dBm
	Transmit avg optical power (Channel 2)    : 1.6486 mW / 2.17 dBm
	Transmit avg optical power (Channel 3)    : 1.6333 mW / 2.13 dBm
	Transmit avg optical power (Channel 4)    : 1.4387 mW / 1.58 dBm
	Transmit avg optical power (Channel 5)    : 0.0000 mW / -inf dBm
	Transmit avg optical power (Channel 6)    : 0.0000 mW / -inf dBm
	Transmit avg optical power (Channel 7)    : 0.0000 mW / -inf dBm
	Transmit avg optical power (Channel 8)    : 0.0000 mW / -inf dBm
	Rcvr signal avg optical power (Channel 1) : 2.2489 mW / 3.52 dBm
	Rcvr signal avg optical power (Channel 2) : 1.8629 mW / 2.70 dBm
	Rcvr signal avg optical power (Channel 3) : 0.0000 mW / -inf dBm
	Rcvr signal avg optical power (Channel 4) : 1.8215 mW / 2.60 dBm
	Rcvr signal avg optical power (Channel 5) : 0.0000 mW / -inf dBm
	Rcvr signal avg optical power (Channel 6) : 0.0000 mW / -inf dBm
	Rcvr signal avg optical power (Channel 7) : 0.0000 mW / -inf dBm
	Rcvr signal avg optical power (Channel 8) : 0.0000 mW / -inf dBm
	Laser bias current high alarm   (Chan 1)  : Off
	Laser rx power low alarm    (Channel 3)   : Off
	Laser bias current high alarm threshold   : 130.000 mA
	Laser bias current low alarm threshold    : 10.000 mA
	Laser output power high alarm threshold   : 3.5481 mW / 5.50 dBm
	Laser output power low alarm threshold    : 0.4074 mW / -3.90 dBm
	Module temperature high alarm threshold   : 75.00 degrees C / 167.00
	Module temperature high warning threshold : 70.00 degrees C / 158.00
	Laser rx power high alarm threshold       : 3.5481 mW / 5.50 dBm
	Laser rx power low alarm threshold        : 0.1288 mW / -8.90 dBm
"""
# The same by the JSON of ethtool's cmis.c; a bank of lanes is an array.
JSON_CMIS = """[ {
        "identifier": 24, "identifier_description": "QSFP-DD Double Density 8X Pluggable Transceiver (INF-8628)",
        "power_class": 5, "max_power": 10.000, "max_power_units": "W", "connector": 12, "connector_description": "MPO Parallel Optic",
        "transmitter_technology": 6, "transmitter_technology_description": "1310 nm EML",
        "laser_wavelength": 1311.000, "laser_wavelength_units": "nm",
        "vendor_name": "ACME OPTICS", "vendor_pn": "AC-400G-DR4", "vendor_sn": "X4210", "date_code": "240531",
        "revision_compliance": { "major": 4, "minor": 0 }, "rx_loss_of_signal": [ "No","No","No","No","No","No","No","No" ],
        "module_state": 3, "module_state_description": "ModuleReady",
        "module_temperature": 70.4900, "module_voltage": 3.2186,
        "laser_tx_bias_current": [ 83.806,81.878,72.9,131.1,0,0,0,0 ],
        "transmit_avg_optical_power": [ 1.5975,1.6486,1.6333,1.4387,0,0,0,0 ],
        "rx_power": { "values": [ 2.2489,1.8629,0,1.8215,0,0,0,0 ], "type": "Rcvr signal avg optical power" },
        "module_temperature_high_alarm": false, "laser_rx_power_low_alarm": [ false,false,false,false,false,false,false,false ],
        "laser_bias_current": { "high_alarm_threshold": 130, "low_alarm_threshold": 10 },
        "laser_output_power": { "high_alarm_threshold": 3.5481, "low_alarm_threshold": 0.4074 },
        "module_temperature": { "high_alarm_threshold": 75, "high_warning_threshold": 70 },
        "laser_rx_power": { "high_alarm_threshold": 3.5481, "low_alarm_threshold": 0.1288 }
} ]"""
