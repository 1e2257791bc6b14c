"""Guests that a run looks after; a kernel is any process here, and its power the script that labs write."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dutlab.errors import HostError, LabError
from dutlab.hosts.local import LocalHost
from dutlab.labs import guest, guest_power, uml
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
        patch.setattr(guest_watch, "wait_for_answer", lambda *_: booted())
        with pytest.raises(GuestLost, match="it does not answer"):
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


# ---- Waiting for a guest: what was started may be a shell for a while, and one that ends is noticed at once


GIVEN_BACK = """
import ctypes, os, signal, sys
class Iov(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("len", ctypes.c_size_t)]
libc = ctypes.CDLL(None)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long
if (pid := os.fork()) == 0:
    libc.ptrace(0, 0, None, None)
    os.kill(os.getpid(), signal.SIGSTOP)
os.waitpid(pid, 0)
room = ctypes.create_string_buffer(2696)
given = Iov(ctypes.addressof(room), len(room))
ended = [libc.ptrace(request, pid, 0x202, ctypes.byref(given)) for request in (0x4204, 0x4205)]
os.kill(pid, signal.SIGKILL)
sys.exit(ended != [0, 0])
"""
"""A traced process takes the registers that it gave (ptrace(2): PTRACE_GETREGSET, PTRACE_SETREGSET), into as much room as the kernel has."""


async def test_a_kernel_that_its_shell_has_not_become_yet_has_not_ended(tmp_path: Path) -> None:
    with subprocess.Popen(["sh", "-c", f"sleep 0.5; echo 1 >{tmp_path}/dut.pid; read end"], stdin=subprocess.PIPE) as shell:
        (tmp_path / "kernel-dut").write_text(f"{shell.pid}\n")
        await guest.reached(tmp_path, "dut")
        assert shell.poll() is None
        assert shell.stdin is not None
        shell.stdin.close()


async def test_a_guest_that_ends_is_noticed_and_its_last_words_are_told(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        ended.wait()
    (tmp_path / "kernel-dut").write_text(f"{ended.pid}\n")
    (tmp_path / "console-dut").write_text("Kernel panic - not syncing\n")
    with pytest.raises(LabError, match="Kernel panic"):
        await guest.reached(tmp_path, "dut")


def test_on_a_cpu_with_amx_a_library_is_compiled_for_user_mode_linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cpuinfo := tmp_path / "cpuinfo").write_text("flags\t\t: fpu sse2 avx512f\n")
    monkeypatch.setattr(uml, "CPUINFO", cpuinfo)
    assert uml.for_this_cpu(tmp_path) is None
    cpuinfo.write_text("flags\t\t: fpu sse2 avx512f amx_tile\n")
    library = uml.for_this_cpu(tmp_path)
    assert library is not None
    done = subprocess.run([sys.executable, "-c", GIVEN_BACK], env={**os.environ, "LD_PRELOAD": str(library)}, check=False)
    assert done.returncode == 0
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LabError) as found:
        uml.for_this_cpu(tmp_path)
    assert found.value.remedy
