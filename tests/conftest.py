"""Fixtures for every test. What a test needs from the machine it asks of capability.py."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from dutlab.measures import measure_of
from dutlab.runner.journal import Journal
from dutlab.runner.records import Records, TrialOutput
from dutlab.store.record import TrialRecord
from golden import Golden, only_golden
from isolation import isolate
from shares import dealt

ISOLATED = tuple(Path(__file__).parent / folder for folder in ("netns", "servers", "devices", "vm", "faults"))
LONG = (*ISOLATED, Path(__file__).parent / "browser")

os.environ.setdefault("DUTLAB_DISTURBED", "count")
"""No test depends on speed: on a busy machine their trials count, with the doubt. What tests disturbance itself unsets it."""

os.environ["PYDANTIC_DISABLE_PLUGINS"] = "__all__"  # pytest's own packages register one, and looking for it takes time in each start

gc.disable()  # until all tests are collected: modules are no garbage

settings.register_profile("dutlab", deadline=None, max_examples=40, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("dutlab")  # how long an input takes depends on what else the machine does


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each of several processes begins with its share of the long tests, unless groups say which process gets what."""
    only_golden(config, items)
    if (processes := int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))) > 1 and not config.getoption("loadgroup", default=False):
        items[:] = dealt(items, processes, LONG)


def pytest_collection_finish(session: pytest.Session) -> None:
    """A process that makes namespaces does so in a network and a /run of its own; one that hands tests out to others collects none."""
    if any(item.path.is_relative_to(folder) for item in session.items for folder in ISOLATED):
        isolate()
    gc.enable()
    gc.freeze()  # what is there before the first test need not be searched for garbage after each


def pytest_sessionfinish() -> None:
    """Libraries that count what they leave behind find nothing at the end."""
    gc.unfreeze()


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    journal = Journal(tmp_path / "journal.jsonl")
    yield journal
    journal.close()


@pytest.fixture(scope="session")
def golden() -> Golden:
    """Compare whole outputs with the pages in tests/golden."""
    return Golden()


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The key that seals runs is one of these tests alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(folder := tmp_path_factory.mktemp("state")))
        yield folder


@pytest.fixture(scope="session", autouse=True)
def only_declared_figures() -> Iterator[None]:
    """What a trial of these tests measures has a measure, whichever method, tool or sensor made it."""
    keep = Records._keep

    def checked(self: Records, carried: TrialOutput) -> TrialRecord:
        undeclared = {name for of in carried.record.figures.values() for name in of if measure_of(name) is None}
        assert not undeclared, f"declare in src/dutlab/measures.py: {', '.join(sorted(undeclared))}"
        return keep(self, carried)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Records, "_keep", checked)
        yield


@pytest.fixture(scope="session")
def python_env(tmp_path_factory: pytest.TempPathFactory, own_state: Path) -> dict[str, str]:
    """Environment in which a child Python finds this package. All processes of tests share the calibrations: each rig is measured once."""
    src = str(Path(__file__).parents[1] / "src")
    path = os.pathsep.join([src, *(p for p in [os.environ.get("PYTHONPATH", "")] if p)])
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "cache"
    return {**os.environ, "PYTHONPATH": path, "XDG_CACHE_HOME": str(cache), "XDG_STATE_HOME": str(own_state)}


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that runs the tests."""
    return sys.executable
