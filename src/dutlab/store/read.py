"""Read the files of a run folder. The folder may be from anywhere, and anyone may have changed it.

Every fault of a file becomes a StoreError with its path. So one damaged run or trial never prevents reading the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dutlab import outside
from dutlab.bounds import PART, FileBound
from dutlab.errors import DutlabError, StoreError

CHANGED = "the file was changed; verify the run with its MANIFEST.sha256"


def read_json(path: Path, bound: FileBound = PART) -> Any:  # noqa: ANN401 - JSON is anything until its reader has checked it
    """Return the JSON in `path`. Raises StoreError if the file is missing or not JSON; NaN, infinity and huge numbers are refused."""
    try:
        read = outside.read(path, bound)
        return outside.json_of(read)
    except FileNotFoundError:
        raise StoreError(f"{path}: is missing", remedy="the folder is not a whole run; verify it with its MANIFEST.sha256") from None
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise StoreError(f"{path}: not JSON ({error})", remedy="the file was changed or cut; restore it from a copy") from error
    except RecursionError:
        raise StoreError(f"{path}: is nested too deep", remedy=CHANGED) from None


@contextmanager
def reading(what: Path | str) -> Iterator[None]:
    """Raise StoreError for any foreign exception in the block, which reads `what`, a run or a part of it: its files are at fault."""
    try:
        yield
    except (DutlabError, MemoryError):
        raise
    except Exception as error:
        first = str(error).splitlines()[0][:200] if str(error) else ""
        reason = f"{type(error).__name__}: {first}" if first else type(error).__name__
        raise StoreError(f"{what}: cannot be read: {reason}", remedy="verify the run with its MANIFEST.sha256") from error


_DUT = "dut"
_PORTS_OF_A_WIRE = 2


def dut_of(resolved: Mapping[str, Any]) -> str:
    """Return the host that was measured: the one named `dut`, else the first host inside a path, else `dut`."""
    hosts = _of(resolved, "hosts")
    through = (path[1] for path in _paths(resolved) if len(path) > _PORTS_OF_A_WIRE)
    return _DUT if _DUT in hosts else next(through, _DUT)


def hosts_along(resolved: Mapping[str, Any]) -> list[str]:
    """Return the hosts of all links, each once, in the order in which packets pass them."""
    return list(dict.fromkeys(host for path in _paths(resolved) for host in path))


def _paths(resolved: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yield the hosts of each link, one for each port."""
    for link in _of(resolved, "links").values():
        ports = (link.get("path") or link.get("segment")) if isinstance(link, Mapping) else None
        if isinstance(ports, Sequence) and not isinstance(ports, str):
            yield [str(port).partition(":")[0] for port in ports]


def _of(resolved: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    testbed = resolved.get("testbed")
    value = testbed.get(key) if isinstance(testbed, Mapping) else None
    return value if isinstance(value, Mapping) else {}
