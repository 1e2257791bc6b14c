"""Fixtures for every test. What a test needs from the machine it asks of capability.py."""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

import pytest

from isolation import isolate


def pytest_configure(config: pytest.Config) -> None:
    """Each process that runs tests has a network and a /run of its own; the one that hands tests out to others runs none."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        isolate()


def pytest_collection_finish() -> None:
    """What is there before the first test need not be searched for garbage after each."""
    gc.freeze()


@pytest.fixture(scope="session")
def python_env(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment in which a child Python finds this package, and calibrations of these tests alone: each rig is measured once."""
    src = str(Path(__file__).parents[1] / "src")
    path = os.pathsep.join([src, *(p for p in [os.environ.get("PYTHONPATH", "")] if p)])
    return {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache"))}


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that runs the tests."""
    return sys.executable
