"""Frame sizes as users write them: one size, a named mix, a genome, or a list. Sizes are bytes with FCS.

64                                           one size
imix                                         a mix with a name
aaafg                                        an IMIX genome (RFC 6985), sent in this order
{name: web, parts: {64: 7, 1518: 5}}         weights by size
{name: mine, genome: aAz, table: {A: 100, z: 1518}}
{name: own-order, sequence: [64, 64, 1518]}  this order, repeated
{from: 64, to: 1518, step: 2}                one frame of each size, repeated
{from: 64, to: 1518, seed: 7}                a thousand sizes drawn at random from the range, repeated in this order
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, ValidationError, model_serializer
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind, InputError
from dutlab.spec.fields import Name
from dutlab.spec.genome import LONGEST_SEQUENCE, looks_like_genome, read_genome
from dutlab.spec.model import SpecModel, ValueFault, did_you_mean, fault
from dutlab.spec.named_mixes import ETH_FRAME_OVERHEAD, FCS_BYTES, NAMED_MIXES
from dutlab.units import RFC2544_FRAME_SIZES, RFC5180_FRAME_SIZES, SHORTEST_FRAME, FrameBytes

__all__ = ["ETH_FRAME_OVERHEAD", "LONGEST_FRAME", "NAMED_MIXES", "SIZES_OF", "FrameSizes", "Mix", "frame_mix", "sizes_in_words"]

LONGEST_FRAME = FrameBytes(9216 + 18)
"""The largest MTU that a link may have, with Ethernet header and FCS (IEEE 802.3: 14 + 4 bytes)."""
MOST_WEIGHT = 10_000
_SWEEP = frozenset({"from", "to", "step"})
_DRAWN = frozenset({"from", "to", "seed"})
DRAWN_SIZES = 1000
"""Number of sizes drawn from a range; their mean is within a few percent of the range's."""


