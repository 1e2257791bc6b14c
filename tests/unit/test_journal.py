import json
import os
import resource
import signal

import pytest

from dutlab.dut.mode import UndoStep
from dutlab.errors import InputError, StoreError
from dutlab.hosts.host import Done
from dutlab.hosts.lease import InUse
from dutlab.runner.journal import (
    Journal,
    leased_hosts,
    left_engines,
    open_trial,
    pending_undo,
    read_journal,
    standing_lab,
    undo_to_json,
    unproven_trials,
)
from dutlab.runner.leasing import begun, leased_by
from dutlab.systems.linux import LINUX
from run_records import new_run

STEP = UndoStep("dut", ("sysctl", "-w", "net.ipv4.ip_forward=0"), stdin="", why="as it was")


def begins(event, application):
    return {"event": event, "application": application, "undo": json.loads(json.dumps(undo_to_json([STEP])))}


def ends(event, application):
    return {"event": event, "application": application}


ROUTER, NAT, AGAIN = (begins("mode-applying", name) for name in ("1-router", "7-nat", "9-router"))
PORTS, RIG = begins("ports-preparing", "ports"), begins("rig-cabling", "rig")


@pytest.mark.parametrize(
    ("entries", "pending"),
    [
        ([PORTS, NAT], ["7-nat", "ports"]),  # ports go back after the mode that came later
        ([PORTS, NAT, ends("ports-restored", "ports")], ["7-nat"]),
        ([ROUTER, ends("mode-restored", "1-router"), NAT, AGAIN], ["9-router", "7-nat"]),
        ([RIG], ["rig"]),
        ([RIG, ends("rig-removed", "rig")], []),
    ],
)
def test_what_was_begun_and_not_restored_is_pending_newest_first(entries, pending):
    assert pending_undo(entries) == [(application, [STEP]) for application in pending]


def test_a_line_that_a_crash_cut_is_ignored_and_does_not_swallow_the_next(tmp_path):
    path = tmp_path / "journal.jsonl"
    assert read_journal(path) == []
    path.write_bytes(b'{"event": "run-started"}\n{"event": "trial-sta')
    journal = Journal(path)
    journal.write("run-resumed", trials=3)
    journal.close()
    assert [e["event"] for e in read_journal(path)] == ["run-started", "run-resumed"]


def test_a_second_process_is_refused(tmp_path):
    first = Journal(tmp_path / "journal.jsonl")
    with pytest.raises(InputError, match="another dutlab"):
        Journal(tmp_path / "journal.jsonl")
    first.close()
    Journal(tmp_path / "journal.jsonl").close()


@pytest.mark.parametrize("end", ["lab-down", "lab-gone"])
def test_with_a_lab_goes_everything_that_was_changed_in_it(end):
    entries = [
        {"event": "leasing", "hosts": ["dut"]},
        {"event": "engine-copying", "host": "source", "path": "/var/tmp/dutlab-engine-1"},
        {"event": "mode-applying", "application": "1-nat", "undo": undo_to_json([STEP])},
        {"event": end, "label": "x1"},
    ]
    assert not (pending_undo(entries) or left_engines(entries) or leased_hosts(entries))


LAB_UP, COPYING, REMOVED = {"event": "lab-up", "label": "x1"}, {"event": "engine-copying", "path": "/e-1"}, {"event": "engine-removed"}
COPIED = [{**COPYING, "host": host} for host in ("source", "sink")]
TAKEN, GIVEN_BACK = {"event": "leasing", "hosts": ["dut", "sink"]}, {"event": "lease-ended"}
BEGAN = {"event": "trial-started", "trial": 4}


