"""What ethtool and ifconfig print of transceivers, literally."""

from __future__ import annotations

from outputs import output

# The layout is that of ethtool's sfpdiag.c; a receiver that gets too little light.
SFP = output("optics", "ethtool-sfp")
QSFP = output("optics", "ethtool-qsfp")
# An SFP by ethtool 6.15: a value and its thresholds have one key; flags that say nothing of it are left in on purpose.
JSON_SFP = output("optics", "ethtool-json-sfp")
# The same by the versions after it.
JSON_LATER = (
    JSON_SFP.replace('"laser_bias_current": 15.604', '"laser_tx_bias_current": 15.604')
    .replace('"laser_output_power": 0.2461', '"transmit_avg_optical_power": 0.2461')
    .replace('"module_temperature": 26.5898, "module_voltage"', '"module_temperature_measurement": 26.5898, "module_voltage_measurement"')
)
JSON_QSFP = output("optics", "ethtool-json-qsfp")
OLD_RX = '"rcvr_signal_avg_optical_power": [ 0.0388,0.041,0.0417,0.0392 ], "rcvr_signal_avg_optical_power_units": "mW"'
NEW_RX = '"rx_power": { "values": [ 0.0388,0.041,0.0417,0.0392 ], "type": "Rcvr signal avg optical power" }'
# As sbin/ifconfig/sfp.c prints it: 40GBASE-LR4 of the commit that brought it, an SFP of today's.
FREEBSD_QSFP = output("optics", "freebsd-qsfp")
FREEBSD_SFP = output("optics", "freebsd-sfp")
# As sbin/ifconfig/sff.c prints it; the flag on rx is left out on purpose: its value alone says that it is too low.
OPENBSD = output("optics", "openbsd-sfp")
OPENBSD_QSFP = output("optics", "openbsd-qsfp")
# A four-lane module in a QSFP-DD port, by ethtool 6.x: eight lanes are printed, and the line of the temperature was broken by a mail program.
CMIS = output("optics", "ethtool-cmis")
# The same by the JSON of ethtool's cmis.c; a bank of lanes is an array.
JSON_CMIS = output("optics", "ethtool-json-cmis")
