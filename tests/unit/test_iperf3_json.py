"""What iperf3 printed, whole or broken, becomes figures or one clear sentence."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cells import cell_of
from dutlab.tools import json_text
from dutlab.tools.iperf3.json_output import error_in, intervals_in, parse, round_trips_in
from dutlab.tools.json_text import Unreadable, UnreadableError
from dutlab.tools.raw_figures import KeptTrial, rates
from import_files import CASES

DATA = Path(__file__).parents[1] / "data" / "iperf3"
OK = (DATA / "ok.json").read_bytes()
UDP_3_7, UDP_3_9, UDP_3_9_SERVER = (
    (CASES / name).read_bytes()
    for name in ("06-iperf3-udp-before-3.11/udp.json", "51-datagrams-iperf3-3.9/client.json", "51-datagrams-iperf3-3.9/server.json")
)


NO_REPORTS = [
    (b"", Unreadable.EMPTY),
    (b" \n\t", Unreadable.EMPTY),
    (b"Segmentation fault\n", Unreadable.NOT_JSON),
    (b"\x00\xff\xfe", Unreadable.NOT_JSON),
    (b"[1, 2]", Unreadable.NOT_JSON),
    (b'{"start": 1 "end": 2}', Unreadable.INVALID),
    (b'{"a": tru', Unreadable.CUT),
    (b'{"a": ' + b"9" * 5000 + b"}", Unreadable.CUT),
    (b'{"a":' * 100_000 + b"}", Unreadable.TOO_LARGE),
    (b"{}", Unreadable.CUT),
    (b'{"end": {}}', Unreadable.CUT),
    (b'{"end": []}', Unreadable.CUT),
    (b'{"end": {"sum_sent": {"bits_per_second": 1}}}', Unreadable.LACKING),
    *(
        (b'{"end": {"sum_received": {"bits_per_second": %s}}}' % of, Unreadable.LACKING)
        for of in (b'"fast"', b"true", b"1e999", b"-5", b"5")
    ),
]


def recorded(name):
    return (DATA / name).read_bytes()


def changed(change, output=OK):
    document = json.loads(output)
    change(document)
    return json.dumps(document).encode()


def test_a_whole_report_gives_what_the_sink_received_and_not_what_was_sent():
    result = parse(OK)
    assert result.received_bps == pytest.approx(28307347759.1236)
    assert result.sent_bps == pytest.approx(28339296501.71673)
    assert result.received_bytes == 7078411536
    assert result.received_bps == pytest.approx(result.received_bytes * 8 / result.seconds)
    assert (result.retransmits, result.version, result.congestion) == (10753, "iperf 3.12", "bbr")
    assert result.sender_cpu_percent == pytest.approx(93.79048169513217)
    assert result.receiver_cpu_percent == pytest.approx(46.70102512128719)
    assert result.repairs == ()


def test_intervals_leave_out_omitted_seconds_but_count_their_time_and_a_sliver_is_no_rate():
    intervals = parse(OK).intervals
    assert [round(i.end_s) for i in intervals] == [2, 3]
    assert intervals[0].goodput_bps == pytest.approx(27966806107.479668)
    assert intervals[0].retransmits == 5545
    # A server's last sliver of an interval is no rate.
    document, _ = json_text.read_object(recorded("server.json"))
    assert len(document["intervals"]) == 4
    assert len(parse(recorded("server.json")).intervals) == 2


def test_a_server_knows_neither_what_was_sent_nor_the_clients_processor():
    result = parse(recorded("server.json"))
    assert (result.sent_bps, result.sent_bytes, result.received_bytes) == (None, None, 7078411536)
    assert (result.sender_cpu_percent, result.receiver_cpu_percent) == (None, pytest.approx(46.701, abs=1e-3))

    def send(document):
        document["start"]["test_start"]["reverse"] = 1
        document["end"] |= {"sum_sent": document["end"]["sum_received"], "sum_received": document["end"]["sum_sent"]}

    assert unreadable(changed(send, recorded("server.json"))).why is Unreadable.LACKING


def test_udp_before_3_11_has_what_was_sent_and_what_is_not_lost_of_it():
    result = parse(UDP_3_7)
    assert (result.sent_bps, result.received_bps, result.loss_ratio) == (1e9, pytest.approx(750e6), 0.25)
    assert (result.sent_bytes, result.received_bytes, result.jitter_ns) == (1_250_000_000, 937_500_000, pytest.approx(21e3))
    result = parse(UDP_3_9)
    assert result.received_bps == pytest.approx(result.sent_bps * 1668 / 1711)
    assert [i.of_sender for i in result.intervals] == [True]


def test_a_server_of_udp_before_3_11_says_0_bytes_and_its_intervals_what_came():
    result = parse(UDP_3_9_SERVER)
    assert (result.received_bytes, result.sent_bps) == (2337460 + 96360, None)
    assert result.received_bps == pytest.approx(2433820 * 8 / 1.040523)
    assert [i.of_sender for i in result.intervals] == [False]

    def forget(document):
        document["intervals"] = []

    counted = parse(changed(forget, UDP_3_9_SERVER))
    assert (counted.received_bytes, counted.seconds) == ((1710 - 43) * 1460, 1.040523)

    def send(document):
        document["start"]["test_start"]["reverse"] = 1
        document["end"]["sum"] |= {"bytes": 2498060, "bits_per_second": 2e7, "lost_packets": 0}

    assert unreadable(changed(send, UDP_3_9_SERVER)).why is Unreadable.LACKING, "what was received"


def test_udp_before_3_2_has_datagrams_at_the_end_that_the_receiver_never_saw():
    def half(document):
        document["start"]["version"] = "iperf 3.1.3"
        document["end"]["sum"] |= {"packets": 428082, "lost_packets": 0, "lost_percent": 0}

    result = parse(changed(half, UDP_3_7))
    assert (result.received_bps, result.loss_ratio) == (pytest.approx(500e6), pytest.approx(0.5))


def test_losses_below_zero_and_those_of_the_warm_up_are_doubted():
    def below(document):
        document["end"]["sum"] |= {"lost_packets": -1400, "lost_percent": -1}

    def omit(document):
        document["start"]["test_start"]["omit"] = 2

    def more_than_came(document):  # as -O does: those of the warm-up are among them
        document["start"]["test_start"]["omit"] = 2
        document["end"]["sum"]["lost_packets"] = 10**6

    for change, loss in ((below, 0.0), (omit, 0.25), (more_than_came, 1.0)):
        result = parse(changed(change, UDP_3_7))
        assert (result.loss_ratio, len(result.repairs) + bool(result.below_zero)) == (loss, 1)


def test_a_client_of_3_12_counts_what_was_lost_in_the_warm_up_and_the_payload_tells_what_was_not():
    """As 3.12 printed it of `-u -b 100M -l 1400 -w 8K -O 1 -t 2`; its server missed 2154 of 17803."""
    sums = {"sum": (17856, 4998, 24998400), "sum_sent": (17856, 0, 24998400), "sum_received": (17803, 4998, 21908600)}
    end = {name: {"packets": n, "lost_packets": lost, "bytes": size, "bits_per_second": size * 4} for name, (n, lost, size) in sums.items()}
    result = parse(json.dumps({"start": {"test_start": {"protocol": "UDP", "omit": 1}}, "end": end}).encode())
    assert (result.loss_ratio, len(result.repairs)) == (pytest.approx(2154 / 17803, abs=0.005), 1)


def test_udp_before_3_11_without_a_count_of_lost_datagrams_is_no_result():
    def forget(document):
        del document["end"]["sum"]["lost_packets"]

    assert unreadable(changed(forget, UDP_3_7)).why is Unreadable.LACKING


def test_a_sum_of_both_directions_under_one_name_is_no_result():
    def both(document):
        document["end"]["streams"] = [{"sender": {"sender": True}}, {"sender": {"sender": False}}]

    assert unreadable(changed(both)).why is Unreadable.LACKING, "3.7 to 3.10"

    def named(document):
        both(document)
        document["end"]["sum_sent_bidir_reverse"] = {}

    assert parse(changed(named)).received_bps == parse(OK).received_bps


def unreadable(output):
    with pytest.raises(UnreadableError) as caught:
        parse(output)
    assert "\n" not in str(caught.value)
    return caught.value


def test_an_error_is_believed_over_the_figures_beside_it_and_a_cut_report_has_no_result(golden):
    said = [unreadable(recorded(f"error-{name}.json")) for name in ("refused", "server-terminated", "interrupted")]
    assert {error.why for error in said} == {Unreadable.REPORTED}
    said += [cut := unreadable(recorded("truncated.json")), *(unreadable(output) for output, _ in NO_REPORTS)]
    assert cut.why is Unreadable.CUT
    golden.check("iperf3-unreadable.txt", "".join(f"{error.why.name}: {error}\n" for error in said))


@pytest.mark.parametrize(
    ("output", "words"), [(recorded("nan.json"), 1), (recorded("trailing-text.json"), 1), (b"warning: odd\n" + OK, 1), (OK, 0)]
)
def test_what_was_mended_or_lies_around_a_report_is_told_and_otherwise_ignored(output, words):
    result = parse(output)
    assert result.received_bps == parse(OK).received_bps
    assert len(result.repairs) == words


def test_nan_inside_a_string_is_a_word():
    document, repairs = json_text.read_object(b'{"title": "x: nan, y: -inf,", "n": -nan}')
    assert document == {"title": "x: nan, y: -inf,", "n": None}
    assert len(repairs) == 1
    assert json_text.read_object(rb'{"a": "\": nan,", "b": -nan(0x8), "c": [inf]}')[0] == {"a": '": nan,', "b": None, "c": [None]}


@pytest.mark.parametrize("word", ["nan", "-nan", "NaN", "inf", "-inf", "Infinity", "-Infinity", "nan(ind)"])
def test_no_number_that_is_none_gets_into_a_figure(word):
    output = OK.replace(b'"bits_per_second":\t28339296501.716728', b'"bits_per_second":\t' + word.encode())
    assert output != OK
    assert unreadable(output).why is Unreadable.LACKING


@pytest.mark.parametrize(("output", "why"), NO_REPORTS)
def test_what_is_no_report_is_said_with_its_kind(output, why):
    assert unreadable(output).why is why


def test_more_than_any_report_has_is_not_taken_apart(monkeypatch):
    monkeypatch.setattr(json_text, "OUTPUT_BYTES", 1000)
    assert unreadable(OK).why is Unreadable.TOO_LARGE


def test_what_an_iperf3_does_not_tell_is_absent_and_not_nought():
    def forget(document):
        del document["end"]["sum_sent"]["retransmits"]
        del document["end"]["cpu_utilization_percent"]
        del document["end"]["sender_tcp_congestion"]
        document["intervals"] = "none"

    result = parse(changed(forget))
    assert (result.retransmits, result.sender_cpu_percent, result.receiver_cpu_percent, result.congestion) == (None, None, None, None)
    assert result.intervals == ()
    assert len(result.repairs) == 1, "the list of intervals"

    def unknown(document):
        document["end"]["sum_sent"]["retransmits"] = -1

    assert parse(changed(unknown)).retransmits is None, "minus one means that it is not known"


def test_error_in_finds_only_errors():
    assert error_in(recorded("error-refused.json")) == "unable to connect to server: Connection refused"
    assert error_in(OK) is None
    assert error_in(b"garbage") is None


@settings(max_examples=30)
@given(st.integers(0, len(OK)))
def test_no_cut_of_a_report_raises_anything_else(cut):
    try:
        result = parse(OK[:cut])
    except UnreadableError:
        return
    assert result.received_bps == parse(OK).received_bps


@given(st.binary(max_size=200) | st.text(alphabet='{}[]:,"\\nai-1.e ', max_size=60).map(str.encode))
def test_no_garbage_raises_anything_else(output):
    with pytest.raises(UnreadableError):
        parse(output)


@pytest.mark.parametrize("endless", ['\\"', '"', ":nan(", '"a', '{"', "[", "-", "\\"])
def test_a_text_that_never_closes_is_looked_through_once(endless):
    """A second look from each of its places would take a day: of 2 MiB, for which there is no need here."""
    text = '{"a": ' + endless * (2**12 // len(endless))
    for read in (json_text.read_object, json_text.read_cut_object):
        with contextlib.suppress(UnreadableError):
            read(text.encode())
    assert '"' not in json_text._STRING.sub("", text), "each quote is in a string that was found, so no search began at it in vain"


@pytest.mark.parametrize(
    ("direction", "places"), [("forward", {"a": 1}), ("reverse", {"a.back": 1}), ("bidir", {"a": 1, "a.back": 2, "a+a.back": 3})]
)
def test_what_each_direction_carried_is_read_again_from_the_clients_report(direction: str, places: dict[str, int]) -> None:
    def both(document: dict[str, Any]) -> None:
        end = document["end"]
        for side in ("sum_sent", "sum_received"):
            end[side]["bits_per_second"] = 1e9
            if direction == "bidir":
                end[f"{side}_bidir_reverse"] = end[side] | {"bits_per_second": 2e9}

    cell = cell_of("iperf3", streams=1, omit_s=0, duration_s=1, direction=direction)
    bed = {"testbed": {"links": {"a": {"path": ["source:eth", "sink:eth"]}}}}
    found = rates(KeptTrial(cell, {"iperf3-a-client.json": changed(both)}, {}, bed))
    assert found == {place: {"goodput_bps": rate * 1e9} for place, rate in places.items()}


def test_round_trips_are_told_by_the_end_that_sends_and_rates_by_both() -> None:
    server = (DATA / "server.json").read_bytes()
    told = json.loads(OK)["intervals"]
    expected = [(s["end"], s["rtt"] * 1e3) for interval in told for s in interval["streams"]]
    assert list(round_trips_in(OK)) == expected and expected
    assert round_trips_in(server) == () and [i.goodput_bps for i in intervals_in(server)]
    both = (DATA / "versions" / "3.12-bidir-client.json").read_bytes()
    assert len(round_trips_in(both)) == 1 and len(intervals_in(both)) == len(intervals_in(both, back=True)) == 1
