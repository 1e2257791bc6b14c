"""Fixtures of unit tests."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from dutlab.cli.main import main
from dutlab.tools.engine.engine import Engine
from engine_agent import AGENT, BED, NeighbourlyHost
from fake_run import Wanted, build
from postgres_cluster import PostgresCluster, postgres_cluster


@pytest.fixture(scope="session", autouse=True)
def no_disk() -> Iterator[None]:
    """Nothing here has to survive a crash of the machine, and a disk is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(os, "sync", lambda: None)
        yield


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Path]:
    """A run as fake_run.build() makes it, once for all that want the same. They read it only; who changes it takes a copy."""
    made = dict[str, Path]()

    def run(**wanted: Any) -> Path:
        key = repr(sorted(wanted.items()))
        if key not in made:
            made[key] = build(tmp_path_factory.mktemp("built"), Wanted(**wanted))
        return made[key]

    return run


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The published reviews as runs, which tests only read or copy."""
    from published_sites import reviewed  # noqa: PLC0415 -- few modules publish

    return reviewed(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run to publish, which tests only read or copy."""
    from published_sites import measured_run  # noqa: PLC0415 -- few modules publish

    return measured_run(tmp_path_factory.mktemp("measured"))


@pytest.fixture(scope="session")
def theirs(measured: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site of that run, which tests only read or copy."""
    from published_sites import said  # noqa: PLC0415 -- few modules publish

    site = tmp_path_factory.mktemp("site") / "theirs"
    assert said(measured, site, "--title", "Theirs").exit_code == 0
    return site


@pytest.fixture(scope="module")
def cluster() -> Iterator[PostgresCluster]:
    with postgres_cluster() as running:
        yield running


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs the command in this process: status, standard output, standard error."""

    def run(*argv: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["dutlab", *argv])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return int(end.value.code or 0), printed.out, printed.err

    return run


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
