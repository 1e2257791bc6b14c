"""Steps of GitHub's workflows, run as GitHub runs them; whatever they ask of `dutlab`, the tests' own process carries out."""

from __future__ import annotations

import os
import select
import subprocess
from collections.abc import Mapping
from pathlib import Path

from in_process import carried_out

STUB = """#!/bin/sh
cd '{desk}' || exit 99
printf '%s\\0' "$@" >words
echo >asked
read -r status <answered
cat out
cat err >&2
exit "$status"
"""


class Shell:
    """`bash` in an empty repository, in which `dutlab` is this one."""

    def __init__(self, folder: Path, env: Mapping[str, str]) -> None:
        self.repository, self._desk = folder / "repository", folder / "desk"
        for made in (self.repository, self._desk, self._desk / "bin"):
            made.mkdir()
        for fifo in ("asked", "answered"):
            os.mkfifo(self._desk / fifo)
        stub = self._desk / "bin" / "dutlab"
        stub.write_text(STUB.format(desk=self._desk))
        stub.chmod(0o755)
        self.env = {**env, "PATH": f"{stub.parent}:{env['PATH']}"}

    def run(self, script: str, **given: str) -> subprocess.CompletedProcess[str]:
        """What a step says that gets `given` in its environment."""
        argv = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script]
        said = [self._desk.parent / name for name in ("step.out", "step.err")]
        asked, answered = (os.open(self._desk / fifo, os.O_RDWR | os.O_NONBLOCK) for fifo in ("asked", "answered"))
        try:
            with said[0].open("w") as out, said[1].open("w") as err:
                env = {**self.env, **given}
                with subprocess.Popen(argv, cwd=self.repository, env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err) as step:
                    while step.poll() is None:
                        if select.select([asked], [], [], 0.05)[0]:
                            os.read(asked, 1)
                            os.write(answered, b"%d\n" % self._carry_out(env))
        finally:
            os.close(asked)
            os.close(answered)
        return subprocess.CompletedProcess(argv, step.returncode, *(path.read_text() for path in said))

    def _carry_out(self, env: Mapping[str, str]) -> int:
        words = (self._desk / "words").read_text().split("\0")[:-1]
        done = carried_out(words, cwd=self.repository, env=env)
        (self._desk / "out").write_text(done.stdout)
        (self._desk / "err").write_text(done.stderr)
        return done.returncode
