"""State that is written before a lab is built, so that any later process can take down exactly that lab."""

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
    """A label that no standing lab has."""
    return f"lab-{secrets.token_hex(3)}"


def check_label(label: str) -> str:
    """Returns `label`. Raises InputError when it is none."""
    if not LABEL.fullmatch(label):
        raise InputError(f"{label!r} is not a label for a lab", remedy="use up to 24 of a-z, 0-9 and -, no - at the ends")
    return label


CONDUCTOR = "conductor"
"""Beside the roles, in a lab that is reached over ssh: the namespace at the far end of the management links."""


TESTER = "tester"
"""The one namespace of source and sink, in a lab where they are one host."""

SWITCH = "switch"
"""Beside the hosts, in a lab that has a segment: the namespace of the bridge that joins them."""
_EVERY_HOST = tuple(dict.fromkeys((*(host for lab in LABS.values() for host in lab.hosts), CONDUCTOR, TESTER, SWITCH)))


def namespaces_of(label: str, hosts: Iterable[str]) -> dict[str, str]:
    """Host → name of the network namespace."""
    return {host: f"dutlab-{label}-{host}" for host in hosts}


@dataclass(frozen=True)
class Owner:
    """The process that built a lab. The start time (clock ticks since boot) distinguishes it from a later one of the same number."""

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
    """One lab, as its state file has it."""

    label: str
    lab: str
    layout: str
    namespaces: Mapping[str, str]
    owner: Owner
    since_s: float
    """Seconds since the epoch."""
    complete: bool = False
    """False while it is built, and for ever if the builder was killed."""
    cpus: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    watch_cpu: int | None = None
    nice: int = 0
    """Priority of its programs and NAPI threads over other work (nice(1)); 0: none."""
    notes: tuple[str, ...] = ()
    napi_threads: tuple[int, ...] = ()
    """Process numbers of the kernel threads that serve its ports."""

    def completed(self, notes: tuple[str, ...], napi_threads: Iterable[int] = ()) -> LabState:
        """Return the lab, built to the end."""
        return replace(self, complete=True, notes=notes, napi_threads=tuple(napi_threads))

    @classmethod
    def unknown(cls, label: str) -> Self:
        """A lab of which only the label is known: its namespaces can be any that a lab has, and it cannot be used."""
        return cls(label, "", "", namespaces_of(label, _EVERY_HOST), Owner(0, 0), 0.0)

    def to_json(self) -> str:
        return json.dumps({"schema_version": 1, **asdict(self)}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Raises ValueError, KeyError or TypeError on a torn file."""
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
    """The labels of the labs that these names of network namespaces belong to; other names belong to none."""
    return {m[1] for name in namespaces if (m := _NAMESPACE.fullmatch(name))}


class StateFolder:
    """The folder of state files: /run/dutlab/labs, or the user's own runtime folder where /run cannot be written."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or _runtime_folder() / "dutlab" / "labs"

    def file(self, label: str) -> Path:
        return self.path / f"{check_label(label)}.json"

    def ssh_folder(self, label: str) -> Path:
        """Keys and configurations of a lab that is reached over ssh."""
        return self.path / f"{check_label(label)}.ssh"

    @property
    def no_kvm(self) -> Path:
        """There once KVM booted no guest of a lab: until this machine boots, none waits for it again."""
        return self.path.parent.with_name("dutlab-no-kvm")

    def claim(self, state: LabState) -> None:
        """Writes the file of a lab that is about to be built. Raises LabError when the label is taken."""
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
        """Replaces the file of a standing lab; makes it again where somebody has removed it. Raises LabError."""
        try:
            self._inside(lambda: self._replace(state))
        except OSError as e:
            raise LabError(f"cannot write {self.file(state.label)}: {e.strerror}", remedy=_WRITABLE) from e

    def _inside(self, do: Callable[[], _T]) -> _T:
        """Does what needs the folder; makes it again when another process removed it with the last lab just then. Raises OSError."""
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
        """None when there is no such lab. A torn file is a lab of which nothing was built: the file comes first."""
        try:
            return LabState.from_json(self.file(label).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            return LabState.unknown(label)

    def labels(self) -> list[str]:
        """Labels of all labs that have a file, completely built or not."""
        return sorted(p.stem for p in self.path.glob("*.json")) if self.path.is_dir() else []

    def forget(self, label: str) -> None:
        """Removes the lab's file, and the folders if it was the last."""
        self.file(label).with_suffix(".part").unlink(missing_ok=True)
        self.file(label).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # not empty, or not ours
            self.path.rmdir()
            self.path.parent.rmdir()

    @asynccontextmanager
    async def lock(self) -> AsyncIterator[None]:
        """Held by one builder on this machine at a time; released by the kernel when its process dies."""
        fd = self._inside(lambda: os.open(self.path, os.O_RDONLY | os.O_DIRECTORY))
        try:
            # Never waits in the kernel: the holder may be another task of this very event loop.
            while not locked(fd):  # noqa: ASYNC110 a lock of the file system has no event
                await asyncio.sleep(0.01)
            yield
        finally:
            os.close(fd)


def locked(fd: int) -> bool:
    """Lock an open file without waiting; False where another process has it."""
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
    """Field 22 of /proc/PID/stat (proc(5)); 0 when there is no such process."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
