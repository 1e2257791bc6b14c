"""Names of samples and counters that contain more than one value: made and parsed only here.

cpu3_softirq_percent      share of a core's time in a state
core_0_limit_celsius      limit of the temperature `core_0_celsius`; recorded once, and when it changes
vpp_NAME_calls, _vectors  polls of a device's input, and the frames that they found
device_frames             frames of a program that is the DUT, by its own count
NAME_poll_cycles, _poll_cycles_with_frames  cycles of a polling thread, and those with frames
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

CALLS, VECTORS = "_calls", "_vectors"
CYCLES, CYCLES_WITH_FRAMES = "_poll_cycles", "_poll_cycles_with_frames"
DEVICE_FRAMES = "device_frames"
"""Frames of a program that is the DUT, by its own count."""
_LIMIT = "_limit_celsius"
IDLE, STEAL = "idle", "steal"
"""States of a core: without work, and taken by a hypervisor."""
_CORE = re.compile(r"cpu(\d+)_([a-z]+)_percent")


def has_polls(counters: Iterable[str]) -> bool:
    """Return whether any of these counters is one of frames_and_calls() or poll_cycle_shares()."""
    return any(name.endswith((VECTORS, CYCLES)) for name in counters)


def frames_and_calls(counters: Mapping[str, float]) -> list[tuple[float, float]]:
    """Return, for each polling input, the number of frames that it found, and the number of polls."""
    return [(of, counters.get(name.removesuffix(VECTORS) + CALLS, 0.0)) for name, of in counters.items() if name.endswith(VECTORS)]


def poll_cycle_shares(counters: Mapping[str, float]) -> list[float]:
    """Return, for each polling thread that counts its cycles, the share of cycles with frames."""
    cycles = {name.removesuffix(CYCLES): of for name, of in counters.items() if name.endswith(CYCLES) and of > 0}
    return [counters.get(thread + CYCLES_WITH_FRAMES, 0.0) / whole for thread, whole in cycles.items()]


def limit_name(temperature: str) -> str:
    """Return the name of a temperature's limit: `core_0_limit_celsius` for `core_0_celsius`."""
    return temperature.removesuffix("_celsius") + _LIMIT


def is_limit(name: str) -> bool:
    """Return whether a sample is the limit of a temperature."""
    return name.endswith(_LIMIT)


def core_sample(core: int, state: str) -> str:
    """Return the name of the sample of a core's time in a state: `cpu3_softirq_percent`."""
    return f"cpu{core}_{state}_percent"


def core_of(name: str) -> tuple[int, str] | None:
    """Return the core and the state of a sample's name; None for other names."""
    match = _CORE.fullmatch(name)
    return None if match is None else (int(match[1]), match[2])
