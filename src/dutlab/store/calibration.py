"""Calibrations of rigs: kept under XDG_CACHE_HOME/dutlab/calibrations, one file for each set of facts that a rig is told by.

A rig of which a fact has changed (kernel, CPU, driver, engine, …) has another file name, so that an old calibration is never taken for it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from dutlab.methods.calibrate import RigPoint
from dutlab.store.write import as_json


class Calibration(BaseModel):
    """What the rig did, and the facts it did it under."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    schema_version: Literal[1] = 1
    measured: datetime
    """Of the newest point."""
    facts: dict[str, Any]
    points: list[RigPoint]

    def has(self, links: tuple[str, ...], mix: str, generator: str = "engine", *, loads: int = 1) -> bool:
        """Whether these links were measured together with this mix from this generator, under at least so many loads."""
        return len({p.asked_pps for p in self.points if (p.links, p.mix, p.generator) == (links, mix, generator)}) >= loads

    def with_points(self, points: list[RigPoint], now: datetime) -> Calibration:
        """The same with newer points; those they replace are dropped."""
        new = {(p.links, p.mix, p.generator) for p in points}
        kept = [p for p in self.points if (p.links, p.mix, p.generator) not in new]
        return self.model_copy(update={"points": [*kept, *points], "measured": now})


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Where calibrations are kept (XDG Base Directory Specification; a relative XDG_CACHE_HOME is ignored, as it says)."""
    found = (os.environ if environment is None else environment).get("XDG_CACHE_HOME", "")
    base = Path(found) if Path(found).is_absolute() else Path.home() / ".cache"
    return base / "dutlab" / "calibrations"


def cache_file(facts: Mapping[str, Any], folder: Path) -> Path:
    """Where the calibration of a rig with these facts is or would be."""
    return folder / f"{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]}.json"


def cached(facts: Mapping[str, Any], folder: Path) -> Calibration | None:
    """The calibration for these facts; None when there is none, or none that can be read: then the rig is measured again."""
    try:
        found = Calibration.model_validate_json(cache_file(facts, folder).read_bytes())
    except (OSError, ValidationError):
        return None
    return found if found.facts == dict(facts) else None


def keep(calibration: Calibration, folder: Path) -> Path | None:
    """Puts it into the cache in one step; None when there is no room for it there, which costs only the time to measure again."""
    path = cache_file(calibration.facts, folder)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        part.write_bytes(as_json(calibration.model_dump(mode="json")))
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        return None
    return path
