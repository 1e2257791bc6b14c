"""Kills this process by SIGKILL before its nth fsync, link, rename or unlink inside one folder; read by Python when it starts.

FAULTS_FOLDER names the folder, FAULTS_KILL_AT the number, from 1. With FAULTS_COUNT the calls are counted into that file.
"""

import os
import signal

_FOLDER, _AT, _COUNT = (os.environ.get(f"FAULTS_{name}", "") for name in ("FOLDER", "KILL_AT", "COUNT"))
_done = 0


def _where(what: object) -> str:
    if isinstance(what, int):
        return os.readlink(f"/proc/self/fd/{what}")  # noqa: PTH115 - pathlib comes later
    return os.path.abspath(os.fsdecode(what))  # type: ignore[call-overload]  # noqa: PTH100 - pathlib comes later


def _killing(name: str) -> None:
    call = getattr(os, name)

    def wrapped(what: object, *args: object, **kwargs: object) -> object:
        global _done  # noqa: PLW0603 - one process, one count
        if _where(what).startswith(_FOLDER):
            _done += 1
            if _COUNT:
                with open(_COUNT, "a", encoding="utf-8") as f:  # noqa: PTH123 - pathlib comes later
                    f.write(f"{name}\n")
            if str(_done) == _AT:
                os.kill(os.getpid(), signal.SIGKILL)
        return call(what, *args, **kwargs)

    setattr(os, name, wrapped)


if _FOLDER:
    for _name in ("fsync", "link", "rename", "replace", "unlink"):
        _killing(_name)
