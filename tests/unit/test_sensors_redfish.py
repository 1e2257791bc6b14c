"""Fans in the two forms of Redfish's Thermal: that of iLO 4, which Thermal 1.1 deprecated, and the present one (influxdata/telegraf)."""

import pytest

from dutlab.sensors.redfish import fans


@pytest.mark.parametrize(
    ("fan", "name", "value"),
    [
        ({"Name": "Fan 1", "Reading": 23, "ReadingUnits": "Percent"}, "fan_1_percent", 23),
        ({"Name": "Fan 1", "Reading": 0, "ReadingUnits": "RPM", "CurrentReading": 9}, "fan_1_rpm", 0),
        ({"FanName": "Fan 2", "CurrentReading": 17, "Units": "Percent"}, "fan_2_percent", 17),
    ],
)
def test_a_fan_is_read_in_both_forms(fan: dict[str, object], name: str, value: float) -> None:
    ((word, amount),) = fans({"Fans": [fan, {"FanName": "Fan 9", "CurrentReading": 0, "Status": {"Health": None, "State": "Absent"}}]})
    assert (word, amount.value) == (name, value)
