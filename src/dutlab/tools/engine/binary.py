"""The engine's binary: its path on this machine, and its copy on a host that lacks it.

The copy goes into a private folder, is checked there by its hash, and is removed afterwards.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from dutlab.errors import CommandFailed, ToolMissing
from dutlab.hosts.host import Host
from dutlab.hosts.private_folder import PLACE, held_folder
from dutlab.reason import reason_in
from dutlab.tools.engine.agent import TOOL

_EXECUTABLE = 0o700
_RUNS_S = 20.0


def find_engine() -> Path:
    """Return the binary: that of DUTLAB_ENGINE, else next to the running Python, else built in the source tree, else on the PATH.

    Raises ToolMissing.
    """
    if named := os.environ.get("DUTLAB_ENGINE"):
        if _runs(Path(named)):
            return Path(named)
        raise ToolMissing(f"DUTLAB_ENGINE names {named}, which cannot be run", tool=TOOL, host="here", remedy="correct or unset it")
    for place in _places():
        if _runs(place):
            return place
    raise ToolMissing(
        "the engine is not installed",
        tool=TOOL,
        host="here",
        remedy="build it (`cargo build --release` in the source tree) or set DUTLAB_ENGINE to it",
    )


def _places() -> Iterator[Path]:
    yield Path(sys.executable).parent / TOOL
    for above in Path(__file__).resolve().parents:
        if (above / "engine" / "agent" / "Cargo.toml").is_file():
            target = Path(os.environ.get("CARGO_TARGET_DIR", above / "target"))
            yield from (target / profile / TOOL for profile in ("release", "debug"))
            break
    if on_path := shutil.which(TOOL):
        yield Path(on_path)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


@dataclass(frozen=True)
class EngineFile:
    """The engine's binary on this machine, read and hashed once for all hosts that may need a copy."""

    data: bytes = field(repr=False)
    sha256: str

    @classmethod
    async def read(cls, binary: Path) -> Self:
        """Read and hash `binary`. Raises OSError if it cannot be read."""
        data = await asyncio.to_thread(binary.read_bytes)
        return cls(data, await asyncio.to_thread(lambda: hashlib.sha256(data).hexdigest()))


@asynccontextmanager
async def engine_on(host: Host, engine: EngineFile, folder: AbstractAsyncContextManager[str] | None = None) -> AsyncIterator[str]:
    """Yield the path on `host` of a file with exactly the bytes of `engine`: on its PATH, or a copy in a private folder that is removed.

    The copy goes into `folder`, or else into a folder that a process on the host removes.
    Raises ToolMissing if the host cannot run it, HostError.
    """
    digest = engine.sha256
    if (there := await _on_path(host)) and await _hash(host, there) == digest:
        yield there
        return
    await _insist_on_same_system(host)
    async with folder or held_folder(host) as place:
        path = f"{place}/{TOOL}"
        await host.put(engine.data, path, mode=_EXECUTABLE)
        if (copy_digest := await _hash(host, path)) != digest:
            raise ToolMissing(
                f"{path} arrived with SHA-256 {copy_digest}, not {digest}", tool=TOOL, host=host.name, remedy="check its disk"
            )
        await _require_runnable(host, path)
        yield path


async def brought_again(host: Host, engine: EngineFile, path: str) -> None:
    """Copy the engine to the same path again if it is gone, as after a reboot of a host that had it in memory. Raises HostError."""
    if await _hash(host, path) != engine.sha256:
        await host.run(["mkdir", "-m", "700", "--", str(Path(path).parent)])
        await host.put(engine.data, path, mode=_EXECUTABLE)


async def _on_path(host: Host) -> str:
    return (await host.run(["sh", "-c", f"command -v {TOOL}"], check=False)).text.strip()


async def _hash(host: Host, path: str) -> str:
    done = await host.run(["sha256sum", "--", path], check=False)
    return done.text.split()[0].removeprefix("\\") if done.status == 0 else ""


async def _insist_on_same_system(host: Host) -> None:
    theirs = (await host.run(["uname", "-sm"])).text.strip()
    if theirs != (ours := f"{platform.system()} {platform.machine()}"):
        remedy = f"measure with iperf3 there, or put an engine built for {theirs} on its PATH"
        raise ToolMissing(f"the engine is built for {ours}, this host is {theirs}", tool=TOOL, host=host.name, remedy=remedy)


async def _require_runnable(host: Host, path: str) -> None:
    try:
        await host.run([path, "--version"], timeout_s=_RUNS_S)
    except CommandFailed as e:
        remedy = f"check that {PLACE} is not mounted noexec and that its C library is as new as here, or install the engine there by hand"
        raise ToolMissing(f"the copied engine does not run: {reason_in(e.stderr_tail)}", tool=TOOL, host=host.name, remedy=remedy) from e
