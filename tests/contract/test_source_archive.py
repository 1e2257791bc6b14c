"""The source archive has all that a build of it reads."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

from capability import need_program

ROOT = Path(__file__).parents[2]


def test_the_source_archive_has_the_command_and_the_workspace(tmp_path: Path) -> None:
    need_program("cargo")
    maturin = Path(sys.executable).with_name("maturin")
    told = subprocess.run([maturin, "sdist", "--out", tmp_path], cwd=ROOT, capture_output=True, text=True)
    assert not told.returncode, told.stderr
    (archive,) = tmp_path.iterdir()
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    assert {"dutlab.data/scripts/dutlab", "Cargo.lock", "engine/agent/Cargo.toml", "src/dutlab/cli/main.py"} <= names
