"""One guest of each kernel: it boots, forwards frames, and a figure is recorded. In some seconds, where all tests of guests take minutes."""

from __future__ import annotations

from pathlib import Path

import pytest

from main_job import only_run, records
from vm.conftest import Dutlab

SWEEP = """
experiment: smoke
testbed: {{lab: {lab}}}
factors: {{mode: [router]}}
repeats: 1
disturbed: count
workloads:
  - sweep: {{frame_sizes: [64], rates: [200pps], duration: 300ms, links: [[a]]}}
watch: []
"""


@pytest.mark.smoke
@pytest.mark.parametrize("lab", ["uml-router", "qemu-router"])
def test_a_guest_boots_and_what_it_forwards_is_recorded(dutlab: Dutlab, request: pytest.FixtureRequest, tmp_path: Path, lab: str) -> None:
    label = request.getfixturevalue(lab.replace("-", "_"))
    (tmp_path / "e.yaml").write_text(SWEEP.format(lab=lab))
    done = dutlab("run", "e.yaml", "--lab", label)
    assert done.returncode == 0, done.stderr
    (record,) = records(only_run(tmp_path))
    assert record["status"] == "measured" and record["flows"][0]["received_frames"] > 0
    assert record["figures"]["a"]["received_pps"] > 0
