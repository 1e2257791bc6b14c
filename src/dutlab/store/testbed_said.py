"""What resolved.json says of a run's testbed; plain data, so that runs of another version and of other tools can be read too."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_DUT = "dut"
_PORTS_OF_A_WIRE = 2


def dut_of(resolved: Mapping[str, Any]) -> str:
    """The host that was measured: the one called `dut`, or the first that a path goes through; `dut` where nothing tells."""
    hosts = _of(resolved, "hosts")
    through = (path[1] for path in _paths(resolved) if len(path) > _PORTS_OF_A_WIRE)
    return _DUT if _DUT in hosts else next(through, _DUT)


def hosts_along(resolved: Mapping[str, Any]) -> list[str]:
    """The hosts of all links, each once, in the order in which packets come by them."""
    return list(dict.fromkeys(host for path in _paths(resolved) for host in path))


def _paths(resolved: Mapping[str, Any]) -> Iterator[list[str]]:
    """The hosts of each link, a host for each port."""
    for link in _of(resolved, "links").values():
        ports = (link.get("path") or link.get("segment")) if isinstance(link, Mapping) else None
        if isinstance(ports, Sequence) and not isinstance(ports, str):
            yield [str(port).partition(":")[0] for port in ports]


def _of(resolved: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    testbed = resolved.get("testbed")
    found = testbed.get(key) if isinstance(testbed, Mapping) else None
    return found if isinstance(found, Mapping) else {}
