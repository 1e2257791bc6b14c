"""Profiles: stacks are read, summed by function, and drawn."""

from __future__ import annotations

import pytest

from dutlab.report.model.flame import Flame, alone_and_whole, boxes, folded
from dutlab.report.plots.flame_plot import flame_plot

TEXT = """# cycles, 99 samples a second and core
iperf3;write;tcp_send;copy 60
iperf3;write;tcp_send 20
swapper;idle 20
no stack
"""


def test_a_function_has_its_own_share_and_that_of_what_it_called():
    alone, whole = alone_and_whole(folded(TEXT))
    assert alone == {"copy": pytest.approx(0.6), "tcp_send": pytest.approx(0.2), "idle": pytest.approx(0.2)}
    assert (whole["write"], whole["iperf3"], whole["swapper"]) == pytest.approx((0.8, 0.8, 0.2))
    # A function that calls itself counts once a sample.
    assert alone_and_whole(folded("a;f;f 10\n"))[1]["f"] == 1.0


def test_boxes_lie_in_the_box_that_called_them_and_are_drawn_with_their_change():
    found = {box.name: box for box in boxes(folded(TEXT), folded("iperf3;write 50\nswapper;idle 50\n"))}
    assert (found["iperf3"].depth, found["copy"].depth) == (0, 3)
    assert found["copy"].begins == found["tcp_send"].begins == found["iperf3"].begins == 0.0
    assert found["swapper"].begins == pytest.approx(0.8)
    assert (found["iperf3"].change, found["copy"].change, found["idle"].change) == pytest.approx((0.3, 0.6, -0.3))
    # A flame graph has a box a function and none without samples.
    drawn = flame_plot(Flame("flame", "Router", tuple(boxes(folded(TEXT))), ""))
    text = drawn.svg().decode()
    assert text.count("<rect") == 6 + 1  # and the paper
    assert "tcp_send" in text
    assert flame_plot(Flame("flame", "Router", (), "")) is None
