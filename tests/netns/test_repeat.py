"""A run that is measured again in the lab, by its own folder alone."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from processes import LIMIT_S


def test_a_run_that_came_by_mail_is_repeated_in_its_order_and_compared(python: str, python_env: dict[str, str], tmp_path: Path) -> None:
    def dutlab(*argv: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [python, "-m", "dutlab", *argv], cwd=tmp_path, env={**python_env, **more}, capture_output=True, text=True, timeout=LIMIT_S,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip

    settings = ("frame_sizes=64,1518", "rates=1000pps", "duration=300ms", "warmup=0s", "drain=100ms")
    done = dutlab("measure", "sweep", *settings, "--link", "a", "--repeats", "2", "--name", "student")
    assert done.returncode == 0, done.stderr
    (old,) = (tmp_path / "runs").iterdir()
    mailed = Path(shutil.move(old, tmp_path / "mailed" / old.name)) if (tmp_path / "mailed").mkdir() is None else old
    other_user = {"XDG_STATE_HOME": str(tmp_path / "other")}
    refused = dutlab("repeat", str(mailed), **other_user)
    assert refused.returncode == 2 and "experiment workloads.0.sweep" in refused.stderr
    assert list((tmp_path / "runs").iterdir()) == []
    again = dutlab("repeat", str(mailed), "--trust", **other_user)
    assert again.returncode == 0, again.stderr
    assert "no difference between the machines of the run and these" in again.stdout
    (new,) = (tmp_path / "runs").iterdir()
    plans = [json.loads((run / "plan.json").read_text()) for run in (mailed, new)]
    assert plans[0] == plans[1]
    assert f"{new.name} against {mailed.name}" in again.stdout
    assert json.loads((new / "resolved.json").read_text())["repeated_run"] == mailed.name
