"""Fixtures for every test. What a test needs from the machine it asks of capability.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from capability import have_netns, have_root, have_user_namespaces, need

__all__ = ["have_netns", "have_root", "have_user_namespaces", "need"]


@pytest.fixture(scope="session")
def python_env() -> dict[str, str]:
    """The environment in which a child Python finds this package."""
    src = str(Path(__file__).parents[1] / "src")
    return {**os.environ, "PYTHONPATH": os.pathsep.join([src, *(p for p in [os.environ.get("PYTHONPATH", "")] if p)])}


@pytest.fixture(scope="session")
def python() -> str:
    """The interpreter that runs the tests."""
    return sys.executable
