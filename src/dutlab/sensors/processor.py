"""Sensor `processor`: counters of a Linux host's processors: energy (RAPL), frequency, and number of throttlings by heat.

Files: Documentation/power/powercap/powercap.rst (microjoules; the counter wraps after `max_energy_range_uj`; only root can read it),
Documentation/admin-guide/pm/cpufreq.rst (kHz), Documentation/ABI/testing/sysfs-devices-system-cpu (thermal_throttle). RAPL counts
the energy of the package or its memory, partly estimated from events. It is not the power at the wall.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from dutlab.sensors.loop import ShellLoop
from dutlab.sensors.sensor import POWER_LIMITED, THROTTLED, Sample, SensorSite
from dutlab.spec.sensors import ProcessorSensor
from dutlab.systems.watched import loop_of, sections

_LOOP = loop_of(r"""
  printf '\036energy\n'
  for zone in "$2"/class/powercap/intel-rapl:*; do
    [ -r "$zone/energy_uj" ] || continue
    name= joules= range=
    { read -r name <"$zone/name"; read -r joules <"$zone/energy_uj"; read -r range <"$zone/max_energy_range_uj"; } 2>/dev/null
    printf '%s|%s|%s|%s\n' "${zone##*/}" "$name" "$joules" "$range"
  done
  printf '\036frequency\n'
  for file in "$2"/devices/system/cpu/cpu*/cpufreq/scaling_cur_freq; do
    { read -r value <"$file" && printf '%s\n' "$value"; } 2>/dev/null
  done
  printf '\036throttled\n'
  for file in "$2"/devices/system/cpu/cpu*/thermal_throttle/core_throttle_count \
      "$2"/devices/system/cpu/cpu*/thermal_throttle/package_throttle_count; do
    { read -r value <"$file" && printf '%s\n' "$value"; } 2>/dev/null
  done
  printf '\036limited\n'
  for file in "$2"/devices/system/cpu/cpu*/thermal_throttle/core_power_limit_count \
      "$2"/devices/system/cpu/cpu*/thermal_throttle/package_power_limit_count; do
    { read -r value <"$file" && printf '%s\n' "$value"; } 2>/dev/null
  done
""")


@dataclass(frozen=True)
class ProcessorTurn:
    """Counters of a host's processors at one instant."""

    at_s: float
    energy_uj: Mapping[str, tuple[int, int]]
    """Zone → (counter, value after which it wraps), in microjoules."""
    mhz: tuple[float, ...]
    throttled: int | None
    """Throttlings by heat of all cores and packages since boot; None if the kernel does not count them."""
    power_limited: int | None = None
    """Throttlings by a power limit, of the same cores and packages; None if the kernel does not count them."""


class ProcessorLoop(ShellLoop):
    """Loop on the host that reads the counters."""

    needs = "the host needs sh"

    def __init__(self, spec: ProcessorSensor, site: SensorSite, *, sys: str = "/sys") -> None:
        super().__init__(spec.name, site, _LOOP, [sys], interval_s=spec.every)
        self._turns: list[ProcessorTurn] = []

    def _turn(self, at_s: float, text: str) -> None:
        turn = turn_of(at_s, text)
        if not turn.energy_uj and not turn.mhz and turn.throttled is None:
            raise ValueError(f"{self.host} reports neither energy (RAPL, as root) nor frequency nor throttling of its processors")
        self._turns.append(turn)
        if len(self._turns) > 1:
            self._tell(self.host, self.name, {s.name: s.value for s in between(self._turns[-2], turn, self.host, self.name, 0.0)})

    def _samples(self, began_s: float) -> Iterable[Sample]:
        for before, after in pairwise(self._turns):
            yield from between(before, after, self.host, self.name, began_s)
        yield from self._costs(began_s)


def turn_of(at_s: float, text: str) -> ProcessorTurn:
    """Parse the output of a turn. Zones with equal names (each package has a `core`) get the number of the zone appended."""
    parts = sections(text)
    rows = [line.split("|") for line in parts.get("energy", "").splitlines()]
    zones = [(zone, name, joules, most) for zone, name, joules, most in (row for row in rows if len(row) == 4) if joules.isdigit()]  # noqa: PLR2004
    names = [name for _, name, _, _ in zones]
    energy = {
        (name if names.count(name) == 1 else f"{name}_{zone.partition(':')[2]}").replace("-", "_").replace(":", "_"): (
            int(joules),
            int(most) if most.isdigit() else 0,
        )
        for zone, name, joules, most in zones
    }
    throttled, limited = (
        sum(map(int, counts)) if (counts := [c for c in parts.get(name, "").split() if c.isdigit()]) else None
        for name in ("throttled", "limited")
    )
    mhz = tuple(int(khz) / 1e3 for khz in parts.get("frequency", "").split() if khz.isdigit())
    return ProcessorTurn(at_s, energy, mhz, throttled, limited)


def between(before: ProcessorTurn, after: ProcessorTurn, host: str, sensor: str, began_s: float) -> Iterable[Sample]:
    """Return the samples between two turns."""
    t_s, span_s = round(after.at_s - began_s, 3), after.at_s - before.at_s
    for name, (joules, most) in after.energy_uj.items():
        if name in before.energy_uj and span_s > 0:
            grown = joules - before.energy_uj[name][0]
            if grown >= 0 or most:
                yield Sample(t_s, host, sensor, f"{name}_watts", "W", round((grown if grown >= 0 else grown + most) / span_s / 1e6, 3))
    if after.mhz:
        yield Sample(t_s, host, sensor, "frequency_mhz", "MHz", round(fmean(after.mhz), 1))
        yield Sample(t_s, host, sensor, "lowest_frequency_mhz", "MHz", min(after.mhz))
    if before.throttled is not None and after.throttled is not None:
        yield Sample(t_s, host, sensor, THROTTLED, "", after.throttled - before.throttled)
    if before.power_limited is not None and after.power_limited is not None:
        yield Sample(t_s, host, sensor, POWER_LIMITED, "", after.power_limited - before.power_limited)


def make(spec: ProcessorSensor, site: SensorSite) -> ProcessorLoop | None:
    """Return the sensor that `spec` describes; None if the host is not Linux."""
    return ProcessorLoop(spec, site) if site.host.system.kernel == "Linux" else None
