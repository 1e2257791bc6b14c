"""Two runs in a folder, and what its index lists."""

from __future__ import annotations

from pathlib import Path

from dutlab.store.index import Wanted, list_runs, opened
from fake_run import Wanted as Made
from fake_run import build

FIRST, SECOND = "2026-11-01T0801Z-firewall-modes-0001", "2026-11-02T0801Z-firewall-modes-0002"


def two_runs(folder: Path) -> Path:
    """Both runs, built in an empty folder."""
    build(folder, Made(repeats=1, sizes=(64, "imix"), seconds=5, cores=2)).rename(folder / FIRST)
    build(folder, Made(repeats=1, sizes=(64,), seconds=5, cores=0, lab=True, modes={"nat": "nat"}, bad_luck=False)).rename(folder / SECOND)
    return folder


def listed(folder: Path, **wanted: str) -> dict[str, str]:
    with opened(folder) as index:
        return {r.name: r.status for r in list_runs(index, Wanted(**wanted))}
