"""Conductor's files: what configparser reads, we read; what it refuses or loses, we keep."""

from __future__ import annotations

import configparser
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.errors import InputError
from dutlab.interop.conductor import ReadOptions, StepLimit, plain_name, read_host, read_test
from dutlab.interop.conductor_report import StepRow, TrialRows, conductor_report, conductor_text
from dutlab.interop.ini import interpolated, parse_ini
from dutlab.plan.cell import Cell
from spec_faults import brief

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


NO_LIMIT = ReadOptions(StepLimit.NONE)
EMPTY = "[Master]\nplayer: x\n[Startup]\n[Run]\n[Collect]\n[Reset]\n"


def phases(text, reading=NO_LIMIT):
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


def test_a_time_out_outside_run_is_a_plain_step_and_one_of_nothing_ends_a_step_at_once():
    assert phases(OF_2015.replace("step3: killall", "timeout5: killall"))["reset"] == [("timeout5", "killall iperf3", False, None)]
    assert phases(OF_2015.replace("timeout180:", "timeout0:"))["run"][1][3] == 0.0
    assert phases(TODAY.replace("timeout7:", "timeout0:"))["run"][2][3] == 0.0


def test_plain_steps_of_2015_have_the_hidden_limit_those_of_today_when_asked_and_none_without_limits():
    def limit(text, reading):
        return phases(text, reading)["startup"][0][3]

    assert [limit(OF_2015, ReadOptions(how)) for how in (StepLimit.OF_2015, StepLimit.ALL, StepLimit.NONE)] == [30.0, 30.0, None]
    assert [limit(TODAY, ReadOptions(how)) for how in (StepLimit.OF_2015, StepLimit.ALL, StepLimit.NONE)] == [None, 30.0, None]
    assert phases(OF_2015, ReadOptions())["run"][0][3] is None  # spawned


def test_a_step_that_its_time_out_is_to_end_says_so_and_cpuset_becomes_taskset_when_asked():
    host, _ = read_host(OF_2015, "h.cfg", ReadOptions())
    assert [s.at_timeout for s in host.phases["run"]] == ["fail", "end", "fail"]
    assert phases(OF_2015, ReadOptions(StepLimit.NONE, translate=True))["run"][0][1] == "taskset -c 1,2 iperf3 -s -B 172.16.10.2 -p 5201"


def test_values_are_expanded_as_configparser_does_and_a_percent_sign_of_awk_stays():
    text = EMPTY.replace("[Run]", "[Run]\naddr: echo 10.0.0.1\nstep1: %(ADDR)s 50%%\nstep2: printf '%d'")
    theirs = configparser.ConfigParser()
    theirs.read_string(text.replace("step2: printf '%d'", ""))
    assert [s[1] for s in phases(text)["run"]] == ["echo 10.0.0.1", theirs["Run"]["step1"], "printf '%d'"]


@pytest.mark.parametrize("value", ["%(nothing)s", "%(step1)s", "%(cut"])
def test_a_reference_to_nothing_is_a_fault(value):
    _, faults = read_host(EMPTY.replace("[Run]", f"[Run]\nstep1: {value}"), "h.cfg", ReadOptions())
    assert brief(faults) == ["5:1 Run.step1 invalid"]


@settings(max_examples=30)
@given(st.dictionaries(st.from_regex(r"[a-c]", fullmatch=True), st.text("ab %()s", max_size=12), min_size=1, max_size=3))
def test_what_configparser_expands_is_expanded_the_same(values):
    text = "[S]\n" + "".join(f"{k}:{v}\n" for k, v in values.items())
    theirs = configparser.ConfigParser()
    theirs.read_string(text)
    ours, faults = interpolated(parse_ini(text, "x.cfg")[0], "x.cfg")
    try:
        expected = dict(theirs["S"])
    except configparser.InterpolationError:
        return
    assert faults == []
    assert {e.key: e.value for e in ours["S"].entries} == expected


def test_what_runs_there_runs_here_a_blank_value_a_form_feed_a_line_separator_and_no_trials():
    text = EMPTY.replace("[Run]", "[Run]\nstep1:\nstep2: printf 'a\fb\u2028c'")
    assert [s[1] for s in phases(text)["run"]] == [":", "printf 'a\fb\u2028c'"]
    test = read_test("[Test]\ntrials: 0\n[Workers]\na.b: f\na-b: f\nA_B: f\n", "c.cfg", lambda _: OF_2015)
    assert test.faults == ()
    assert test.trials == 0
    assert dict(test.names) == {"a.b": "a-b", "a-b": "a-b-2", "a_b": "a-b-3"}
    assert list(test.hosts) == ["a-b", "a-b-2", "a-b-3"]


