"""Script that drives TRex's client on TRex's machine, in JSON lines. The Python that TRex uses runs it (3.6 or later).

    {"id": 1, "op": "connect", "path": "/opt/trex/v3.08", "wait_s": 60}      a line on standard input
    {"id": 1, "ok": {"version": "v3.08", "ports": 2}}                        its reply on standard output, or {"id": 1, "err": "why"}

It imports nothing of dutlab, since only this file is copied. The output of TRex's client goes to standard error.
"""

# ruff: noqa: UP006, UP035 -- words of Python 3.6, since CentOS 7 has no newer one and TRex runs there

import importlib
import json
import os
import sys
import time
from typing import Any, Dict, List, Tuple

STARTS_S = 1.0
LATE_S = 1.0
LATE_SHARE = 0.1
"""TRex takes more time rather than sending fewer frames: a trial that is late by more than LATE_S and this share is stopped."""
PUSH_PPS = 1000
PUSH_S = 0.5
"""Load that pushes out frames that a stopped trial left in a sender's ring: af_packet sends them when more frames follow."""
STILL_S = 0.25
LONGEST_STILL_S = 5.0
"""Time limit for two readings STILL_S apart to be equal; after it the counters are read as they are, with a warning."""
NEEDED = ("opackets", "ipackets", "obytes")
ALSO = ("ibytes", "oerrors", "ierrors")
Json = Dict[str, Any]


class Conversation:
    """One connection to a TRex server."""

    def __init__(self) -> None:
        self.api: Any = None
        self.client: Any = None
        self.left = set()  # type: Any
        """Ports that were stopped during a trial."""

    def connect(self, request: Json) -> Json:
        """Connect to the server within `wait_s`, and take all ports."""
        sys.path.insert(0, os.path.join(request["path"], "automation", "trex_control_plane", "interactive"))  # noqa: PTH118 -- as above
        self.api = importlib.import_module("trex.stl.api")
        latest = time.monotonic() + request["wait_s"]
        while True:
            try:
                self.client = self.api.STLClient(server=request.get("address", "127.0.0.1"))
                self.client.connect()
                break
            except self.api.STLError:
                if time.monotonic() >= latest:
                    raise
                time.sleep(STARTS_S)
        ports = list(self.client.get_all_ports())
        self.client.reset(ports=ports)
        return {"version": version_of(self.client), "ports": len(ports), "python": sys.version.split()[0]}

    def offer(self, request: Json) -> Json:
        """Send in all directions at once for `duration_s`, wait for `drain_s`, and read the counters once they no longer change.

        In the reply, `seconds` is the real time of sending; `late` is true if it was stopped.
        """
        directions = request["directions"]
        senders = [direction["tx"] for direction in directions]
        ports = sorted(set(senders) | {direction["rx"] for direction in directions})
        self.client.reset(ports=ports)  # no traffic, no streams, counters at 0
        self.client.clear_events()  # TRex keeps all warnings since it was connected, as that the ports were taken by force
        self.client.set_port_attr(ports=ports, promiscuous=True)
        for direction in directions:
            self.client.add_streams(self.streams(direction), ports=[direction["tx"]])
        warnings = self.push_out(senders, ports)
        self.client.clear_stats()
        began_s, began = time.time(), time.monotonic()
        self.client.start(ports=senders, mult=request["mult"], duration=request["duration_s"], force=True)
        late = self.wait(senders, request["duration_s"] * (1 + LATE_SHARE) + LATE_S)
        seconds = time.monotonic() - began
        time.sleep(request["drain_s"])
        stats, still = self.wait_for_stable_counters(ports)
        counters = {str(port): counters_of(stats, port) for port in ports}
        whole = stats.get("global", {})
        warnings += still
        return {
            "late": late,
            "began_s": began_s,
            "seconds": seconds,
            "ports": counters,
            "queue_full": whole.get("queue_full"),
            "cpu_percent": whole.get("cpu_util"),
            "warnings": warnings + [str(warning) for warning in self.client.get_warnings()],
        }

    def wait(self, senders: List[int], longest_s: float) -> bool:
        """Wait until all frames are sent; return whether sending had to be stopped."""
        try:
            self.client.wait_on_traffic(ports=senders, timeout=longest_s)
        except Exception as error:
            if "Timeout" not in type(error).__name__:
                raise
            self.client.stop(ports=senders)
            self.left.update(senders)
            return True
        return False

    def push_out(self, senders: List[int], ports: List[int]) -> List[str]:
        """Push out the frames that the previous trial left in these senders' rings, so that this trial does not count them."""
        left = sorted(self.left.intersection(senders))
        if not left:
            return []
        self.client.start(ports=left, mult="{}pps".format(PUSH_PPS), duration=PUSH_S, force=True)  # noqa: UP032 -- as above
        self.wait(left, PUSH_S + LATE_S)
        self.left.difference_update(left)
        return self.wait_for_stable_counters(ports)[1]

    def wait_for_stable_counters(self, ports: List[int]) -> Tuple[Any, List[str]]:
        """Return the statistics once the counters of these ports no longer change, with a warning if they never stop."""
        longest = time.monotonic() + LONGEST_STILL_S
        stats = self.client.get_stats()
        while True:
            before = [counters_of(stats, port) for port in ports]
            time.sleep(STILL_S)
            stats = self.client.get_stats()
            if before == [counters_of(stats, port) for port in ports]:
                return stats, []
            if time.monotonic() >= longest:
                return stats, ["counters still moved after {} s".format(LONGEST_STILL_S)]  # noqa: UP032 -- as above

    def streams(self, direction: Json) -> List[Any]:
        """Return the streams of a user's profile, or one for each frame size, each frame byte by byte and without its FCS."""
        if direction.get("profile"):
            tunables = direction.get("tunables") or {}
            profile = self.api.STLProfile.load(direction["profile"], direction=direction["direction"], port_id=direction["tx"], **tunables)
            return list(profile.get_streams())
        return [
            self.api.STLStream(
                packet=self.api.STLPktBuilder(pkt_buffer=bytes.fromhex(stream["frame"])), mode=self.api.STLTXCont(pps=stream["pps"])
            )
            for stream in direction["streams"]
        ]

    def close(self) -> None:
        """Release the ports."""
        if self.client is not None:
            self.client.disconnect()


