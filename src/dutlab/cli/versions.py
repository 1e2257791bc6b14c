"""Versions that `gate` and `bisect` compare, from arguments of the command line, and experiments in the guest of `exact`."""

from __future__ import annotations

import gzip
import shlex
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dutlab import outside
from dutlab.bounds import RULES, XDP_OBJECT
from dutlab.cli.one_workload import as_yaml, given_workload
from dutlab.errors import InputError
from dutlab.outside import AtLink, UnfitFile
from dutlab.units import number_or_text

if TYPE_CHECKING:
    from dutlab.spec.loader import LoadedExperiment

EXACT_MODES = ("router", "filter-default", "nat")
"""Default modes of a guest."""
_MAGIC_AT, _MAGIC = 0x202, b"HdrS"
_ELF, _MACHINE, _BPF = b"\x7fELF", slice(0x12, 0x14), (247).to_bytes(2, "little")
"""e_machine of an ELF file, and EM_BPF (elf.h)."""


class VersionKind(StrEnum):
    """Kind of a version."""

    RULES = "rules"
    """A file for nft."""
    KERNEL = "kernel"
    """A bzImage, measured in each mode."""
    COMMANDS = "commands"
    """Words of the guest's shell, in the router's namespace."""
    XDP = "xdp"
    """An object file with an XDP program in section `xdp`, for the receiving port of a router."""
    EXPERIMENT = "experiment"
    """An experiment file, measured by counts if its testbed is a guest of `exact`, else by time."""
    RUN = "run"
    """The folder of a run."""


@dataclass(frozen=True)
class Version:
    """One version."""

    kind: VersionKind
    word: str
    """Argument of the command line."""
    text: str = ""
    """Rules or commands."""
    program: bytes = b""
    """Content of the object file."""

    @property
    def path(self) -> Path:
        """Path of a kernel, an experiment or a run."""
        return Path(self.word)

    @property
    def own_modes(self) -> Mapping[str, Any]:
        """Mode with the content of the version's file, so that the run no longer needs the file; empty for kinds without one."""
        match self.kind:
            case VersionKind.RULES:
                return {"rules": rules_mode(self.text)}
            case VersionKind.COMMANDS:
                return {"commands": {"apply": [self.text], "restore": ["true"]}}
            case VersionKind.XDP:
                return {"xdp": xdp_mode(self.program, "xdp")}
        return {}


def version_of(word: str, kind: VersionKind | None) -> Version:
    """Return the version of the given kind, or of the kind that the file looks like. Raises InputError."""
    if kind is VersionKind.COMMANDS:
        return Version(kind, word, word)
    path = Path(word)
    try:
        file_kind = kind or _looks_like(path)
        if file_kind is VersionKind.RULES:
            return Version(file_kind, word, outside.read(path, RULES, AtLink.FOLLOWED).decode().replace("\r\n", "\n"))
        if file_kind is VersionKind.XDP:
            return Version(file_kind, word, program=outside.read(path, XDP_OBJECT, AtLink.FOLLOWED))
    except UnfitFile as error:
        raise InputError(error.what, remedy=error.remedy) from error
    except OSError as error:
        raise InputError(f"{word}: {error.strerror}", remedy="name a file, a run's folder, or commands with --as commands") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{word}: neither a kernel nor a text: {error}", remedy="name a bzImage, or a file for nft") from error
    if not path.exists():
        raise InputError(f"{word}: no such file", remedy="name a file that exists")
    return Version(file_kind, word)


def versions_of(words: Sequence[str], kind: VersionKind | None) -> list[Version]:
    """Return the versions, which must be of one kind. Raises InputError."""
    versions = [version_of(word, kind) for word in words]
    if len(kinds := list(dict.fromkeys(str(of.kind) for of in versions))) > 1:
        raise InputError(f"versions of several kinds: {', '.join(kinds)}", remedy="compare two of one kind; --as names it")
    return versions


