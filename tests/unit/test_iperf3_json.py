"""What iperf3 printed, whole or broken, becomes figures or one clear sentence."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.tools import json_text
from dutlab.tools.iperf3.json_output import error_in, parse
from dutlab.tools.json_text import Unreadable, UnreadableError

DATA = Path(__file__).parents[1] / "data" / "iperf3"
OK = (DATA / "ok.json").read_bytes()


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


def test_intervals_leave_out_omitted_seconds_but_count_their_time_and_a_sliver_is_no_rate():
    intervals = parse(OK).intervals
    assert [round(i.end_s) for i in intervals] == [2, 3]
    assert intervals[0].goodput_bps == pytest.approx(27966806107.479668)
    assert intervals[0].retransmits == 5545
    # A servers last sliver of an interval is no rate.
    document, _ = json_text.read_object(recorded("server.json"))
    assert len(document["intervals"]) == 4
    assert len(parse(recorded("server.json")).intervals) == 2


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
    monkeypatch.setattr(json_text, "LONGEST_OUTPUT", 1000)
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
