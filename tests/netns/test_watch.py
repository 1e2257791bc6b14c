"""`dutlab-engine watch`: a trial that runs, seen on a terminal, as lines, and by somebody who goes away."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import pty
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from capability import need_engine
from processes import LIMIT_S

pytestmark = pytest.mark.timing

_numbers = itertools.count()


@pytest.fixture
def place() -> Iterator[str]:
    """A namespace with both ends of a cable: `eth-a`, 172.16.9.2, and `eth-b`, 172.16.9.3."""
    name = f"dutlab-t{os.getpid()}-watch-{next(_numbers)}"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for argv in (
            "link add eth-a type veth peer name eth-b",
            "addr add 172.16.9.2/24 dev eth-a",
            "addr add 172.16.9.3/24 dev eth-b",
            "link set eth-a up",
            "link set eth-b up",
        ):
            subprocess.run(["ip", "-n", name, *argv.split()], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=True)


def _trial(place: str, events: Path, duration: str) -> subprocess.Popen[str]:
    """Two streams of 500 frames a second."""
    argv = [
        "forward-test", "eth-a", "eth-b", "--rate", "1kpps", "--streams", "2", "--duration", duration, "--drain", "200ms", "--max-loss", "100%",
        "--backend", "af_packet", "--events", str(events), "--json", "--quiet",
    ]  # fmt: skip
    command = ["ip", "netns", "exec", place, str(need_engine()), *argv]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _sent(trial: subprocess.Popen[str]) -> list[int]:
    """Frames of each stream, when the trial has ended."""
    out, err = trial.communicate(timeout=LIMIT_S)
    assert trial.returncode in {0, 1}, err  # 1: doubtful, as on a busy machine
    return [s["sent"] for s in json.loads(out)["sent"]["streams"]]


def _screen(master: int) -> str:
    """All that is written to a terminal until nobody has it open."""
    said = b""
    with contextlib.suppress(OSError):  # EIO: the last one closed it
        while chunk := os.read(master, 65536):
            said += chunk
    os.close(master)
    return said.decode()


def test_a_terminal_shows_the_rates_of_every_port_and_stream_of_a_running_trial(place, tmp_path):
    fifo = tmp_path / "events"
    os.mkfifo(fifo)
    trial = _trial(place, fifo, "3s")
    master, slave = pty.openpty()
    watch = subprocess.Popen([str(need_engine()), "watch", str(fifo)], stdout=slave, stdin=slave, env=os.environ | {"TERM": "xterm"})
    os.close(slave)
    said = _screen(master)
    assert watch.wait(LIMIT_S) == 0
    sent = _sent(trial)
    screens = said.split("\x1b[H")
    assert len(screens) > 3 and all(s.endswith("\x1b[J") for s in screens[1:]), said
    rows = [re.sub(r"\x1b\[[KJ]", "", line).split() for line in screens[-1].splitlines()]
    heads = [row for row in rows if row and row[0] == "port"]
    assert heads[0][:3] == ["port", "sent", "rate"] and heads[1][:2] == ["port", "stream"]
    shown = {tuple(row[:2]): row for row in rows if row and row[0] in {"source", "sink"}}
    assert {("source", "1"), ("source", "2"), ("sink", "1"), ("sink", "2")} <= shown.keys(), screens[-1]
    for stream, frames in zip("12", sent, strict=True):
        assert 0 < int(shown["source", stream][2]) <= frames
        assert any(word in {"pps", "kpps"} for word in shown["sink", stream]), shown


def test_elsewhere_there_is_a_line_for_each_port_and_stream_and_no_escape(place, tmp_path):
    kept = tmp_path / "events.jsonl"
    sent = _sent(_trial(place, kept, "3s"))
    events = [json.loads(line) for line in kept.read_text().splitlines()]
    assert {e["event"] for e in events} == {"second", "status"}
    done = subprocess.run([str(need_engine()), "watch"], input=kept.read_text(), capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "") and "\x1b" not in done.stdout
    lines = done.stdout.splitlines()
    assert any(re.fullmatch(r"source  sent \d+ \(.*pps, .*bit/s on the wire\)", line) for line in lines), done.stdout
    counted = [int(m[1]) for line in lines if (m := re.fullmatch(r"source  stream 1  sent (\d+) \(.*\)  received – \(–\)", line))]
    assert counted == sorted(counted) and 0 < counted[-1] <= sent[0]


def test_a_reader_that_goes_away_changes_nothing_of_the_trial(place, tmp_path):
    fifo = tmp_path / "events"
    os.mkfifo(fifo)
    trial = _trial(place, fifo, "2s")
    with fifo.open() as reader:
        assert json.loads(reader.readline())["event"] == "second"
    assert all(frames > 0 for frames in _sent(trial))


def test_what_says_nothing_of_a_trial_is_refused_with_what_to_give():
    done = subprocess.run([str(need_engine()), "watch"], input="hello\n{}\n", capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2 and "2 lines were something else" in done.stderr and "send --events" in done.stderr
    done = subprocess.run([str(need_engine()), "watch", "/nonexistent/events"], capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 2 and "/nonexistent/events" in done.stderr
