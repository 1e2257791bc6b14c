"""Ceiling of a PCI Express link, per direction. An upper bound: flow control, acknowledgements and skips take some more."""

from __future__ import annotations

from dataclasses import dataclass

from dutlab.physics.ceilings.ceiling import Ceiling, any_of, insist, number, positive

WIDTHS = (1, 2, 4, 8, 12, 16, 32)
PAYLOADS = (128, 256, 512, 1024, 2048, 4096)
FLIT_GENERATION = 6
TO_HOST_OVERHEAD = 24
"""Bytes around a memory write with a 4-dword header, as a device sends when a drive is read or a card receives."""
FROM_HOST_OVERHEAD = 20
"""Bytes around a completion with a 3-dword header, as the host sends when a drive is written or a card sends."""

_LANES = "AN 855 (8b/10b), AN 708 (128b/130b); generation 6: 236 of the 256 bytes of a flit carry packets"
_TLP = "AN 708: 5 to 7 dwords around a payload; 4-dword header 24 bytes, completion 20. Upper bound: read the real payload size"


@dataclass(frozen=True)
class Generation:
    """Gigatransfers a second of one lane, and the fraction of the bits that carries packets."""

    gigatransfers: float
    numerator: int
    denominator: int


GENERATIONS = {
    1: Generation(2.5, 8, 10),
    2: Generation(5.0, 8, 10),
    3: Generation(8.0, 128, 130),
    4: Generation(16.0, 128, 130),
    5: Generation(32.0, 128, 130),
    6: Generation(64.0, 236, 256),
}


@dataclass(frozen=True)
class PcieLink:
    """A link with its trained generation and width. Raises ValueError for values that do not exist."""

    generation: int
    width: int

    def __post_init__(self) -> None:
        insist([
            "" if self.generation in GENERATIONS else f"generation {self.generation} is not known, only {any_of(GENERATIONS)}",
            "" if self.width in WIDTHS else f"a link has {any_of(WIDTHS)} lanes, not {self.width}",
        ])  # fmt: skip

    @property
    def bytes_per_s(self) -> float:
        """Bytes a second after the line code, before packet headers."""
        gen = GENERATIONS[self.generation]
        return gen.gigatransfers * 1e9 * gen.numerator / gen.denominator / 8 * self.width

    def __str__(self) -> str:
        return f"Gen{self.generation} x{self.width}"


def payload_share(payload: int, overhead: int) -> float:
    """Return the payload's share of a packet with `payload` bytes and `overhead` around them."""
    return payload / (payload + overhead)


def pcie_ceilings(link: PcieLink, *, payload: int | None = None) -> tuple[Ceiling, ...]:
    """Return the rate of the link after its line code; with a maximum payload size (MPS), also its payload to and from the host.

    Raises ValueError.
    """
    gen, about = GENERATIONS[link.generation], str(link)
    raw = f"{gen.gigatransfers:g}e9 × {gen.numerator}/{gen.denominator} / 8 × {link.width}"
    out = [Ceiling("link_bytes_per_s", about, "link, each way", link.bytes_per_s, "B/s", raw, _LANES)]
    if payload is None:
        return tuple(out)
    flits = link.generation == FLIT_GENERATION
    insist([
        "" if payload in PAYLOADS else f"a maximum payload is one of {any_of(PAYLOADS)} bytes, not {payload}",
        "a link of generation 6 sends flits, for which this packet arithmetic does not hold; leave the payload out" if flits else "",
    ])  # fmt: skip
    for name, what, overhead in (
        ("to_host_bytes_per_s", "to the host (drive read, card receives)", TO_HOST_OVERHEAD),
        ("from_host_bytes_per_s", "from the host (drive written, card sends)", FROM_HOST_OVERHEAD),
    ):
        value = link.bytes_per_s * payload_share(payload, overhead)
        out.append(Ceiling(name, f"{about}, MPS {payload}", what, value, "B/s", f"{raw} × {payload} / ({payload} + {overhead})", _TLP))
    return tuple(out)


def oversubscription(devices: PcieLink, count: int, uplink: PcieLink, uplinks: int) -> float:
    """Return the oversubscription: the sum of the devices' links over that of the uplinks."""
    return devices.bytes_per_s * count / (uplink.bytes_per_s * uplinks)


def shared_ceilings(
    devices: PcieLink, count: int, uplink: PcieLink, uplinks: int, *, payload: int | None = None, spec_bytes_per_s: float | None = None
) -> tuple[Ceiling, ...]:
    """Return the oversubscription and rate of `count` devices behind `uplinks`; with a device's rating, also the share that passes.

    Raises ValueError.
    """
    insist([positive(count, "the number of devices"), positive(uplinks, "the number of uplinks"),
            "" if spec_bytes_per_s is None else positive(spec_bytes_per_s, "a device's rate")])  # fmt: skip
    about = f"{count} × {devices} behind {uplinks} × {uplink}"
    one = pcie_ceilings(uplink, payload=payload)[-1 if payload is None else 1]
    passes = one.value * uplinks
    ratio = oversubscription(devices, count, uplink, uplinks)
    sums = f"{count} × {number(devices.bytes_per_s)} / ({uplinks} × {number(uplink.bytes_per_s)})"
    out = [
        Ceiling("oversubscription_ratio", about, "oversubscription (to 1)", ratio, "", sums, "sum of the devices' links over the uplinks'"),
        Ceiling("uplinks_bytes_per_s", about, "all uplinks, to the host", passes, "B/s", f"{uplinks} × {number(one.value)}", one.source),
    ]
    if spec_bytes_per_s is not None:
        total, rated = spec_bytes_per_s * count, f"{count} × {number(spec_bytes_per_s)}"
        out += [
            Ceiling("spec_sum_bytes_per_s", about, "sum of the devices' rating", total, "B/s", rated, "data sheet"),
            Ceiling("reachable_ratio", about, "share of that sum that the uplinks pass", min(passes / total, 1.0), "",
                    f"{number(passes)} / {number(total)}", one.source),
        ]  # fmt: skip
    return tuple(out)
