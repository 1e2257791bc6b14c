"""The run's journal: one JSON object a line, written to disk before the step that it announces.

Resume and undo read it. A line truncated by a crash is ignored, since its step had not begun. Each line is sealed (store/seal.py).
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from dutlab import bounds, outside
from dutlab.dut.mode import UndoStep
from dutlab.errors import InputError, StoreError
from dutlab.runner.fence import Fence
from dutlab.store.seal import LengthSeal, LineSeal
from dutlab.store.write import open_to_append

Entry = Mapping[str, Any]

_CHANGES = {"level-applying", "mode-applying", "dut-changing", "ports-preparing", "rig-cabling"}
_RESTORES = {"level-restored", "mode-restored", "dut-restored", "ports-restored", "rig-removed"}
_LAB_ENDS = {"lab-down", "lab-gone"}
"""Events after which the lab no longer exists, with all changes in it."""


_LOCK_ATTEMPTS, _LOCK_PAUSE_S = 50, 0.02
_LEASES = {"leasing", "lease-left"}
"""Events that list leased hosts: leases taken, and leases that could not be released."""


class Journal:
    """Writer of one run's `journal.jsonl`. It holds a lock, so that two processes never carry out one run."""

    def __init__(self, path: Path) -> None:
        """Open and lock the file. Raises InputError if another process has the run, StoreError if the file cannot be opened."""
        self._path = path
        try:
            self._file = os.fdopen(open_to_append(path), "ab", buffering=0)
        except OSError as e:
            raise StoreError(f"{path}: {e.strerror}", remedy="check that the run folder exists and can be written") from e
        if not _locked(self._file.fileno()):
            self._file.close()
            raise InputError(f"{path.parent}: another dutlab is running it", remedy="wait for it, or end it first")
        self._fence = Fence.of_process()
        self._seal, self._length_seal = self._new_line()
        self._is_torn = False

    def write(self, event: str, **facts: object) -> None:
        """Append one entry and wait for the disk. Ends this process if another one has taken its lease. Raises StoreError."""
        if self._fence is not None:
            self._fence.end_if_stale()
        if self._is_torn:
            self._length_seal.close()
            self._seal, self._length_seal = self._new_line()
        line = self._seal.sealed({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts})
        self._is_torn, rest = True, line
        try:
            while rest:
                rest = rest[self._file.write(rest) :]  # a full disk takes a part of it, and the next write fails
            os.fsync(self._file.fileno())
        except OSError as e:
            raise StoreError(f"{self._path}: {e.strerror}", remedy="make room on the disk, then `dutlab resume` the run") from e
        self._seal.wrote(line)
        self._length_seal.wrote(line)
        self._is_torn = False

    def _new_line(self) -> tuple[LineSeal, LengthSeal]:
        """Start a new line after one that a crash or a full disk truncated; return the seals for it."""
        before = outside.read(self._path, bounds.JOURNAL)
        if before and not before.endswith(b"\n"):
            self._file.write(b"\n")
            before += b"\n"
        return LineSeal(self._path.parent, before), LengthSeal(self._path.parent, before)

    def close(self) -> None:
        """Close the file, which releases the lock."""
        self._file.close()
        self._length_seal.close()


def _locked(descriptor: int) -> bool:
    """Take the lock; False if another process keeps it. Tries for a second, since dutlab.store.find takes it briefly to test it."""
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_LOCK_PAUSE_S * (attempt + 1 < _LOCK_ATTEMPTS))
        else:
            return True
    return False


def read_journal(path: Path) -> list[Entry]:
    """Return the complete entries, in order; none if there is no journal. Raises StoreError if the file cannot be read."""
    try:
        lines = outside.read(path, bounds.JOURNAL).split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as e:
        raise StoreError(f"{path}: {e.strerror}", remedy="name a folder that `dutlab run` made") from e
    entries: list[Entry] = []
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict) and "event" in entry:
            entries.append(entry)
    return entries


def undo_to_json(steps: Sequence[UndoStep]) -> list[dict[str, object]]:
    """Return undo steps as JSON for the journal."""
    return [
        {"host": s.host, "argv": list(s.argv), "stdin": s.stdin, "why": s.why}
        | {name: value for name, value in (("back_within_s", s.back_within_s), ("switch", s.switch)) if value}
        for s in steps
    ]


def _undo_from_json(steps: Iterable[Mapping[str, Any]]) -> list[UndoStep]:
    return [UndoStep(s["host"], tuple(s["argv"]), s["stdin"], s["why"], s.get("back_within_s", 0.0), s.get("switch", "")) for s in steps]


