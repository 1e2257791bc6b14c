"""TCP that fills a link while something else is measured: a methods.transfer_ports.Transfers by iperf3.

The goodput of a flow is read at its receiver, the round trips of its connections at its sender. Both ends count from the start of the test,
which is taken to be the start of the client. Times are those of the source's clock, as in an offer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dutlab.doubts import Doubt, DoubtKind
from dutlab.errors import ToolFailed
from dutlab.events import Tell, no_observer
from dutlab.hosts.host import Done, Host
from dutlab.methods.transfer_ports import TransferLoad, TransferReading, TransferReport
from dutlab.spec.testbed import Testbed
from dutlab.spec.traffic import Directions
from dutlab.spec.workloads.iperf3 import Direction, Iperf3Setting
from dutlab.subject import back_of
from dutlab.tools.iperf3.json_output import UnreadableError, intervals_in, read_report, round_trips_in
from dutlab.tools.iperf3.program import TOOL
from dutlab.tools.iperf3.tcp import FinishedTest, Iperf3
from dutlab.tools.json_text import member, number

EVERY_S = 0.2
"""Interval of the report, in seconds; the shortest is 0.1 (iperf_api.h, MIN_INTERVAL)."""
_DIRECTION: Mapping[Directions, Direction] = {Directions.FORWARD: "forward", Directions.BACK: "reverse", Directions.BOTH: "bidir"}


class Iperf3Transfers:
    """Transfers by iperf3. Arguments as in Iperf3."""

    def __init__(self, hosts: Mapping[str, Host], testbed: Testbed, cpus: Mapping[str, Sequence[int]], tell: Tell = no_observer) -> None:
        self._iperf3 = Iperf3(hosts, testbed, cpus, tell)

    async def carry_out(self, load: TransferLoad) -> TransferReport:
        """Carry out the transfers and return their report. Raises ToolFailed, ToolMissing, HostError."""
        test = Iperf3Setting(streams=load.streams, duration_s=load.seconds, omit_s=0, direction=_DIRECTION[load.ways])
        finished = await self._iperf3.finished(load.link, test, ("-i", str(EVERY_S)))
        try:
            return _report(finished, load)
        except UnreadableError as e:
            raw = {f"iperf3-{load.link}-server.json": finished.server.stdout, f"iperf3-{load.link}-client.json": finished.client.stdout}
            raise ToolFailed(f"link {load.link}, server: {e}", tool=TOOL, host=finished.server.host, raw=raw) from e


def _report(finished: FinishedTest, load: TransferLoad) -> TransferReport:
    """Return the report of a test. Raises UnreadableError."""
    began_s, client, server = _began_s(finished.client, load.seconds), finished.client.stdout, finished.server.stdout
    readings, round_trips = {}, {}
    for back in load.ways.backs:
        flow = back_of(load.link) if back else load.link
        intervals = intervals_in(client if back else server, back=back and load.ways is Directions.BOTH)
        readings[flow] = [TransferReading(began_s + i.end_s, i.goodput_bps) for i in intervals]
        round_trips[flow] = [(began_s + end_s, ns) for end_s, ns in round_trips_in(server if back else client)]
    return TransferReport(
        began_s=began_s,
        ended_s=min(of[-1].at_s if of else began_s for of in readings.values()),
        readings=readings,
        round_trips_ns=round_trips,
        raw={f"iperf3-{load.link}-client.json": client, f"iperf3-{load.link}-server.json": server},
        facts={
            "iperf3_version": finished.result.version,
            **({"iperf3_congestion_control": finished.result.congestion} if finished.result.congestion else {}),
        },
        doubts=tuple(Doubt(DoubtKind.TOOL_INCOMPLETE, why, load.link) for why in finished.result.repairs),
    )


def _began_s(client: Done, lasts_s: float) -> float:
    """Return the start by the clock of the client's host, which reports whole seconds; by ours, which is finer, if the two agree."""
    host_s = number(member(member(read_report(client.stdout)[0], "start"), "timestamp"), "timesecs")
    if host_s is None or -1.0 <= host_s - client.started_s <= max(0.0, client.seconds - lasts_s) + 1.0:
        return client.started_s
    return host_s + 0.5
