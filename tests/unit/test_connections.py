"""Connections a second and at once, over a simulated DUT with a known rate and a known table."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

import pytest
from pydantic import ValidationError

from dutlab.errors import MeasurementError
from dutlab.methods.connection_ports import FAILURES, ConnectionLoad, ConnectionReport, Percentiles, ServerCounts, TlsSeen
from dutlab.methods.connections import measure
from dutlab.methods.ports import Bench
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.connections import ConnectionsWorkload
from dutlab.tools.engine.connections import _report
from dutlab.tools.engine.protocol import TcpClientDone, TcpConnections, TcpServed, TcpServerSeen, TcpTimes, TcpTls
from simulated import Dut, Simulation
from simulated_tables import States


@dataclass
class Firewall:
    """Resets what comes above `per_s`; drops SYNs of more than `holds` at once. `per_s_made` is the generator's own limit."""

    per_s: float = 9000.0
    holds: int = 30_000
    per_s_made: float = 1e9
    spoils: int = 0
    loads: list[ConnectionLoad] = field(default_factory=list)

    async def carry_out(self, load: ConnectionLoad) -> ConnectionReport:
        """As the port asks."""
        self.loads.append(load)
        seconds = load.count / load.rate_per_s
        begun = min(load.count, int(self.per_s_made * seconds))
        reset = max(0, begun - int(self.per_s * seconds)) if load.rate_per_s > self.per_s else 0
        dropped = max(0, begun - reset - self.holds) if load.hold else 0
        done = begun - reset - dropped
        return ConnectionReport(
            asked=load.count, begun=begun, established=done, completed=done - self.spoils,
            failed=dict.fromkeys(FAILURES, 0) | {"refused": reset, "no_handshake": dropped},
            open_max=done if load.hold else 10, transactions=done * load.requests, body_bytes=done * load.requests * int(load.response_bytes),
            begun_s=seconds, answered_s=seconds, first_byte=Percentiles(1e6, 2e6, 3e6), reset_by_path=reset,
        )  # fmt: skip


def cell(**body):
    (drive,) = ConnectionsWorkload.model_validate({"links": [["a"]], "trial": "1s", "failed": "0%", **body}).drives(["a"])
    return Cell(mode="nat", factors={"mode": "nat"}, tool="engine", links=drive.links, setting=drive.setting, repeat=1)


async def found(firewall, states=None, **body):
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), connections=firewall, states=states), cell(**body))
    return measured, measured.figures["a"]


async def test_both_limits_are_found_and_what_was_seen_at_the_rate():
    firewall = Firewall()
    measured, figures = await found(firewall, requests=10, response_bytes=2000)
    assert figures["connections_lower_per_s"] <= 9000 < figures["connections_upper_per_s"]
    assert figures["connections_upper_per_s"] / figures["connections_lower_per_s"] < 1.06
    assert figures["transactions_per_s"] == pytest.approx(10 * figures["connections_lower_per_s"], rel=0.001)
    assert figures["goodput_bps"] == pytest.approx(8 * 2000 * figures["transactions_per_s"])
    assert (figures["first_byte_p50_ns"], figures["first_byte_p99_ns"]) == (1e6, 2e6)
    assert figures["concurrent_connections"] <= 30_000 < figures["concurrent_upper_connections"]
    assert figures["concurrent_upper_connections"] <= figures["concurrent_connections"] * 1.06
    above = [row for row in measured.tables["connection_trials"] if row["asked_per_s"] > 9000]
    assert above and all(row["refused_connections"] == row["reset_by_path_count"] > 0 for row in above)
    assert all(load.requests == 1 for load in firewall.loads if load.hold)


async def test_neither_as_many_as_were_asked_for_nor_a_slow_generator_is_taken_for_the_duts_limit():
    measured, figures = await found(Firewall(holds=10**9), tests=["concurrent"], fill_rate=5000, most=4000)
    assert (figures["concurrent_connections"], "concurrent_upper_connections" in figures) == (4000, False)
    assert any("may hold more" in note for note in measured.notes)
    # A generator that is too slow is not taken for the dut.
    measured, figures = await found(Firewall(per_s=1e9, per_s_made=3000.0), tests=["rate"])
    assert "connections_upper_per_s" not in figures
    assert any("generator" in note for note in measured.notes)
    assert "pps" not in " ".join([*measured.notes, *(d.detail for d in measured.doubts)])


async def test_a_late_last_connection_is_not_another_rate_and_a_trial_begins_in_an_empty_table():
    class Late(Firewall):
        async def carry_out(self, load):
            return replace(await super().carry_out(load), begun_s=load.count / load.rate_per_s + 0.015)

    _, figures = await found(Late(), tests=["rate"])
    assert figures["connections_lower_per_s"] <= 9000 < figures["connections_upper_per_s"]
    # A trial begins in an empty table and does not fill it.
    states = States(most=5000)
    measured, figures = await found(Firewall(), states, tests=["rate"])
    assert figures["connections_lower_per_s"] == pytest.approx(5000 * 0.9, rel=0.06)
    assert states.forgotten > len(measured.tables["connection_trials"])


async def test_an_account_that_does_not_add_up_is_not_a_result():
    with pytest.raises(MeasurementError, match=r"\d+ .*\d+ .*\d+"):
        await found(Firewall(spoils=3), tests=["rate"])


