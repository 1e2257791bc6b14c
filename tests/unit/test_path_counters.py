from hypothesis import given, settings
from hypothesis import strategies as st

from dutlab.tools.path_counters import PortCount, lost_by_place

ZERO = (PortCount(0, 0, 0),) * 4


def path(source_sent, in_received, out_sent, out_dropped, sink_received):
    return (PortCount(source_sent, 0, 0), PortCount(0, 0, in_received), PortCount(out_sent, out_dropped, 0), PortCount(0, 0, sink_received))


def test_each_lost_frame_is_charged_to_the_place_between_two_counters():
    found = lost_by_place(before=ZERO, after=path(990, 970, 900, 30, 890), sent=1000, received=885)
    assert found == {"sender's card": 10, "DUT in": 20, "DUT stack": 40, "DUT out": 30, "sink's card": 10, "sink": 5}
    assert sum(found.values()) == 1000 - 885


@settings(max_examples=40)
@given(st.lists(st.integers(0, 10**6), min_size=6, max_size=6), st.integers(1, 10**6))
def test_the_places_add_up_to_what_was_sent_and_not_received(losses, received):
    alive = [received + sum(losses[i:]) for i in range(7)]
    after = path(alive[1], alive[2], alive[4], alive[3] - alive[4], alive[5])
    found = lost_by_place(before=ZERO, after=after, sent=alive[0], received=received)
    assert sum(found.values()) == alive[0] - received
    assert list(found.values()) == losses


def test_only_what_was_counted_in_between_counts_and_what_a_port_does_not_count_is_left_out():
    before = path(100, 100, 90, 0, 90)
    assert lost_by_place(before=before, after=path(200, 200, 190, 0, 190), sent=100, received=100) == dict.fromkeys(
        ("sender's card", "DUT in", "DUT stack", "DUT out", "sink's card", "sink"), 0
    )
    # A port that does not count what xdp sends is left out and nothing is charged to it.
    found = lost_by_place(before=ZERO, after=path(0, 1000, 700, 0, 700), sent=1000, received=700)
    assert "sender's card" not in found and "DUT in" not in found
    assert found == {"DUT stack": 300, "DUT out": 0, "sink's card": 0, "sink": 0}
    # A port of user-mode Linux hears its own frames, as a load in both directions shows.
    found = lost_by_place(before=ZERO, after=path(1000, 2000, 990, 0, 990), sent=1000, received=990)
    assert found == {"sender's card": 0, "DUT out": 0, "sink's card": 0, "sink": 0}
    # A host without readable counters leaves only its places out.
    after = (PortCount(1000, 0, 0), None, None, PortCount(0, 0, 700))
    found = lost_by_place(before=ZERO, after=after, sent=1000, received=690)
    assert found == {"sender's card": 0, "sink": 10}
    # The way back reads the same path from its other end.
    after = (PortCount(0, 0, 80), PortCount(85, 0, 0), PortCount(0, 0, 95), PortCount(100, 0, 0))
    found = lost_by_place(before=ZERO, after=after, sent=100, received=80, reverse=True)
    assert found == {"sender's card": 0, "DUT in": 5, "DUT stack": 10, "DUT out": 0, "sink's card": 5, "sink": 0}
