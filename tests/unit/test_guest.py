"""Waiting for a guest: what was started may be a shell for a while, and one that ends is noticed at once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dutlab.errors import LabError
from dutlab.labs import guest, uml

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
