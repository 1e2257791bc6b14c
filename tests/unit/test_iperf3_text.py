"""What iperf3 prints for people, read as trials: the forms are those of iperf_locale.c, of several versions and systems."""

from __future__ import annotations

import json
import re
from functools import partial

import pytest

from dutlab.choices import IMPORTS
from dutlab.doubts import DoubtKind
from dutlab.errors import InputError
from dutlab.interop.imported_run import Imported, ImportOptions
from golden import Golden
from outputs import output
from refusal import refusals

LINUX = output("iperf3_text", "linux")
WINDOWS = output("iperf3_text", "windows")
UDP = output("iperf3_text", "udp")
UDP_3_0 = output("step_figures", "iperf3-3.0-udp")
SERVER = output("iperf3_text", "server")
TCP_SERVER_3_1 = output("step_figures", "iperf3-3.1-tcp-server")
UDP_SERVER_3_1 = output("step_figures", "iperf3-3.1-udp-server")


def read(text: str, name: str = "runs/asus.txt") -> list[Imported]:
    return IMPORTS["iperf3"].importer(name, text.encode(), ImportOptions())


def test_the_text_of_linux() -> None:
    (trial,) = read(LINUX)
    assert trial.cell.mode == "asus"
    assert trial.measured.figures["a"] == {"goodput_bps": 2.19e9, "sent_bps": 2.25e9, "retransmits": 3.0}
    assert trial.cell.params == {"protocol": "tcp", "direction": "forward", "streams": 1, "omit_s": 1, "duration_s": 2}
    assert trial.measured.tables["seconds"] == [
        {"at_s": 1.0, "goodput_bps": 2.25e9, "retransmits": 3},
        {"at_s": 2.0, "goodput_bps": 2.24e9, "retransmits": 0},
    ]


def test_windows_tells_no_retransmissions_and_of_several_streams_their_sum_counts() -> None:
    (trial,) = read(WINDOWS)
    assert trial.measured.figures["a"] == {"goodput_bps": 939e6, "sent_bps": 941e6}
    assert trial.cell.params["streams"] == 2
    assert trial.measured.tables["seconds"] == [{"at_s": 1.0, "goodput_bps": 941e6, "retransmits": None}]
    (trial,) = read(re.sub(r"\[SUM\].*\n", "", WINDOWS))
    assert trial.measured.figures["a"] == {"goodput_bps": 939e6, "sent_bps": 941e6}, "without a sum its streams together"


def test_udp_has_loss_and_jitter() -> None:
    (trial,) = read(UDP)
    figures = trial.measured.figures["a"]
    assert (figures["goodput_bps"], figures["sent_bps"], figures["jitter_ns"]) == (990e6, 1e9, 12_000)
    assert figures["loss_ratio"] == 863 / 86303
    assert trial.cell.params["protocol"] == "udp"


def test_the_one_line_of_udp_before_3_1_has_the_rate_that_was_sent() -> None:
    (trial,) = read(UDP_3_0)
    figures = trial.measured.figures["a"]
    assert (figures["sent_bps"], figures["goodput_bps"], figures["loss_ratio"]) == (10e6, 7.5e6, 0.25)


def test_a_servers_text_tells_what_came_and_bytes_are_powers_of_1024() -> None:
    (trial,) = read(SERVER)
    assert trial.measured.figures["a"] == {"goodput_bps": 112 * 1024**2 * 8}


def test_a_server_of_3_1_prints_0_for_what_it_does_not_know() -> None:
    (trial,) = read(TCP_SERVER_3_1)
    assert trial.measured.figures["a"] == {"goodput_bps": 3.31e9}
    (trial,) = read(UDP_SERVER_3_1)
    came = pytest.approx((18.7e6 + 19.7e6 * 0.5) / 1.5)
    assert trial.measured.figures["a"] == {"goodput_bps": came, "jitter_ns": 216e3, "loss_ratio": 43 / 2484}
    turned = TCP_SERVER_3_1.replace("sender", "x").replace("receiver", "sender").replace("x", "receiver")
    with pytest.raises(InputError):  # a server that sends is not told what came
        read(turned)
    (client,) = read(turned.replace("Accepted connection from", "Connecting to host"))
    assert client.measured.figures["a"]["goodput_bps"] == 0, "a client knows: nothing came"


def test_seconds_of_udp_at_a_sender_are_rates_sent_and_losses_below_zero_are_none() -> None:
    (trial,) = read(UDP)
    assert trial.measured.tables["seconds"] == [{"at_s": 1.0, "sent_bps": 1e9, "retransmits": None}]
    (trial,) = read(UDP_SERVER_3_1)
    assert [row["goodput_bps"] for row in trial.measured.tables["seconds"]] == [18.7e6, 19.7e6]
    (trial,) = read(UDP.replace("863/86303 (1%)", "-863/86303 (-1%)"))
    assert (trial.measured.figures["a"]["loss_ratio"], trial.cell.params["protocol"], len(trial.measured.doubts)) == (0, "udp", 1)


def test_several_tests_in_one_file_are_repeats_and_one_without_an_end_is_said() -> None:
    cut = LINUX[: LINUX.index("- - -")]
    first, second = read(
        LINUX + LINUX.replace("2.19 Gbits/sec                  receiver", "2.20 Gbits/sec                  receiver") + cut
    )
    assert [t.measured.figures["a"]["goodput_bps"] for t in (first, second)] == [2.19e9, 2.20e9]
    assert first.cell == second.cell
    assert [(d.kind, "no summary" in d.detail) for d in first.measured.doubts] == [(DoubtKind.TOOL_INCOMPLETE, True)]


