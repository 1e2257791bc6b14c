"""What netperf prints, read as trials: the forms are those of nettest_bsd.c and nettest_omni.c."""

from __future__ import annotations

import pytest

from dutlab.choices import IMPORTS
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, ImportOptions, Omission
from outputs import output

STREAM = output("netperf", "tcp-stream")
UDP = output("netperf", "udp-stream")
REQUESTS = output("netperf", "tcp-rr")


BARE, BARE_UDP, BARE_REQUESTS = ("\n".join(text.splitlines()[n:]) + "\n" for text, n in ((STREAM, 6), (UDP, 5), (REQUESTS, 6)))
"""What `-P 0` leaves of them."""


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


KEYS = (
    "THROUGHPUT=941.5\nTHROUGHPUT_UNITS=10^6bits/s\nPROTOCOL=TCP\nDIRECTION=Recv\nREMOTE_TRANSPORT_RETRANS=7\nLOCAL_TRANSPORT_RETRANS=-1\n"
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        # netperf 2.7.0, built from its tag and run on loopback.
        (output("netperf", "udp-cpu"), [{"sent_bps": 3160.6e6, "goodput_bps": 1335.4e6, "loss_ratio": 1 - 119316 / 282403, "message_bytes": 1400}]),
        (output("netperf", "rr-cpu"), [{"transactions_per_s": 27690.94, "request_bytes": 64, "response_bytes": 1024, "test": "TCP_RR"}]),
        (output("netperf", "crr"), [{"transactions_per_s": 13480.2, "test": "TCP_CRR"}]),
        (output("netperf", "rr-csv"), [{"transactions_per_s": 35218.73, "latency_p50_ns": 11e3, "latency_p99_ns": 29e3, "request_bytes": 1}]),
        (output("netperf", "rr-columns"), [{"transactions_per_s": 57828.22, "latency_mean_ns": 17210, "test": "TCP_RR"}]),
        (output("netperf", "omni-columns"), [{"sent_bps": 47326.46e6, "goodput_bps": 19072.64e6, "test": "UDP_STREAM", "message_bytes": 65507}]),
        (output("netperf", "rr-interim"), [{"transactions_per_s": 31976.01}]),
        # In their forms.
        (KEYS + KEYS, [{"goodput_bps": 941.5e6, "retransmits": 7, "test": "TCP_MAERTS"}] * 2),
        ("Throughput,Elapsed Time (sec)\n941.5,10.00\n940.5,10.00\n", [{"goodput_bps": 941.5e6, "duration_s": 10}, {"goodput_bps": 940.5e6}]),
        (STREAM.replace("10^6bits/sec", "10^6bits/s  % S").replace("2250.13", "2250.13   27.46    -1.00    0.574   -1.000"), [{"goodput_bps": 2250.13e6}]),
        (UDP.replace("45080 ", "46020 "), [{"loss_ratio": 0}]),
        (STREAM + BARE.replace("2250.13", "2100.50"), [{"goodput_bps": 2250.13e6, "test": "TCP_STREAM"}, {"goodput_bps": 2100.5e6, "test": "TCP_STREAM"}]),
        (UDP + BARE_UDP, [{"loss_ratio": 920 / 46000, "test": "UDP_STREAM"}] * 2),
        (BARE + BARE_UDP + BARE_REQUESTS, [
            {"goodput_bps": 2250.13e6, "message_bytes": 16384, "test": "STREAM", "duration_s": 10}, {"loss_ratio": 920 / 46000, "test": "UDP_STREAM"},
            {"transactions_per_s": 25000.11, "request_bytes": 1, "test": "RR"}]),
        (f"$ netperf -P 0 -H 192.0.2.7 -t TCP_MAERTS -f M\n{BARE}+ netperf -P 0 -H 192.0.2.7 -t TCP_CRR\n{BARE_REQUESTS}", [
            {"goodput_bps": 2250.13 * 1024**2 * 8, "test": "TCP_MAERTS"}, {"transactions_per_s": 25000.11, "test": "TCP_CRR"}]),
        (BARE.replace("2250.13", "2250.13   27.46    -1.00    0.574   -1.000"), [{"goodput_bps": 2250.13e6}]),
        (STREAM + STREAM.replace("172.16.10.2", "172.16.10.3"), [{"server": "172.16.10.2"}, {"server": "172.16.10.3"}]),
        (STREAM + STREAM.replace("AF_INET", "AF_INET6"), [{"ip": None}, {"ip": "6"}]),
    ],
)  # fmt: skip
def test_each_form_of_netperf(text: str, said: list[dict[str, object]]) -> None:
    found = [{**trial.cell.params, **trial.measured.figures["a"]} for trial in read(text)]
    assert [{name: of.get(name) for name in one} for of, one in zip(found, said, strict=True)] == [pytest.approx(one) for one in said]


def test_what_netperf_says_beside_a_result() -> None:
    (trial,) = read(output("netperf", "rr-interim"))
    assert [(row["at_s"], row["transactions_per_s"]) for row in trial.measured.tables["seconds"]][:2] == [
        (0.268, 7769.87),
        (0.542, 7088.94),
    ]
    (trial,) = read(UDP.replace("45080 ", "46020 "))
    assert [doubt.kind for doubt in trial.measured.doubts] == [DoubtKind.NEGATIVE_LOSS]
    (first, _) = read(STREAM + STREAM[: STREAM.index("131072")] + REQUESTS)
    assert ([doubt.kind for doubt in first.measured.doubts], first.left_out[0].why) == ([DoubtKind.TOOL_INCOMPLETE], Omission.UNFINISHED)
    (trial,) = read("THROUGHPUT=5.0\n")
    assert [unit.unit for unit in trial.assumed] == ["10^6bits/s"]
    (stream, requests) = read(BARE + BARE_REQUESTS)
    assert ([unit.field for unit in stream.assumed], requests.assumed) == (["goodput_bps"], ())
    assert (len(stream.measured.notes), len(requests.measured.notes)) == (1, 1), "which test it was is not told"
    (trial,) = read(STREAM.replace("Recv   Send", "!!! WARNING\n!!! Confidence intervals: Throughput      : 2.544%\n\nRecv   Send"))
    assert len(trial.measured.notes) == 1


@pytest.mark.parametrize(
    "text", ["", "hello\n", "9402.35\n", "1 2 3 4\n", STREAM[: STREAM.index("131072")], UDP[: UDP.index("212992           ")]]
)
def test_a_file_without_a_whole_test_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(InputError, match=r"runs/asus\.txt: .*netperf"):
        read(text)
