"""Sensor `ipmi-local`: readings of a host's management controller, by ipmitool on that host.

It needs no login and no network, but takes CPU time of the host, because its kernel reads the controller byte by byte.
"""

from __future__ import annotations

from collections.abc import Mapping

from dutlab.sensors.ipmi import dcmi_watts, limits, records
from dutlab.sensors.loop import AmountLoop
from dutlab.sensors.oddities import Amount
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.sensors import LocalIpmiSensor
from dutlab.systems.watched import loop_of, sections

# Limits are read once, after the first reading: some controllers take half a minute for all.
_LOOP = loop_of(r"""
  export LC_ALL=C
  printf '\036dcmi\n'; ipmitool dcmi power reading 2>/dev/null
  printf '\036records\n'; ipmitool -c sdr list full 2>&1
  [ "$turn" = 1 ] && printf '\036limits\n' && ipmitool -c sensor 2>/dev/null
  turn=$((turn + 1))
""")
_SHOWN = 80


class LocalIpmiLoop(AmountLoop):
    """Loop on the host that runs ipmitool."""

    needs = "the host needs ipmitool, root, and a management controller (/dev/ipmi0)"

    def __init__(self, spec: LocalIpmiSensor, site: SensorSite) -> None:
        super().__init__(spec.name, site, _LOOP, interval_s=spec.every)

    def _amounts(self, text: str) -> Mapping[str, Amount]:
        parts = sections(text)
        watts, output = dcmi_watts(parts["dcmi"]), parts["records"]
        amounts = ({} if watts is None else {"dcmi_watts": watts}) | dict(records(output))
        if not amounts:
            raise ValueError(f"ipmitool printed no number: {output.strip()[-_SHOWN:] or 'no output'}; {self.needs}")
        return amounts | dict(limits(parts.get("limits", "")))


def make(spec: LocalIpmiSensor, site: SensorSite) -> LocalIpmiLoop | None:
    """Return the sensor that `spec` describes; None if the host has no POSIX shell."""
    return LocalIpmiLoop(spec, site) if site.host.system.kernel in ("Linux", "FreeBSD") else None