@pytest.mark.parametrize(
    ("asked", "entries", "found"),
    [
        (standing_lab, [], None), (standing_lab, [LAB_UP], "x1"), (standing_lab, [LAB_UP, {"event": "lab-down", "label": "x1"}], None),
        (left_engines, COPIED, [("source", "/e-1"), ("sink", "/e-1")]), (left_engines, [*COPIED, {**REMOVED, "host": "source"}], [("sink", "/e-1")]),
        (left_engines, [*COPIED, {**REMOVED, "host": "source"}, {**REMOVED, "host": "sink"}], []),
        (leased_hosts, [], ()), (leased_hosts, [TAKEN, GIVEN_BACK], ()), (leased_hosts, [TAKEN], ("dut", "sink")),
        (leased_hosts, [TAKEN, GIVEN_BACK, TAKEN], ("dut", "sink")),
        (open_trial, [BEGAN], 4), (open_trial, [BEGAN, {"event": "trial-finished", "trial": 4}], None),
        (open_trial, [BEGAN, {"event": "run-resumed"}], None),  # that was another process
    ],
)  # fmt: skip
def test_a_lab_an_engine_a_lease_and_a_trial_are_there_until_the_journal_has_their_end(asked, entries, found):
    assert asked(entries) == found


def test_a_link_or_a_pipe_in_the_place_of_a_journal_is_not_written_to(tmp_path):
    (theirs := tmp_path / "theirs").write_text("no newline at the end")
    (tmp_path / "journal.jsonl").symlink_to(theirs)
    with pytest.raises(StoreError):
        Journal(tmp_path / "journal.jsonl")
    assert theirs.read_text() == "no newline at the end"
    (tmp_path / "journal.jsonl").unlink()
    os.mkfifo(tmp_path / "journal.jsonl")
    with pytest.raises(StoreError):
        Journal(tmp_path / "journal.jsonl")


def test_a_line_that_a_full_disk_cut_is_ended_before_the_next(tmp_path):
    path, size = tmp_path / "journal.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    journal = Journal(path)
    journal.write("run-started")
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 30, size[1]))
    try:
        with pytest.raises(StoreError, match="make room"):
            journal.write("mode-applying", application="1", undo=[])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, size)
        signal.signal(signal.SIGXFSZ, before)
    journal.write("mode-restored", application="1")
    journal.close()
    assert [e["event"] for e in read_journal(path)] == ["run-started", "mode-restored"]


class Refusing:
    """A host whose every program ends by saying who has the machine."""

    name, system = "dut", LINUX

    def __init__(self, state):
        self.state = state

    async def spawn(self, argv):
        return Refusal([f"{self.state}\n".encode(), b'{"who": "anna", "run": "/runs/first", "since": "noon"}\n'])


class Refusal:
    def __init__(self, lines):
        self.lines = lines

    async def readline(self):
        return self.lines.pop(0)

    async def end(self):
        return Done("dut", (), 0, b"", b"", 0.0, 0.0)


@pytest.mark.parametrize("state", ["held", "left"])
async def test_a_run_that_others_keep_from_its_hosts_leaves_nothing_and_one_that_was_cut_keeps_its_lease_in_mind(tmp_path, state):
    folder = new_run(tmp_path)
    with pytest.raises(InUse, match="anna"), begun([folder]) as (journal,):
        async with leased_by({"dut": Refusing(state)}, folder, journal):
            pytest.fail("nobody has the host")
    assert not list(tmp_path.iterdir())

    (folder.path / "trials" / "0001").mkdir(parents=True)
    with pytest.raises(InUse), begun([folder]) as (journal,):
        async with leased_by({"dut": Refusing(state)}, folder, journal):
            pytest.fail("nobody has the host")
    assert leased_hosts(read_journal(folder.journal)) == ("dut",), "undo will ask for it again"


def test_trials_are_unproven_until_their_mode_was_verified_after_them():
    def told(text):
        return unproven_trials(
            [{"event": word} if not number else {"event": "trial-started", "trial": int(number)} for word, _, number in
             (part.partition(":") for part in text.split())]
        )  # fmt: skip

    assert told("mode-applying mode-verified trial:1 trial:2") == {1, 2}
    assert told("mode-applying mode-verified trial:1 trial:2 mode-held mode-restored") == set()
    assert told("mode-applying mode-verified trial:1 mode-restored mode-applying mode-verified trial:2 mode-held") == {1}
    assert told("mode-applying mode-refused trial:1 mode-restored") == set(), "nothing was measured"
    assert told("mode-applying mode-verified trial:1 mode-lost trial:1") == {1}, "done again, and not verified since"
    assert told("mode-applying mode-verified trial:1 mode-verified trial:2 mode-held") == set()
    assert told("mode-applying mode-verified trial:1 mode-applying mode-verified trial:1 mode-held") == set(), (
        "done again in another application"
    )
