"""Frame mixes and traffic as the generator takes them, from what the spec understood."""

from __future__ import annotations

from pydantic import ValidationError

from dutlab.errors import InputError
from dutlab.methods.ports import FrameMix
from dutlab.plan.cell import Cell
from dutlab.spec.mixes import Mix, parse_mix_text, parse_order
from dutlab.spec.traffic import Traffic


def frame_mix(size: str | float) -> FrameMix:
    """The mix called `size`, or one frame size as number or text, in bytes with FCS. Raises InputError that says what would be one."""
    try:
        mix = Mix.model_validate(int(size) if isinstance(size, float) and size.is_integer() else size)
    except ValidationError as e:
        raise InputError(
            f"{size!r} is not a frame size: {e.errors()[0]['msg'].removeprefix('Value error, ')}",
            remedy="write bytes with FCS, as in 64, or imix",
        ) from e
    return FrameMix(mix.name, mix.parts, mix.sequence)


def mix_of(cell: Cell) -> FrameMix:
    """The cell's mix: `frame_mix` holds its parts (`64:7,594:4`) or its order (`64x3>1518x1`), `frame_size` its name.

    Without parts the name must say all. Raises InputError.
    """
    size, parts = cell.params.get("frame_size"), cell.params.get("frame_mix")
    if size is None:
        raise InputError(f"workload {cell.workload} has no frame_size", remedy="write frame_sizes, as in [64, 1518, imix]")
    if parts is None:
        return frame_mix(size)
    try:
        return FrameMix(str(size), parse_mix_text(str(parts)), parse_order(str(parts)))
    except (ValueError, TypeError) as e:
        raise InputError(f"{parts!r} is not a frame mix: {e}", remedy="write weights by size, as in 64:7,594:4,1518:1") from e


def traffic_of(cell: Cell) -> Traffic:
    """The cell's `traffic`; without it one UDP flow. Raises InputError."""
    text = cell.params.get("traffic")
    try:
        return Traffic.parse(None if text is None else str(text))
    except ValidationError as e:
        raise InputError(f"{text!r} is not traffic: {e.errors()[0]['msg']}", remedy='write as in {"transport":"tcp"}') from e
