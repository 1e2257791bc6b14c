"""Stands where TRex's own `trex.stl.api` lies: what its published documents say of the client, without a server and without a frame.

It refuses what TRex refuses (sending from a port without streams, before a reset), prints noise where TRex's logger prints, and counts
frames that are on their way as not yet come, so that counters read too early differ from those read after the drain. DUT_LOSES=10 has one
frame in ten lost. STARTS_AFTER=2 has the first two connections refused. UP_WITH=PATH has the first one wait for that file. RX_MISSES=10 has the receiving port miss one frame in ten.

As TRex 3.08 on af_packet: it stretches time rather than sending fewer frames (STRETCHES=3: three times as long), a wait that is too long for
its caller raises TRexTimeoutError, and what a stopped trial left in the sender's ring (LEFT=50) goes out with the next frames.
"""

import os
import time as real_time
from pathlib import Path

try:
    import time_of_the_stand_in as time
except ImportError:
    import time

IN_FLIGHT_S = 0.2


class STLError(Exception):
    pass


class TRexTimeoutError(STLError):
    pass


class STLTXCont:
    def __init__(self, pps=1):
        self.pps = pps


class STLPktBuilder:
    def __init__(self, pkt=None, pkt_buffer=None, vm=None):
        self.buffer = pkt_buffer


class STLStream:
    def __init__(self, name=None, packet=None, mode=None, isg=0.0, flow_stats=None):
        self.packet, self.mode = packet, mode


class STLProfile:
    def __init__(self, streams):
        self.streams = streams

    @staticmethod
    def load(filename, direction=0, port_id=0, longer=0):
        size = int(Path(filename).read_text(encoding="utf-8").split()[direction]) + longer
        return STLProfile([STLStream(packet=STLPktBuilder(pkt_buffer=bytes(size - 4)), mode=STLTXCont(pps=1))])

    def get_streams(self):
        return self.streams


class STLClient:
    refused = 0

    def __init__(self, username="x", server="localhost", sync_port=4501, async_port=4500):
        print("TRex's logger talks on standard output")
        self.streams, self.acquired, self.sent, self.ended, self.began, self.left = {}, set(), {}, 0.0, 0.0, {}
        self.warnings = []

    def connect(self):
        if STLClient.refused < int(os.environ.get("STARTS_AFTER", "0")):
            STLClient.refused += 1
            raise STLError("Failed to get server response from tcp://127.0.0.1:4501")
        if path := os.environ.get("UP_WITH"):  # the server answers once it has read its configuration
            ends = real_time.monotonic() + 30
            while not Path(path).exists() and real_time.monotonic() < ends:
                real_time.sleep(0.01)

    def get_server_version(self):
        return {"version": "v3.08", "mode": "STL"}

    def get_all_ports(self):
        return [0, 1, 2, 3]

    def reset(self, ports=None):
        # As TRex 3.08 does on 2026-11-28: each warning stays until the events are cleared.
        self.warnings += [f"[server][warning]  - Port {n} was forcely taken by another session of you" for n in set(ports) - self.acquired]
        self.acquired |= set(ports)
        self.streams, self.sent = {}, {}

    def set_port_attr(self, ports=None, promiscuous=None):
        self._acquired(ports)

    def add_streams(self, streams, ports=None):
        self._acquired(ports)
        for port in ports:
            self.streams.setdefault(port, []).extend(streams)

    def clear_stats(self, ports=None):
        self.sent = {}

    def start(self, ports=None, mult="1", force=False, duration=-1, total=False, core_mask=None):
        self._acquired(ports)
        for port in ports:
            if not self.streams.get(port):
                raise STLError(f"Cannot start traffic on port {port}: no streams")
            asked = sum(stream.mode.pps for stream in self.streams[port])
            rate = {"1": asked, "100%": 1000.0}.get(mult) or float(mult[: -len("pps")])
            frames = round(rate * duration)
            bytes_ = sum(frames * s.mode.pps / asked * (len(s.packet.buffer) + 4) for s in self.streams[port])
            left = self.left.pop(port, 0)
            before, of_before = self.sent.get(port, (0, 0))
            self.sent[port] = (before + frames + left, of_before + round(bytes_))
        self.began = time.monotonic()
        self.ended = self.began + duration * (1 if mult.endswith("pps") else float(os.environ.get("STRETCHES", "1")))

    def wait_on_traffic(self, ports=None, timeout=None, rx_delay_ms=None):
        left_s = self.ended - time.monotonic()
        if timeout is not None and left_s > timeout:
            time.sleep(timeout)
            raise TRexTimeoutError(timeout)
        time.sleep(max(0.0, left_s))

    def stop(self, ports=None, rx_delay_ms=None):
        self._acquired(ports)
        share = (time.monotonic() - self.began) / (self.ended - self.began)
        for port in ports:
            frames, bytes_ = self.sent[port]
            self.sent[port] = (int(frames * share), int(bytes_ * share))
            self.left[port] = int(os.environ.get("LEFT", "0"))
        self.ended = time.monotonic()

    def get_stats(self, ports=None):
        late = time.monotonic() - self.ended >= IN_FLIGHT_S
        loses, misses = int(os.environ.get("DUT_LOSES", "0")), int(os.environ.get("RX_MISSES", "0"))
        stats = {"global": {"queue_full": 7, "cpu_util": 31.5}, "total": {}}
        for port in self.get_all_ports():
            frames, bytes_ = self.sent.get(port, (0, 0))
            came, _ = self.sent.get(port ^ 1, (0, 0))
            came -= came // loses if loses else 0
            missed = came // misses if misses and late else 0
            stats[port] = {
                "opackets": frames,
                "obytes": bytes_,
                "ipackets": came - missed if late else came // 2,
                "ibytes": 0,
                "oerrors": 0,
                "ierrors": missed,
            }
        return stats

    def get_warnings(self):
        return self.warnings

    def clear_events(self):
        self.warnings = []

    def disconnect(self):
        Path(os.environ["TREX_STAND_IN"], "disconnected").touch()

    def _acquired(self, ports):
        if not set(ports) <= self.acquired:
            raise STLError("port is not acquired")
