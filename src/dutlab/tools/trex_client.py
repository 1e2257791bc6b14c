"""Sent to the machine that TRex is on, and run there by the Python that TRex uses (3.6 on): its client, spoken to in JSON lines.

    {"id": 1, "op": "connect", "path": "/opt/trex/v3.08", "wait_s": 60}      a line on standard input
    {"id": 1, "ok": {"version": "v3.08", "ports": 2}}                        its answer on standard output, or {"id": 1, "err": "why"}

Nothing of dutlab is imported: only this file goes there. What TRex's client prints goes to standard error.
"""

# ruff: noqa: UP006, UP035 -- words of Python 3.6, since CentOS 7 has no newer one and TRex runs there

import importlib
import json
import os
import sys
import time
from typing import Any, Dict, List

STARTS_S = 1.0
GRACE_S = 30.0
COUNTERS = ("opackets", "ipackets", "obytes", "ibytes", "oerrors", "ierrors")
Json = Dict[str, Any]


class Conversation:
    """One connection to a TRex server."""

    def __init__(self) -> None:
        self.api: Any = None
        self.client: Any = None

    def connect(self, request: Json) -> Json:
        """Until the server answers, `wait_s` at most; takes all ports."""
        sys.path.insert(0, os.path.join(request["path"], "automation", "trex_control_plane", "interactive"))  # noqa: PTH118 -- as above
        self.api = importlib.import_module("trex.stl.api")
        latest = time.monotonic() + request["wait_s"]
        while True:
            try:
                self.client = self.api.STLClient(server="127.0.0.1")
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
        """Sends on all ways at once for `duration_s`, waits for `drain_s`, and only then reads the counters."""
        ways = request["ways"]
        senders = [way["tx"] for way in ways]
        ports = sorted(set(senders) | {way["rx"] for way in ways})
        self.client.reset(ports=ports)  # no traffic, no streams, counters at nought
        self.client.set_port_attr(ports=ports, promiscuous=True)
        for way in ways:
            self.client.add_streams(self.streams(way), ports=[way["tx"]])
        self.client.clear_stats()
        began_s, began = time.time(), time.monotonic()
        self.client.start(ports=senders, mult=request["mult"], duration=request["duration_s"], force=True)
        self.client.wait_on_traffic(ports=senders, timeout=request["duration_s"] + GRACE_S)
        seconds = time.monotonic() - began
        time.sleep(request["drain_s"])
        stats = self.client.get_stats()
        counters = {str(port): {name: stats[port][name] for name in COUNTERS} for port in ports}
        whole = stats.get("global", {})
        return {
            "began_s": began_s,
            "seconds": seconds,
            "ports": counters,
            "queue_full": whole.get("queue_full"),
            "cpu_percent": whole.get("cpu_util"),
            "warnings": [str(warning) for warning in self.client.get_warnings()],
        }

    def streams(self, way: Json) -> List[Any]:
        """Of a user's profile, or one a frame size, each frame byte by byte and without its FCS."""
        if way.get("profile"):
            profile = self.api.STLProfile.load(way["profile"], direction=way["direction"], port_id=way["tx"])
            return list(profile.get_streams())
        return [
            self.api.STLStream(
                packet=self.api.STLPktBuilder(pkt_buffer=bytes.fromhex(stream["frame"])), mode=self.api.STLTXCont(pps=stream["pps"])
            )
            for stream in way["streams"]
        ]

    def close(self) -> None:
        """Gives the ports back."""
        if self.client is not None:
            self.client.disconnect()


def version_of(client: Any) -> str:  # noqa: ANN401 -- TRex's client has no types
    """As the server says it."""
    said = client.get_server_version()
    return str(said.get("version", "not told")) if isinstance(said, dict) else str(said)


def main() -> None:
    """Until standard input ends."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    talk = Conversation()
    try:
        for line in sys.stdin:
            number, answer = None, {}  # type: Any, Json
            try:
                request = json.loads(line)
                number = request.get("id")
                answer = {"ok": {"connect": talk.connect, "offer": talk.offer}[request["op"]](request)}
            except Exception as error:  # noqa: BLE001 -- whatever went wrong is the answer
                answer = {"err": "{}: {}".format(type(error).__name__, error)}  # noqa: UP032 -- as above
            out.write(json.dumps(dict(answer, id=number)) + "\n")
            out.flush()
    finally:
        talk.close()


if __name__ == "__main__":
    main()
