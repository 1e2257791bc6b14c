"""Method `connections`: TCP connections with handshakes, requests and answers, through a stateful DUT.

Figures of a link; unknown ones are absent:

    connections_lower_per_s, connections_upper_per_s   RFC 3511 section 5.3, RFC 9411 section 7.2
    transactions_per_s, goodput_bps                    at the lower bound: RFC 3511 section 5.7, RFC 9411 section 7.3; bits of bodies
    handshake_p50_ns, _p99_ns, first_byte_p50_ns, _p99_ns, response_p50_ns, _p99_ns   at the lower bound: RFC 9411 section 7.4
    tls_handshakes_per_s, tls_resumed_ratio, tls_handshake_p50_ns, _p99_ns   at the lower bound, with TLS: RFC 9411 section 7.6
    concurrent_connections, concurrent_upper_connections   RFC 3511 section 5.2, RFC 9411 section 7.5

Tables `connection_trials` and `concurrent_trials` have every trial, the failures of its connections, and the end that reset them.
`tls_agreed` has the versions and cipher suites of TLS at either end.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from dutlab.doubts import Doubt
from dutlab.errors import MachineTooBusy, MeasurementError
from dutlab.methods.bracket import bracket
from dutlab.methods.connection_ports import FAILURES, ConnectionLoad, ConnectionReport, Connections, Percentiles, ProxyEnd
from dutlab.methods.dut_tables import StateTable
from dutlab.methods.flow import Flow
from dutlab.methods.ports import AtLimit, Bench, LimitTrial, Measured, Offer, Outcome, Row, Table
from dutlab.methods.search import method as search
from dutlab.methods.search.account import doubts
from dutlab.methods.search.request import Search
from dutlab.plan.cell import Cell
from dutlab.spec.goals import Goal
from dutlab.spec.mixes import Mix
from dutlab.spec.workloads.connections import ConnectionsSetting, ConnectionsTest
from dutlab.units import Pps, Seconds

GOAL = "connections"
FILL_SHARE = 0.5
"""Share of the found rate at which concurrent connections are opened."""
FIRST_CONCURRENT = 1000
_ROOM = 0.9
"""Largest share of the DUT's table that a trial may fill."""
_MIX = Mix(name="connection", parts=((64, 1),))
"""Pseudo-mix of a search: it counts frames, and here each frame is a connection."""


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run the tests of the setting. Raises InputError, HostError, ToolMissing, ToolFailed; MeasurementError if no test has a result."""
    setting, link = cell.setting_as(ConnectionsSetting), cell.links[0]
    if bench.connections is None:
        raise MeasurementError("nothing makes TCP connections on this testbed", remedy="name Linux hosts at both ends of the link")
    trials = _Trials(bench.connections, bench.states, setting, link)
    figures, tables, notes, failed = dict[str, float](), dict[str, Table](), list[str](), list[str]()
    search_doubts: tuple[Doubt, ...] = ()
    rate: float | None = None
    if ConnectionsTest.RATE in setting.tests:
        try:
            searched = await search.find(trials, await _search(trials, setting), bench.tell)
        except MachineTooBusy:
            raise
        except MeasurementError as e:
            failed.append(f"connections a second: {e}")
        else:
            result = searched.results[GOAL]
            bounds = {"connections_lower_per_s": result.lower_pps, "connections_upper_per_s": result.upper_pps}
            figures |= {name: float(value) for name, value in bounds.items() if value is not None}
            rate = None if result.lower_pps is None else float(result.lower_pps)
            figures |= trials.at(rate)
            of_search = doubts(searched, {}, figure="connections_lower_per_s")
            search_doubts = tuple(replace(d, detail=_in_connections(d.detail)) for d in of_search)
            notes += [_in_connections(note) for note in searched.notes]
        tables["connection_trials"] = trials.taken_rows()
    if ConnectionsTest.CONCURRENT in setting.tests:
        fill = setting.fill_per_s or (rate or 0.0) * FILL_SHARE
        if fill > 0:
            figures |= await _concurrent(trials, fill, notes)
            tables["concurrent_trials"] = trials.taken_rows()
        else:
            failed.append("concurrent connections: no rate was found at which they could be opened; write a fill_rate")
    if trials.agreed:
        tables["tls_agreed"] = trials.agreed_rows()
    if not figures:
        raise MeasurementError("; ".join(failed) or "no connection was completed", remedy="see the failures of each trial in its raw files")
    return Measured(
        figures={link: figures},
        notes=[*notes, *trials.notes, *failed],
        doubts=search_doubts,
        tables=tables,
        raw=dict(trials.raw),
        at_limit=None if rate is None else _at_limit(trials, rate),
    )


def _at_limit(trials: _Trials, rate: float) -> AtLimit:
    """Return a function that offers the found rate once more, for as long as a trial of the search."""

    async def once_more() -> LimitTrial:
        report = await trials.carry_out(rate, max(1, math.floor(rate * trials.setting.trial_s)))
        if report.not_begun:
            raise MeasurementError(f"the source did not begin {report.not_begun} of {report.asked} connections", raw=dict(report.raw))
        row = {
            "completed_per_s": report.completed / max(report.answered_s, 1e-9),
            "failed_ratio": (report.begun - report.completed) / report.begun,
            "first_byte_p50_ns": report.first_byte.p50_ns,
            "first_byte_p99_ns": report.first_byte.p99_ns,
        }
        return LimitTrial(row, report.raw)

    return once_more


async def _search(trials: _Trials, setting: ConnectionsSetting) -> Search:
    """Return the search up to the asked rate, or up to the rate at which a trial fills the DUT's table."""
    room, highest, why = await trials.room(), setting.highest_per_s, "the rate that was asked for"
    if room is not None and room / setting.trial_s < highest:
        highest, why = (
            room / setting.trial_s,
            f"the rate at which a trial of {setting.trial_s:g} s begins {room} connections, the most that fit into the DUT's table",
        )
    goal = Goal(
        GOAL, setting.failed_ratio, 0.0, setting.trial_s, setting.trial_s, width=max(setting.width_ratio, setting.failed_ratio),
        initial_s=setting.trial_s, steps=0,
    )  # fmt: skip
    return Search(
        links=(trials.link,),
        mix=_MIX,
        goals=(goal,),
        highest=Pps(highest),
        highest_is=why,
        warmup=Seconds(0.0),
        drain=Seconds(0.0),
    )


