"""The run's journal: one JSON object a line, on the disk before the step that it announces is taken.

Resume and undo read it. A line that a crash cut short is ignored: what it announced had not begun. Each line is sealed (store/seal.py).
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
"""The lab was taken down, or somebody removed it: everything that was changed in it is gone with it."""


_LOCK_ATTEMPTS, _LOCK_PAUSE_S = 50, 0.02
_LEASES = {"leasing", "lease-left"}
"""The second names those that could not be given back."""


class Journal:
    """Appends to `journal.jsonl` of one run; holds a lock on it, so that two processes never carry out one run."""

    def __init__(self, path: Path) -> None:
        """Raises InputError when another process has the run, StoreError when the file cannot be opened."""
        self._path = path
        try:
            self._file = os.fdopen(open_to_append(path), "ab", buffering=0)
        except OSError as e:
            raise StoreError(f"{path}: {e.strerror}", remedy="see that the run folder exists and can be written") from e
        if not _locked(self._file.fileno()):
            self._file.close()
            raise InputError(f"{path.parent}: another dutlab is running it", remedy="wait for it, or end it first")
        self._fence = Fence.of_process()
        self._seal, self._length_seal = self._new_line()
        self._is_torn = False

    def write(self, event: str, **facts: object) -> None:
        """Appends one entry and waits for the disk. Raises StoreError. Ends a process whose lease another one has taken."""
        if self._fence is not None:
            self._fence.end_if_stale()
        if self._is_torn:
            self._length_seal.close()
            self._seal, self._length_seal = self._new_line()
        line = self._seal.sealed({"at": datetime.now(UTC).isoformat(timespec="milliseconds"), "event": event, **facts})
        self._is_torn, rest = True, line
        try:
            while rest:
                rest = rest[self._file.write(rest) :]  # part of it where the disk is full, which the next write says
            os.fsync(self._file.fileno())
        except OSError as e:
            raise StoreError(f"{self._path}: {e.strerror}", remedy="make room on the disk, then `dutlab resume` the run") from e
        self._seal.wrote(line)
        self._length_seal.wrote(line)
        self._is_torn = False

    def _new_line(self) -> tuple[LineSeal, LengthSeal]:
        """Ends the line that a crash or a full disk cut, so that the next one is separate."""
        before = outside.read(self._path, bounds.JOURNAL)
        if before and not before.endswith(b"\n"):
            self._file.write(b"\n")
            before += b"\n"
        return LineSeal(self._path.parent, before), LengthSeal(self._path.parent, before)

    def close(self) -> None:
        """Lets go of the lock."""
        self._file.close()
        self._length_seal.close()


def _locked(descriptor: int) -> bool:
    """Takes the lock, unless another process keeps it: one that only asks who has it (dutlab.store.find) lets go at once."""
    for attempt in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            time.sleep(_LOCK_PAUSE_S * (attempt + 1 < _LOCK_ATTEMPTS))
        else:
            return True
    return False


def read_journal(path: Path) -> list[Entry]:
    """Every whole entry, in order; none of a run that was cut before it began one. Raises StoreError when the file cannot be read."""
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
    """For the journal."""
    return [
        {"host": s.host, "argv": list(s.argv), "stdin": s.stdin, "why": s.why}
        | {name: value for name, value in (("back_within_s", s.back_within_s), ("switch", s.switch)) if value}
        for s in steps
    ]


def _undo_from_json(steps: Iterable[Mapping[str, Any]]) -> list[UndoStep]:
    return [UndoStep(s["host"], tuple(s["argv"]), s["stdin"], s["why"], s.get("back_within_s", 0.0), s.get("switch", "")) for s in steps]


def pending_undo(entries: Iterable[Entry]) -> list[tuple[str, list[UndoStep]]]:
    """(application, its steps) of every level, mode, port and change inside a trial that was begun and never restored; the newest first."""
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
class Unreset:
    """Reset of conducted steps that began and did not end in order: no `steps` when all did."""

    steps: tuple[UndoStep, ...] = ()
    reached: Mapping[str, str | None] = field(default_factory=dict)
    """Host → how ssh reaches it, None for this machine."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """Host of the run's own lab → its name there."""

    @property
    def outside(self) -> tuple[UndoStep, ...]:
        """Those of them that need no lab."""
        return tuple(step for step in self.steps if step.host not in self.roles)


def unreset(entries: Iterable[Entry]) -> Unreset:
    """Return what is left of Reset. With a lab goes what was to be reset in it."""
    left = Unreset()
    for entry in entries:
        if entry["event"] == "steps-begun":
            left = Unreset(
                tuple(_undo_from_json(entry["reset"])),
                {str(name): None if ssh is None else str(ssh) for name, ssh in entry["hosts"].items()},
                {str(name): str(role) for name, role in entry.get("roles", {}).items()},
            )
        elif entry["event"] in ("steps-ended", "steps-reset"):
            left = Unreset()
        elif entry["event"] in _LAB_ENDS:
            left = Unreset(left.outside, left.reached)
    return left


def unproven_trials(entries: Iterable[Entry]) -> frozenset[int]:
    """Return trials that began in a mode which was not verified after them: it is not known whether it held to their end.

    A mode that was refused needs no proof: nothing is measured in it.
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
    """Trials whose record says no more than that a program of the rig was killed, and which."""
    killed: dict[int, str] = {}
    for entry in entries:
        if entry["event"] in {"trial-finished", "attempt-set-aside"}:
            killed.pop(trial := int(entry["trial"]), None)
            if programs := entry.get("killed"):
                killed[trial] = ", ".join(map(str, programs))
    return killed


def open_trial(entries: Iterable[Entry]) -> int | None:
    """The trial that the present process has begun and not ended."""
    trial = None
    for entry in entries:
        if entry["event"] == "trial-started":
            trial = int(entry["trial"])
        elif entry["event"] in {"trial-finished", "run-resumed"}:
            trial = None
    return trial


def left_engines(entries: Iterable[Entry]) -> list[tuple[str, str]]:
    """(host, path) of every copy of the engine that may have been made there and was not removed."""
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
    """Label of the lab that the run built and has not taken down."""
    label = None
    for entry in entries:
        if entry["event"] == "lab-up":
            label = str(entry["label"])
        elif entry["event"] in _LAB_ENDS:
            label = None
    return label


def leased_hosts(entries: Iterable[Entry]) -> tuple[str, ...]:
    """The hosts whose leases the run has taken and not given back."""
    hosts: tuple[str, ...] = ()
    for entry in entries:
        if entry["event"] in _LEASES:
            hosts = tuple(str(name) for name in entry["hosts"])
        elif entry["event"] == "lease-ended" or entry["event"] in _LAB_ENDS:
            hosts = ()
    return hosts
