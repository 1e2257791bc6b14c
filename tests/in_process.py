"""The command carried out in the tests' own process, which has its modules already: a start of the program costs more than most commands.

Only the program itself has signals, a terminal and a process to kill. A test with an event loop at work has to start it too.
"""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dutlab.cli.main import main
from dutlab.tools.engine.engine import Engine

ONE_LOAD = (None,)
"""At which a run measures its rig: full speed. What the rig does at the others is for tests of that."""


def carried_out(words: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """What `dutlab WORDS` says, and the status it exits with."""
    argv = ["dutlab", *map(str, words)]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as out,
        tempfile.TemporaryFile("w+", encoding="utf-8") as err,
        Path(os.devnull).open(encoding="utf-8") as nothing,
        patch.multiple(sys, argv=argv, stdin=nothing, stdout=out, stderr=err),
        patch.dict(os.environ, env, clear=True),
        chdir(cwd),
        cheap_rig(),
        _same_collections(),
    ):
        status: object = 0
        try:
            main()
        except SystemExit as e:
            status = e.code
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(argv, status if isinstance(status, int) else 0, out.read(), err.read())


@contextmanager
def cheap_rig() -> Iterator[None]:
    """For runs that are about something else: packet sockets, and a rig that is measured at one load."""
    with patch("dutlab.runner.headroom.LOADS", ONE_LOAD), packet_sockets():
        yield


@contextmanager
def packet_sockets() -> Iterator[None]:
    """Where the engine may choose, it takes packet sockets: for each port that XDP opens, the kernel checks a program for 50 ms of CPU time.

    XDP is for tests of the engine, and for those that start the program itself.
    """
    asked = Engine._open_arguments

    def cheap(*args: Any, **named: Any) -> dict[str, Any]:
        arguments = asked(*args, **named)
        return {**arguments, "backend": "af_packet"} if arguments["backend"] == "auto" else arguments

    with patch.object(Engine, "_open_arguments", cheap):
        yield


@contextmanager
def _same_collections() -> Iterator[None]:
    before = gc.get_threshold()
    try:
        yield
    finally:
        gc.set_threshold(*before)