async def _concurrent(trials: _Trials, fill: float, notes: list[str]) -> Mapping[str, float]:
    """Return the most connections that were open at once, each answered after the last one was opened."""
    setting = trials.setting

    async def holds(count: int) -> bool:
        report = await trials.carry_out(fill, count, hold=True)
        return report.completed >= count * (1 - setting.failed_ratio)

    result = await bracket(holds, first=FIRST_CONCURRENT, most=setting.most_connections, resolution=setting.width_ratio)
    if result.failed_from is None:
        notes.append(f"concurrent connections: {result.held} were open at once, as many as were asked for; the DUT may hold more")
    bounds = {"concurrent_connections": result.held, "concurrent_upper_connections": result.failed_from}
    return {name: float(value) for name, value in bounds.items() if value}


def _in_connections(words: str) -> str:
    """Turn the text of a search about frames into text about connections."""
    return re.sub(r"\bframe(s?)\b", r"connection\1", re.sub(r"([kM]?)pps\b", r"\1/s", words))


@dataclass
class _Trials:
    """Generator that makes one connection per frame; before each trial, the DUT's flows are deleted."""

    connections: Connections
    states: StateTable | None
    setting: ConnectionsSetting
    link: str
    rows: list[Row] = field(default_factory=list)
    reports: dict[float, ConnectionReport] = field(default_factory=dict)
    raw: dict[str, bytes] = field(default_factory=dict)
    agreed: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Number of connections of all trials by end and agreed TLS parameters."""
    statuses: Counter[str] = field(default_factory=Counter)
    at_clients: Counter[str] = field(default_factory=Counter)
    """Connections, requests and bytes of all trials, counted by clients."""
    at_servers: Counter[str] = field(default_factory=Counter)
    """Connections, requests and bytes of all trials, counted by servers."""
    made: int = 0
    overflows: int = 0
    why: str = ""
    tls_error: str = ""

    async def offer(self, offer: Offer) -> Outcome:
        """Offer connections through the interface of a generator."""
        rate = float(offer.rate or self.setting.highest_per_s)
        report = await self.carry_out(rate, max(1, math.floor(rate * offer.duration)))
        # If the last connection began within milliseconds of its time, the source kept the rate.
        begun_s = report.asked / rate if not report.not_begun else max(report.begun_s, 1e-9)
        asked, done = report.asked, report.completed
        flow = Flow.counted(self.link, asked=asked, sent=report.begun, received=done, seconds=begun_s, frame_bytes=64.0, reordered_frames=0)
        return Outcome((flow,))

    async def carry_out(self, rate: float, count: int, *, hold: bool = False) -> ConnectionReport:
        """Run one trial in an empty table. Raises MeasurementError if the counts of connections do not add up."""
        s = self.setting
        before = None
        if self.states is not None:
            await self.states.forget()
            before = await self.states.counts()
        requests = 1 if hold else s.requests
        report = await self.connections.carry_out(
            ConnectionLoad(
                self.link, rate, count, requests, s.request_bytes, str(s.response_bytes), s.timeout_s, hold, s.closes == "reset", s.sources,
                to=ProxyEnd(s.to_ports, s.to_address, s.to_name) if s.to_ports else None,
                http2=s.http == "2",
                client_tls="" if s.tls is None or s.tls_ends == "server" else s.tls,
                server_tls="" if s.tls is None or s.tls_ends == "client" else s.tls,
                resumes=s.tls_resumes,
            )
        )  # fmt: skip
        if not report.balances:
            raise MeasurementError(f"of {report.begun} connections begun {report.completed} completed and {dict(report.failed)} failed")
        after = None if self.states is None else await self.states.counts()
        self.made += 1
        self.overflows += report.overflows
        self.why = report.system_refused or self.why
        self._count(report)
        self.raw |= {f"trial-{self.made}-{name}": content for name, content in report.raw.items()}
        self.reports[rate] = report
        took_s = max(report.answered_s, 1e-9)
        dropped = {} if before is None or after is None else after.risen_since(before)
        self.rows.append(
            {
                "asked_per_s": rate,
                "asked_connections": report.asked,
                "begun_connections": report.begun,
                "established_connections": report.established,
                "completed_connections": report.completed,
                "open_max_connections": report.open_max,
                "transactions_per_s": report.transactions / took_s if not hold else None,
                "goodput_bps": report.body_bytes * 8 / took_s if not hold else None,
                "first_byte_p99_ns": report.first_byte.p99_ns,
                **{f"{name}_connections": report.failed.get(name, 0) for name in FAILURES},
                "reset_by_sink_count": report.reset_by_sink,
                "reset_by_path_count": report.reset_by_path,
                **(self._server_row(report) if s.to_ports else {}),
                "retransmits": report.retransmits,
                "tracked_flows": None if after is None else after.tracked,
                **dropped,
            }
        )
        return report

    def _count(self, report: ConnectionReport) -> None:
        server = report.server
        self.at_clients.update(connections=report.completed, requests=report.transactions, bytes=report.body_bytes)
        self.at_servers.update(connections=server.accepted, requests=server.answered, bytes=server.body_bytes)
        self.statuses.update(report.statuses)
        self.tls_error = report.tls.error or server.tls.error or self.tls_error
        for end, tls in (("client", report.tls), ("server", server.tls)):
            self.agreed.update({(end, words): count for words, count in tls.agreed.items()})

    @staticmethod
    def _server_row(report: ConnectionReport) -> Row:
        server = report.server
        return {
            "server_connections": server.accepted,
            "server_answers_count": server.answered,
            "server_bytes": server.body_bytes,
            "server_closed_count": server.closed,
            "server_closes_count": server.closed_here,
            "server_reset_count": server.reset,
        }

    def agreed_rows(self) -> list[Row]:
        """Return the TLS parameters that each end agreed on, with their number of connections."""
        return [{"end": end, "agreed": words, "agreed_connections": count} for (end, words), count in sorted(self.agreed.items())]

    async def room(self) -> int | None:
        """Return the number of connections that fit into the DUT's table; None if not known."""
        if self.states is None:
            return None
        await self.states.forget()
        counts = await self.states.counts()
        return None if counts.most is None else int(counts.most * _ROOM)

    def taken_rows(self) -> list[Row]:
        """Return the rows since the last call."""
        rows, self.rows = self.rows, []
        return rows

    def at(self, rate: float | None) -> Mapping[str, float]:
        """Return the figures of the last trial at a rate."""
        report = self.reports.get(rate) if rate is not None else None
        if report is None or report.answered_s <= 0:
            return {}
        times: dict[str, Percentiles] = {"handshake": report.handshake, "first_byte": report.first_byte, "response": report.response}
        of_tls = dict[str, float]()
        if handshakes := report.tls.full + report.tls.resumed:
            times["tls_handshake"] = report.tls_handshake
            of_tls = {"tls_handshakes_per_s": handshakes / report.answered_s, "tls_resumed_ratio": report.tls.resumed / handshakes}
        return {
            "transactions_per_s": report.transactions / report.answered_s,
            "goodput_bps": report.body_bytes * 8 / report.answered_s,
            **of_tls,
            **{f"{name}_{at}": getattr(of, at) for name, of in times.items() for at in ("p50_ns", "p99_ns")},
        }

    @property
    def notes(self) -> list[str]:
        """Notes about the rig."""
        notes = []
        if self.overflows:
            notes.append(f"{self.overflows} SYNs did not fit into the sink's queues: those failures are the rig's, not the DUT's")
        if self.setting.to_ports:
            notes += self._of_proxy()
        if self.statuses:
            notes.append(
                "answers with another status than 200: " + ", ".join(f"{count} of {of}" for of, count in sorted(self.statuses.items()))
            )
        if self.tls_error:
            notes.append(f"TLS failed; the last error: {self.tls_error}")
        if self.why:
            notes.append(f"the source had no socket or port for some connections: {self.why}")
        return notes

    def _of_proxy(self) -> Iterator[str]:
        """Yield how the counts of clients and servers differ: a proxy may open fewer connections, and answer from its cache."""
        clients, servers = self.at_clients, self.at_servers
        if not clients["requests"]:
            return
        each = f", {servers['requests'] / servers['connections']:.3g} requests over each" if servers["connections"] else ""
        yield (
            f"the proxy opened {servers['connections']} connections to the server{each}; "
            f"clients completed {clients['connections']} to the proxy"
        )
        if servers["bytes"] < clients["bytes"]:
            cached_share = 1 - servers["bytes"] / clients["bytes"]
            yield f"{cached_share:.2%} of the bytes that clients received came from the proxy, as from a cache, and not from the server"