def test_resets_are_the_sinks_as_far_as_its_kernel_sent_as_many():
    zero = {"TcpTimes": TcpTimes(**{f.name: 1 for f in fields(TcpTimes)}), "TcpTls": TcpTls(full=0, resumed=0, agreed={"TLS 1.3 X": 3})}
    zero["Mapping[str, Count]"] = {"503": 2}  # type: ignore[assignment]
    client = TcpConnections(
        **{f.name: zero.get(f.type, 0) for f in fields(TcpConnections)} | {"refused": 5, "reset": 2, "refused_by_system": None}
    )
    served = TcpServed(**{f.name: zero.get(f.type, 0) for f in fields(TcpServed)})
    ends = [TcpClientDone(connections=client, sockets_allowed=1, tcp={})], [TcpServerSeen(served=served, tcp={"OutRsts": 4})]
    said = _report(*ends, through_proxy=False, raw=b"")
    assert (said.reset_by_sink, said.reset_by_path) == (4, 3)
    assert (said.statuses, said.tls.agreed, said.server.tls.agreed) == ({"503": 2}, {"TLS 1.3 X": 3}, {"TLS 1.3 X": 3})
    # A proxy ends the connections of clients: whatever the sink reset, they did not see.
    said = _report(*ends, through_proxy=True, raw=b"")
    assert (said.reset_by_sink, said.reset_by_path) == (0, 7)


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"links": [["a", "b"]]}, "one link at a time"),
        ({"tests": ["concurrent"]}, "fill_rate"),
        ({"tests": ["rate", "rate"]}, "duplicate"),
        ({"trial": "10ms"}, "must be 1s to 600s"),
        ({"closes": "never"}, "closes"),
        ({"to": {"ports": "8090-8080"}}, "several in a row"),
        ({"to": {"ports": 0}}, "must be a port"),
        ({"to": {"ports": 80, "name": "-x"}}, "name"),
        ({"tls": {"ends": "client"}}, "without a proxy"),
        ({"http": 2}, "name a proxy"),
        ({"tls": {"version": 1.1}}, "version"),
        ({"response_bytes": {1024: 0}}, "weights are 1 to"),
        ({"response_bytes": {}}, "1 to 64 sizes"),
        ({"response_bytes": "imix"}, "weights by bytes"),
    ],
)
def test_what_makes_no_sense_is_refused(body, where):
    with pytest.raises(ValidationError, match=where):
        cell(**body)


def test_the_state_table_has_room_for_connections_that_have_ended():
    assert cell(highest=10_000, trial="5s", most=1000).setting.flows == 50_000


async def test_connections_are_opened_once_more_at_the_rate_that_was_found():
    firewall = Firewall()
    measured = await measure(Bench(Simulation(Dut(capacity_pps=1e6)), connections=firewall), cell(tests=["rate"]))
    trial = await measured.at_limit()
    assert firewall.loads[-1].rate_per_s == measured.figures["a"]["connections_lower_per_s"]
    assert (trial.row["failed_ratio"], trial.row["first_byte_p99_ns"]) == (0.0, 2e6)
    assert trial.row["completed_per_s"] == pytest.approx(firewall.loads[-1].rate_per_s, rel=0.01)


def test_sizes_of_objects_are_one_or_weights_or_a_mix_that_has_a_name():
    for written, text in [(500, 500), ({102400: 40, 1024: 60}, "1024:60,102400:40"), ({"64": 1}, 64)]:
        assert cell(response_bytes=written).setting.response_bytes == text
    assert str(cell(response_bytes="rfc9411").setting.response_bytes).endswith(",60416:1,355328:1")


async def test_what_both_ends_of_a_proxy_counted_is_in_the_record_and_its_difference_in_a_note():
    class Proxy(Firewall):
        """Has one connection to the server for ten of clients, and keeps half of what it got there."""

        async def carry_out(self, load):
            seen = await super().carry_out(load)
            tls = TlsSeen(seen.completed // 4, seen.completed - seen.completed // 4, {"TLS 1.3 X": seen.completed})
            server = ServerCounts(seen.completed // 10, seen.transactions // 2, seen.body_bytes // 2, closed=3)
            return replace(seen, tls=tls, tls_handshake=Percentiles(5e6, 6e6, 7e6), server=server, statuses={"503": 1})

    proxy = Proxy()
    to = {"ports": "8443", "address": "192.0.2.1", "name": "www.example"}
    measured, figures = await found(proxy, tests=["rate"], to=to, tls={"version": 1.3, "resume": "yes", "ends": "client"})
    load = proxy.loads[-1]
    assert load.to is not None and (load.to.address, load.to.ports, load.to.name) == ("192.0.2.1", "8443", "www.example")
    assert (load.client_tls, load.server_tls, load.resumes) == ("1.3", "", True)
    assert figures["tls_handshakes_per_s"] == pytest.approx(figures["connections_lower_per_s"], rel=0.001)
    assert (figures["tls_resumed_ratio"], figures["tls_handshake_p99_ns"]) == (pytest.approx(0.75, abs=0.01), 6e6)
    (row,) = measured.tables["tls_agreed"]
    completed = sum(row["completed_connections"] for row in measured.tables["connection_trials"])
    assert (row["end"], row["agreed"], row["agreed_connections"]) == ("client", "TLS 1.3 X", completed)
    assert all(row["server_connections"] == row["completed_connections"] // 10 for row in measured.tables["connection_trials"])
    for words in ("5 requests over each", "50.00% of the bytes", "of 503"):
        assert any(words in note for note in measured.notes), measured.notes
    assert measured.doubts == (await found(Firewall(), tests=["rate"]))[0].doubts
