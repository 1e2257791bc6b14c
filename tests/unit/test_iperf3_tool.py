"""The iperf3 driver against ends that misbehave in every way that was thought of; tests/netns has the program itself."""

from __future__ import annotations

import asyncio
import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.errors import CommandTimedOut, ToolFailed, ToolsMissing
from dutlab.hosts.host import Done, no_such_program
from dutlab.labs import description
from dutlab.methods.transfer_ports import TransferLoad
from dutlab.spec.cores import Cores
from dutlab.spec.traffic import Directions
from dutlab.systems import SYSTEMS
from dutlab.systems.linux import LINUX
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.iperf3 import program as iperf3_program
from dutlab.tools.iperf3 import tcp as iperf3
from dutlab.tools.iperf3.tcp import Iperf3, hosts_of
from dutlab.tools.iperf3.transfers import Iperf3Transfers
from dutlab.tools.raw_figures import KeptTrial, rates
from processes import LIMIT_S

DATA = Path(__file__).parents[1] / "data" / "iperf3"
OK, SERVER, REFUSED, NAN, TERMINATED = (
    (DATA / f"{name}.json").read_bytes() for name in ("ok", "server", "error-refused", "nan", "error-server-terminated")
)
BED = description("three-node").testbed
LISTENING = replace(LINUX, listens=lambda port: ("listens", str(port)), is_listening=lambda text, _: text == "yes")


class Ends:
    """What the ends of tests do. `client` gets an argv and returns (stdout, stderr, seconds), or raises; `refuses` is what a server says at once."""

    def __init__(self, client, server, refuses):
        self.client, self.server, self.refuses = client, server, list(refuses)
        self.listening, self.clients, self.waited, self.ended = set(), [], [], 0


class Server:
    """A server that listens until it is ended, or says why it does not."""

    def __init__(self, host, argv, ends):
        self.host_name, self.argv, self.ends, self.over = host, argv, ends, asyncio.Event()
        self.said = ends.refuses.pop(0) if ends.refuses else None
        if self.said is None:
            ends.listening.add(argv[argv.index("-p") + 1])

    async def readline(self):
        if not self.said:  # a server that says nothing may be one that does not listen
            await self.over.wait()
        return self.said or b""

    async def wait(self, timeout_s):
        self.ends.waited.append(timeout_s)
        if timeout_s == iperf3_program.SERVER_FAILS_S:  # its client failed, and nobody else comes
            raise CommandTimedOut(host=self.host_name, argv=self.argv, timeout_s=timeout_s)
        return self._done(self.ends.server)

    async def end(self, grace_s=2.0):
        self.over.set()
        self.ends.ended += 1
        return self._done(b"")

    def _done(self, said):
        return Done(self.host_name, tuple(self.argv), 0, said, b"", 0.0, 1.0)


class Machine:
    system = LISTENING

    def __init__(self, name, ends):
        self.name, self.ends = name, ends

    async def run(self, argv, *, stdin=b"", timeout_s=30.0, check=True, most_bytes=0):
        if argv[0] == "listens":
            said, errors, seconds = b"yes" if argv[1] in self.ends.listening else b"no", b"", 0.0
        else:
            self.ends.clients.append((tuple(argv), timeout_s))
            answer = self.ends.client(argv)
            said, errors, seconds = await answer if inspect.isawaitable(answer) else answer
        return Done(self.name, tuple(argv), 0, said, errors, 100.0, seconds)

    async def spawn(self, argv):
        return Server(self.name, argv, self.ends)


def says(said, errors=b"", seconds=3.0):
    return lambda _: (said, errors, seconds)


def fake(client=None, *, server=SERVER, refuses=()):
    ends = Ends(client or says(OK), server, refuses)
    return Iperf3({name: Machine(name, ends) for name in ("source", "sink")}, BED, {}), ends


def cell(links=("a",), **params):
    return cell_of("iperf3", links=links, **({"streams": 2, "omit_s": 1, "duration_s": 2} | params))


async def failed(tool, links=("a",)):
    with pytest.raises(ToolFailed) as caught:
        await asyncio.wait_for(tool.measure(cell(links=links)), LIMIT_S)
    assert caught.value.tool == "iperf3" and "\n" not in str(caught.value)
    return caught.value


@pytest.fixture(autouse=True)
def _impatient(monkeypatch):
    monkeypatch.setattr(iperf3, "RETRY_PAUSE_S", 0.0)
    monkeypatch.setattr(iperf3_program, "LISTEN_PAUSE_S", 0.0)


