"""Purging: the literal command lines of nvme-cli, and what its sanitize log says, with a program of that name in its place."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dutlab.errors import MeasurementError
from dutlab.hosts.local import LocalHost
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.purge import purge

DRIVE = FoundDrive("server:d1", "/dev/nvme0n1", 1 << 30, {"size_bytes": str(1 << 30)})
LOG = """{{
  "nvme0n1":{{
    "sprog":{progress},
    "sstat":{{
      "global_erased":0,
      "no_cmplted_passes":0,
      "status":"({number}) {words}"
    }}
  }}
}}"""
STATES = {1: "Most Recent Sanitize Command Completed Successfully.", 2: "Sanitize in Progress.", 3: "Most Recent Sanitize Command Failed."}


def nvme(folder: Path, monkeypatch: pytest.MonkeyPatch, *states: int) -> Path:
    """A program `nvme` that writes down its command lines and answers sanitize-log with each state in turn, the last for ever."""
    for turn, state in enumerate(states):
        (folder / f"state{turn}").write_text(LOG.format(progress=65535 if state == 1 else 100, number=state, words=STATES[state]))
    (folder / "nvme").write_text(
        f'#!/bin/sh\ncd {folder}\necho "$*" >> said\n[ "$1" = sanitize-log ] || exit 0\n'
        f'n=$(grep -c sanitize-log said); n=$((n - 1)); [ -e "state$n" ] || n={len(states) - 1}\ncat "state$n"\n'
    )
    (folder / "nvme").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "said"


async def test_a_format_is_one_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = nvme(tmp_path, monkeypatch, 1)
    await purge(LocalHost("server"), DRIVE, "nvme-format")
    assert said.read_text() == "format --ses=1 --force /dev/nvme0n1\n"


async def test_a_sanitize_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = nvme(tmp_path, monkeypatch, 2, 1)
    await purge(LocalHost("server"), DRIVE, "nvme-sanitize")
    log = "sanitize-log -o json /dev/nvme0n1"
    assert said.read_text().splitlines() == ["sanitize --sanact=2 /dev/nvme0n1", log, log]


async def test_a_sanitize_that_fails_ends_the_trial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvme(tmp_path, monkeypatch, 3)
    with pytest.raises(MeasurementError, match="Command Failed"):
        await purge(LocalHost("server"), DRIVE, "nvme-sanitize")


async def test_a_drive_of_which_a_part_is_used_is_not_purged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = nvme(tmp_path, monkeypatch, 1)
    with pytest.raises(MeasurementError, match="1024 of its 1073741824 bytes"):
        await purge(LocalHost("server"), FoundDrive("server:d1", "/dev/nvme0n1", 1024, DRIVE.facts), "nvme-format")
    assert not said.exists()
