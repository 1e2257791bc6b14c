"""A run whose repeats end by a rule: as many as it takes, the same in its report, in `runs` and when it is resumed."""

from __future__ import annotations

import json

EXPERIMENT = """\
experiment: until
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [1518], rates: [1000pps], duration: 100ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: {until: 90%, most: 10}
watch: []
"""


def test_a_cell_is_repeated_until_it_is_known_and_no_longer(dutlab, tmp_path):
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    done = dutlab("run", "e.yaml")
    assert done.returncode == 0, done.stderr
    (run,) = (tmp_path / "runs").iterdir()
    trials = len(list(run.glob("trials/*/record.json")))
    assert 8 <= trials < 10, "below eight there is no interval for each of three looks"
    assert (run / "MANIFEST.sha256").exists()
    resumed = dutlab("resume", str(run))
    assert resumed.returncode == 0 and len(list(run.glob("trials/*/record.json"))) == trials, resumed.stderr
    (line,) = json.loads(dutlab("runs", "--json").stdout)["runs"]
    assert (line["planned"], line["measured"], line["status"]) == (trials, trials, "finished")
    report = (run / "report" / "report.md").read_text()
    assert "at each of 3 looks" in report and "not done" not in report
