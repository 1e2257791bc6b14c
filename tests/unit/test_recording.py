"""scripts/recording: what a terminal showed, when, and in no more than one picture may weigh."""

from __future__ import annotations

import re
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[2]
PICTURE = "docs/images/recording.svg"


def record(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    (folder / "docs/images").mkdir(parents=True, exist_ok=True)
    argv = [ROOT / "scripts/recording", "sh", "-c", script]
    return subprocess.run(argv, cwd=folder, capture_output=True, text=True, check=False)


def texts(picture: Path) -> list[tuple[str, bool]]:
    """Each line, and whether it is there at the end (or for a reader who wants no motion)."""
    return [(t.text or "", "h" not in t.attrib["class"].split()) for t in ET.parse(picture).getroot().iter() if t.tag.endswith("}text")]


def test_what_was_overwritten_is_seen_before_what_came_later(tmp_path):
    assert record(tmp_path, r"printf '1 of 2'; sleep 0.5; printf '\r\033[K<done> & \033[1mwell\033[0m\nend\n'").returncode == 0
    found = texts(tmp_path / PICTURE)
    assert ("1 of 2", False) in found
    assert [line for line, stays in found if stays][1:] == ["<done> & well", "end"]


def test_a_command_that_fails_leaves_no_picture(tmp_path):
    done = record(tmp_path, "exit 3")
    assert (done.returncode, "ended with 3" in done.stderr) == (1, True)
    assert not (tmp_path / PICTURE).exists()


def test_a_recording_that_is_too_heavy_is_refused(tmp_path):
    done = record(tmp_path, "for i in $(seq 140); do for j in $(seq 23); do printf '%075d\\n' $i$j; done; sleep 0.11; done")
    assert done.returncode == 1, done.stderr
    assert "more than 200000" in done.stderr


def test_the_picture_of_the_readme_is_light_loads_nothing_and_rests_for_who_wants_no_motion():
    picture = ROOT / PICTURE
    page = picture.read_text()
    assert len(page.encode()) <= 200_000
    assert "prefers-reduced-motion" in page and "<script" not in page
    assert not re.findall(r"(?:href|src)=|url\(", page)
    assert any(stays and "dutlab" in line for line, stays in texts(picture))
    assert PICTURE in (ROOT / "README.md").read_text()
