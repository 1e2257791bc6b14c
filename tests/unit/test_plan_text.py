"""Text of plans: short for many drives and many settings, whole for few."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from dutlab.cli.main import dutlab

DRIVES = "\n".join(f"      d{n}: {{by-id: nvme-ACME_X1_S{n:04d}, destroy: yes}}" for n in range(1, 33))
BED = f"testbed: era\nhosts:\n  server:\n    ssh: root@192.0.2.20\n    drives:\n{DRIVES}\n"


def plan_of(folder: Path, drives: str, options: str) -> list[str]:
    (folder / "bed.yaml").write_text(BED)
    (folder / "plan.yaml").write_text(
        f"experiment: era\ntestbed: bed.yaml\nfactors: {{mode: [as-found]}}\nrepeats: 3\n"
        f"workloads:\n  - fio: {{drives: {drives}, options: {{{options}}}, duration: 15min}}\n"
    )
    result = CliRunner().invoke(dutlab, ["plan", str(folder / "plan.yaml")], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


@pytest.mark.parametrize("drives", ["[each, together]", "[halves, together]"])
def test_a_plan_of_32_drives_and_98_settings_fits_one_screen(tmp_path: Path, drives: str) -> None:
    options = "rw: [randread, randwrite], bs: 4k, iodepth: [1, 2, 4, 8, 16, 32, 64], numjobs: [1, 2, 4, 8, 16, 32, 48]"
    lines = plan_of(tmp_path, drives, options)
    assert len(lines) <= 22
    whole = " ".join(" ".join(lines).split())
    for told in ("depth 1, 2", "numjobs 1, 2", "all 32", "in every row"):
        assert told in whole


def test_a_plan_of_few_settings_names_each_with_the_common_ones_once(tmp_path: Path) -> None:
    lines = plan_of(tmp_path, "[together]", "rw: [randread, randwrite], bs: [4k, 512], iodepth: 64, numjobs: 8")
    assert sum("depth 64" in line for line in lines) == 1
    assert sum(line.startswith("fio: random reads") for line in lines) == 2


def test_a_plan_of_one_setting_spells_it_in_its_row(tmp_path: Path) -> None:
    lines = plan_of(tmp_path, "[[server:d1, server:d2]]", "rw: randread, bs: 4k, iodepth: 64")
    assert not any("in every row" in line for line in lines)
    whole = " ".join(" ".join(lines).split())
    assert "server:d1+ server:d2" in whole or "server:d1+server:d2" in whole