def pending_undo(entries: Iterable[Entry]) -> list[tuple[str, list[UndoStep]]]:
    """Return (application, its undo steps) of every change that was begun and not restored, the newest first.

    Changes are levels, modes, ports, cables of the rig, and changes inside a trial.
    """
    begun: dict[str, list[UndoStep]] = {}
    for entry in entries:
        if entry["event"] in _CHANGES:
            begun[entry["application"]] = _undo_from_json(entry["undo"])
        elif entry["event"] in _RESTORES:
            begun.pop(entry["application"], None)
        elif entry["event"] in _LAB_ENDS:
            begun.clear()
    return list(reversed(begun.items()))


@dataclass(frozen=True)
class PendingReset:
    """Reset of conducted steps that began and did not end properly; no `steps` if they did."""

    steps: tuple[UndoStep, ...] = ()
    reached: Mapping[str, str | None] = field(default_factory=dict)
    """Host → its ssh destination; None for this machine."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Host → its name in the run's own lab."""

    @property
    def outside(self) -> tuple[UndoStep, ...]:
        """Steps that need no lab."""
        return tuple(step for step in self.steps if step.host not in self.roles)


def unreset(entries: Iterable[Entry]) -> PendingReset:
    """Return the Reset that is still to be done. Steps in a lab that is gone are left out."""
    left = PendingReset()
    for entry in entries:
        if entry["event"] == "steps-begun":
            left = PendingReset(
                tuple(_undo_from_json(entry["reset"])),
                {str(name): None if ssh is None else str(ssh) for name, ssh in entry["hosts"].items()},
                {str(name): str(role) for name, role in entry.get("roles", {}).items()},
            )
        elif entry["event"] in ("steps-ended", "steps-reset"):
            left = PendingReset()
        elif entry["event"] in _LAB_ENDS:
            left = PendingReset(left.outside, left.reached)
    return left


def unproven_trials(entries: Iterable[Entry]) -> frozenset[int]:
    """Return trials whose mode was not verified after them, so that it may have been lost during them.

    Trials in a refused mode are left out, since they are not measured.
    """
    unproven, since, measures = set[int](), set[int](), False
    for entry in entries:
        event = entry["event"]
        if event in {"mode-applying", "mode-held", "mode-lost"}:
            unproven -= since if event != "mode-applying" else set()
            since.clear()
        elif event in {"mode-verified", "mode-refused"}:
            measures = event == "mode-verified"
        elif event == "trial-started" and measures:
            since.add(int(entry["trial"]))
            unproven.add(int(entry["trial"]))
    return frozenset(unproven)


def killed_trials(entries: Iterable[Entry]) -> dict[int, str]:
    """Return trial → programs of the rig that were killed in it, for trials without a result."""
    killed: dict[int, str] = {}
    for entry in entries:
        if entry["event"] in {"trial-finished", "attempt-set-aside"}:
            killed.pop(trial := int(entry["trial"]), None)
            if programs := entry.get("killed"):
                killed[trial] = ", ".join(map(str, programs))
    return killed


def open_trial(entries: Iterable[Entry]) -> int | None:
    """Return the number of the trial that the current process has begun and not ended."""
    trial = None
    for entry in entries:
        if entry["event"] == "trial-started":
            trial = int(entry["trial"])
        elif entry["event"] in {"trial-finished", "run-resumed"}:
            trial = None
    return trial


def left_engines(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """Return (host, path) of every copy of the engine that may exist and was not removed."""
    left: dict[str, str] = {}
    for entry in entries:
        if entry["event"] == "engine-copying":
            left[str(entry["host"])] = str(entry["path"])
        elif entry["event"] == "engine-removed":
            left.pop(str(entry["host"]), None)
        elif entry["event"] in _LAB_ENDS:
            left.clear()
    return list(left.items())


def standing_lab(entries: Iterable[Entry]) -> str | None:
    """Return the label of the lab that the run built and has not taken down; None if there is none."""
    label = None
    for entry in entries:
        if entry["event"] == "lab-up":
            label = str(entry["label"])
        elif entry["event"] in _LAB_ENDS:
            label = None
    return label


def leased_hosts(entries: Iterable[Entry]) -> tuple[str, ...]:
    """Return the hosts whose leases the run has taken and not released."""
    hosts: tuple[str, ...] = ()
    for entry in entries:
        if entry["event"] in _LEASES:
            hosts = tuple(str(name) for name in entry["hosts"])
        elif entry["event"] == "lease-ended" or entry["event"] in _LAB_ENDS:
            hosts = ()
    return hosts
