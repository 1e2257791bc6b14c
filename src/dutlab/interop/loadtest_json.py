"""Reader and writer of trex-loadtest's JSON: one ramp, one sample a second, in the form that its graphs (trex-loadtest-viz) read.

    {"vars":  {"warmup_mult": "1kpps", "warmup_duration": 30, "rampup_target": 100, "rampup_duration": 600, "hold_duration": 30,
               "profile_file": "imix.py", "unidirectional": false},
     "stats": {"1000.5": {"0": {"tx_pps": 1e5, "rx_pps": 1e5, "tx_util": 6.7, "rx_util": 6.7}, "1": {…}}, …}}

Channel 0 is the port that sends in the forward direction, channel 1 the port behind the DUT. Forward frames are `tx` of 0 and `rx` of 1.
The order of the samples in the file is their order in time. Rates must be written as floats, or the graphs divide them as whole numbers.
A sample without traffic breaks the graphs, so none is written. `tx_bps_L1` and `rx_bps_L1` are the names in TRex's own statistics; the
graphs ignore them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dutlab.bounds import LARGEST_NUMBER
from dutlab.errors import InputError
from dutlab.units import parse_duration

CHANNELS = ("0", "1")
REQUIRED = ("warmup_mult", "warmup_duration", "rampup_target", "rampup_duration", "hold_duration", "profile_file")
_RATES = ("tx_pps", "rx_pps", "tx_util", "rx_util")
_BITS = ("tx_bps_L1", "rx_bps_L1")
_MOST_FAULTS = 20
_PROFILES = {"64": "udp_1pkt_simple_bdir.py"}
"""Frame size → name of its profile in the graphs. Every other name is used unchanged."""


@dataclass(frozen=True)
class Channel:
    """Rates of a port in one second: frames and bits a second, and utilisation in percent of its line rate."""

    tx_pps: float
    rx_pps: float
    tx_util: float
    rx_util: float
    tx_bps_l1: float | None = None
    rx_bps_l1: float | None = None


@dataclass(frozen=True)
class LoadtestSample:
    """Sample of one second. `key` is its name in the file, usually a time stamp."""

    key: str
    ports: tuple[Channel, Channel]


@dataclass(frozen=True)
class LoadtestFile:
    """Contents of a trex-loadtest file. Durations are in seconds, `rampup_target` in percent of line rate."""

    warmup_mult: str
    warmup_duration: float
    rampup_target: float
    rampup_duration: float
    hold_duration: float
    profile_file: str
    samples: tuple[LoadtestSample, ...]
    unidirectional: bool = False

    @property
    def profile(self) -> str:
        """Name in the graphs: `imix`, `64B`, else the file's name without `.py`."""
        name = self.profile_file.rsplit("/", 1)[-1]
        return "64B" if name == _PROFILES["64"] else name.removesuffix(".py")

    @property
    def line_bps_l1(self) -> float | None:
        """Line rate from bits ÷ utilisation in the busiest second; None without both."""
        pairs = [(c.rx_util, c.rx_bps_l1) for s in self.samples for c in s.ports if c.rx_bps_l1 and c.rx_util > 0]
        util, bits = max(pairs, default=(0.0, None))
        return None if bits is None else bits / util * 100


def profile_file(frame_size: str) -> str:
    """Return the file's name of one of our frame sizes or mixes."""
    return _PROFILES.get(frame_size, f"{frame_size}.py")


def to_bytes(of: LoadtestFile) -> bytes:
    """Return the file as bytes. Samples without sent frames are left out."""
    directions = CHANNELS[:1] if of.unidirectional else CHANNELS
    samples = [s for s in of.samples if all(s.ports[int(c)].tx_pps > 0 for c in directions)]
    data = {
        "vars": {
            "warmup_mult": of.warmup_mult,
            "warmup_duration": _short(of.warmup_duration),
            "rampup_target": _short(of.rampup_target),
            "rampup_duration": _short(of.rampup_duration),
            "hold_duration": _short(of.hold_duration),
            "profile_file": of.profile_file,
            "unidirectional": of.unidirectional,
        },
        "stats": {s.key: {c: _channel(port) for c, port in zip(CHANNELS, s.ports, strict=True)} for s in samples},
    }
    return json.dumps(data, indent=1, allow_nan=False).encode() + b"\n"


def from_bytes(data: bytes, name: str) -> LoadtestFile:
    """Read the file `name`. Raises InputError with all faults, up to a limit."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as e:
        raise _refused(name, [f"not JSON: {e}"]) from e
    parts = {key: document.get(key) if isinstance(document, dict) else None for key in ("vars", "stats")}
    faults = [f"{key}: missing, or no object" for key, value in parts.items() if not isinstance(value, dict)]
    variables, stats = (value if isinstance(value, dict) else {} for value in parts.values())
    if not faults:
        faults += [f"vars.{key}: missing" for key in REQUIRED if key not in variables]
        faults += [] if stats else ["stats: empty"]
        faults += _faults_of(stats)
    if faults:
        raise _refused(name, faults)
    try:
        return LoadtestFile(
            warmup_mult=str(variables["warmup_mult"]),
            warmup_duration=_seconds(variables["warmup_duration"]),
            rampup_target=float(str(variables["rampup_target"]).strip().removesuffix("%")),
            rampup_duration=_seconds(variables["rampup_duration"]),
            hold_duration=_seconds(variables["hold_duration"]),
            profile_file=str(variables["profile_file"]),
            samples=tuple(LoadtestSample(key, (_port(of["0"]), _port(of["1"]))) for key, of in stats.items()),
            unidirectional=bool(variables.get("unidirectional")),
        )
    except ValueError as e:
        raise _refused(name, [f"vars: {e}"]) from e


def _faults_of(stats: Mapping[str, Any]) -> Iterator[str]:
    for key, of in stats.items():
        for channel in CHANNELS:
            port = of.get(channel) if isinstance(of, dict) else None
            if not isinstance(port, dict):
                yield f"stats.{key}.{channel}: missing, or no object"
                continue
            for field in _RATES:
                if not _is_rate(port.get(field)):
                    yield f"stats.{key}.{channel}.{field}: {'missing' if field not in port else f'{port[field]!r} is not a rate'}"


def _is_rate(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= LARGEST_NUMBER


def _refused(name: str, faults: Sequence[str]) -> InputError:
    more = len(faults) - _MOST_FAULTS
    sentences = [*faults[:_MOST_FAULTS], *([f"and {more} more"] if more > 0 else [])]
    return InputError(
        f"{name} is not a trex-loadtest file: {'; '.join(sentences)}", remedy="give the JSON that trex-loadtest writes with -o"
    )


def _port(of: Mapping[str, Any]) -> Channel:
    bits = [float(of[k]) if _is_rate(of.get(k)) else None for k in _BITS]
    return Channel(*(float(of[k]) for k in _RATES), *bits)


def _channel(port: Channel) -> dict[str, float]:
    rates = {k: float(v) for k, v in zip(_RATES, (port.tx_pps, port.rx_pps, port.tx_util, port.rx_util), strict=True)}
    bits = {k: float(v) for k, v in zip(_BITS, (port.tx_bps_l1, port.rx_bps_l1), strict=True) if v is not None}
    return rates | bits


def _seconds(value: object) -> float:
    return parse_duration(value) if isinstance(value, str) and not value.strip().replace(".", "", 1).isdigit() else float(str(value))


def _short(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value
