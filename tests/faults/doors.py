"""What others supply, in the place of each file and answer that a command takes: without end, too large, never written, of another kind."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import stat
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import dutlab.cli.bisect_runs
import dutlab.interop.importers
import dutlab.publish.site
import dutlab.report.questions.claims
import dutlab.runner.run
import dutlab.spec.loader  # noqa: F401 - imported here once, so that a forked command need not
from dutlab import bounds

_TERABYTE = 1 << 40
_EXPERIMENT = "experiment: e\ntestbed: {lab: three-node}\nfactors: {mode: [router]}\nworkloads: [{path-mtu: {links: [[a]]}}]\nrepeats: 1\n"
_PIPE_S = 1.0
"""In place of half a minute, for pipes without a writer."""
_FEED = 'exec cat /dev/zero >"$0"'
_BUILDS = (
    "yes", "cat /dev/zero >&2", "yes & yes >&2 & wait", "head -c 1000000 /dev/zero; exit 3", "kill -9 $$", "exec 1>&- 2>&-; false",
    "sleep 1000 & exit 4", "mkfifo rules.nft", "ln -s /dev/zero rules.nft",
)  # fmt: skip


@dataclass(frozen=True)
class CommandDoor:
    """A command, and the file of others that it takes, relative to the folder of an attempt."""

    argv: Sequence[str]
    file: str
    takes_text: bool = True
    """Whether a text of nonsense may be planted: where one is measured, that takes a guest."""


DOORS = (
    CommandDoor(("plan", "in.yaml"), "in.yaml"),
    CommandDoor(("run", "in.yaml"), "in.yaml"),
    CommandDoor(("plan", "good.yaml", "--testbed", "in.yaml"), "in.yaml"),
    CommandDoor(("campaign", "run", "in.yaml"), "in.yaml"),
    CommandDoor(("import", "iperf3", "in.json", "--runs", "imported"), "in.json"),
    CommandDoor(("import", "fio", "in.json", "--runs", "imported"), "in.json"),
    CommandDoor(("conductor", "run", "in.cfg", "--dry-run"), "in.cfg"),
    CommandDoor(("limits", "raid", "5", "--drives", "4", "--models", "in.csv", "--model", "a"), "in.csv"),
    CommandDoor(("verify-claim", "in.json"), "in.json"),
    CommandDoor(("attach", "run", "in.jpg", "--caption", "a"), "in.jpg"),
    CommandDoor(("publish", "run", "out", "--devices", "in.yaml"), "in.yaml"),
    CommandDoor(("publish", "--merge", "site", "out"), "site/index.json"),
    CommandDoor(("publish", "run", "out"), "run/trials/0001/record.json"),
    CommandDoor(("export", "metrics", "run"), "run/events.jsonl"),
    CommandDoor(("export", "csv", "run"), "run/trials/0001/samples.parquet"),
    CommandDoor(("report", "run"), "run/trials/0001/record.json"),
    CommandDoor(("resume", "run"), "run/journal.jsonl"),
    CommandDoor(("gate", "in.nft", "in.nft"), "in.nft", takes_text=False),
    CommandDoor(("bisect", "in.nft", "in.nft"), "in.nft", takes_text=False),
)


def _terabyte(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(_TERABYTE)


def _socket(path: Path) -> None:
    here = os.open(path.parent, os.O_PATH)  # a socket's name has 108 bytes at most
    with socket.socket(socket.AF_UNIX) as listens:
        listens.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


_ODD: dict[str, Callable[[Path], object]] = {
    "a terabyte": _terabyte,
    "a pipe without a writer": os.mkfifo,
    "a pipe without end": os.mkfifo,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a folder": Path.mkdir,
    "a socket": _socket,
    "a device": lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
}
_TEXTS: dict[str, Callable[[random.Random], bytes]] = {
    "noise": lambda dice: dice.randbytes(5000),
    "a number of many digits": lambda dice: json.dumps({"a": 1, "b": [0]}).replace("1", "9" * dice.choice((400, 5000, 200_000))).encode(),
    "a deep list": lambda dice: b"[" * (depth := dice.choice((900, 5000, 100_000))) + b"]" * depth,
    "one line": lambda dice: b"a" * dice.choice((100_000, 10_000_000)),
    "no number": lambda _: b'{"start": {"timestamp": {"timesecs": NaN}}, "end": Infinity}',
}


class DoorsFolder:
    """One folder for all attempts: a good experiment, a run and a site to copy, a repository of three commits."""

    def __init__(self, folder: Path, run: Path, site: Path) -> None:
        self._run, self._site, self._folder = run, site, folder / "attempt"
        self._repository = folder / "repository"
        self._commit()
        bounds.PIPE_S = _PIPE_S  # type: ignore[misc]

    @contextmanager
    def attempt(self, dice: random.Random) -> Iterator[tuple[str, list[str], Path]]:
        """What is planted, in words, the command, and the folder to carry it out in."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir()
        if dice.random() < 1 / len(DOORS):
            build = dice.choice(_BUILDS)
            words = ["bisect", "--commits", "HEAD~2..HEAD", "--repository", str(self._repository), "--file", "rules.nft", "--build", build]
            yield f"a build: {build}", [*words, "--into", str(self._folder / "bisection")], self._folder
            return
        door = dice.choice(DOORS)
        for name, of in (("run", self._run), ("site", self._site)):
            if any(word == name for word in door.argv):
                shutil.copytree(of, self._folder / name, symlinks=True)
        (self._folder / "good.yaml").write_text(_EXPERIMENT)
        path = self._folder / door.file
        path.unlink(missing_ok=True)
        what = dice.choice((*_ODD, *(_TEXTS if door.takes_text else ())))
        if what in _TEXTS:
            path.write_bytes(_TEXTS[what](dice))
        else:
            _ODD[what](path)
        feeder = subprocess.Popen(["sh", "-c", _FEED, path], start_new_session=True) if what == "a pipe without end" else None
        try:
            yield f"{what} as {door.file}", list(door.argv), self._folder
        finally:
            if feeder is not None:
                with suppress(ProcessLookupError):
                    os.killpg(feeder.pid, signal.SIGKILL)
                feeder.wait()

    def _commit(self) -> None:
        self._repository.mkdir()
        git = ["git", "-C", str(self._repository), "-c", "user.name=t", "-c", "user.email=t@example.net", "-c", "commit.gpgsign=false"]
        subprocess.run([*git, "init", "-q"], check=True)
        for number in range(3):
            subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", f"version {number}"], check=True)
