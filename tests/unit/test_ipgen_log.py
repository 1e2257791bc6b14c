"""ipgen's log and answer, with its traps."""

from __future__ import annotations

import pytest

from dutlab.tools.generators.ipgen_log import parse_answer, parse_log
from ipgen_files import line


def test_a_second_has_frames_with_fcs_and_loss_by_sent_less_received():
    (second,), faults = parse_log(line() + "\n\n")
    assert faults == []
    assert (second.frame_bytes, second.sent, second.received, second.lost, second.reordered) == (64, 1000, 990, 10, 2)
    assert second.latency_avg_ns == pytest.approx(50_000)
    assert second.latency_max_ns == pytest.approx(250_000)


def test_a_duplicate_hides_no_loss():
    assert parse_log(line(rx=1000, dup=7))[0][0].lost == 7


def test_latencies_of_a_log_that_reached_a_second_are_not_trusted():
    (second,), _ = parse_log(line(latency=999.5))
    assert (second.latency_min_ns, second.latency_avg_ns, second.latency_max_ns) == (None, None, None)


def test_lines_that_cannot_be_read_are_named_and_the_others_kept():
    seconds, faults = parse_log(line() + "\n" + line()[:40] + "\n{}\n")
    assert len(seconds) == 1
    assert [f.split(":")[0] for f in faults] == ["line 2", "line 3"]


def test_the_answer_is_read_although_every_value_is_a_text():
    text = '{"framesize":{"1518":{"bps":"986999824","curpps":"81274","limitpps":"81274"},"64":{"bps":"500000000","curpps":"744048","limitpps":"1488095"}}}'
    assert [(a.frame_bytes, a.pps, a.ceiling_pps) for a in parse_answer(text)] == [(64, 744048.0, 1488095.0), (1518, 81274.0, 81274.0)]


@pytest.mark.parametrize("text", ["[]", "{}", '{"framesize": 3}', "nothing"])
def test_what_is_no_answer_says_so(text):
    with pytest.raises(ValueError, match=r"not an answer|Expecting"):
        parse_answer(text)
