"""A run whose repeats end by a rule: as many as it takes, the same in its report, in `runs` and when it is resumed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from processes import LIMIT_S

EXPERIMENT = """\
experiment: until
testbed: {lab: three-node}
factors: {mode: [router]}
workloads:
  - sweep: {frame_sizes: [1518], rates: [1000pps], duration: 300ms, warmup: 0s, drain: 100ms, links: [[a]]}
repeats: {until: 10%, most: 30}
watch: []
"""


def test_a_cell_is_repeated_until_it_is_known_and_no_longer(python: str, python_env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "e.yaml").write_text(EXPERIMENT)

    def dutlab(*argv: str) -> str:
        done = subprocess.run(
            [python, "-m", "dutlab", *argv], cwd=tmp_path, env=python_env, capture_output=True, text=True, timeout=LIMIT_S, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    dutlab("run", "e.yaml")
    (run,) = (tmp_path / "runs").iterdir()
    done = len(list(run.glob("trials/*/record.json")))
    assert 6 <= done < 30  # below six there is no interval
    assert (run / "MANIFEST.sha256").exists()
    dutlab("resume", str(run))
    assert len(list(run.glob("trials/*/record.json"))) == done
    (line,) = json.loads(dutlab("runs", "--json"))["runs"]
    assert (line["planned"], line["measured"], line["status"]) == (done, done, "finished")
    report = (run / "report" / "report.md").read_text()
    assert "repeated until the 95% interval of the median, 99.8% at each of 21 looks, was within ±10.0% of it" in report
    assert "not done" not in report
