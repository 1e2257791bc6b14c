"""Sensor `hwmon`: temperatures, fans and power from a host's kernel.

Names and units of the files: Documentation/hwmon/sysfs-interface.rst (millidegrees Celsius, revolutions a minute, microwatts; the limit is
`crit`, else `max`) and Documentation/driver-api/thermal/sysfs-api.rst (millidegrees Celsius; the limit is the trip point `critical`).
On Linux the shell reads the files without other programs; on a BSD sysctl(8) prints the values: `hw.sensors` (OpenBSD, sys/sensors.h:
`hw.sensors.it0.fan0=1180 RPM`), `dev.cpu.N.temperature` and `hw.acpi.thermal` (FreeBSD, coretemp(4) and acpi_thermal(4):
`dev.cpu.0.temperature: 45.0C`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from dutlab.sensors.loop import ShellLoop
from dutlab.sensors.sensor import Sample, SensorSite, limits_once
from dutlab.spec.sensors import HwmonSensor
from dutlab.systems.sample_names import limit_name
from dutlab.systems.watched import loop_of, sections

_LOOP = loop_of(r"""
  printf '\036hwmon\n'
  for file in "$2"/class/hwmon/hwmon*/temp*_input "$2"/class/hwmon/hwmon*/fan*_input \
      "$2"/class/hwmon/hwmon*/power*_average "$2"/class/hwmon/hwmon*/power*_input; do
    [ -r "$file" ] || continue
    value= chip= label= crit=
    { read -r value <"$file"; } 2>/dev/null
    { read -r chip <"${file%/*}/name"; } 2>/dev/null
    { read -r label <"${file%_*}_label"; } 2>/dev/null
    { read -r crit <"${file%_*}_crit" || read -r crit <"${file%_*}_max"; } 2>/dev/null
    printf '%s|%s|%s|%s|%s\n' "$chip" "${file##*/}" "$label" "$value" "$crit"
  done
  printf '\036zones\n'
  for zone in "$2"/class/thermal/thermal_zone*; do
    [ -r "$zone/temp" ] || continue
    value= kind= crit=
    { read -r value <"$zone/temp"; } 2>/dev/null
    { read -r kind <"$zone/type"; } 2>/dev/null
    for trip in "$zone"/trip_point_*_type; do
      [ -r "$trip" ] && read -r what <"$trip" && [ "$what" = critical ] && read -r crit <"${trip%_type}_temp"
    done 2>/dev/null
    printf '%s|%s||%s|%s\n' "$kind" "${zone##*/}" "$value" "$crit"
  done
""")
_BSD_LOOP = loop_of(r"""
  printf '\036sysctl\n'
  sysctl hw.sensors dev.cpu hw.acpi.thermal 2>/dev/null
""")
_SYSCTL = re.compile(
    r"(?:hw\.sensors\.|hw\.acpi\.thermal\.|dev\.)(?P<place>[A-Za-z]+\.?\d+(?:\.[a-z]+\d+)?)(?:\.temperature)?[:=] ?"
    r"(?P<value>-?\d+(?:\.\d+)?) ?(?P<unit>degC|C|RPM|W)\b"
)
_SYSCTL_LIMIT = re.compile(r"(?:hw\.acpi\.thermal\.(?P<place>tz\d+)\._CRT): (?P<value>\d+(?:\.\d+)?)C$")
"""Critical temperature of a zone (acpi_thermal(4))."""
_SYSCTL_KINDS = {"degC": ("celsius", "degC"), "C": ("celsius", "degC"), "RPM": ("rpm", "rpm"), "W": ("watts", "W")}
_KINDS = {
    "temp": ("celsius", "degC", 1e-3),
    "thermal_zone": ("celsius", "degC", 1e-3),
    "fan": ("rpm", "rpm", 1.0),
    "power": ("watts", "W", 1e-6),
}
_NO_LIMIT_C = 250.0
"""Limits above this are ignored: a drive without a limit reports some 65535 kelvin (drivers/nvme/host/hwmon.c)."""
_FILE = re.compile(r"(?P<kind>temp|fan|power|thermal_zone)(?P<number>\d+)(?:_input|_average)?")


class HwmonLoop(ShellLoop):
    """Loop on the host that reads every monitor."""

    needs = "the host needs sh"

    def __init__(self, spec: HwmonSensor, site: SensorSite, *, sys: str = "/sys") -> None:
        loop = _BSD_LOOP if site.host.system.kernel.endswith("BSD") else _LOOP
        super().__init__(spec.name, site, loop, [sys], interval_s=spec.every)
        self._values: list[tuple[float, dict[str, tuple[str, float]]]] = []

    def _turn(self, at_s: float, text: str) -> None:
        if not (values := readings(text)):
            raise ValueError(f"{self.host} has no hardware monitor that can be read")
        self._values.append((at_s, values))
        self._tell(self.host, self.name, {name: value for name, (_, value) in values.items()})

    def _samples(self, began_s: float) -> Iterable[Sample]:
        yield from limits_once(
            Sample(round(at_s - began_s, 3), self.host, self.name, name, unit, value)
            for at_s, values in self._values
            for name, (unit, value) in values.items()
        )
        yield from self._costs(began_s)


def readings(text: str) -> dict[str, tuple[str, float]]:
    """Return name → (unit, value) of one turn. A monitor that cannot be read now (its card sleeps) is left out.

    Two chips of one kind, such as two drives, get a number after the name, in the kernel's order.
    """
    values: dict[str, tuple[str, float]] = {}
    for chip, file, label, raw, crit in _rows(text):
        if (m := _FILE.fullmatch(file)) is None or not raw.lstrip("-").isdigit():
            continue
        what, unit, scale = _KINDS[m["kind"]]
        place = "" if m["kind"] == "thermal_zone" else label or f"{m['kind']}{m['number']}"
        first = "_".join(filter(None, (_word(chip), _word(place))))
        name, number = f"{first}_{what}", 1
        while name in values:
            number += 1
            name = f"{first}_{number}_{what}"
        values[name] = (unit, round(int(raw) * scale, 6))
        if what == "celsius" and crit.isdigit() and 0 < int(crit) * scale < _NO_LIMIT_C:
            values[limit_name(name)] = (unit, round(int(crit) * scale, 6))
    for line in sections(text).get("sysctl", "").splitlines():
        if m := _SYSCTL_LIMIT.match(line):
            values.setdefault(limit_name(f"{_word(m['place'])}_celsius"), ("degC", float(m["value"])))
        if m := _SYSCTL.match(line):
            what, unit = _SYSCTL_KINDS[m["unit"]]
            values.setdefault(f"{_word(m['place'])}_{what}", (unit, float(m["value"])))
    return values


def _rows(text: str) -> Iterator[tuple[str, str, str, str, str]]:
    parts = sections(text)
    for line in (parts.get("hwmon", "") + parts.get("zones", "")).splitlines():
        match line.split("|"):
            case [chip, file, label, raw, crit]:
                yield chip, file, label, raw.strip(), crit.strip()


def _word(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def make(spec: HwmonSensor, site: SensorSite) -> HwmonLoop:
    """Return the sensor that `spec` describes."""
    return HwmonLoop(spec, site)