def rules_mode(text: str) -> Mapping[str, Any]:
    """Return the mode of a rule set. No line of the rules can end the here-document that nft reads."""
    end, lines = "dutlab-end-of-rules", text.split("\n")
    while end in lines:
        end += "-"
    return {"apply": [f"nft -f - <<'{end}'\n{text}\n{end}"], "restore": ["true"]}


def xdp_mode(program: bytes, section: str) -> Mapping[str, Any]:
    """Return the mode of a router whose receiving port has an XDP program. The sink's port also accepts frames that it redirects."""
    from dutlab.dut.linux_xdp import attach_words

    packed = b64encode(gzip.compress(program, mtime=0)).decode()
    path = "/tmp/xdp.o"  # noqa: S108 -- in a guest without other users
    apply = [
        "ip netns exec sink ethtool -K v3 gro on",
        f"base64 -d <<'end' | gunzip >{path}\n{packed}\nend",
        attach_words("v1", path, shlex.quote(section)),
    ]
    return {"apply": apply, "restore": ["true"]}


def guest_experiment(
    folder: Path,
    *,
    name: str,
    modes: Sequence[str],
    own: Mapping[str, Any],
    sizes: Sequence[str],
    settings: Sequence[str],
    kernel: Path | None = None,
    modules: Path | None = None,
    profile: bool = False,
) -> LoadedExperiment:
    """Return an experiment with the workload `exact`, after writing its files to `folder`. Raises InputError."""
    from dutlab.spec.known import EXACT

    bed = folder / "testbed.yaml"
    bed.write_bytes(as_yaml({"testbed": "guest", "hosts": {"dut": {"local": True, "family": EXACT}}}))
    data = {
        "experiment": name,
        "testbed": bed.name,
        "factors": {"mode": [*modes, *own]},
        **({"modes": own} if own else {}),
        "repeats": 1,
        "order": "as-written",
        "watch": [],
    }
    body = {
        "frame_sizes": [number_or_text(size) for size in sizes] or None,
        "kernel": None if kernel is None else str(kernel.absolute()),
        "modules": None if modules is None else str(modules.absolute()),
        "profile": profile or None,
    }
    return given_workload(data, "exact", body, settings, file=folder / "experiment.yaml")


def given_of(
    version: Version, folder: Path, *, name: str, modes: Sequence[str], sizes: Sequence[str], settings: Sequence[str]
) -> LoadedExperiment:
    """Return the experiment that counts a version's instructions. Raises InputError, SpecRefused, LabError if a kernel does not boot."""
    folder.mkdir(parents=True, exist_ok=True)
    if version.kind is VersionKind.KERNEL:
        chosen = modes or EXACT_MODES
        return guest_experiment(
            folder, name=name, modes=chosen, own={}, sizes=sizes, settings=settings, kernel=version.path, modules=modules_of(version.path)
        )
    if modes:
        raise InputError(f"{version.kind} are a mode themselves", remedy="leave --modes out")
    return guest_experiment(folder, name=name, modes=(), own=version.own_modes, sizes=sizes, settings=settings)


def modules_of(kernel: Path) -> Path | None:
    """Return the folder of the modules that were unpacked with a kernel; None for the system's modules. Raises LabError."""
    from dutlab.hosts.kernels import release_of

    release = release_of(kernel)
    above = kernel.absolute().parent
    places = [root / "lib/modules" / release for root in (above, above.parent, above.parent / "usr")]
    return next(
        (place for place in places if place.is_dir() and not place.is_relative_to("/lib") and not place.is_relative_to("/usr")), None
    )


def _looks_like(path: Path) -> VersionKind:
    if path.is_dir():
        return VersionKind.RUN
    if path.suffix in {".yaml", ".yml"}:
        return VersionKind.EXPERIMENT
    with outside.opened(path, AtLink.FOLLOWED) as file:
        head = file.read(_MAGIC_AT + len(_MAGIC))
    if head.startswith(_ELF) and head[_MACHINE] == _BPF:
        return VersionKind.XDP
    return VersionKind.KERNEL if head[_MAGIC_AT:] == _MAGIC else VersionKind.RULES
