"""Guests that a run looks after; a kernel is any process here, and its power the script that labs write."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dutlab.errors import HostError
from dutlab.hosts.local import LocalHost
from dutlab.labs import guest_power
from dutlab.labs.lost_guests import Guests
from dutlab.runner import guest_watch
from dutlab.runner.guest_watch import GuestLost, GuestWatch
from dutlab.runner.journal import Journal, read_journal
from processes import eventually

START = "echo 'Kernel panic - not syncing: out of ideas' >console-dut; sleep {mark} >/dev/null & echo $!; touch dut.pid"


class OverSsh(LocalHost):
    """As a guest is reached; `silent` while nothing answers."""

    connections, renewals, silent = 1, (), False

    @property
    def is_lost(self) -> bool:
        return self.silent

    async def run(self, argv, **how):
        if self.silent:
            raise HostError("no answer", host=self.name)
        return await super().run(argv, **how)


@pytest.fixture
def guests(tmp_path: Path) -> Iterator[Guests]:
    """One guest that runs."""
    mark = f"1000.{os.getpid()}"
    switch = guest_power.write(tmp_path, "dut", mark=mark, start=["setsid", "--wait", "sh", "-c", START.format(mark=mark)])
    os.spawnl(os.P_WAIT, str(switch), str(switch), "on")
    yield Guests(frozenset({"dut"}), tmp_path)
    with suppress(ProcessLookupError):
        os.kill(guest_power.kernel(tmp_path, "dut"), signal.SIGKILL)


@pytest.fixture
def watch(guests: Guests, tmp_path: Path, monkeypatch) -> Iterator[GuestWatch]:
    for name in ("LOOK_S", "SILENT_S"):
        monkeypatch.setattr(guest_watch, name, 0.01)
    yield GuestWatch({"dut": OverSsh("dut")}, journal := Journal(tmp_path / "journal.jsonl"), guests)
    journal.close()


async def cut() -> None:
    await asyncio.Event().wait()


async def test_work_is_cut_when_a_kernel_has_ended_and_the_guest_runs_again_by_then(watch: GuestWatch, tmp_path: Path) -> None:
    before = guest_power.kernel(tmp_path, "dut")
    os.kill(before, signal.SIGKILL)
    with pytest.raises(GuestLost) as found:
        await watch.during(cut())
    (loss,) = found.value.losses
    assert "out of ideas" in loss.words and "dut" in loss.words
    assert b"out of ideas" in loss.console
    assert guest_power.kernel(tmp_path, "dut") != before and not watch.guests.ended()
    assert [e["event"] for e in read_journal(tmp_path / "journal.jsonl")] == ["host-lost", "host-revived"]
    assert await watch.behind(found.value) is found.value, "it is not started a second time"


async def test_a_guest_that_answers_nothing_is_killed_and_started_again(watch: GuestWatch, tmp_path: Path) -> None:
    before = guest_power.kernel(tmp_path, "dut")
    os.kill(before, signal.SIGSTOP)
    watch.hosts["dut"].silent = True

    async def booted() -> None:
        watch.hosts["dut"].silent = False

    watch.brought = {"dut": booted}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guest_watch, "until_it_answers", lambda *_: booted())
        with pytest.raises(GuestLost, match="it answers nothing"):
            await watch.during(cut())
    assert not guest_power.runs(before) and guest_power.kernel(tmp_path, "dut") != before


async def test_a_guest_that_was_switched_off_is_not_lost(watch: GuestWatch, tmp_path: Path) -> None:
    os.spawnl(os.P_WAIT, str(guest_power.script(tmp_path, "dut")), "power", "off")

    async def work() -> str:
        await asyncio.sleep(0.1)
        return "done"

    assert await watch.during(work()) == "done"
    assert not (tmp_path / "journal.jsonl").read_bytes()


async def test_an_error_of_its_own_is_no_loss_and_one_since_its_connection_was_made_anew_is(watch: GuestWatch) -> None:
    async def fails() -> None:
        raise HostError("a command failed", host="dut")

    with pytest.raises(HostError) as error:
        await watch.during(fails())
    assert await watch.behind(error.value) is None
    watch.hosts["dut"].connections = 2
    assert (await watch.behind(error.value)).losses[0].why == "a command failed"


def test_a_kernel_that_becomes_another_program_has_not_ended(guests: Guests, tmp_path: Path) -> None:
    for _ in range(30):  # it has no command line meanwhile, which a look each few microseconds finds sooner or later
        process = subprocess.Popen(["sh", "-c", "exec sh -c 'exec sleep 1000'"])
        try:
            (tmp_path / "kernel-dut").write_text(f"{process.pid}\n")
            while not Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(b"sleep"):
                assert guests.ended() == []
        finally:
            process.kill()
        assert eventually(lambda: guests.ended() == ["dut"]), "also before its parent has waited for it"
        process.wait()