def counters_of(stats: Any, port: int) -> Json:  # noqa: ANN401 -- as below
    """Return the counters of one port; those that this TRex lacks are absent."""
    of_port = stats.get(port)
    missing = [name for name in NEEDED if of_port is None or name not in of_port]
    if missing:
        what = "TRex's statistics of port {} have no {}".format(port, ", ".join(missing))
        raise ValueError(what)
    return {name: of_port[name] for name in NEEDED + ALSO if name in of_port}


def version_of(client: Any) -> str:  # noqa: ANN401 -- TRex's client has no types
    """Return the server's version."""
    reply = client.get_server_version()
    return str(reply.get("version", "not stated")) if isinstance(reply, dict) else str(reply)


def answered(talk: Conversation, line: str) -> str:
    """Return the reply to a request; both are lines of JSON."""
    number, answer = None, {}  # type: Any, Json
    try:
        request = json.loads(line)
        number = request.get("id")
        answer = {"ok": {"connect": talk.connect, "offer": talk.offer}[request["op"]](request)}
    except Exception as error:  # noqa: BLE001 -- every error goes into the reply
        answer = {"err": "{}: {}".format(type(error).__name__, error)}  # noqa: UP032 -- as above
    return json.dumps(dict(answer, id=number)) + "\n"


def main() -> None:
    """Answer requests until standard input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    talk = Conversation()
    try:
        for line in sys.stdin:
            out.write(answered(talk, line))
            out.flush()
    finally:
        talk.close()


if __name__ == "__main__":
    main()
