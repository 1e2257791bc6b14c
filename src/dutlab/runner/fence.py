"""Fencing tokens, which stop a process that lost its lease: each holder of a place writes its token there, and the highest one counts.

A token is the name of a file that is made once and never replaced. So two holders that write at the same time cannot overwrite each other.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from dutlab import outside
from dutlab.bounds import INPUT
from dutlab.errors import TestbedError
from dutlab.store.write import write_once

_NAMED = "DUTLAB_FENCE"
_DIGITS = 12


@dataclass(frozen=True)
class Fence:
    """Fence of a place. `token` belongs to this process's lease."""

    folder: Path
    token: int

    @classmethod
    def of_process(cls) -> Self | None:
        """Return the fence that the parent process passed on in `environment`; None without one."""
        folder, _, token = os.environ.get(_NAMED, "").rpartition(":")
        return cls(Path(folder), int(token)) if folder and token.isdecimal() else None

    @property
    def environment(self) -> dict[str, str]:
        """Environment variable that passes the fence to a child process."""
        return {_NAMED: f"{self.folder}:{self.token}"}

    def put_up(self, facts: dict[str, str]) -> None:
        """Write the token, with `facts` about its holder; older tokens are stale from then on. Raises StoreError."""
        self.folder.mkdir(parents=True, exist_ok=True)
        write_once(self.folder / f"{self.token:0{_DIGITS}d}", json.dumps(facts).encode())

    def is_stale(self) -> bool:
        """Return whether a later lease was taken."""
        newest = newest_token(self.folder)
        return newest is not None and newest > self.token

    def end_if_stale(self) -> None:
        """End this process at once if its token is stale, without clean-up: the new holder undoes the changes, so this one must not."""
        if self.is_stale():
            sys.stderr.write(f"dutlab: {self.folder.parent}: another process holds this place now; ended without a further step\n")
            sys.stderr.flush()
            os._exit(TestbedError.exit_status)


def newest_token(folder: Path) -> int | None:
    """Return the newest token of all holders; None if there is none."""
    try:
        return max((int(path.name) for path in folder.iterdir() if path.name.isdecimal()), default=None)
    except FileNotFoundError:
        return None


def facts_of(folder: Path, token: int) -> dict[str, Any]:
    """Return the facts that the holder of `token` wrote."""
    return dict(json.loads(outside.read(folder / f"{token:0{_DIGITS}d}", INPUT)))
