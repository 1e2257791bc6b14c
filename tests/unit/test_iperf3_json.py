"""What iperf3 printed, whole or broken, becomes figures or one clear sentence."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.tools import json_text
from dutlab.tools.iperf3.json_output import UnreadableError, error_in, parse

DATA = Path(__file__).parents[1] / "data" / "iperf3"
OK = (DATA / "ok.json").read_bytes()


def recorded(name):
    return (DATA / name).read_bytes()


def changed(change):
    document = json.loads(OK)
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


def test_intervals_leave_out_omitted_seconds_but_count_their_time():
    intervals = parse(OK).intervals
    assert [round(i.end_s) for i in intervals] == [2, 3]
    assert intervals[0].goodput_bps == pytest.approx(27966806107.479668)
    assert intervals[0].retransmits == 5545


def test_a_servers_last_sliver_of_an_interval_is_no_rate():
    document, _ = json_text.read_object(recorded("server.json"))
    assert len(document["intervals"]) == 4
    assert len(parse(recorded("server.json")).intervals) == 2


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("error-refused.json", "it reports: unable to connect to server: Connection refused"),
        ("error-server-terminated.json", "it reports: the server has terminated"),
        ("error-interrupted.json", "it reports: interrupt - the client has terminated"),
    ],
)
def test_an_error_is_believed_over_the_figures_beside_it(name, says):
    with pytest.raises(UnreadableError, match=f"^{says}$"):
        parse(recorded(name))


def test_a_cut_report_has_no_result():
    with pytest.raises(UnreadableError, match=r"^its report is cut after \d+ characters$"):
        parse(recorded("truncated.json"))


def test_nan_is_left_out_and_the_repair_is_told():
    result = parse(recorded("nan.json"))
    assert result.received_bps == parse(OK).received_bps
    assert result.repairs == ("invalid numbers (nan, inf) were left out",)


def test_text_behind_the_report_is_told_and_otherwise_ignored():
    result = parse(recorded("trailing-text.json"))
    assert result.received_bps == parse(OK).received_bps
    assert result.repairs == ("text after the report: 'iperf3: getsockopt - Bad file descriptor'",)


def test_text_before_the_report_is_told_and_otherwise_ignored():
    assert parse(b"warning: this system is odd\n" + OK).repairs == ("text before the report: 'warning: this system is odd'",)


def test_nan_inside_a_string_is_a_word():
    document, repairs = json_text.read_object(b'{"title": "x: nan, y: -inf,", "n": -nan}')
    assert document == {"title": "x: nan, y: -inf,", "n": None}
    assert len(repairs) == 1


@pytest.mark.parametrize("word", ["nan", "-nan", "NaN", "inf", "-inf", "Infinity", "-Infinity", "nan(ind)"])
def test_no_number_that_is_none_gets_into_a_figure(word):
    output = OK.replace(b'"bits_per_second":\t28339296501.716728', b'"bits_per_second":\t' + word.encode())
    assert output != OK
    with pytest.raises(UnreadableError, match="nothing of what was sent"):
        parse(output)


@pytest.mark.parametrize(
    ("output", "says"),
    [
        (b"", "it printed nothing"),
        (b" \n\t", "it printed nothing"),
        (b"Segmentation fault\n", "its output is not JSON: 'Segmentation fault'"),
        (b"\x00\xff\xfe", "its output is not JSON"),
        (b"[1, 2]", "its output is not JSON: '[1, 2]'"),
        (b'{"start": 1 "end": 2}', "its report is not valid JSON (Expecting ',' delimiter at line 1, character 12)"),
        (b'{"a": tru', "its report is cut after 9 characters"),
        (b'{"a": ' + b"9" * 5000 + b"}", "it ended early: its report has no end"),
        (b'{"a":' * 100_000 + b"}", "nested too deep"),
        (b"{}", "it ended early: its report has no end"),
        (b'{"end": {}}', "it ended early: its report has no end"),
        (b'{"end": []}', "it ended early: its report has no end"),
        (b'{"end": {"sum_sent": {"bits_per_second": 1}}}', "its report says nothing of what was received"),
        (b'{"end": {"sum_received": {"bits_per_second": "fast"}}}', "its report says nothing of what was received"),
        (b'{"end": {"sum_received": {"bits_per_second": true}}}', "its report says nothing of what was received"),
        (b'{"end": {"sum_received": {"bits_per_second": 1e999}}}', "its report says nothing of what was received"),
        (b'{"end": {"sum_received": {"bits_per_second": -5}}}', "its report says nothing of what was received"),
        (b'{"end": {"sum_received": {"bits_per_second": 5}}}', "its report says nothing of what was sent"),
    ],
)
def test_what_is_no_report_is_said_in_one_sentence(output, says):
    with pytest.raises(UnreadableError) as caught:
        parse(output)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_more_than_any_report_has_is_not_taken_apart(monkeypatch):
    monkeypatch.setattr(json_text, "LONGEST_OUTPUT", 1000)
    with pytest.raises(UnreadableError, match="more than any report has"):
        parse(OK)


def test_what_an_iperf3_does_not_tell_is_absent_and_not_nought():
    def forget(document):
        del document["end"]["sum_sent"]["retransmits"]
        del document["end"]["cpu_utilization_percent"]
        del document["end"]["sender_tcp_congestion"]
        document["intervals"] = "none"

    result = parse(changed(forget))
    assert (result.retransmits, result.sender_cpu_percent, result.receiver_cpu_percent, result.congestion) == (None, None, None, None)
    assert result.intervals == ()
    assert result.repairs == ("the list of intervals is invalid and was left out",)


def test_minus_one_retransmits_means_not_known():
    def unknown(document):
        document["end"]["sum_sent"]["retransmits"] = -1

    assert parse(changed(unknown)).retransmits is None


def test_error_in_finds_only_errors():
    assert error_in(recorded("error-refused.json")) == "unable to connect to server: Connection refused"
    assert error_in(OK) is None
    assert error_in(b"garbage") is None


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
    """A second look from each of its places would take a day."""
    for read in (json_text.read_object, json_text.read_cut_object):
        with contextlib.suppress(UnreadableError):
            read(b'{"a": ' + endless.encode() * (2**21 // len(endless)))


def test_a_string_with_escapes_is_one_string_to_the_repair_of_numbers():
    assert json_text.read_object(rb'{"a": "\": nan,", "b": -nan(0x8), "c": [inf]}')[0] == {"a": '": nan,', "b": None, "c": [None]}
