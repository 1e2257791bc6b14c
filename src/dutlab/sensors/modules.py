"""Sensor `optics`: temperature and light of the modules in a host's ports, and each module's own temperature limit.

On Linux `ethtool -m` reads every port of a card, on a BSD ifconfig reads every port. The bus of a module is slow, so it is read seldom.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dutlab.sensors.loop import AmountLoop
from dutlab.sensors.oddities import Amount
from dutlab.sensors.sensor import SensorSite
from dutlab.spec.sensors import OpticsSensor
from dutlab.systems.optics import Optic, dbm, optic_of
from dutlab.systems.sample_names import limit_name
from dutlab.systems.watched import loop_of, sections

_PORT = "port "
_ASKS = {
    "Linux": r"""
  for port in "$2"/class/net/*; do
    [ -e "$port/device" ] && printf '\036port %s\n' "${port##*/}" && ethtool -m "${port##*/}" 2>/dev/null
  done
""",
    "FreeBSD": r"""
  for port in $(ifconfig -l); do printf '\036port %s\n' "$port"; ifconfig -v "$port" 2>/dev/null; done
""",
    "OpenBSD": r"""
  for port in $(ifconfig | sed -n 's/^\([a-z]*[0-9]*\): .*/\1/p'); do printf '\036port %s\n' "$port"; ifconfig "$port" sff 2>/dev/null; done
""",
}


class OpticsLoop(AmountLoop):
    """Loop on the host that reads the module in every port."""

    needs = "the host needs sh, and a Linux ethtool"

    def __init__(self, spec: OpticsSensor, site: SensorSite, *, sys: str = "/sys") -> None:
        super().__init__(spec.name, site, loop_of(_ASKS[site.host.system.kernel]), [sys], interval_s=spec.every)

    def _amounts(self, text: str) -> Mapping[str, Amount]:
        ports = {name.removeprefix(_PORT): output for name, output in sections(text).items() if name.startswith(_PORT)}
        amounts = {name: amount for port, output in ports.items() if (optic := optic_of(output)) for name, amount in readings(port, optic)}
        if not amounts:
            raise ValueError(f"{self.host} has no port that reports the temperature or the light of a module")
        return amounts


def readings(port: str, optic: Optic) -> Iterable[tuple[str, Amount]]:
    """Yield name and quantity of one module's readings; a dark lane has no reading in dBm."""
    for celsius in optic.values.get("temperature_c", ())[:1]:
        yield (name := f"{port}_module_celsius"), Amount(celsius, "degC")
        if limit := optic.limits.get("temperature_c", {}).get("high_alarm"):
            yield limit_name(name), Amount(limit, "degC")
    for quantity, way in (("tx_power_mw", "sent"), ("rx_power_mw", "received")):
        lanes = optic.values.get(quantity, ())
        for lane, milliwatts in enumerate(lanes, 1):
            if milliwatts > 0:
                yield f"{port}_{way}_light{f'_{lane}' if len(lanes) > 1 else ''}_dbm", Amount(round(dbm(milliwatts), 2), "dBm")


def make(spec: OpticsSensor, site: SensorSite) -> OpticsLoop | None:
    """Return the sensor that `spec` describes; None if dutlab has no commands for the system."""
    return OpticsLoop(spec, site) if site.host.system.kernel in _ASKS else None
