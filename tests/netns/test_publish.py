"""A site on a disk that fills up: what is written is whole, and what is missing is named."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from capability import have_mount, need
from dutlab.cli.publish import publish
from fake_run import Wanted, build

SMALL = Wanted(repeats=3, seconds=2, sizes=(64,), cores=0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    need("mount", have_mount())
    disk = tmp_path / "disk"
    disk.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", str(disk)], check=True)
    yield disk
    subprocess.run(["umount", str(disk)], check=True)


def published(*words: object) -> tuple[int, str]:
    done = CliRunner().invoke(publish, [str(word) for word in words])
    return done.exit_code, f"{done.output}{done.exception or ''}"


def room(disk: Path, size: int) -> None:
    """Makes the disk so many bytes large."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(disk)], check=True)


def test_a_full_disk_leaves_the_site_as_it_was_and_room_lets_it_grow(small_disk: Path, tmp_path: Path) -> None:
    runs, site = tmp_path / "runs", small_disk / "site"
    first, other = build(runs, SMALL), build(runs, Wanted(repeats=3, seconds=10, experiment="large"))
    assert published(first, site)[0] == 0
    room(small_disk, shutil.disk_usage(small_disk).used + 200_000)
    before = {p: p.read_bytes() for p in [site / "index.html", site / "index.json", site / "runs.parquet", site / "feed.xml"]}
    status, said = published(other, site)
    assert status != 0 and "no space left" in said and "publish again" in said, said
    assert {p: p.read_bytes() for p in before} == before
    assert [p.name for p in (site / "runs").iterdir()] == [first.name], "no half of a run"
    room(small_disk, 200_000_000)
    assert published(other, site)[0] == 0
    assert {run["name"] for run in json.loads((site / "index.json").read_text())["runs"]} == {first.name, other.name}
