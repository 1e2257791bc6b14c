"""What netperf prints for people, read as trials: the forms are those of nettest_bsd.c."""

from __future__ import annotations

import pytest

from dutlab.choices import IMPORTS
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, ImportOptions

STREAM = """\
MIGRATED TCP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 172.16.10.2 () port 0 AF_INET : demo
Recv   Send    Send
Socket Socket  Message  Elapsed
Size   Size    Size     Time     Throughput
bytes  bytes   bytes    secs.    10^6bits/sec

131072  16384  16384    10.00    2250.13
"""
UDP = """\
MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 172.16.10.2 () port 0 AF_INET
Socket  Message  Elapsed      Messages
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   10^6bits/sec

212992   65507   10.00       46000      0    2410.66
212992           10.00       45080           2362.45
"""
REQUESTS = """\
MIGRATED TCP REQUEST/RESPONSE TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 172.16.10.2 () port 0 AF_INET : first burst 0
Local /Remote
Socket Size   Request  Resp.   Elapsed  Trans.
Send   Recv   Size     Size    Time     Rate
bytes  Bytes  bytes    bytes   secs.    per sec

16384  131072 1        1       10.00    25000.11
16384  131072
"""


def read(text: str) -> list[Imported]:
    return IMPORTS["netperf"].importer("runs/asus.txt", text.encode(), ImportOptions())


def test_a_stream_has_its_goodput_in_the_unit_that_its_headline_names() -> None:
    (trial,) = read(STREAM)
    assert (trial.cell.mode, trial.cell.workload) == ("asus", "netperf")
    assert trial.measured.figures["a"] == {"goodput_bps": pytest.approx(2250.13e6)}
    assert trial.cell.params == {"test": "TCP_STREAM", "message_bytes": 16384, "duration_s": 10}
    (in_bytes,) = read(STREAM.replace("10^6bits/sec", "MBytes/sec"))
    assert in_bytes.measured.figures["a"]["goodput_bps"] == pytest.approx(2250.13 * 1024**2 * 8)


def test_udp_has_what_was_sent_what_came_and_the_loss_between() -> None:
    (trial,) = read(UDP)
    figures = trial.measured.figures["a"]
    assert (figures["sent_bps"], figures["goodput_bps"]) == (pytest.approx(2410.66e6), pytest.approx(2362.45e6))
    assert figures["loss_ratio"] == pytest.approx(920 / 46000)


def test_requests_are_transactions_a_second() -> None:
    (trial,) = read(REQUESTS)
    assert trial.measured.figures["a"] == {"transactions_per_s": 25000.11}
    assert trial.cell.params == {"test": "TCP_RR", "request_bytes": 1, "response_bytes": 1, "duration_s": 10}


def test_several_tests_in_one_file_are_trials_in_their_order() -> None:
    assert [t.cell.params["test"] for t in read(STREAM + UDP + REQUESTS + STREAM)] == ["TCP_STREAM", "UDP_STREAM", "TCP_RR", "TCP_STREAM"]


@pytest.mark.parametrize("text", ["", "hello\n", STREAM[: STREAM.index("131072")], UDP[: UDP.index("212992           ")]])
def test_a_file_without_a_whole_test_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InputError, match=r"runs/asus.txt: no test of netperf in it reached its end"):
        read(text)