def test_a_nul_byte_and_a_test_without_steps_are_refused_in_words():
    _, faults = read_host(EMPTY.replace("[Run]", "[Run]\nstep1: a\0b"), "h.cfg", ReadOptions())
    assert brief(faults) == ["5:1 Run.step1 invalid"]
    _, faults = read_host("[DEFAULT]\naddr: 10.0.0.1\n" + EMPTY, "h.cfg", ReadOptions())
    assert faults[0].path == "DEFAULT", "it would be run in every phase"
    with pytest.raises(InputError):
        read_test("[Workers]\na: f\n", "c.cfg", lambda _: EMPTY).workload()


def test_every_fault_of_every_file_is_told_at_once(golden):
    files = {"a.cfg": "player: x\n[Startup]\nstep1:\n[Run]\n[Collect]\n"}

    def text_of(path):
        if path not in files:
            raise FileNotFoundError(2, "No such file or directory", path)
        return files[path]

    test = read_test("[Test]\ntrials: many\n[Clients]\nc1: a.cfg\nc2: b.cfg\n", "conductor.cfg", text_of)
    assert [f"{fault.file}:{one}" for fault, one in zip(sorted(test.faults), brief(sorted(test.faults)), strict=True)] == [
        "a.cfg:1:1 Coordinator missing",
        "a.cfg:1:1 Reset missing",
        "a.cfg:1:1 file syntax",
        "conductor.cfg:2:1 Test.trials range",
        "conductor.cfg:5:1 c2 unreadable",
    ]
    golden.check("refusals-conductor.txt", "".join(f"{fault}\n" for fault in sorted(test.faults)))
    assert brief(read_test("[Test]\ntrials: 1\n", "c.cfg", lambda _: "").faults) == ["1:1 Workers missing"]


def test_a_file_of_another_kind_is_one_fault_not_one_a_line():
    _, faults = parse_ini("experiment: x\nfactors:\n  mode: [router]\n", "e.yaml")
    assert brief(faults) == ["1:1 file syntax"]


def test_the_workload_of_a_test_goes_through_a_record_unchanged():
    test = read_test("[Workers]\nsink: s\n", "c.cfg", lambda _: OF_2015)
    work = test.workload()
    (drive,) = work.drives([])
    of = Cell(mode="as-is", factors={}, tool="steps", links=(), setting=drive.setting, repeat=1)
    assert Cell.model_validate_json(of.model_dump_json()).setting.steps == work
    assert test.trials == 1


KEYS = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
VALUES = st.from_regex(r"[a-z0-9/=:%#;$'\"][a-z0-9 /=:%#;$'\"]{0,20}[a-z0-9]", fullmatch=True)


@settings(max_examples=30)
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


@settings(max_examples=30)
@given(st.text())
def test_any_text_ends_in_sections_or_faults(text):
    sections, faults = parse_ini(text, "x.cfg")
    assert all(f.line >= 1 for f in faults)
    assert all(e.key == e.key.lower() for s in sections.values() for e in s.entries)


@pytest.mark.parametrize(("text", "name"), [("client1", "client1"), ("My Host.2", "my-host-2"), ("..", "unnamed")])
def test_names_become_such_as_files_may_have(text, name):
    assert plain_name(text) == name


def test_the_originals_report_has_each_phase_that_was_asked_for_in_local_time_and_rows_as_they_stand_in_the_file():
    zero = datetime(2015, 2, 19, 12, tzinfo=UTC)
    rows = [
        StepRow("sink", "run", 2, zero, zero + timedelta(seconds=3), 1, "false"),
        StepRow("sink", "run", 1, zero, zero, 0, "Spawned"),
    ]
    trials = [TrialRows(zero, zero + timedelta(seconds=4), rows)]
    found = conductor_report(["source", "sink"], trials, zero, ("run", "reset"))
    local = zero.astimezone().replace(tzinfo=None)
    assert found["metadata"] == {
        "start_time": local.isoformat(), "end_time": (local + timedelta(seconds=4)).isoformat(), "total_trials": 1, "total_workers": 2,
    }  # fmt: skip
    assert list(found["trials"][0]["phases"]) == ["run", "reset"]
    run = found["trials"][0]["phases"]["run"]
    assert [(r["code"], r["message"]) for r in run["workers"]["worker_1"]["results"]] == [
        (0, "Spawned"), (1, "false"), (65535, "phases complete"),
    ]  # fmt: skip
    assert run["end_time"] == (local + timedelta(seconds=3)).isoformat()
    assert found["trials"][0]["phases"]["reset"]["start_time"] == run["end_time"]
    assert [r["code"] for r in run["workers"]["worker_0"]["results"]] == [65535]
    text = conductor_text(found)
    assert "  Phase: run\n    Worker: worker_0\n      Results: 1\n        Code: 65535, Message: phases complete\n" in text
    assert conductor_report([], [], zero)["trials"] == []