class Mix(SpecModel):
    """Frame sizes with weights or in an order; one entry is a fixed size."""

    name: Name
    parts: tuple[tuple[FrameBytes, int], ...]
    """Pairs (size, weight), by ascending size."""
    sequence: tuple[FrameBytes, ...] | None = None
    """Sizes in the order in which they are sent; None spreads them by weight, as evenly as whole frames allow."""

    written_as: ClassVar[tuple[Mapping[str, Any], ...]] = (
        {"type": "integer", "minimum": SHORTEST_FRAME, "maximum": LONGEST_FRAME},
        {"type": "string", "examples": [*NAMED_MIXES]},
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                **{key: {"type": "object"} for key in ("parts", "table")},
                "sequence": {"type": "array", "items": {"type": "integer"}},
                "genome": {"type": "string"},
                **{key: {"type": "integer"} for key in sorted(_SWEEP | _DRAWN)},
            },
            "additionalProperties": False,
        },
    )

    @classmethod
    def read(cls, data: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
        """Return any written form as name, (size, weight) pairs, and the order if there is one."""
        if isinstance(data, str) and data.isascii() and data.isdigit() and len(data) < len("100000"):
            data = int(data)
        if isinstance(data, int) and not isinstance(data, bool):
            return {"name": str(_size(data)), "parts": ((data, 1),)}
        if isinstance(data, str):
            if data not in NAMED_MIXES and looks_like_genome(data):
                return _in_order(data, read_genome(data))
            if data not in NAMED_MIXES:
                raise ValueFault(
                    f"{data!r} is not a frame size, a genome or a mix {did_you_mean(data, NAMED_MIXES)}", FaultKind.UNKNOWN_NAME
                )
            return {"name": data, "parts": NAMED_MIXES[data]}
        if not isinstance(data, Mapping):
            return data
        return _read_mapping(data)

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that there are sizes without duplicates, and that the name has no other meaning."""
        sizes = [size for size, _ in self.parts]
        if not sizes:
            yield fault(("parts",), "empty; write weights by frame size, as in {64: 7, 1518: 5}", FaultKind.MISSING)
        elif len(set(sizes)) < len(sizes):
            yield fault(("parts",), "duplicate frame size; add its weights up", FaultKind.DUPLICATE)
        elif self.sequence is not None and tuple(sorted(Counter(self.sequence).items())) != self.parts:
            yield fault(("parts",), "contradicts the sequence; leave it out", FaultKind.CONFLICT)
        elif _meaning(self.name) not in {None, (self.parts, self.sequence)}:
            yield fault(("name",), f"{self.name!r} already means something else; give the mix another name", FaultKind.DUPLICATE)

    @property
    def mean(self) -> float:
        """Mean frame size, in bytes with FCS."""
        return sum(size * weight for size, weight in self.parts) / sum(weight for _, weight in self.parts)

    @property
    def size(self) -> FrameBytes | None:
        """The frame size, if there is only one and it is the mix's name."""
        return self.parts[0][0] if self.name.isdigit() else None

    @property
    def shortest(self) -> FrameBytes:
        """The smallest frame in it."""
        return min(size for size, _ in self.parts)

    @property
    def longest(self) -> FrameBytes:
        """The largest frame in it."""
        return max(size for size, _ in self.parts)

    @property
    def text(self) -> str:
        """Text for serialised fields: sizes with weights, `64:7,594:4,1518:1`, or the runs of an order, `64x3>1280x1`."""
        if self.sequence is None:
            return ",".join(f"{size}:{weight}" for size, weight in self.parts)
        return ">".join(f"{size}x{count}" for size, count in _runs(self.sequence))

    @model_serializer
    def _written(self) -> dict[str, Any] | str:
        if _meaning(self.name) is not None:
            return self.name
        if self.sequence is not None:
            return {"name": self.name, "sequence": list(self.sequence)}
        return {"name": self.name, "parts": dict(self.parts)}


def _meaning(name: str) -> tuple[tuple[tuple[int, int], ...], tuple[int, ...] | None] | None:
    """Return weights and order of the size, named mix or genome called `name`; None for any other name."""
    if name.isdigit():
        return ((int(name), 1),), None
    if name in NAMED_MIXES:
        return NAMED_MIXES[name], None
    if looks_like_genome(name):
        sizes = read_genome(name)
        return tuple(sorted(Counter(sizes).items())), sizes
    return None


def _read_mapping(data: Mapping[str, Any]) -> Mapping[str, Any]:
    rest = dict(data)
    if "genome" in rest:
        table = rest.pop("table", {})
        if not isinstance(table, Mapping):
            raise ValueError("table must be frame sizes by letter, as in {A: 100, z: 1518}")
        letters = str(rest.pop("genome"))
        sizes = read_genome(letters, {str(a): _size(size) for a, size in table.items()})
        return _in_order(rest.pop("name", letters if looks_like_genome(letters) else None), sizes) | rest
    if rest.keys() >= _SWEEP:
        first, last, step = (_whole(rest.pop(key), key) for key in ("from", "to", "step"))
        if step < 1 or last < first:
            raise ValueFault(f"no sweep leads from {first} to {last} in steps of {step}; go upwards, by at least 1 byte", FaultKind.RANGE)
        return _in_order(rest.pop("name", f"{first}-to-{last}-by-{step}"), range(_size(first), _size(last) + 1, step)) | rest
    if rest.keys() >= _DRAWN:
        first, last, seed = (_whole(rest.pop(key), key) for key in ("from", "to", "seed"))
        if last < first:
            raise ValueFault(f"no size is from {first} to {last}; write the smaller one first", FaultKind.RANGE)
        drawn = Random(seed).choices(range(_size(first), _size(last) + 1), k=DRAWN_SIZES)  # noqa: S311 -- seeded: the same in every run
        return _in_order(rest.pop("name", f"{first}-to-{last}-seed-{seed}"), drawn) | rest
    if isinstance(rest.get("sequence"), list | tuple) and "parts" not in rest:
        return _in_order(rest.pop("name", None), rest.pop("sequence")) | rest
    if isinstance(rest.get("parts"), Mapping):
        return {**rest, "parts": tuple(sorted(_part(size, weight) for size, weight in rest["parts"].items()))}
    return rest


def _in_order(name: object, sizes: Sequence[object]) -> dict[str, Any]:
    if len(sizes) > LONGEST_SEQUENCE:
        raise ValueFault(f"the sequence is longer than {LONGEST_SEQUENCE} frames", FaultKind.RANGE)
    order = tuple(_size(size) for size in sizes)
    return ({} if name is None else {"name": name}) | {"parts": tuple(sorted(Counter(order).items())), "sequence": order}


def _runs(sizes: Sequence[int]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for size in sizes:
        if runs and runs[-1][0] == size:
            runs[-1] = (size, runs[-1][1] + 1)
        else:
            runs.append((size, 1))
    return runs


def frame_mix(size: str | float) -> Mix:
    """Return the mix called `size`, or of one frame size as number or text, in bytes with FCS. Raises InputError with the valid forms."""
    try:
        return Mix.model_validate(int(size) if isinstance(size, float) and size.is_integer() else size)
    except ValidationError as e:
        raise InputError(
            f"{size!r} is not a frame size: {e.errors()[0]['msg'].removeprefix('Value error, ')}",
            remedy="write bytes with FCS, as in 64, or imix",
        ) from e


def sizes_in_words(parts: Sequence[tuple[int, int]], *, most: int = 8) -> str:
    """Return each size with its weight: with FCS / without FCS / as IP length of an untagged frame, since tools differ in their meaning."""
    sizes = [f"{size}/{size - FCS_BYTES}/{size - ETH_FRAME_OVERHEAD} × {weight}" for size, weight in parts[:most]]
    left = len(parts) - most
    return ", ".join(sizes + ([f"{left} more up to {parts[-1][0]}"] if left > 0 else [])) + " (bytes with FCS/without/IP)"


def _size(value: object) -> FrameBytes:
    size = _whole(value, "frame size")
    if not SHORTEST_FRAME <= size <= LONGEST_FRAME:
        raise ValueFault(f"{size} is not a frame size; {SHORTEST_FRAME} to {LONGEST_FRAME} bytes with FCS can be sent", FaultKind.RANGE)
    return FrameBytes(size)


def _part(size: object, weight: object) -> tuple[FrameBytes, int]:
    count = _whole(weight, f"weight of {size}")
    if not 1 <= count <= MOST_WEIGHT:
        raise ValueFault(f"weight of {size} must be 1 to {MOST_WEIGHT}, not {count}", FaultKind.RANGE)
    return _size(size), count


def _whole(value: object, what: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < len("100000"):
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueFault(f"{what} must be a whole number, not {value!r}", FaultKind.TYPE)


SIZES_OF = {"rfc2544": RFC2544_FRAME_SIZES, "rfc5180": RFC5180_FRAME_SIZES}
"""Name → list of frame sizes, for IPv4 and for IPv6."""
FrameSizes = Annotated[
    tuple[Mix, ...],
    BeforeValidator(
        lambda written: list(SIZES_OF[written]) if isinstance(written, str) and written in SIZES_OF else written,
        json_schema_input_type=tuple[Mix, ...] | Literal["rfc2544", "rfc5180"],
    ),
]
"""Frame sizes and mixes, each with separate trials; or the name of a list in SIZES_OF."""
