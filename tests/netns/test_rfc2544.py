"""The suite as a user runs it, very short: through the lab's router, both ways, and a DUT that comes back from each reset."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from capability import have_netns, need
from dutlab import labs
from dutlab.methods.ports import ResetKind
from dutlab.tools.linux_device import LinuxDevice


@pytest.fixture(autouse=True)
def _machine(no_leak):
    need("netns", have_netns())
    need("nft", shutil.which("nft") is not None)


def test_tests_of_the_suite_have_their_tables_and_their_place_in_the_report(python, python_env, tmp_path):
    tests = [word for name in ("throughput", "frame-loss", "reset") for word in ("--test", name)]
    argv = [python, "-m", "dutlab", "rfc2544", "--scale", "0.002", "--size", "512", "--link", "a", "--both-ways", "--mode", "filter-25"]
    done = subprocess.run([*argv, *tests], cwd=tmp_path, env=python_env, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = (json.loads(p.read_text()) for p in tmp_path.glob("runs/*/trials/*/record.json"))
    tables, figures = record["tables"], record["figures"]["a"]
    assert {"throughput", "frame_loss", "deviations"} <= tables.keys()
    assert figures["max_pps"] > 0
    assert all(0 <= row["loss_ratio"] <= 1 for row in tables["frame_loss"])
    if "throughput_pps" in figures:  # a busy machine may lose a frame at any rate, and then says so
        assert [row["kind"] for row in tables["reset"]] == ["process", "software"]
    else:
        assert "reset needs the throughput, and none was found" in record["notes"]
    (page,) = tmp_path.glob("runs/*/report/report.md")
    text = page.read_text()
    assert "durations × 0.002" in text
    assert "every duration is 0.002 of what is prescribed" in text


async def state_of(dut):
    commands = (["nft", "list", "ruleset"], ["ip", "address"], ["ip", "route"], ["ip", "neigh"], ["sysctl", "net.ipv4.ip_forward"])
    found = [(await dut.run(argv)).text for argv in commands]
    return [sorted(text.splitlines()) for text in found]


@pytest.mark.parametrize("kind", list(ResetKind))
async def test_a_reset_leaves_the_dut_as_it_was(label, kind):
    lab = await labs.up("three-node", label=label)
    try:
        dut = lab.hosts()["dut"]
        await dut.run(["sh", "-c", "sysctl -qw net.ipv4.ip_forward=1; nft add table inet t; ip route add 203.0.113.0/24 via 172.16.10.2"])
        before = await state_of(dut)
        assert await LinuxDevice(dut, lab.testbed).reset(kind) > 0
        assert await state_of(dut) == before
    finally:
        await labs.down(label)
