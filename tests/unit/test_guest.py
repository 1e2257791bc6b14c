"""Waiting for a guest: what was started may be a shell for a while, and one that ends is noticed at once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dutlab.errors import LabError
from dutlab.labs import guest


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
