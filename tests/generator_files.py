"""What tests of generators share: a direction over a link, and what is asked on it."""

from __future__ import annotations

from dutlab.spec.links import Port
from dutlab.tools.engine.load import Direction
from dutlab.tools.generators.counted import SendOrder
from dutlab.units import FrameBytes, Pps, Seconds
from outputs import output


def direction(source="10.0.1.2", destination="10.0.2.2"):
    ports = (Port(host=h, interface="eth1") for h in ("source", "sink"))
    return Direction("a", "a", *ports, source, destination, "02:00:00:00:00:02", 49152, isolated=False)


def asked(size=64, rate=None, seconds=3.0):
    return SendOrder(FrameBytes(size), None if rate is None else Pps(rate), Seconds(seconds))


# The example of the kernel's Documentation/networking/pktgen.rst, word for word.
PKTGEN_DOCUMENTED = output("generators", "pktgen-documented")
TRAFGEN_TWO_CORES = b"""     1 packets to schedule
    60 bytes in total
Running! Hang up with ^C!


      568576 packets outgoing
    34114560 bytes outgoing
           0 sec, 0 usec on CPU0 (0 packets)
           1 sec, 980002 usec on CPU1 (568576 packets)
"""
PKT_GEN_OF_2015 = "870.571509 main_thread [1418] 1400176 pps (1488384 pkts in 1062998 usec)\n"
PKT_GEN_THEN = "143.205469 main_thread [1708] 33.000 pps (33.000 pkts 369.600 Kbps in 1001053 usec) 3.00 avg_batch\n"
PKT_GEN_NOW = (
    "012.000001 main_thread [2781] 14.880 Mpps [avg/std 14.870 Mpps/0.010 Mpps]"
    "(14.896 Mpkts 7.150 Gbps in 1001054 usec) 511.95 avg_batch 0 min_space\n"
)
