"""What tests with a kernel of their own share: the command, and the lab `raid`, of which nothing is left."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from capability import have_netns, need, need_program
from dutlab.labs import drives
from dutlab.labs.state import StateFolder
from dutlab.labs.uml import MODULES
from guests import kernels

LIMIT_S = 780.0
"""Of one command: a guest beside other work has a small share of a core. Less than pytest's own limit, which ends all tests."""
_numbers = count()
Dutlab = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def dutlab(python: str, python_env: dict[str, str], tmp_path: Path) -> Dutlab:
    """Runs the command to its end in an empty folder, the test's own."""

    def run(*args: str, timeout: float = LIMIT_S) -> subprocess.CompletedProcess[str]:
        argv = [python, "-m", "dutlab", *args]
        return subprocess.run(argv, cwd=tmp_path, env=python_env, capture_output=True, text=True, timeout=timeout, check=False)

    return run


@pytest.fixture
def guest_of_arrays() -> None:
    """What a lab `raid` and its arrays need."""
    need("netns", have_netns())
    need("uml", bool(shutil.which("linux.uml")) and MODULES.is_dir())
    need_program("fio")
    need_program("mdadm")


@pytest.fixture
def raid(dutlab: Dutlab, guest_of_arrays: None) -> Iterator[str]:
    """Label of a lab `raid` that runs."""
    label = f"t{os.getpid()}-{next(_numbers)}"
    done = dutlab("lab", "up", "raid", "--label", label)
    assert done.returncode == 0, done.stderr
    yield label
    done = dutlab("lab", "down", label)
    assert done.returncode == 0, done.stderr
    assert not drives.folder_of(label).exists() and not StateFolder().ssh_folder(label).exists()
    assert not kernels(label)
