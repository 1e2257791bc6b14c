"""Conductor's files: what configparser reads, we read; what it refuses or loses, we keep."""

from __future__ import annotations

import configparser
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.interop.conductor import Reading, plain_name, read_host, read_test
from dutlab.interop.conductor_report import StepRow, TrialRows, conductor_report
from dutlab.interop.ini import parse_ini
from dutlab.spec.workloads.steps import StepsWorkload

OF_2015 = """[Master]
player: 192.168.5.81
conductor: 192.168.5.1
cmdport: 6970
resultsport: 6971
[Startup]
setp4: sysctl net.inet.ip.forwarding=1
setp4: kldload ipfw
[Run]
spawn0: cpuset -l 1,2 iperf3 -s -B 172.16.10.2 -p 5201
timeout180: sleep 180
step3: awk '{ printf "%d\\n", $1 }' /tmp/x
[Collect]
spawn1: date
[Reset]
step3: killall iperf3
"""
TODAY = OF_2015.replace("[Master]", "[Coordinator]").replace("step3: awk", "step9: timeout7: awk").replace("setp4: kld", "spawnx: kld")


def phases(text, reading=Reading()):  # noqa: B008 - it cannot change
    host, faults = read_host(text, "host.cfg", reading)
    assert faults == []
    return {phase: [(s.name, s.command, s.spawn is not None, s.timeout) for s in steps] for phase, steps in host.phases.items()}


def test_a_file_of_2015_keeps_every_step_in_its_order_whatever_it_is_called():
    assert phases(OF_2015) == {
        "startup": [("setp4", "sysctl net.inet.ip.forwarding=1", False, None), ("setp4", "kldload ipfw", False, None)],
        "run": [
            ("spawn0", "cpuset -l 1,2 iperf3 -s -B 172.16.10.2 -p 5201", True, None),
            ("timeout180", "sleep 180", False, 180.0),
            ("step3", "awk '{ printf \"%d\\n\", $1 }' /tmp/x", False, None),
        ],
        "collect": [("spawn1", "date", False, None)],
        "reset": [("step3", "killall iperf3", False, None)],
    }


def test_a_file_of_today_may_spawn_in_startup_and_put_the_time_out_before_the_command():
    found = phases(TODAY)
    assert found["startup"][1] == ("spawnx", "kldload ipfw", True, None)
    assert found["run"][2] == ("step9", "awk '{ printf \"%d\\n\", $1 }' /tmp/x", False, 7.0)


def test_a_time_out_outside_run_is_a_plain_step():
    found = phases(OF_2015.replace("step3: killall", "timeout5: killall"))
    assert found["reset"] == [("timeout5", "killall iperf3", False, None)]


def test_only_strict_reading_gives_plain_steps_the_hidden_limit():
    assert phases(OF_2015, Reading(strict=True))["startup"][0][3] == 30.0
    assert phases(OF_2015, Reading(strict=True))["run"][0][3] is None  # spawned


def test_cpuset_becomes_taskset_only_when_asked():
    assert phases(OF_2015, Reading(translate=True))["run"][0][1] == "taskset -c 1,2 iperf3 -s -B 172.16.10.2 -p 5201"


def test_every_fault_of_every_file_is_told_at_once():
    files = {"a.cfg": "player: x\n[Startup]\nstep1:\n[Run]\n[Collect]\n"}

    def text_of(path):
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    test = read_test("[Test]\ntrials: many\n[Clients]\nc1: a.cfg\nc2: b.cfg\n", "conductor.cfg", text_of)
    assert [str(f) for f in sorted(test.faults)] == [
        "a.cfg:1:1: Coordinator: missing; a host's file has [Coordinator] (2015: [Master])",
        "a.cfg:1:1: Reset: missing; it may be empty",
        "a.cfg:1:1: file: 'player: x' stands before the first [section]",
        "a.cfg:3:1: Startup.step1: no command",
        "conductor.cfg:2:1: Test.trials: 'many' is no number of trials from 1 to 1000",
        "conductor.cfg:5:1: c2: b.cfg cannot be read: No such file or directory",
    ]


def test_a_file_of_another_kind_is_one_fault_not_one_a_line():
    _, faults = parse_ini("experiment: x\nfactors:\n  mode: [router]\n", "e.yaml")
    assert [str(f) for f in faults] == ["e.yaml:1:1: file: 'experiment: x' stands before the first [section]"]


def test_a_coordinators_file_without_hosts_is_told():
    assert "missing" in read_test("[Test]\ntrials: 1\n", "c.cfg", lambda _: "").faults[0].what


def test_the_workload_of_a_test_goes_through_a_record_unchanged():
    test = read_test("[Workers]\nsink: s\n", "c.cfg", lambda _: OF_2015)
    work = test.workload()
    assert StepsWorkload.of_params(work.params) == work
    assert test.trials == 1


KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9/=:%#;$'\"][a-z0-9 /=:%#;$'\"]{0,20}[a-z0-9]", fullmatch=True)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=4), min_size=1, max_size=3), st.sampled_from([": ", ":", " = ", "="]))
def test_what_configparser_reads_is_read_the_same(content, delimiter):
    text = "# top\n" + "".join(
        f"[{s}]\n; note\n" + "".join(f"{k}{delimiter}{v}\n" for k, v in kv.items()) + "\n" for s, kv in content.items()
    )
    theirs = configparser.ConfigParser(interpolation=None, default_section="nobody-has-this")
    theirs.read_string(text)
    sections, faults = parse_ini(text, "x.cfg")
    assert faults == []
    assert {name: {e.key: e.value for e in s.entries} for name, s in sections.items()} == {s: dict(theirs[s]) for s in theirs.sections()}


@given(st.text())
def test_any_text_ends_in_sections_or_faults(text):
    sections, faults = parse_ini(text, "x.cfg")
    assert all(f.line >= 1 for f in faults)
    assert all(e.key == e.key.lower() for s in sections.values() for e in s.entries)


@pytest.mark.parametrize(("text", "name"), [("client1", "client1"), ("My Host.2", "my-host-2"), ("..", "unnamed")])
def test_names_become_such_as_files_may_have(text, name):
    assert plain_name(text) == name


def test_the_originals_report_has_each_phase_of_each_worker_and_its_closing_row():
    zero = datetime(2015, 2, 19, tzinfo=UTC)
    rows = [
        StepRow("sink", "run", zero, zero + timedelta(seconds=1), 0, "out"),
        StepRow("sink", "run", zero, zero + timedelta(seconds=3), 1, "false"),
    ]
    found = conductor_report(["source", "sink"], [TrialRows(zero, zero + timedelta(seconds=4), rows)])
    assert found["metadata"] == {
        "start_time": "2015-02-19T00:00:00+00:00", "end_time": "2015-02-19T00:00:04+00:00", "total_trials": 1, "total_workers": 2,
    }  # fmt: skip
    run = found["trials"][0]["phases"]["run"]
    assert [r["code"] for r in run["workers"]["worker_1"]["results"]] == [0, 1, 65535]
    assert [r["code"] for r in run["workers"]["worker_0"]["results"]] == [65535]
    assert (run["start_time"], run["end_time"]) == ("2015-02-19T00:00:00+00:00", "2015-02-19T00:00:03+00:00")
    assert list(found["trials"][0]["phases"]) == ["startup", "run", "collect", "reset"]
