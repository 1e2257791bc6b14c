"""Where the engine's binary is looked for."""

from __future__ import annotations

import sys

import pytest

from dutlab.errors import ToolMissing
from dutlab.tools.engine.binary import find_engine


def test_the_binary_named_in_the_environment_is_taken_or_missed_aloud(monkeypatch, tmp_path):
    binary = tmp_path / "engine"
    binary.write_text("#!/bin/sh\n")
    binary.chmod(0o755)
    monkeypatch.setenv("DUTLAB_ENGINE", str(binary))
    assert find_engine() == binary
    monkeypatch.setenv("DUTLAB_ENGINE", str(tmp_path / "absent"))
    with pytest.raises(ToolMissing, match=r"DUTLAB_ENGINE names .*absent"):
        find_engine()


def test_an_engine_that_is_nowhere_is_missed_with_the_way_to_build_it(monkeypatch, tmp_path):
    monkeypatch.delenv("DUTLAB_ENGINE", raising=False)
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    with pytest.raises(ToolMissing, match="build it"):
        find_engine()
    built = tmp_path / "debug" / "dutlab-engine"
    built.parent.mkdir()
    built.write_text("#!/bin/sh\n")
    built.chmod(0o755)
    assert find_engine() == built
