"""Conductor: the steps of a trial with their codes and outputs, of its report in JSON and text and of the log of 2015."""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import UTC, datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.choices import IMPORTS
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.conductor_report import StepRow, TrialRows, conductor_report, conductor_text
from dutlab.interop.imported_run import ImportOptions
from import_files import conductor

NOW = datetime(2026, 11, 21, tzinfo=UTC)


def read(data, name="device.json"):
    return IMPORTS["conductor"].importer(name, data, ImportOptions())


def test_a_trial_of_conductor_has_its_steps_with_their_codes_and_outputs():
    (trial,) = read(conductor(code=2))
    assert trial.measured.figures["all hosts"] == {"failed_steps": 1.0, "duration_s": 4.5}
    assert [(r["phase"], r["status"]) for r in trial.measured.tables["steps"]] == [
        ("startup", 0), ("run", 0), ("run", 2), ("collect", 0), ("reset", 0),
    ]  # fmt: skip
    assert trial.measured.raw["worker-0/run/02.out"] == b"no route\nping: failed\n"
    (note,) = trial.measured.notes
    assert note.startswith("worker_0, run, step 2: ") and note.endswith(": ping: failed")


LOG_OF_2015 = """0 phase received
0 phase received
0 net.inet.ip.forwarding: 0 -> 1

done
0 Spawned
done
0 phase received
0 phase received
0 PING 192.0.2.1 (192.0.2.1): 56 data bytes
64 bytes from 192.0.2.1: icmp_seq=0 ttl=64 time=0.1 ms

0 Timeout
done
0 [  5]   0.00-10.00  sec  2.62 GBytes  2.25 Gbits/sec                  receiver

1 ['ls', '/none']
0 last

done
0 phase received
0 phase received
65535 phases complete
65535 phases complete
0 phase received
0 phase received
0 ok

done
done
"""


def test_the_log_of_conductor_2015_is_a_trial_of_four_phases_with_its_figures():
    (trial,) = read(LOG_OF_2015.encode(), "bench.log")
    rows = {row["file"]: (row["status"], row["why"]) for row in trial.measured.tables["steps"]}
    assert rows == {
        "host-1/startup/01": (0, ""), "host-2/startup/01": (0, ""), "host-1/run/01": (0, ""), "host-1/run/02": (0, ""),
        "host-2/run/01": (0, ""), "host-2/run/02": (1, "ended with 1"), "host-2/run/03": (0, ""), "host-1/reset/01": (0, ""),
    }  # fmt: skip
    assert b"64 bytes from" in trial.measured.raw["host-1/run/01.out"]
    assert trial.measured.figures["host-2"]["run/01/goodput_bps"] == 2.25e9
    assert trial.measured.figures["all hosts"] == {"failed_steps": 1.0}
    assert trial.measured.doubts == ()


def test_outputs_that_python_3_printed_as_bytes_are_what_they_mean():
    said = "[  5]   0.00-10.00  sec  2.62 GBytes  2.25 Gbits/sec                  receiver\n"
    log = f"30\n0 phase received\nrunning\n1 ['kldload', 'aesni']\n0 b''\ndone\n0 phase received\n0 {said.encode()!r}\n0 b\"it's\"\ndone\n"
    (trial,) = read(log.encode())
    assert [row["status"] for row in trial.measured.tables["steps"]] == [1, 0, 0, 0]
    assert trial.measured.raw["host-1/run/01.out"] == said.encode()
    assert trial.measured.raw["host-1/run/02.out"] == b"it's"
    assert trial.measured.figures["host-1"]["run/01/goodput_bps"] == 2.25e9


def test_a_log_of_conductor_2015_that_was_cut_keeps_its_phases_and_is_marked():
    two = read((LOG_OF_2015 + LOG_OF_2015[: LOG_OF_2015.index("0 Timeout")]).encode())
    assert [len(t.measured.tables["steps"]) for t in two] == [8, 3]
    assert [d.kind for d in two[0].measured.doubts] == [DoubtKind.TOOL_INCOMPLETE]


def test_the_text_report_of_conductor_says_what_its_json_says():
    rows = [StepRow("worker_0", "run", 1, NOW, NOW, 0, "one\n\ntwo 64"), StepRow("worker_1", "run", 1, NOW, NOW, 3, "ls")]
    exported = conductor_report(["worker_0", "worker_1"], [TrialRows(NOW, NOW, rows)] * 2, NOW)
    of_text, of_json = read(conductor_text(exported).encode()), read(json.dumps(exported).encode())
    assert [t.measured.tables for t in of_text] == [t.measured.tables for t in of_json]
    assert [t.measured.raw for t in of_text] == [t.measured.raw for t in of_json]
    steps = [[(r["host"], r["status"]) for r in t.measured.tables["steps"]] for t in of_json]
    assert steps == [[("worker_0", 0), ("worker_1", 3)]] * 2, "what dutlab exports it reads again"


@settings(max_examples=40)
@given(st.lists(st.sampled_from(LOG_OF_2015.splitlines(keepends=True))))
def test_any_log_of_conductor_is_read_or_refused(lines):
    with suppress(InputError):
        read("".join(lines).encode())
