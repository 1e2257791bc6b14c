"""A host that replays a transcript: commands with the outputs that a system's documentation says they have, and what they change.

A transcript is a text file under tests/data/transcripts that states where its outputs were read. Nothing in it is a recording unless it
says so. A command that it does not hold is refused, with the nearest that it holds.

    state pf=off rules=found        how things are at the beginning
    $ pfctl -e                      a command, quoted as for sh
    if pf=off                       only while things stand so; the first exchange that fits answers
    < text                          a line of its standard input, which must be these lines exactly
    > text                          a line that it prints
    ! pf enabled                    a line of its standard error
    = 1                             its status, 0 where it is not written
    then pf=on                      what it changes
    put /etc/file                   a file that is written; its content is in `<` lines
    text rules                      names the lines that follow it, each as `| line`; `< @rules` and `> @rules` stand for them

`\\e` stands for the escape character. Blank lines and lines that begin with # are for readers.
"""

from __future__ import annotations

import difflib
import functools
import shlex
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from dutlab.hosts.host import Done, Process, command_failed, no_such_program
from dutlab.systems.linux import LINUX
from dutlab.systems.system import System

TRANSCRIPTS = Path(__file__).parent / "data" / "transcripts"


@functools.cache
def _text(file: str) -> str:
    return (TRANSCRIPTS / f"{file}.txt").read_text()


class NotInTranscript(AssertionError):
    """A command that the transcript does not hold, or not as things stand."""


@dataclass
class Exchange:
    """A command, when it answers so, what it answers and what it changes."""

    argv: tuple[str, ...]
    line: int
    needs: dict[str, str] = field(default_factory=dict)
    stdin: str = ""
    stdout: str = ""
    stderr: str = ""
    status: int = 0
    sets: dict[str, str] = field(default_factory=dict)
    used: bool = False


def read_transcript(text: str) -> tuple[dict[str, str], list[Exchange]]:
    """How things are at the beginning, and the exchanges. Raises ValueError with the line that is none of the above."""
    state: dict[str, str] = {}
    found: list[Exchange] = []
    texts: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        sign, _, rest = line.partition(" ")
        if not line.strip() or sign.startswith("#"):
            continue
        if sign == "state":
            state.update(_facts(rest))
        elif sign == "text":
            texts[name := rest.strip()] = ""
        elif sign == "|":
            texts[name] += f"{rest}\n"
        elif sign in ("$", "put"):
            found.append(Exchange(("put", rest) if sign == "put" else tuple(shlex.split(rest)), number))
        elif not found or sign not in ("if", "<", ">", "!", "=", "then"):
            raise ValueError(f"line {number} is not part of a transcript: {line!r}")
        else:
            named = texts[rest[1:]] if sign in ("<", ">") and rest.startswith("@") else f"{rest}\n"
            _add(found[-1], sign, rest, named.replace("\\e", "\x1b"))
    return state, found


_read = functools.cache(read_transcript)


def _add(exchange: Exchange, sign: str, rest: str, lines: str) -> None:
    if sign == "if":
        exchange.needs.update(_facts(rest))
    elif sign == "then":
        exchange.sets.update(_facts(rest))
    elif sign == "=":
        exchange.status = int(rest)
    else:
        name = {"<": "stdin", ">": "stdout", "!": "stderr"}[sign]
        setattr(exchange, name, getattr(exchange, name) + lines)


def _facts(text: str) -> Iterator[tuple[str, str]]:
    for word in text.split():
        name, _, value = word.partition("=")
        yield name, value


class TranscriptHost:
    """Host of hosts/host.py. `ran` is every command with its standard input; `state` is how things stand, which tests may tamper with."""

    def __init__(self, name: str, text: str, changes: Mapping[str, str] | None = None, system: System = LINUX) -> None:
        self.name, self.system = name, system
        state, exchanges = _read(text)
        self.state, self.exchanges = {**state, **(changes or {})}, [replace(e, sets=dict(e.sets)) for e in exchanges]
        self.ran: list[tuple[tuple[str, ...], str]] = []

    @classmethod
    def of(cls, *files: str, name: str = "dut", **changes: str) -> Self:
        """From files of TRANSCRIPTS; `changes` is what stands differently at the beginning."""
        return cls(name, "\n".join(map(_text, files)), changes)

    @property
    def commands(self) -> list[str]:
        """What ran, as one would type it."""
        return [shlex.join(argv) for argv, _ in self.ran]

    async def run(
        self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True, most_bytes: int = 0
    ) -> Done:
        """Raises NotInTranscript, CommandFailed."""
        exchange = self._exchange(tuple(argv), stdin.decode())
        if exchange.status == 127:
            done = no_such_program(self.name, argv)
        else:
            done = Done(self.name, tuple(argv), exchange.status, exchange.stdout.encode(), exchange.stderr.encode(), time.time(), 0.0)
        if check and done.status != 0:
            raise command_failed(done)
        return done

    async def put(self, data: bytes, path: str, *, mode: int = 0o600) -> None:
        """Raises NotInTranscript."""
        self._exchange(("put", path), data.decode())

    async def get(self, path: str) -> bytes:
        """As `cat -- PATH`."""
        return (await self.run(["cat", "--", path])).stdout

    async def spawn(self, argv: Sequence[str]) -> Process:
        """A transcript has no commands that go on running."""
        raise NotInTranscript(f"{self.name}: a transcript cannot leave `{shlex.join(argv)}` running")

    async def close(self) -> None:
        """Nothing is open."""

    def unused(self) -> list[str]:
        """Exchanges that nobody asked for: a transcript holds nothing for show."""
        return [f"{e.line}: {shlex.join(e.argv)}" for e in self.exchanges if not e.used]

    def _exchange(self, argv: tuple[str, ...], stdin: str) -> Exchange:
        self.ran.append((argv, stdin))
        same = [e for e in self.exchanges if e.argv == argv]
        if not same:
            raise NotInTranscript(f"{self.name}: `{shlex.join(argv)}` is not in the transcript; {self._nearest(argv)}")
        given = [e for e in same if e.stdin == stdin]
        if not given:
            diff = "\n".join(difflib.unified_diff(same[0].stdin.splitlines(), stdin.splitlines(), "transcript", "given", lineterm=""))
            raise NotInTranscript(f"{self.name}: `{shlex.join(argv)}` with another standard input:\n{diff}\n{stdin}")
        for exchange in given:
            if all(self.state.get(k) == v for k, v in exchange.needs.items()):
                exchange.used = True
                self.state.update(exchange.sets)
                return exchange
        raise NotInTranscript(f"{self.name}: `{shlex.join(argv)}` is not in the transcript for {self.state}")

    def _nearest(self, argv: tuple[str, ...]) -> str:
        held = {shlex.join(e.argv) for e in self.exchanges}
        near = difflib.get_close_matches(shlex.join(argv), held, n=1, cutoff=0.0)
        return f"the nearest is `{near[0]}`" if near else "it is empty"
