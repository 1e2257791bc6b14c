"""Modules that a command has imported when it ends, without those that Python imports for every program."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import dutlab

_ROOMS = Path(dutlab.__file__).parent
_PROGRAM = """
import sys
before = set(sys.modules)
path = sys.argv.pop()
from dutlab.cli.main import main
try:
    main()
except SystemExit:
    pass
with open(path, "w") as file:
    file.write("\\n".join(set(sys.modules) - before))
"""


def loaded(argv: Sequence[str], environment: Mapping[str, str], out: Path) -> set[str]:
    """Return the modules of `dutlab ARGV`; `out` is a file that is written."""
    command = [sys.executable, "-c", _PROGRAM, *argv, str(out)]
    subprocess.run(command, env={**os.environ, **environment}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    return set(out.read_text().split())


def packages(modules: Collection[str]) -> set[str]:
    """Return the packages of other projects among `modules`, without their private modules of the top level."""
    return {top for name in modules if (top := name.split(".")[0])[0] != "_"} - {*sys.stdlib_module_names, "dutlab"}


def rooms(modules: Collection[str]) -> set[str]:
    """Return the folders of src/dutlab that `modules` are in."""
    parts = (name.split(".") for name in modules)
    return {part[1] for part in parts if part[0] == "dutlab" and part[1:] and (_ROOMS / part[1]).is_dir()}
