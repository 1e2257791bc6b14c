"""Calibrations of rigs, in XDG_CACHE_HOME/dutlab/calibrations: one file for each set of facts that identifies a rig.

If a fact of a rig changes (kernel, CPU, driver, engine, …), its file name changes, so an old calibration is never used for it.
A calibration older than LASTS is not used. Points made by another version of the generator are not used. Disturbed points are used
only where disturbed trials count.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, ValidationError

from dutlab import outside
from dutlab.bounds import PART
from dutlab.errors import StoreError
from dutlab.methods.calibrate import RigPoint
from dutlab.outside import UnfitFile
from dutlab.spec.generators import ENGINE, GeneratorModel
from dutlab.store.replace import replace_file
from dutlab.store.write import as_json
from dutlab.user_cache import user_cache

LASTS = timedelta(days=7)
"""Age limit of a calibration. Things outside the facts may change, such as a neighbour on the same hypervisor or a worn cable."""
_SAME_RIG = ("lab", "testbed", "rig", "links")


class Calibration(BaseModel):
    """Results of a rig, and the facts under which it was measured."""

    model_config = ConfigDict(defer_build=True, extra="forbid", frozen=True)

    schema_version: Literal[4] = 4
    """Schema version of a run folder: a run stores its calibration there."""
    measured: datetime
    """Time of the oldest point."""
    facts: dict[str, Any]
    points: list[RigPoint]

    def has(self, links: tuple[str, ...], mix: str, generator: GeneratorModel = ENGINE, *, loads: int = 1) -> bool:
        """Return whether these links were measured together with this mix and generator, under at least `loads` loads."""
        return len({p.intended_pps for p in self.points if (p.links, p.mix, p.generator) == (links, mix, generator)}) >= loads

    def still_of(self, versions: Mapping[str, str]) -> Self:
        """Return a copy without points of other generator versions than those in `versions`. Generators not in `versions` are kept."""
        now = {p.generator: versions.get(p.generator.kind) for p in self.points}
        return self.model_copy(update={"points": [p for p in self.points if now[p.generator] in {None, p.version}]})

    def undisturbed(self) -> Self:
        """Return a copy without the mixes that have a disturbed load."""
        bad = {(p.links, p.mix, p.generator) for p in self.points if p.disturbed}
        return self.model_copy(update={"points": [p for p in self.points if (p.links, p.mix, p.generator) not in bad]})

    def with_points(self, points: list[RigPoint], now: datetime) -> Calibration:
        """Return a copy with newer points, without the points that they replace."""
        new = {(p.links, p.mix, p.generator) for p in points}
        rest = [p for p in self.points if (p.links, p.mix, p.generator) not in new]
        return self.model_copy(update={"points": [*rest, *points], "measured": self.measured if rest else now})


def cache_folder(environment: Mapping[str, str] | None = None) -> Path:
    """Return the folder of calibrations."""
    return user_cache(environment) / "calibrations"


def cache_file(facts: Mapping[str, Any], folder: Path) -> Path:
    """Return the path of the calibration of a rig with these facts."""
    return folder / f"{hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]}.json"


def cached(
    facts: Mapping[str, Any],
    folder: Path,
    *,
    now: datetime,
    versions: Mapping[str, str] | None = None,
    disturbed: Literal["repeat", "count"] = "repeat",
) -> Calibration | None:
    """Return the calibration for these facts; None if it is missing, unreadable or too old, so that the rig is measured again.

    `versions` is generator → current version, without options: points of other versions are left out. `disturbed` is the setting of the
    experiment: disturbed points are kept only if it is `count`.
    """
    try:
        calibration = Calibration.model_validate_json(outside.read(cache_file(facts, folder), PART))
    except (OSError, UnfitFile, ValidationError):
        return None
    if calibration.facts != dict(facts) or now - calibration.measured > LASTS:
        return None
    calibration = calibration.still_of(versions or {})
    return calibration if disturbed == "count" else calibration.undisturbed()


def superseded(facts: Mapping[str, Any], folder: Path) -> tuple[datetime, list[str]] | None:
    """Return when this rig was last measured, and the facts changed since then (`source.kernel.release`); None if it never was."""
    same = []
    for path in folder.glob("*.json"):
        try:
            calibration = Calibration.model_validate_json(outside.read(path, PART))
        except (OSError, UnfitFile, ValidationError):
            continue
        if all(calibration.facts.get(key) == facts.get(key) for key in _SAME_RIG):
            same.append(calibration)
    newest = max(same, key=lambda c: c.measured, default=None)
    return None if newest is None else (newest.measured, sorted(_differences(newest.facts, facts)))


def _differences(old: Any, new: Any, at: str = "") -> Iterator[str]:  # noqa: ANN401 -- JSON
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in old.keys() | new.keys():
            yield from _differences(old.get(key), new.get(key), f"{at}.{key}".lstrip("."))
    elif old != new:
        yield at


def keep(calibration: Calibration, folder: Path) -> Path | None:
    """Write the calibration to the cache atomically. Return its path; None if it cannot be written: the rig is then measured again."""
    path = cache_file(calibration.facts, folder)
    try:
        return replace_file(path, as_json(calibration.model_dump(mode="json")))
    except StoreError:
        return None
