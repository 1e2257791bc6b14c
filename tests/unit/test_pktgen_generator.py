"""Kernel pktgen by the file format that its documentation has (Documentation/networking/pktgen.rst): what is written, what is read."""

from __future__ import annotations

import pytest

from dutlab.errors import ToolFailed
from dutlab.tools.generators.pktgen import read_results, settings
from generator_files import PKTGEN_DOCUMENTED, asked, direction


def test_the_documented_result_is_read_and_streams_add_their_frames():
    frames, seconds = read_results(PKTGEN_DOCUMENTED, 1, host="source", raw={})
    assert (frames, seconds) == (100_000, 0.01543)
    assert frames / seconds == pytest.approx(6_480_562, rel=1e-4), "the rate that is in the example itself"
    # Streams add their frames and the longest counts.
    longer = PKTGEN_DOCUMENTED.replace("15430(c15405", "20000(c19975")
    assert read_results(PKTGEN_DOCUMENTED + longer, 2, host="source", raw={}) == (200_000, 0.02)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "0 of 1 streams"),
        ("Result: Idle\n", "0 of 1 streams .*: Idle"),
        (PKTGEN_DOCUMENTED.replace("100000 (60byte", "0 (60byte"), "sent nothing"),
    ],
)
def test_no_result_is_said_in_its_own_words(text, why):
    with pytest.raises(ToolFailed, match=f"source: pktgen: {why}") as failed:
        read_results(text, 1, host="source", raw={"pktgen-a.txt": text.encode()})
    assert failed.value.raw == {"pktgen-a.txt": text.encode()}


def test_a_rate_is_shared_by_the_streams_and_so_are_its_frames():
    script = settings(direction(), asked(64, rate=1001.0, seconds=1.0), [2, 3], burst=4).splitlines()
    assert script[:3] == [
        "echo rem_device_all > /proc/net/pktgen/kpktgend_2",
        "echo rem_device_all > /proc/net/pktgen/kpktgend_3",
        "echo add_device eth1@0 > /proc/net/pktgen/kpktgend_2",
    ]
    of_first = [line for line in script if line.endswith("/eth1@0")]
    assert of_first == [
        f"echo '{words}' > /proc/net/pktgen/eth1@0"
        for words in (
            "count 501", "clone_skb 0", "burst 4", "pkt_size 60", "ratep 500", "dst_mac 02:00:00:00:00:02", "dst_min 10.0.2.2",
            "dst_max 10.0.2.2", "src_min 10.0.1.2", "src_max 10.0.1.2", "udp_src_min 49152", "udp_src_max 49152", "udp_dst_min 7",
            "udp_dst_max 7",
        )
    ]  # fmt: skip
    assert "echo 'count 500' > /proc/net/pktgen/eth1@1" in script


def test_full_speed_has_no_rate_and_no_end_and_ipv6_its_own_words():
    script = settings(direction("fd00::1", "fd00::2"), asked(128), [0], burst=1)
    assert "count 0" in script and "ratep" not in script and "pkt_size 124" in script
    assert "'dst6 fd00::2'" in script and "'src6 fd00::1'" in script and "'dst_min" not in script
