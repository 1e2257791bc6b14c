"""pkt-gen's lines in the three forms that it has had."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dutlab.tools.generators.pkt_gen_log import Report, matched, parse
from generator_files import PKT_GEN_NOW, PKT_GEN_OF_2015, PKT_GEN_THEN


@pytest.mark.parametrize(
    ("line", "report"),
    [
        (PKT_GEN_OF_2015, Report(870.571509, 1.062998, 1400176.0, 1488384.0)),
        (PKT_GEN_THEN, Report(143.205469, 1.001053, 33.0, 33.0)),
        (PKT_GEN_NOW, Report(12.000001, 1.001054, 14.88e6, 14.896e6)),
    ],
)
def test_each_form_is_read(line, report):
    (found,) = parse(line).reports
    assert (found.end_s, found.seconds) == (report.end_s, report.seconds)
    assert (found.pps, found.packets) == pytest.approx((report.pps, report.packets))


def test_the_closing_account_is_kept_and_the_clock_goes_on_after_1000_s():
    found = parse(
        PKT_GEN_OF_2015 + "Sent 14003000 packets 840180000 bytes 27350 events 60 bytes each in 10.01 seconds.\nSpeed: 1.399 Mpps\n"
    ).total
    assert (found.direction, found.packets, found.bytes, found.seconds) == ("Sent", 14003000, 840180000, 10.01)
    assert found.pps == pytest.approx(14003000 / 10.01)
    assert parse("Sent nothing.\n").total.packets == 0
    # The clock that begins again after 1000 s goes on.
    lines = "999.500000 main_thread [1] 10 pps (10 pkts in 1000000 usec)\n000.500000 main_thread [1] 20 pps (20 pkts in 1000000 usec)\n"
    assert [r.end_s for r in parse(lines).reports] == [999.5, 1000.5]
    # A line like a report that cannot be read is told by its number.
    assert parse(PKT_GEN_OF_2015 + "870.9 x\n871.571509 main_thread [1418] lots of pps\n").runs[0].unread == [3]


def test_reports_of_two_hosts_are_brought_together_by_time_not_by_place():
    sent = [Report(1.0, 1.0, 100.0, 100.0), Report(2.0, 1.0, 200.0, 200.0), Report(3.0, 1.0, 200.0, 200.0)]
    received = [Report(0.5, 1.0, 1.0, 1.0), Report(11.5, 1.0, 90.0, 90.0), Report(12.5, 1.0, 180.0, 180.0), Report(13.5, 1.0, 1.0, 1.0)]
    # the receiver's clock is 10 s ahead; its second line covers half of each of the sender's first two
    assert matched(sent, received, offset_s=10.0) == [(1.5, 150.0, 90.0), (2.5, 200.0, 180.0)]


@given(st.text("0123456789. main_thread[]pps(kts usec)\nSentRecvdM", max_size=120))
def test_any_text_is_read_or_passed_over(text):
    log = parse(text)
    assert all(r.seconds >= 0 for r in log.reports)
