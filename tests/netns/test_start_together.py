"""Hosts that begin together, by real clocks and by clocks that were made wrong: such a test puts a `date` of its own on the hosts' path."""

from __future__ import annotations

import asyncio
import re
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from dutlab.doubts import DoubtKind
from dutlab.hosts.host import Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.ssh import SshHost
from dutlab.hosts.ssh_login import Login
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.tools.gate import Gate
from dutlab.tools.steps.account import Account
from dutlab.tools.steps.steps import Steps
from processes import LIMIT_S, ended, eventually

pytestmark = pytest.mark.timing

MS = 1_000_000


class Elsewhere(LocalHost):
    """Stands for a machine with a clock of its own."""

    on_this_machine = False


class WrongClock:
    """A `date` that is ahead by what a file says, or one that knows no more than seconds; and a bash that knows no clock of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.file, self._folder, self._patch = folder / "ahead", folder, monkeypatch
        self._real = shutil.which("date")
        self.set(0)
        self.old_bash()

    def set(self, ahead_ns: int) -> None:
        self.file.write_text(f"{ahead_ns}\n")
        self._put("date", f"echo $(($({self._real} +%s%N) + $(cat {self.file})))")

    def only_seconds(self) -> None:
        self._put("date", f"case $1 in *N*) {self._real} +%sN ;; *) {self._real} +%s ;; esac")
        self._put("perl", "exit 1")

    def old_bash(self) -> None:
        self._put("bash", 'exec sh "$@"')

    def _put(self, name: str, script: str) -> None:
        path = self._folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        self._patch.setenv("PATH", str(self._folder), prepend=":")


@pytest.fixture
def clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WrongClock:
    return WrongClock(tmp_path, monkeypatch)


@pytest.fixture
async def box(ssh_login: Login) -> AsyncIterator[Host]:
    host = SshHost(ssh_login)
    yield host
    await host.close()


async def carried_out(hosts: dict[str, Host], **phases: dict[str, list[str]]) -> Account:
    account = Account()
    await Steps(hosts).carry_out(StepsWorkload.model_validate(phases), account)
    assert account.failed == []
    for host in hosts.values():
        await host.close()
    return account


def jumped_s(account: Account, phase: str) -> float:
    """What the only doubt says of box."""
    (doubt,) = account.measured().doubts
    said = re.fullmatch(rf"box, by ([+-][\d.]+) s, seen as {phase} began", doubt.detail)
    assert doubt.kind is DoubtKind.CLOCK_JUMPED
    assert said
    return float(said[1])


@pytest.mark.smoke
async def test_hosts_over_ssh_and_here_begin_within_the_bound_that_is_stated(box: Host) -> None:
    stamp = "date +%s%N"
    account = await carried_out({"here": LocalHost("here"), "box": box}, run={"here": [stamp], "box": [stamp]})
    began = {d.host: int(d.stdout) for d in account.done}
    for start in account.starts["run"]:
        assert abs(start.ahead.ns) <= start.ahead.error_ns, "one machine has one clock"
    agreed_ns = account.done[0].started_s * 1e9
    assert all(began[start.host] > agreed_ns + start.earliest_ns - MS for start in account.starts["run"])
    assert all(-2 * start.ahead.error_ns <= start.earliest_ns < start.latest_ns for start in account.starts["run"])
    assert account.doubts == ()


async def test_a_host_whose_clock_is_an_hour_ahead_begins_with_the_others(clock: WrongClock, box: Host) -> None:
    clock.set(3600 * 10**9)
    account = await carried_out({"ahead": Elsewhere("ahead"), "box": box}, run={"ahead": ["true"], "box": ["true"]})
    ahead = {s.host: s.ahead for s in account.starts["run"]}
    assert abs(ahead["ahead"].ns - 3600 * 10**9) <= ahead["ahead"].error_ns
    assert abs(ahead["box"].ns) <= ahead["box"].error_ns
    assert all(-2 * s.ahead.error_ns <= s.earliest_ns < s.latest_ns < 60_000 * MS for s in account.starts["run"])


async def test_a_clock_that_is_set_between_two_phases_is_a_doubt_that_says_by_how_much(clock: WrongClock) -> None:
    set_back = f"echo -{7 * 10**9} >{clock.file}"
    account = await carried_out({"box": Elsewhere("box")}, startup={"box": [set_back]}, run={"box": ["true"]})
    assert jumped_s(account, "run") == pytest.approx(-7, abs=0.1)


async def test_a_clock_that_is_set_while_a_host_stands_ready_is_seen_and_delays_nobody(clock: WrongClock) -> None:
    # Slow to answer, it is asked four times; the fifth is that for the wait: it has gone back by an hour.
    gone_back = f"n=$(wc -l <{clock.file}); echo $(($({clock._real} +%s%N) - (n > 5 ? 3600000000000 : 0)))"
    clock._put("date", f"echo >>{clock.file}; sleep 0.02; {gone_back}")
    async with asyncio.timeout(LIMIT_S):
        account = await carried_out({"box": Elsewhere("box")}, run={"box": ["true"]})
    assert jumped_s(account, "run") == pytest.approx(-3600, abs=0.1)


async def test_a_host_that_knows_only_seconds_is_released_by_a_word(clock: WrongClock) -> None:
    clock.only_seconds()
    account = await carried_out({"coarse": Elsewhere("coarse")}, run={"coarse": ["true"]})
    (start,) = account.starts["run"]
    assert start.ahead.error_ns >= 500 * MS
    assert -500 * MS < start.earliest_ns <= 0 < start.latest_ns < 60_000 * MS


async def test_hosts_of_this_machine_begin_by_a_word_within_the_bound_that_is_stated() -> None:
    hosts: dict[str, Host] = {name: LocalHost(name) for name in ("a", "b", "c")}
    phases = {phase: {name: ["date +%s%N"] for name in hosts} for phase in ("startup", "run")}
    account = await carried_out(hosts, **phases)
    for done in account.done:
        (start,) = (s for s in account.starts[done.phase] if s.host == done.host)
        # Its own stamp is later than its start, and a record's times are in microseconds.
        assert int(done.stdout) >= done.started_s * 1e9 + start.earliest_ns - MS
        assert 0 <= start.earliest_ns <= start.latest_ns
        assert abs(start.ahead.ns) <= start.ahead.error_ns, "one machine has one clock"
    assert account.doubts == ()


@pytest.mark.parametrize("shell", ["here", "bash", "sh"])
async def test_a_command_sees_neither_the_gate_nor_its_input(shell: str, request: pytest.FixtureRequest) -> None:
    if shell == "sh":
        request.getfixturevalue("clock")
    host = LocalHost("a") if shell == "here" else Elsewhere("a")
    account = await carried_out({"a": host}, run={"a": ["set; echo $#; ls /proc/$$/fd; cat; echo end"]})
    said = account.done[0].stdout.decode()
    assert said.endswith("\n0\n0\n1\n2\nend\n"), "no argument, three files, no input"
    assert not re.search(r"^(left|go)=", said, re.MULTILINE)


async def test_a_command_that_fails_ends_with_its_own_status() -> None:
    account = Account()
    await Steps({"a": LocalHost("a")}).carry_out(StepsWorkload.model_validate({"run": {"a": ["exit 7"]}}), account)
    assert [d.status for d in account.failed] == [7]


async def test_a_host_with_bash_says_itself_when_it_began(box: Host) -> None:
    # It is heard of 0.4 s later, and that would count as its latest start. The shell's own stamp may come long after the command began.
    gate = await Gate.stand(box, "date +%s%N", asyncio.Semaphore(1))
    at_ns = time.monotonic_ns() + 100 * MS
    start = await gate.open(at_ns, asyncio.Semaphore(1), among=800)
    heard_ns = time.monotonic_ns() - at_ns
    began_ns = int(gate.output) - gate.clock.offset.ns - at_ns
    assert start.earliest_ns - gate.clock.offset.error_ns <= began_ns
    assert start.latest_ns <= heard_ns - 400 * MS + 2 * gate.clock.offset.error_ns + MS, "of its own stamp, which is before it waits"
    await gate.process.wait(LIMIT_S)


@pytest.mark.parametrize("here", [False, True])
async def test_a_gate_that_is_cut_off_before_it_opens_runs_nothing(tmp_path: Path, *, here: bool) -> None:
    gate = await Gate.stand(LocalHost("a"), f"touch {tmp_path}/begun", asyncio.Semaphore(1), here=here)
    assert gate.here == here
    await gate.process.close_stdin()
    await gate.process.wait(LIMIT_S)
    assert not (tmp_path / "begun").exists()


KILLED = """
import asyncio, os, signal, sys
from dutlab.hosts.local import LocalHost
from dutlab.tools.gate import Gate
async def main():
    few = asyncio.Semaphore(1)
    gate = await Gate.stand(LocalHost("a"), "touch begun; echo $$; exec sleep 1000", few, here=True)
    if sys.argv[1] == "open":
        await gate.open(0, few)
        print((await gate.process.readline()).decode(), flush=True)
    else:
        print(gate.process._carrier._process.pid, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
asyncio.run(main())
"""


@pytest.mark.parametrize("when", ["ready", "open"])
def test_a_step_behind_a_gate_of_this_machine_ends_with_a_controller_that_is_killed(tmp_path: Path, when: str) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, when], cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert eventually(lambda: ended(int(done.stdout)))
    assert (tmp_path / "begun").exists() == (when == "open")
