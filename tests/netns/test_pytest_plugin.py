"""The fixture `dutlab` for tests of other projects, used as their tests use it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from capability import have_netns, need, need_engine

CONFTEST = """
from in_process import cheap_rig

pytest_plugins = ["dutlab.pytest_plugin"]
cheap = cheap_rig()
cheap.__enter__()
"""
TESTS = """
import pytest

EXPERIMENT = {
    "experiment": "gate",
    "testbed": {"lab": "three-node"},
    "factors": {"mode": ["router"]},
    "workloads": [{"sweep": {"frame_sizes": [64, 1518], "rates": ["1kpps"], "duration": "100ms", "drain": "100ms", "links": [["a"]]}}],
    "repeats": 1,
    "disturbed": "count",
}
MEASURED = {}


def test_the_router_is_fast_enough(dutlab):
    MEASURED["run"] = run = dutlab.run(EXPERIMENT)
    rate = run.figure("received_pps", mode="router", frame_size=64)
    assert rate.is_at_least(500), rate
    assert not rate.is_below(500), rate
    with pytest.raises(LookupError, match="is of several: .*frame_size: "):
        run.figure("received_pps", mode="router")
    with pytest.raises(LookupError, match="mode: router"):
        run.figure("received_pps", mode="nat")
    with pytest.raises(LookupError, match="received_pps"):
        run.figure("speed")


def test_that_fails():
    rate = MEASURED["run"].figure("received_pps", mode="router", frame_size=64)
    assert rate.is_at_least(1e9), rate


def test_of_a_faulty_experiment(dutlab):
    dutlab.run({**EXPERIMENT, "repeats": 0})


def test_of_a_testbed_that_is_away(dutlab, tmp_path):
    (tmp_path / "away.yaml").write_text("testbed: away\\nhosts:\\n  here: {ssh: 127.0.0.1:9}\\n")
    work = {"steps": {"run": {"here": [{"run": "true", "name": "it"}]}}}
    dutlab.run({"experiment": "x", "testbed": "away.yaml", "factors": {"mode": ["as-found"]}, "workloads": [work]})
"""


def test_a_rate_is_asserted_with_its_interval_and_what_cannot_run_is_skipped_or_fails(
    python: str, python_env: dict[str, str], tmp_path: Path
) -> None:
    need("netns", have_netns())
    need_engine()
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_gate.py").write_text(TESTS)
    argv = [python, "-m", "pytest", "-rsf", "-p", "no:cacheprovider", "test_gate.py"]
    environment = {k: v for k, v in python_env.items() if not k.startswith("PYTEST_")}
    environment["PYTHONPATH"] += f":{Path(__file__).parents[1]}"
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # those of our own tests take longer to load than to use
    done = subprocess.run(argv, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "2 failed, 1 passed, 1 skipped" in done.stdout, done.stdout
    assert "received_pps of mode router, frame_size 64: " in done.stdout and "repeats: 1)" in done.stdout, done.stdout
    assert "repeats" in done.stdout and "must be" in done.stdout, done.stdout
    (skipped,) = [line for line in done.stdout.splitlines() if line.startswith("SKIPPED")]
    assert "here" in skipped, skipped
    done = subprocess.run(
        [*argv, "--dutlab-must-run", "-k", "away"], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert "1 failed" in done.stdout, done.stdout