async def test_a_good_test_gives_the_sinks_figures_readings_and_both_raw_files_of_the_command_that_was_asked_for():
    tool, ends = fake()
    measured = await tool.measure(cell())
    assert measured.figures == {
        "a": {
            "goodput_bps": pytest.approx(28307347759.1236),
            "sent_bps": pytest.approx(28339296501.71673),
            "retransmits": 10753.0,
            "sender_cpu_percent": pytest.approx(93.79048169513217),
            "receiver_cpu_percent": pytest.approx(46.70102512128719),
        }
    }
    assert measured.raw == {"iperf3-a-client.json": OK, "iperf3-a-server.json": SERVER}
    assert measured.doubts == ()
    assert [r.value for r in measured.readings if r.name == "goodput_bps"] == pytest.approx([27966806107.479668, 28711140504.6145])
    assert {(r.link, r.name) for r in measured.readings} == {("a", "goodput_bps"), ("a", "retransmits")}
    assert measured.readings[-1].at_s - measured.readings[0].at_s == pytest.approx(1.0, abs=0.01)
    assert ends.waited == [iperf3_program.SERVER_ENDS_S], "a server that gets no CPU for a while has not ended badly"
    ((argv, longest_s),) = ends.clients
    assert argv[1:] == ("-c", "172.16.10.2", "-p", argv[4], "-B", "172.16.0.2", "-P", "2", "-O", "1", "-t", "2", "-J")
    assert longest_s == 3 + iperf3.GRACE_S


async def test_links_at_once_are_summed_under_their_joint_name_and_doubted_where_they_were_not_loaded_together():
    tool, ends = fake()
    measured = await tool.measure(cell(links=("a", "b")))
    assert list(measured.figures) == ["a", "b", "a+b"]
    assert measured.figures["a+b"]["goodput_bps"] == pytest.approx(2 * 28307347759.1236)
    assert measured.figures["a+b"]["retransmits"] == 2 * 10753
    assert (len(measured.raw), len(ends.listening), measured.doubts) == (4, 2, ())
    # Links that were not loaded together are a doubt.
    tool, _ = fake(lambda argv: (OK, b"", 6.0 if "172.16.11.2" in argv else 3.0))
    assert [(d.kind, d.about) for d in (await tool.measure(cell(links=("a", "b")))).doubts] == [(DoubtKind.NOT_TOGETHER, "a+b")]


async def test_a_named_server_is_reached_by_its_own_address_on_each_link_with_the_cores_of_the_link():
    ends = fake()[1]
    hosts = {name: Machine(name, ends) for name in ("source", "dut", "sink")}
    tool = Iperf3(hosts, BED, {"source": Cores(by_link={"a": (1, 2), "b": (3, 4)})})
    asked = cell(links=("a", "b"), server="dut")
    assert hosts_of(asked, BED) == ("source", "dut")
    measured = await tool.measure(asked)
    assert list(measured.figures) == ["a", "b", "a+b"]
    argvs = sorted((argv[:3], argv[argv.index("iperf3") + 2]) for argv, _ in ends.clients)
    assert argvs == [(("taskset", "-c", "1,2"), "172.16.0.1"), (("taskset", "-c", "3,4"), "172.16.1.1")]


async def test_streams_are_shared_out_over_tunnels_with_a_client_each_and_counted_together():
    tool, ends = fake()
    one = cell(streams=3)
    measured = await tool.measure(one.model_copy(update={"factors": {**one.factors, "tunnels": "100"}}))
    asked = sorted((argv[argv.index("-B") + 1], argv[argv.index("-P") + 1]) for argv, _ in ends.clients)
    assert asked == [("100.64.0.46", "1"), ("100.64.0.99", "1"), ("172.16.0.2", "1")]
    assert measured.figures["a"]["goodput_bps"] == pytest.approx(3 * 28307347759.1236)
    assert len([r for r in measured.readings if r.name == "goodput_bps"]) == 2
    kept = KeptTrial(one, measured.raw, {}, {"testbed": BED.model_dump(mode="json", by_alias=True)})
    assert rates(kept)["a"]["goodput_bps"] == measured.figures["a"]["goodput_bps"]
    # One that began 4 s later: what all of them received, over the time from the first to the last end.
    later = OK.replace(b"1795251746", b"1795251750", 1)
    tool, _ = fake(lambda argv: (later if "172.16.0.2" in argv else OK, b"", 3.0))
    apart = await tool.measure(one.model_copy(update={"factors": {**one.factors, "tunnels": "2"}}))
    assert apart.figures["a"]["goodput_bps"] == pytest.approx(2 * 28307347759.1236 * 2 / (2 + 4), rel=1e-3)
    assert [d.kind for d in apart.doubts] == [DoubtKind.NOT_TOGETHER]


def test_pinning_is_only_where_cores_are_named_and_in_the_words_of_the_system():
    assert SYSTEMS["linux"].pinned((0, 2)) == ["taskset", "-c", "0,2"]
    assert SYSTEMS["freebsd"].pinned((0, 2)) == ["cpuset", "-l", "0,2"]
    assert SYSTEMS["linux"].pinned(()) == SYSTEMS["windows"].pinned(()) == []


@pytest.mark.parametrize(
    ("client", "server", "asked"),
    [(says(NAN), SERVER, {}), (says(OK), SERVER, {"duration_s": 30}), (says(OK), b"", {})],
    ids=["repaired", "shorter than asked", "server ended badly"],
)
async def test_a_test_that_is_not_whole_is_a_doubt_on_its_link(client, server, asked):
    measured = await fake(client, server=server)[0].measure(cell(**asked))
    assert [(d.kind, d.about) for d in measured.doubts] == [(DoubtKind.TOOL_INCOMPLETE, "a")]


