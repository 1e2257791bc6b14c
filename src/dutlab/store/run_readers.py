"""Read the index rows of many runs: in this process while that is quick, otherwise in several processes at once.

One process mostly waits for the disk, one file after another, and parses on one core. The readers are forked from a separate process
that has imported the modules once, because this process may have threads, which a fork would lose.
If a reader has ended, this process reads its share. If this process is killed, the pipes close and the readers end.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from io import FileIO
from itertools import cycle
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from dutlab.store.manifest import MANIFEST

Rows = dict[str, list[tuple[Any, ...]]]
"""Rows of each table, in the order of its columns."""
FINISHED = "finished"
"""Beginning of the signature of a run with its manifest."""
_ALONE_S = 0.5
"""Seconds in which this process reads alone. Starting the readers takes about as long."""
_WORTH_S = 1.0
"""Smallest remaining time in seconds, at the pace so far, for which readers are started."""
_READERS = 8
"""Number of readers, also on fewer cores, because a disk is faster with several requests at once. One process takes in their rows;
two or three cores of readers keep it busy."""
_AT_ONCE = 8
"""Runs given to a reader at a time. It has two such portions, so that it never waits."""


class KnownRun(NamedTuple):
    """Entry of an index about a run: name, current inode number of the folder, and signature when it was read (empty: never)."""

    name: str
    folder: int
    seen: str


class FoundRun(NamedTuple):
    """Current rows of a run."""

    name: str
    folder: int
    seen: str
    rows: Rows | None
    """Rows of the run. None: the index is up to date. Empty: the folder is not a run any more."""


def signature(path: str) -> str:
    """Return a signature of the run's folder. It changes while the run is running; a finished run's files do not change."""
    try:
        return f"{FINISHED} {os.stat(f'{path}/{MANIFEST}').st_mtime_ns}"  # noqa: PTH116 - called for every run of the folder
    except OSError:
        trials = Path(path, "trials")
    try:
        return f"open {trials.stat().st_mtime_ns} {sum(1 for _ in trials.glob('*/record.json'))}"
    except OSError:
        return "open"


def damaged_rows(path: Path, seen: str, folder: int, error: Exception) -> Rows:
    """Return the rows of a run that cannot be read, so that the index still has the other runs."""
    fault = f"{path}: cannot be read: {type(error).__name__}: {error}"[:2000].encode(errors="backslashreplace").decode()
    return {"runs": [(path.name, seen, folder, "", "", 0, "", "", 0, 0, 0, 0, 0, "damaged", "[]", "", fault)]}


def found_runs(runs: Path, known: Sequence[KnownRun], note: Callable[[str], None]) -> Iterator[FoundRun]:
    """Yield the current rows of each of the known runs, in order. `note` is called before other processes are started."""
    began = time.monotonic()
    for n, run in enumerate(known, 1):
        yield _found(runs, run)
        spent_s = time.monotonic() - began
        if spent_s > _ALONE_S and (len(known) - n) * spent_s / n > _WORTH_S:
            note(f"reading {len(known):,} runs for the index; later, only those that are new or have changed")
            yield from _runs_from_readers(runs, known[n:])
            return


def _found(runs: Path, run: KnownRun) -> FoundRun:
    path = f"{runs}/{run.name}"
    state = signature(path)
    if state == run.seen:
        return FoundRun(run.name, run.folder, state, None)
    if not os.path.exists(f"{path}/plan.json"):  # noqa: PTH110 - fast, for a hundred thousand runs
        return FoundRun(run.name, run.folder, state, {} if run.seen else None)
    from dutlab.store.run_rows import rows_of  # noqa: PLC0415 -- takes a quarter of a second, and an up-to-date index does not need it

    try:
        return FoundRun(run.name, run.folder, state, rows_of(Path(path), state, run.folder))
    except Exception as error:  # noqa: BLE001 - the boundary: foreign records are read here
        return FoundRun(run.name, run.folder, state, damaged_rows(Path(path), state, run.folder, error))


@dataclass(frozen=True)
class _Reader:
    """Process that reads runs in the order in which it receives them."""

    known: FileIO
    found: BinaryIO
    given: deque[Sequence[KnownRun]] = field(default_factory=deque)

    def give(self, some: Sequence[KnownRun]) -> None:
        self.given.append(some)
        with suppress(OSError):  # take() handles a reader that has ended
            self.known.write(pickle.dumps(some))

    def take(self, runs: Path) -> Sequence[FoundRun]:
        some = self.given.popleft()
        try:
            document: Sequence[FoundRun] = pickle.load(self.found)  # noqa: S301 - of our own process
        except (OSError, EOFError, pickle.UnpicklingError):
            return [_found(runs, run) for run in some]
        return document


def _runs_from_readers(runs: Path, known: Sequence[KnownRun]) -> Iterator[FoundRun]:
    parts = iter([known[n : n + _AT_ONCE] for n in range(0, len(known), _AT_ONCE)])
    with _readers(runs) as readers:
        for reader in (*readers, *readers):
            if some := next(parts, None):
                reader.give(some)
        for reader in cycle(readers):
            if not reader.given:
                return
            yield from reader.take(runs)
            if some := next(parts, None):
                reader.give(some)


@contextmanager
def _readers(runs: Path) -> Iterator[list[_Reader]]:
    with ExitStack() as ours:
        readers, theirs = list[_Reader](), list[int]()
        for _ in range(_READERS):
            (known_out, known_in), (found_out, found_in) = os.pipe(), os.pipe()
            readers.append(
                _Reader(ours.enter_context(os.fdopen(known_in, "wb", buffering=0)), ours.enter_context(os.fdopen(found_out, "rb")))
            )
            theirs += (known_out, found_in)
        import subprocess  # noqa: PLC0415 -- an index that is up to date needs no readers

        process = None
        try:
            argv = [sys.executable, "-P", "-c", f"from {__name__} import read; read()", str(runs), *map(str, theirs)]
            nothing = subprocess.DEVNULL
            process = subprocess.Popen(argv, pass_fds=theirs, stdin=nothing, stdout=nothing, stderr=nothing)
        except OSError:
            pass  # take() handles missing readers
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        try:
            yield readers
        finally:
            ours.close()
            if process is not None:
                process.wait()


def read() -> None:
    """Fork the readers and read runs until the pipes close. The arguments of the process come from _readers()."""
    import signal  # noqa: PLC0415 -- as above

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent process
    import dutlab.store.run_rows  # noqa: F401, PLC0415 -- once, before the fork
    from dutlab.store.record_reader import prepare  # noqa: PLC0415 -- as above

    prepare()
    runs, descriptors = Path(sys.argv[1]), [int(word) for word in sys.argv[2:]]
    pairs = list(zip(descriptors[::2], descriptors[1::2], strict=True))
    own = next((pair for pair in pairs[1:] if os.fork() == 0), pairs[0])
    for descriptor in descriptors:
        if descriptor not in own:
            os.close(descriptor)
    with suppress(EOFError, OSError), os.fdopen(own[0], "rb") as known, os.fdopen(own[1], "wb") as output:
        while True:
            pickle.dump([_found(runs, run) for run in pickle.load(known)], output, pickle.HIGHEST_PROTOCOL)  # noqa: S301 - of our own process
            output.flush()
    with suppress(ChildProcessError):
        while True:
            os.wait()
