"""Fixtures of unit tests."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from pathlib import Path

import pytest

from dutlab.tools.engine.engine import Engine
from engine_agent import AGENT, BED, NeighbourlyHost


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[Callable[..., Engine]]:
    """Makes an engine whose agents have a twist."""
    made = []

    def make(
        twist: str = "pass",
        *,
        binary: str | None = None,
        cpus: Mapping[str, Sequence[int]] | None = None,
        sink: type[NeighbourlyHost] = NeighbourlyHost,
        ahead: int | str = 0,
        backend: str = "auto",
    ) -> Engine:
        path = tmp_path / "dutlab-engine"
        path.write_text(AGENT.format(python=sys.executable, twist=twist, log=str(tmp_path / "asked"), ahead=ahead))
        path.chmod(0o755)
        hosts = {"source": NeighbourlyHost("source"), "sink": sink("sink")}
        made.append(Engine(hosts, BED, cpus or {"source": (0,), "sink": (1,)}, binary or str(path), backend=backend))
        return made[-1]

    yield make
    for one in made:
        await one.close()
        for host in one._hosts.values():
            await host.close()
