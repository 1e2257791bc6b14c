"""Pytest plugin: what each test costs in time, processor time and starts of programs. `scripts/costs` makes a page of it.

`pytest -p costs --costs FOLDER` writes one line of JSON a test into a file per process.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

_starts = {"programs": 0, "dutlab": 0}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", metavar="FOLDER", type=Path, help="write what each test costs into a file per process in FOLDER")


def pytest_configure(config: pytest.Config) -> None:
    if folder := config.getoption("--costs"):
        folder.mkdir(parents=True, exist_ok=True)
        config.pluginmanager.register(_Recorder(folder / f"{os.environ.get('PYTEST_XDIST_WORKER', 'main')}.jsonl"))
        sys.addaudithook(_count_start)


def _count_start(event: str, args: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        _starts["programs"] += 1
        words = [args[1]] if isinstance(args[1], str | bytes | os.PathLike) else args[1]
        _starts["dutlab"] += _starts_dutlab([os.fsdecode(word) for word in words])


def _starts_dutlab(argv: Sequence[str]) -> bool:
    """Python runs the command itself, or a module of the package."""
    return any(word.endswith("/bin/dutlab") or word in {"dutlab", "dutlab.cli"} or word.startswith("dutlab.cli.") for word in argv)


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        wall, cpu, starts = time.monotonic(), _cpu_s(), dict(_starts)
        yield
        group = item.get_closest_marker("xdist_group")
        cost = {
            "test": item.nodeid.removesuffix(f"@{group.args[0]}") if group else item.nodeid,
            "wall_s": round(time.monotonic() - wall, 4),
            "cpu_s": round(_cpu_s() - cpu, 4),
            **{f"{name}_starts": count - starts[name] for name, count in _starts.items()},
        }
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(cost) + "\n")


def _cpu_s() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)