STAMP = "Fri Nov 27 02:28:03 2026 host iperf3[41]: "
DOWN = LINUX.replace("[  5] local", "Reverse mode, remote host 172.16.10.2 is sending\n[  5] local")
CUT = "\niperf3: interrupt - the client has terminated by signal Interrupt(2)\n"
LISTENS = "-----------------------------------------------------------\nServer listening on 5201 (test #2)\n"
COMMAND = "me@host:~$ iperf3 -c 172.16.10.2 -u -b900M -l 1400 --congestion=bbr\n"


@pytest.mark.parametrize(
    ("text", "asked", "doubts"),
    [
        ("".join(STAMP + line for line in LINUX.splitlines(keepends=True)), [{}], []),
        (re.sub(r"(\d)\.(\d)(?=.* sec|\d* .?B|\d* .?bits)", r"\1,\2", LINUX), [{}], []),
        (LINUX + "\nServer output:\n" + SERVER, [{}], []),
        (LINUX + LINUX, [{}, {}], []),
        (LINUX + DOWN, [{"direction": "forward"}, {"direction": "reverse"}], []),
        (LINUX + LINUX.replace("172.16.10.2", "172.16.10.3"), [{"server": "172.16.10.2"}, {"server": "172.16.10.3"}], []),
        (UDP + UDP, [{"protocol": "udp", "rate_bps": None}] * 2, []),
        (UDP + UDP.replace("1.00 G", "500 M").replace("990 M", "495 M"), [{"rate_bps": 1e9}, {"rate_bps": 5e8}], []),
        (LINUX + COMMAND + UDP, [{"rate_bps": None}, {"rate_bps": 9e8, "length_bytes": 1400}], []),
        (DOWN + CUT, [{"direction": "reverse"}], [DoubtKind.TOOL_INCOMPLETE]),
        (CUT.lstrip() + DOWN, [{"direction": "reverse"}], [DoubtKind.TOOL_INCOMPLETE]),
        (SERVER + SERVER + LISTENS + "iperf3: interrupt - the server has terminated\n", [{}, {}], []),
        (LINUX + DOWN.replace("2.19 Gbits/sec                  receiver", "0.00 bits/sec                  receiver") + CUT, [{}], [DoubtKind.TOOL_INCOMPLETE]),
        (output("iperf3_versions", "3.7-bidir"), [{"direction": "bidir", "streams": 2}], []),
        (output("iperf3_versions", "3.21-bidir"), [{"direction": "bidir", "streams": 2}], []),
    ],
    ids=["stamps", "commas", "server output", "repeats", "reverse", "hosts", "udp", "rates", "command", "cut", "cut, told first", "server's log",
         "one of two cut", "3.7", "3.21"],
)  # fmt: skip
def test_what_makes_a_test_is_in_its_cell_and_a_test_is_read_once(text, asked, doubts) -> None:
    trials = read(text)
    assert [{name: of.cell.params.get(name) for name in said} for of, said in zip(trials, asked, strict=True)] == asked
    assert [doubt.kind for trial in trials for doubt in trial.measured.doubts] == doubts
    assert len({trial.cell.model_dump_json() for trial in trials}) == len({json.dumps(said) for said in asked})
    assert all(of["goodput_bps"] > 0 for trial in trials for of in trial.measured.figures.values())


def test_the_halves_of_a_text_in_both_directions() -> None:
    (trial,) = read(output("iperf3_versions", "3.7-bidir"))
    both, there, back = (trial.measured.figures[place] for place in ("a+a.back", "a", "a.back"))
    assert (there["goodput_bps"], back["goodput_bps"]) == (19.2e6, 19.2e6)
    assert both == {"goodput_bps": 38.4e6, "sent_bps": 41.2e6, "retransmits": 19}
    (half,) = read(re.sub(r".*RX-C.*receiver\n", "", output("iperf3_versions", "3.7-bidir")))
    assert half.measured.figures == {"a": there}
    assert [doubt.kind for doubt in half.measured.doubts] == [DoubtKind.TOOL_INCOMPLETE]


def test_digits_without_end_are_looked_through_once() -> None:
    (trial,) = read(LINUX.replace("   3             sender", "9" * 2**20 + "             sender"))
    assert "retransmits" not in trial.measured.figures["a"]
    with pytest.raises(InputError):
        read(LINUX.replace("2.19 Gbits", "9" * 400 + " Gbits"))


def test_a_text_without_a_result_is_refused_by_its_name_and_reason(golden: Golden) -> None:
    head = "[ ID] Interval           Transfer     Bandwidth       Jitter    Lost/Total Datagrams\n"
    texts = (
        "iperf3: error - unable to connect to server: Connection refused\n", LINUX[: LINUX.index("- - -")], UDP_3_0.replace(head, ""),
        LINUX.replace("receiver", ""), re.sub(r"\[(?:SUM|  6)\].*receiver", "", WINDOWS), "hello\n",
    )  # fmt: skip
    golden.check("refusals-iperf3-text.txt", refusals(InputError, [partial(read, text) for text in texts]))
