"""The engine on a host that has none: copied there, checked by its hash, removed afterwards."""

from __future__ import annotations

import asyncio
import hashlib
import platform
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dutlab.errors import CommandFailed, ToolMissing
from dutlab.hosts.host import Host
from dutlab.tools.agent import TOOL

FOLDER = "/var/tmp"  # noqa: S108 the name holds the hash, and what lies under it is checked by it before it is run
_EXECUTABLE = 0o755
_RUNS_S = 20.0


@asynccontextmanager
async def engine_on(host: Host, binary: Path) -> AsyncIterator[str]:
    """Where on `host` a file with exactly the bytes of `binary` can be run: on its PATH, or a copy that is removed at the end.

    Raises ToolMissing when the host cannot run it, HostError.
    """
    data = await asyncio.to_thread(binary.read_bytes)
    digest = hashlib.sha256(data).hexdigest()
    path = _path_of(digest)
    if (there := await _on_path(host)) and await _hash(host, there) == digest:
        yield there
        return
    await _insist_on_same_system(host)
    try:
        if await _hash(host, path) != digest:
            await host.put(data, path, mode=_EXECUTABLE)
        if (found := await _hash(host, path)) != digest:
            raise ToolMissing(f"{path} arrived with SHA-256 {found}, not {digest}", tool=TOOL, host=host.name, remedy="see to its disk")
        await _insist_that_it_runs(host, path)
        yield path
    finally:
        await host.run(["rm", "-f", "--", path])


def copy_of(binary: Path) -> str:
    """Where a copy of `binary` lies on a host that needs one; a run that was cut may have left it there."""
    return _path_of(hashlib.sha256(binary.read_bytes()).hexdigest())


def _path_of(digest: str) -> str:
    return f"{FOLDER}/{TOOL}-{digest[:16]}"


async def _on_path(host: Host) -> str:
    return (await host.run(["sh", "-c", f"command -v {TOOL}"], check=False)).text.strip()


async def _hash(host: Host, path: str) -> str:
    done = await host.run(["sha256sum", "--", path], check=False)
    return done.text.split()[0].removeprefix("\\") if done.status == 0 else ""


async def _insist_on_same_system(host: Host) -> None:
    found = (await host.run(["uname", "-sm"])).text.strip()
    if found != (ours := f"{platform.system()} {platform.machine()}"):
        remedy = f"measure with iperf3 there, or put an engine built for {found} on its PATH"
        raise ToolMissing(f"the engine is built for {ours}, this host is {found}", tool=TOOL, host=host.name, remedy=remedy)


async def _insist_that_it_runs(host: Host, path: str) -> None:
    try:
        await host.run([path, "--version"], timeout_s=_RUNS_S)
    except CommandFailed as e:
        remedy = f"see that {FOLDER} is not mounted noexec and that its C library is as new as here, or install the engine there by hand"
        raise ToolMissing(
            f"the copied engine does not run: {e.stderr_tail.strip()[-200:]}", tool=TOOL, host=host.name, remedy=remedy
        ) from e
