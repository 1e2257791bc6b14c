"""State files of labs. Each is written before its lab is built, so that any later process can take down exactly that lab."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import re
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self, TypeVar

from dutlab.errors import InputError, LabError
from dutlab.own_folder import own_folder
from dutlab.spec.known import LABS

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,22}[a-z0-9])?")


def new_label() -> str:
    """Return a random label for a new lab."""
    return f"lab-{secrets.token_hex(3)}"


def check_label(label: str) -> str:
    """Return `label`. Raises InputError if it is not a valid label."""
    if not LABEL.fullmatch(label):
        raise InputError(f"{label!r} is not a label for a lab", remedy="use up to 24 of a-z, 0-9 and -, no - at the ends")
    return label


CONDUCTOR = "conductor"
"""Additional namespace of a lab with ssh hosts: the far end of the management links."""


TESTER = "tester"
"""Namespace of both source and sink, in a lab where they are one host."""

SWITCH = "switch"
"""Additional namespace of a lab with a segment: the bridge that joins the hosts."""
_EVERY_HOST = tuple(dict.fromkeys((*(host for lab in LABS.values() for host in lab.hosts), CONDUCTOR, TESTER, SWITCH)))


def namespaces_of(label: str, hosts: Iterable[str]) -> dict[str, str]:
    """Return the name of each host's network namespace."""
    return {host: f"dutlab-{label}-{host}" for host in hosts}


@dataclass(frozen=True)
class Owner:
    """Process that built a lab. Its start time (clock ticks since boot) distinguishes it from a later process with the same PID."""

    pid: int
    start_ticks: int

    @classmethod
    def this_process(cls) -> Self:
        return cls(os.getpid(), _start_ticks(os.getpid()))

    @property
    def alive(self) -> bool:
        return self.start_ticks != 0 and _start_ticks(self.pid) == self.start_ticks


