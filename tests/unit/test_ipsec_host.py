"""IPsec host to host, pf on, as the experiment file of the examples writes it out.

No FreeBSD is at hand: setkey and pfctl are programs of the test that print what the sources say (libipsec's pfkey_dump.c, pfctl.c); the
commands themselves are run by this machine's sh, grep and awk.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from dut_families import E302
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import load_experiment
from dutlab.spec.workloads.steps import StepsWorkload

EXPERIMENT = load_experiment(Path(__file__).parents[2] / "examples" / "firewall-modes" / "ipsec-host.yaml")
MODE = EXPERIMENT.modes["ipsec-host"]
PF = "Status: {}                                  Debug: Urgent\n"
ASSOCIATION = (
    "{} {}\n\tesp mode=tunnel spi={}(0x0000{:04x}) reqid=0(0x00000000)\n\tE: aes-gcm-16  00112233 44556677 8899aabb ccddeeff 00112233\n"
    "\tseq=0x00000000 replay=0 flags=0x00000040 state=mature\n\tcurrent: {}(bytes)\thard: 0(bytes)\tsoft: 0(bytes)\n"
)
POLICY = "{0}[any] {1}[any] any\n\t{2} ipsec\n\tesp/tunnel/{0}-{1}/require\n\tspid=1 seq=1 pid=4242 scope=global\n\trefcnt=1\n"
SOURCE, DUT = "172.16.0.2", "172.16.0.1"
# An IPsec of somebody's beside ours: other numbers, other addresses.
THEIRS = ASSOCIATION.format("198.51.100.1", "198.51.100.2", 40960, 40960, 0)
THEIR_POLICY = POLICY.format("198.51.100.1", "198.51.100.2", "in")
THERE = {
    "pf": PF.format("Enabled for 3 days 04:11:09"),
    "associations": ASSOCIATION.format(SOURCE, DUT, 4096, 4096, 252) + ASSOCIATION.format(DUT, SOURCE, 4097, 4097, 252),
    "policies": POLICY.format(SOURCE, DUT, "in") + POLICY.format(DUT, SOURCE, "out"),
}


def run(command: str, folder: Path, **changed: str) -> subprocess.CompletedProcess[str]:
    """On a DUT that stands as `changed` says; what setkey reads stays in the file `read`."""
    for name, text in {**THERE, **changed}.items():
        (folder / name).write_text(text)
    programs = {
        "pfctl": f'test "$*" = "-s info" && cat {folder}/pf',
        "setkey": f'case "$*" in -D) cat {folder}/associations;; -DP) cat {folder}/policies;; -c) cat >{folder}/read;; *) exit 1;; esac',
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{folder}:/usr/bin:/bin"}
    return subprocess.run(["sh", "-c", command], env=environment, capture_output=True, text=True, timeout=60, check=False)


def steps(phase: str, host: str) -> list[str]:
    (workload,) = EXPERIMENT.workloads
    assert isinstance(workload, StepsWorkload)
    return [step.command for named, by_host in workload.phases.items() if named == phase for step in by_host[host]]


def test_its_experiment_fits_the_testbed_of_the_review() -> None:
    trials = make_plan(EXPERIMENT, E302).trials
    assert [(trial.cell.mode, trial.cell.tool) for trial in trials] == [("ipsec-host", "steps")] * 3
    assert {str(E302.links["a"].source_address.ip), str(E302.links["a"].dut_in_address.ip)} == {SOURCE, DUT}


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, []),
        ({"associations": THERE["associations"] + THEIRS, "policies": THERE["policies"] + THEIR_POLICY}, []),
        ({"pf": PF.format("Disabled")}, [0]),
        ({"associations": ASSOCIATION.format(SOURCE, DUT, 4096, 4096, 0) + THEIRS}, [1]),
        ({"associations": "No SAD entries.\n"}, [1]),
        ({"policies": POLICY.format(SOURCE, DUT, "in") + THEIR_POLICY}, [2]),
        ({"policies": "No SPD entries.\n"}, [2]),
    ],
)
def test_its_mode_is_verified_with_the_filter_on_and_both_ways_there(tmp_path: Path, changed: dict[str, str], failing: list[int]) -> None:
    done = [run(command, tmp_path, **changed) for command in MODE.verify]
    assert [i for i, d in enumerate(done) if d.returncode != 0] == failing, done


@pytest.mark.parametrize(("carried", "works"), [((252, 252), True), ((252, 0), False), ((0, 0), False), ((), False)])
def test_an_association_that_carried_nothing_fails_its_step(tmp_path: Path, carried: tuple[int, ...], works: bool) -> None:
    (command,) = steps("collect", "dut")
    ends = [(SOURCE, DUT, 4096), (DUT, SOURCE, 4097)]
    held = "".join(ASSOCIATION.format(*end, end[2], amount) for end, amount in zip(ends, carried, strict=False))
    done = run(command, tmp_path, associations=held or "No SAD entries.\n")
    assert (done.returncode == 0) == works, done
    assert done.stdout.count("(bytes)\thard") == len(carried), done


def test_both_ends_have_the_same_keys_and_what_is_added_is_what_is_deleted(tmp_path: Path) -> None:
    read = []
    for command in (*MODE.apply, *MODE.restore):
        done = run(command, tmp_path)
        assert done.returncode == 0, done.stderr
        read.append((tmp_path / "read").read_text())
    before, given, deleted = read
    assert before == deleted, "an application that was there already goes first"
    associations = re.findall(r"^add (\S+) (\S+) esp (\S+) -m tunnel -E aes-gcm-16 (\S+) ;$", given, re.MULTILINE)
    policies = re.findall(r"^spdadd (\S+) (\S+) any -P (\S+) ipsec esp/tunnel/(\S+)-(\S+)/require ;$", given, re.MULTILINE)
    assert len(given.splitlines()) == len(associations) + len(policies) == 4
    assert [a[:3] for a in associations] == re.findall(r"^delete (\S+) (\S+) esp (\S+) ;$", deleted, re.MULTILINE)
    assert [p[:3] for p in policies] == re.findall(r"^spddelete (\S+) (\S+) any -P (\S+) ;$", deleted, re.MULTILINE)
    assert [p[3:] for p in policies] == [a[:2] for a in associations] == [(SOURCE, DUT), (DUT, SOURCE)]
    here = steps("startup", "source")[0]
    state = r"^xfrm state add src (\S+) dst (\S+) proto esp spi (\S+) reqid 4096 mode tunnel aead rfc4106\(gcm\(aes\)\) (\S+) 128$"
    assert re.findall(state, here, re.MULTILINE) == associations
    # RFC 4106: 16 bytes of key and 4 of salt; another key each way, since both ends count from 1
    assert {len(key) for *_, key in associations} == {len("0x") + 40}
    assert len({key for *_, key in associations}) == 2
    policy = r"^xfrm policy add src (\S+) dst (\S+) dir (\S+) tmpl src (\S+) dst (\S+) proto esp reqid 4096 mode tunnel$"
    opposite = {"in": "out", "out": "in"}
    assert re.findall(policy, here, re.MULTILINE) == [(a, b, opposite[way], start, end) for a, b, way, start, end in policies]
    (gone,) = steps("reset", "source")
    assert re.findall(r"^xfrm state delete src (\S+) dst (\S+) proto esp spi (\S+)$", gone, re.MULTILINE) == [a[:3] for a in associations]
    assert re.findall(r"^xfrm policy delete src (\S+) dst (\S+) dir (\S+)$", gone, re.MULTILINE) == [
        (a, b, opposite[way]) for a, b, way, *_ in policies
    ]
