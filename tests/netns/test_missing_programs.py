"""A machine without some of the programs that a run calls: each is named before the first trial, or the run does without it."""

import os

import pytest

import forked
from capability import need_program, needs
from in_process import cheap_rig
from main_job import BOTH_TOOLS, SWEEPS, events, only_run, records

PACKAGE = {"nft": "nftables", "ethtool": "ethtool", "ping": "iputils-ping", "iperf3": "iperf3", "taskset": "util-linux", "tc": "iproute2"}

_machine = needs(*PACKAGE, "conntrack")


@pytest.fixture
def without(python_env, tmp_path):
    """Runs the command on a machine on which some programs are not there."""

    def run(programs, *args):
        files = [os.path.realpath(need_program(program)) for program in programs]
        with cheap_rig():
            return forked.run(args, tmp_path, python_env, place=forked.without(files))

    return run


def named(stderr):
    """Host and program of each line that says what to install."""
    lines = [line.removeprefix("dutlab: ") for line in stderr.splitlines() if "apt install" in line]
    assert all(line.endswith(f"install it (Debian: apt install {PACKAGE[line.split()[1]]})") for line in lines), lines
    return {(line.split(":")[0], line.split()[1]) for line in lines}


def test_each_program_that_a_lab_run_needs_is_named_before_the_lab_is_built(without, experiment, tmp_path):
    done = without(list(PACKAGE), "run", experiment(BOTH_TOOLS))
    assert done.returncode == 3, done.stderr
    assert named(done.stderr) == {("this-machine", program) for program in PACKAGE}
    assert not [e for run in (tmp_path / "runs").glob("*") for e in events(run) if e["event"] in ("lab-up", "trial-started")]


def test_a_standing_lab_names_them_of_all_hosts_at_once(without, experiment, standing_lab, tmp_path):
    done = without(["nft", "ping", "iperf3"], "run", experiment(BOTH_TOOLS), "--lab", standing_lab)
    assert done.returncode == 3, done.stderr
    ends = {(role, program) for role in ("source", "sink") for program in ("ping", "iperf3")}
    assert named(done.stderr) == {("dut", "nft"), *ends}
    assert not [e for run in (tmp_path / "runs").glob("*") for e in events(run) if e["event"] == "trial-started"]


def test_a_lab_names_what_its_building_needs(without, label):
    done = without(["ethtool", "tc"], "lab", "up", "three-node", "--label", label)
    assert done.returncode == 3 and named(done.stderr) == {("this-machine", "ethtool"), ("this-machine", "tc")}


def test_a_program_that_only_adds_to_the_record_is_left_out_with_a_note(without, experiment, standing_lab, tmp_path):
    done = without(["ethtool"], "run", experiment(SWEEPS), "--lab", standing_lab)
    assert done.returncode == 0, done.stderr
    for role in ("source", "dut", "sink"):
        assert f"{role}: no ethtool, so drivers, offloads and ring sizes of its ports are not recorded" in done.stderr + done.stdout
    assert {r["status"] for r in records(only_run(tmp_path))} == {"measured"}


def test_modes_hold_in_any_order_without_conntrack(without, experiment, tmp_path):
    done = without(["conntrack"], "run", experiment(SWEEPS.replace("[router]", "[filter-empty, router, nat]")))
    assert done.returncode == 0, done.stderr + done.stdout
    assert {r["status"] for r in records(only_run(tmp_path))} == {"measured"}
    assert {r["cell"]["mode"] for r in records(only_run(tmp_path))} == {"filter-empty", "router", "nat"}