@dataclass(frozen=True)
class LabState:
    """One lab, as in its state file."""

    label: str
    lab: str
    layout: str
    namespaces: Mapping[str, str]
    owner: Owner
    since_s: float
    """Seconds since the epoch."""
    complete: bool = False
    """False until the lab is built. It stays False if the builder was killed."""
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    watch_cpu: int | None = None
    nice: int = 0
    """Nice value of its programs and NAPI threads (nice(1)); 0: the default priority."""
    notes: tuple[str, ...] = ()
    napi_threads: tuple[int, ...] = ()
    """PIDs of the kernel threads that serve its ports."""

    def completed(self, notes: tuple[str, ...], napi_threads: Iterable[int] = ()) -> LabState:
        """Return the state of the completely built lab."""
        return replace(self, complete=True, notes=notes, napi_threads=tuple(napi_threads))

    @classmethod
    def unknown(cls, label: str) -> Self:
        """Return the state of a lab of which only the label is known. It lists every possible namespace, and cannot be used."""
        return cls(label, "", "", namespaces_of(label, _EVERY_HOST), Owner(0, 0), 0.0)

    def to_json(self) -> str:
        return json.dumps({"schema_version": 1, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Parse a state file. Raises ValueError, KeyError or TypeError on a truncated file."""
        data: dict[str, Any] = json.loads(text)
        data.pop("schema_version")
        cpus = {role: tuple(of_role) for role, of_role in data.pop("cpus").items()}
        notes, threads = tuple(data.pop("notes")), tuple(data.pop("napi_threads"))
        return cls(owner=Owner(**data.pop("owner")), cpus=cpus, notes=notes, napi_threads=threads, **data)


_T = TypeVar("_T")
_MOST_TRIES = 100
_WRITABLE = "a lab needs a writable /run or XDG_RUNTIME_DIR"
_NAMESPACE = re.compile(rf"dutlab-({LABEL.pattern})-(?:{'|'.join(_EVERY_HOST)})")


def labels_among(namespaces: Iterable[str]) -> set[str]:
    """Return the labels of the labs with these network namespaces. Other namespaces are ignored."""
    return {m[1] for name in namespaces if (m := _NAMESPACE.fullmatch(name))}


class StateFolder:
    """Folder of state files: /run/dutlab/labs, or the user's runtime folder if /run is not writable."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _runtime_folder() / "dutlab" / "labs"

    def file(self, label: str) -> Path:
        return self.path / f"{check_label(label)}.json"

    def ssh_folder(self, label: str) -> Path:
        """Return the folder with keys and configurations of a lab with ssh hosts."""
        return self.path / f"{check_label(label)}.ssh"

    @property
    def no_kvm(self) -> Path:
        """Marker file: KVM failed to boot a guest. Labs do not try KVM again until this machine reboots."""
        return self.path.parent.with_name("dutlab-no-kvm")

    def claim(self, state: LabState) -> None:
        """Write the file of a lab before it is built. Raises LabError if the label is taken."""
        path = self.file(state.label)

        def write() -> None:
            with path.open("x", encoding="utf-8") as f:
                f.write(state.to_json())
                f.flush()
                os.fsync(f.fileno())

        try:
            self._inside(write)
        except FileExistsError:
            raise LabError(
                f"a lab labelled {state.label} exists already", remedy=f"`dutlab lab down {state.label}` or choose another label"
            ) from None
        except OSError as e:
            raise LabError(f"cannot write {path}: {e.strerror}", remedy=_WRITABLE) from e

    def rewrite(self, state: LabState) -> None:
        """Replace the file of a running lab, or write it again if it was removed. Raises LabError."""
        try:
            self._inside(lambda: self._replace(state))
        except OSError as e:
            raise LabError(f"cannot write {self.file(state.label)}: {e.strerror}", remedy=_WRITABLE) from e

    def _inside(self, do: Callable[[], _T]) -> _T:
        """Call `do` with an existing folder. Try again if another process just removed it with the last lab. Raises OSError."""
        for _ in range(_MOST_TRIES):
            with contextlib.suppress(FileNotFoundError):
                self._make()
                return do()
        self._make()
        return do()

    def _make(self) -> None:
        own_folder(self.path)

    def _replace(self, state: LabState) -> None:
        part = self.file(state.label).with_suffix(".part")
        part.write_text(state.to_json(), encoding="utf-8")
        part.replace(self.file(state.label))

    def read(self, label: str) -> LabState | None:
        """Return the lab's state, or None. A truncated file means that nothing was built yet, since the file is written first."""
        try:
            return LabState.from_json(self.file(label).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return LabState.unknown(label)

    def labels(self) -> list[str]:
        """Return the labels of all labs with a file, completely built or not."""
        return sorted(p.stem for p in self.path.glob("*.json")) if self.path.is_dir() else []

    def forget(self, label: str) -> None:
        """Remove the lab's file, and the folders if they are then empty."""
        self.file(label).with_suffix(".part").unlink(missing_ok=True)
        self.file(label).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty, or not ours
            self.path.rmdir()
            self.path.parent.rmdir()

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Hold the machine-wide lock for building labs. The kernel releases it when the process ends."""
        fd = self._inside(lambda: os.open(self.path, os.O_RDONLY | os.O_DIRECTORY))
        try:
            # Do not block in the kernel: the holder may be another task of this event loop.
            while not locked(fd):  # noqa: ASYNC110 a lock of the file system has no event
                await asyncio.sleep(0.01)
            yield
        finally:
            os.close(fd)


def locked(fd: int) -> bool:
    """Lock an open file without waiting; return False if another process holds the lock."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _runtime_folder() -> Path:
    if os.access("/run", os.W_OK):
        return Path("/run")
    return Path(os.environ.get("XDG_RUNTIME_DIR", "/run"))


def _start_ticks(pid: int) -> int:
    """Return the start time of a process: field 22 of /proc/PID/stat (proc(5)). Return 0 if there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
