"""Frame sizes as users write them: one size, a mix with a name, or a mix of their own. Sizes are bytes with FCS."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from pydantic import model_serializer
from pydantic_core import InitErrorDetails

from dutlab.spec.fields import Name
from dutlab.spec.model import SpecModel, did_you_mean, fault
from dutlab.units import SHORTEST_FRAME, FrameBytes

LONGEST_FRAME = FrameBytes(9216 + 18)
"""The largest MTU that a link may have, with Ethernet header and FCS (IEEE 802.3: 14 + 4 bytes)."""
ETH_FRAME_OVERHEAD = 14 + 4
MOST_WEIGHT = 10_000

NAMED_MIXES: Mapping[str, tuple[tuple[int, int], ...]] = MappingProxyType(
    {
        # IP lengths 40, 576 and 1500 at 7:4:1 on Ethernet: + 18 bytes, at least 64. The average is 361.83 bytes.
        "imix": ((64, 7), (594, 4), (1518, 1)),
        # FD.io CSIT, docs/content/methodology: 64/570/1518 at 28:16:4. The average is 353.83 bytes.
        "imix-csit": ((64, 28), (570, 16), (1518, 4)),
    }
)


class Mix(SpecModel):
    """Frame sizes and how often each is sent; one entry is a fixed size.

    Written `64`, `imix`, or `{name: web, parts: {64: 7, 1518: 5}}`.
    """

    name: Name
    parts: tuple[tuple[FrameBytes, int], ...]
    """(size, weight), the sizes ascending."""

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """A size or a mix's name as a mapping; weights by size as pairs."""
        if isinstance(data, str) and data.isascii() and data.isdigit() and len(data) < len("100000"):
            data = int(data)
        if isinstance(data, int) and not isinstance(data, bool):
            return {"name": str(_size(data)), "parts": ((data, 1),)}
        if isinstance(data, str):
            if data not in NAMED_MIXES:
                raise ValueError(f"{data!r} is no frame size and no mix {did_you_mean(data, NAMED_MIXES)}")
            return {"name": data, "parts": NAMED_MIXES[data]}
        if isinstance(data, Mapping) and isinstance(data.get("parts"), Mapping):
            return {**data, "parts": tuple(sorted(_part(size, weight) for size, weight in data["parts"].items()))}
        return data

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> list[InitErrorDetails]:
        """Whether there are sizes, each once, and a name that says nothing else."""
        del data
        if made is None:
            return []
        faults = []
        sizes = [size for size, _ in made.parts]
        if not sizes:
            faults.append(fault(("parts",), "empty; write weights by frame size, as in {64: 7, 1518: 5}"))
        elif len(set(sizes)) < len(sizes):
            faults.append(fault(("parts",), "a frame size stands twice; add its weights up"))
        fixed = len(sizes) == 1 and made.name == str(sizes[0])
        if not fixed and (made.name.isdigit() or NAMED_MIXES.get(made.name, made.parts) != made.parts):
            faults.append(fault(("name",), f"{made.name!r} already means something else; give the mix a name of its own"))
        return faults

    @property
    def mean(self) -> float:
        """Bytes with FCS of the average frame."""
        return sum(size * weight for size, weight in self.parts) / sum(weight for _, weight in self.parts)

    @property
    def size(self) -> FrameBytes | None:
        """The frame size, if there is only one and the mix is named by it."""
        return self.parts[0][0] if self.name.isdigit() else None

    @property
    def longest(self) -> FrameBytes:
        """The largest frame in it."""
        return max(size for size, _ in self.parts)

    @property
    def text(self) -> str:
        """`64:7,594:4,1518:1`: sizes with their weights, for serialised places."""
        return ",".join(f"{size}:{weight}" for size, weight in self.parts)

    @model_serializer
    def _written(self) -> dict[str, Any] | str:
        if self.name in NAMED_MIXES or self.name.isdigit():
            return self.name
        return {"name": self.name, "parts": dict(self.parts)}


def parse_mix_text(text: str) -> tuple[tuple[FrameBytes, int], ...]:
    """The parts that `Mix.text` wrote. Raises ValueError."""
    return tuple(_part(*part.split(":")) for part in text.split(","))


def _size(value: object) -> FrameBytes:
    size = _whole(value, "frame size")
    if not SHORTEST_FRAME <= size <= LONGEST_FRAME:
        raise ValueError(f"{size} is no frame size; {SHORTEST_FRAME} to {LONGEST_FRAME} bytes with FCS can be sent")
    return FrameBytes(size)


def _part(size: object, weight: object) -> tuple[FrameBytes, int]:
    count = _whole(weight, f"weight of {size}")
    if not 1 <= count <= MOST_WEIGHT:
        raise ValueError(f"weight of {size} must be 1 to {MOST_WEIGHT}, not {count}")
    return _size(size), count


def _whole(value: object, what: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < len("100000"):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{what} must be a whole number, not {value!r}")
