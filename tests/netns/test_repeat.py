"""A run that is measured again in the lab, by its own folder alone."""

from __future__ import annotations

import json
import shutil


def test_a_run_that_came_by_mail_is_repeated_in_its_order_and_compared(dutlab, tmp_path):
    settings = ("frame_sizes=64,1518", "rates=1000pps", "duration=100ms", "warmup=0s", "drain=100ms")
    done = dutlab("measure", "sweep", *settings, "--link", "a", "--mode", "router", "--repeats", "1", "--name", "student")
    assert done.returncode == 0, done.stderr
    (old,) = (tmp_path / "runs").iterdir()
    (tmp_path / "mailed").mkdir()
    mailed = shutil.move(old, tmp_path / "mailed" / old.name)
    other_user = {"XDG_STATE_HOME": str(tmp_path / "other")}
    refused = dutlab("repeat", str(mailed), env=other_user)
    assert refused.returncode == 2 and "experiment workloads.0.sweep" in refused.stderr
    assert list((tmp_path / "runs").iterdir()) == []
    again = dutlab("repeat", str(mailed), "--trust", env=other_user)
    assert again.returncode == 0, again.stderr
    (new,) = (tmp_path / "runs").iterdir()
    plans = [json.loads((run / "plan.json").read_text()) for run in (mailed, new)]
    assert plans[0] == plans[1]
    assert f"{new.name} against {mailed.name}" in again.stdout
    assert json.loads((new / "resolved.json").read_text())["repeated_run"] == mailed.name
