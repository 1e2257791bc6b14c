"""In a process namespace, as a container is one, the kernel's threads that forward are hidden, and their work is still not that of others."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from main_job import BOTH_TOOLS, only_run, records

LOOKED = """
import asyncio, json
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.sensors.cpu_account import LocalAccount, hidden_notes

async def main():
    reader = LocalAccount([1, 2])  # numbers of another process namespace: 1 is this very program
    before = (await reader.read())[THIS_MACHINE]
    for _ in range(2000):
        open("/proc/self/maps").read()
    found = (await reader.read())[THIS_MACHINE].since(before)
    print(json.dumps({"threads": sorted(found.threads), "notes": len(hidden_notes({"here": LocalHost("here")})), "own": found.own_cpu_s}))

asyncio.run(main())
"""


def looked(*around: str) -> dict[str, object]:
    done = subprocess.run([*around, sys.executable, "-c", LOOKED], capture_output=True, text=True, check=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_system_time_of_nobody_is_the_kernels_where_its_threads_are_hidden() -> None:
    inside = looked("unshare", "--pid", "--fork", "--mount-proc")
    assert inside["notes"] == 1 and set(inside["threads"]) <= {"kernel threads"}
    outside = looked()
    assert outside["notes"] == 0 and "kernel threads" not in outside["threads"]


def test_a_run_in_a_process_namespace_counts_the_work_of_the_kernel_as_its_own(python, python_env, experiment, tmp_path):
    """As in a container without --pid=host."""
    contained = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [*contained, python, "-m", "dutlab", "run", experiment(BOTH_TOOLS)]
    done = subprocess.run(command, cwd=tmp_path, env=python_env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    run = only_run(tmp_path)
    assert [of["status"] for of in records(run)] == ["measured"] * 2
    for found in (of["interference"]["this-machine"] for of in records(run)):
        ran_s = sum(of["run_s"] for of in found["threads"].values())
        assert found["threads"]["kernel threads"]["run_s"] > 0 and found["own_cpu_s"] >= found["threads"]["kernel threads"]["run_s"]
        assert ran_s == pytest.approx(found["run_s"], abs=1e-3) and found["taken_s"] <= found["others_cpu_s"]
    assert "hides kernel threads" in done.stderr, "the run says what it cannot see"