async def test_a_refused_connection_is_tried_again_and_told_and_not_for_ever():
    tool, ends = fake(lambda _: (REFUSED if len(ends.clients) == 1 else OK, b"", 3.0))
    measured = await tool.measure(cell())
    assert measured.facts["iperf3_connect_retries"] == "1" and measured.figures["a"]["goodput_bps"] > 0
    tool, ends = fake(says(REFUSED))
    assert (await failed(tool)).host == "source"
    assert (len(ends.clients), ends.waited) == (3, [iperf3_program.SERVER_FAILS_S])


async def test_output_that_is_no_result_fails_with_link_and_cause(golden):
    told = []
    for said in (b"", b"Bus error", OK[:1000], TERMINATED, REFUSED):
        error = await failed(fake(says(said, b"core dumped"))[0])
        assert error.host == "source" and error.raw["iperf3-a-client.json"] == said and len(error.raw) == 2
        told.append(str(error))
    golden.check("iperf3-failures.txt", "\n".join(told) + "\n")


async def test_a_client_that_hangs_is_reported_with_what_to_look_at():
    def hangs(argv):
        raise CommandTimedOut(host="source", argv=argv, timeout_s=18.0)

    error = await failed(fake(hangs)[0])
    assert error.host == "source" and "TCP" in error.remedy


async def test_one_link_that_fails_ends_the_test_of_the_other_and_every_server():
    async def client(argv):
        await asyncio.sleep(0 if "172.16.11.2" in argv else LIMIT_S)
        return b"no", b"", 1.0

    tool, ends = fake(client)
    assert "link b" in (await failed(tool, ("a", "b"))).what
    assert ends.ended >= 2


async def test_a_server_that_does_not_start_is_reported_with_what_it_said_and_one_that_loses_a_race_gets_the_next_port(monkeypatch):
    said = json.dumps({"error": "error - unable to start listener for connections: Cannot assign requested address"}).encode()
    error = await failed(fake(refuses=[said])[0])
    assert error.host == "sink" and "Cannot assign requested address" in error.what
    lost = json.dumps({"error": "unable to start listener for connections: Address already in use"}).encode()
    tool, ends = fake(refuses=[lost])
    assert (await tool.measure(cell())).raw["iperf3-a-server.json"] == SERVER
    assert ends.listening == {str(iperf3_program.FIRST_PORT + 1)}
    monkeypatch.setattr(iperf3_program, "LISTEN_TRIES", 3)
    assert (await failed(fake(refuses=[b""])[0])).host == "sink", "it says nothing and never listens"


@pytest.mark.parametrize(
    ("said", "found"),
    [
        (b"iperf 3.12 (cJSON 1.7.15)\nLinux\n", "3.12"),
        (b"iperf 3.0.11\n", "iperf3 3.0"),
        (b"iperf 3.5 (cJSON 1.5.2)\n", "iperf3 3.5"),
        (b"iperf 2.1.8 (12 August 2022) pthreads\n", "iperf3 2.1"),
        (b"garbage\n", "'garbage'"),
        (b"", "''"),
        (None, "is not installed"),
    ],
)
async def test_the_version_is_told_and_an_iperf3_that_cannot_be_used_is_named_at_each_end_with_the_remedy(said, found):
    class Told(Machine):
        async def run(self, argv, *, check=True, **_):
            return no_such_program(self.name, argv) if said is None else Done(self.name, tuple(argv), 0, said, b"", 0.0, 0.0)

    site = GeneratorSite({name: Told(name, None) for name in ("source", "sink")}, BED, {}, None)
    if found == "3.12":
        assert await iperf3.check(site, [cell(), cell(direction="bidir")]) == found
        return
    with pytest.raises(ToolsMissing) as caught:
        await iperf3.check(site, [cell(direction="bidir" if found == "iperf3 3.5" else "forward")])
    assert [(missing.tool, missing.host) for missing in caught.value.missing] == [("iperf3", "source"), ("iperf3", "sink")]
    assert all(found in missing.what and missing.remedy for missing in caught.value.missing)


@pytest.mark.parametrize(("told", "began_s"), [(b"1795251746", 1795251746.5), (b"100", 100.0)])
async def test_a_transfer_is_timed_by_the_sources_clock_read_at_its_receiver_and_asked_for_short_intervals(told, began_s):
    ends = Ends(says(OK.replace(b"1795251746", told)), SERVER, ())
    hosts = {name: Machine(name, ends) for name in ("source", "sink")}
    report = await Iperf3Transfers(hosts, BED, {}).carry_out(TransferLoad("a", Directions.FORWARD, streams=2, seconds=2))
    assert report.began_s == began_s
    rates = [i["sum"]["bits_per_second"] for i in json.loads(SERVER)["intervals"] if not i["sum"]["omitted"]]
    assert [r.goodput_bps for r in report.readings["a"]] == rates[: len(report.readings["a"])]
    assert report.ended_s == report.readings["a"][-1].at_s and len(report.round_trips_ns["a"]) == 6
    ((argv, _),) = ends.clients
    assert argv[-2:] == ("-i", "0.2")
