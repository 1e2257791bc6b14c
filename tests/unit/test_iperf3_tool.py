"""The iperf3 driver against programs that call themselves iperf3 and misbehave in every way that was thought of."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from cells import cell_of
from dutlab.doubts import DoubtKind
from dutlab.errors import ToolFailed, ToolsMissing
from dutlab.hosts.local import LocalHost
from dutlab.labs import description
from dutlab.systems import SYSTEMS
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.iperf3 import program as iperf3_program
from dutlab.tools.iperf3 import tcp as iperf3
from dutlab.tools.iperf3.tcp import Iperf3
from processes import LIMIT_S, ended, eventually

pytestmark = pytest.mark.timing

DATA = Path(__file__).parents[1] / "data" / "iperf3"
OK = (DATA / "ok.json").read_bytes()
SERVER = (DATA / "server.json").read_bytes()
BED = description("three-node").testbed

# As server it listens until somebody connects; as client it says what `reply` returns, or does what it does.
FAKE = """#!{python}
import json, os, socket, sys, time
from pathlib import Path
args, here = sys.argv[1:], Path({folder!r})
option = lambda name: args[args.index(name) + 1]
def say(data): sys.stdout.buffer.write(data); sys.stdout.flush()
def turn():  # how many clients came before this one
    with (here / "turns").open("ab") as f: f.write(b"."); return f.tell() - 1
def dial(): socket.create_connection(("127.0.0.1", int(option("-p")))).close()
OK, REFUSED = Path({ok!r}).read_bytes(), Path({refused!r}).read_bytes()
if "--version" in args:
    say(b"iperf 3.12 (cJSON 1.7.15)\\nLinux\\n")
elif "-s" in args:
    {server}
else:
    {client}
"""
LISTEN = """s = socket.create_server(("127.0.0.1", int(option("-p")))); s.accept(); say(Path({server!r}).read_bytes())"""
DIAL = "dial(); say(OK)"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Puts a program in iperf3's place."""

    def put(*, client=DIAL, server=LISTEN, whole=None):
        path = tmp_path / "iperf3"
        names = {
            "python": sys.executable,
            "folder": str(tmp_path),
            "ok": str(DATA / "ok.json"),
            "refused": str(DATA / "error-refused.json"),
        }
        server = server.replace("{server!r}", repr(str(DATA / "server.json")))
        path.write_text(whole or FAKE.format(**names, client=client, server=server))
        path.chmod(0o755)
        for module in (iperf3, iperf3_program):
            monkeypatch.setattr(module, "PROGRAM", str(path))
        return Iperf3({"source": LocalHost("source"), "sink": LocalHost("sink")}, BED, {})

    return put


def cell(links=("a",), **params):
    return cell_of("iperf3", links=links, **({"streams": 2, "omit_s": 1, "duration_s": 2} | params))


async def test_a_good_test_gives_the_sinks_figures_readings_and_both_raw_files(fake):
    measured = await fake().measure(cell())
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


async def test_links_at_once_are_summed_under_their_joint_name(fake):
    measured = await fake().measure(cell(links=("a", "b")))
    assert list(measured.figures) == ["a", "b", "a+b"]
    assert measured.figures["a+b"]["goodput_bps"] == pytest.approx(2 * 28307347759.1236)
    assert measured.figures["a+b"]["retransmits"] == 2 * 10753
    assert len(measured.raw) == 4


async def test_the_command_is_the_one_that_the_cell_asks_for(fake):
    log = []
    tool = fake()
    tool._hosts = {**tool._hosts, "source": LocalHost("source", log.append)}
    await tool.measure(cell(streams=4, omit_s=5, duration_s=30))
    (argv,) = [d.argv for d in log]
    assert argv[1:] == ("-c", "172.16.10.2", "-p", argv[4], "-B", "172.16.0.2", "-P", "4", "-O", "5", "-t", "30", "-J")


def test_pinning_is_only_where_cores_are_named_and_in_the_words_of_the_system():
    assert SYSTEMS["linux"].pinned((0, 2)) == ["taskset", "-c", "0,2"]
    assert SYSTEMS["freebsd"].pinned((0, 2)) == ["cpuset", "-l", "0,2"]
    assert SYSTEMS["linux"].pinned(()) == SYSTEMS["windows"].pinned(()) == []


async def test_a_repaired_report_is_a_doubt_on_its_link(fake):
    measured = await fake(client=f"dial(); say(Path({str(DATA / 'nan.json')!r}).read_bytes())").measure(cell())
    assert [(d.kind, d.detail, d.about) for d in measured.doubts] == [
        (DoubtKind.TOOL_INCOMPLETE, "invalid numbers (nan, inf) were left out", "a")
    ]


async def test_a_test_that_was_shorter_than_asked_is_a_doubt(fake):
    measured = await fake().measure(cell(duration_s=30))
    assert [(d.kind, d.detail) for d in measured.doubts] == [(DoubtKind.TOOL_INCOMPLETE, "it measured 2.0 of 30 s")]


async def test_a_server_that_ended_badly_is_a_doubt(fake):
    measured = await fake(server=LISTEN.partition("say(")[0] + "say(b'')").measure(cell())
    assert [d.detail for d in measured.doubts] == ["the server ended badly: it printed nothing"]


async def test_a_server_that_gets_no_cpu_for_a_while_has_not_ended_badly(fake, monkeypatch):
    monkeypatch.setattr(iperf3_program, "SERVER_FAILS_S", 0.2)
    measured = await fake(server=LISTEN.replace("say(", "time.sleep(1); say(")).measure(cell())
    assert (measured.doubts, measured.raw["iperf3-a-server.json"]) == ((), SERVER)


async def test_links_that_were_not_loaded_together_are_a_doubt(fake):
    measured = await fake(client="time.sleep(3 * (option('-c') == '172.16.11.2')); dial(); say(OK)").measure(cell(links=("a", "b")))
    assert [(d.kind, d.about) for d in measured.doubts] == [(DoubtKind.NOT_TOGETHER, "a+b")]


async def test_a_refused_connection_is_tried_again_and_told(fake):
    measured = await fake(client="say(REFUSED) if turn() == 0 else (dial(), say(OK))").measure(cell())
    assert measured.facts["iperf3_connect_retries"] == "1"
    assert measured.figures["a"]["goodput_bps"] > 0


async def test_a_connection_refused_again_and_again_fails_in_one_sentence(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(iperf3_program, "SERVER_FAILS_S", 0.2)
    with pytest.raises(ToolFailed, match=r"^source: iperf3: link a: it reports: unable to connect to server: Connection refused$"):
        await fake(client="turn(); say(REFUSED); sys.exit(1)").measure(cell())
    assert (tmp_path / "turns").read_bytes() == b"..."


@pytest.mark.parametrize(
    ("client", "says"),
    [
        ("dial(); say(b'')", "it printed nothing"),
        ("dial(); say(b'Bus error')", "its output is not JSON: 'Bus error'"),
        ("dial(); say(OK[:1000])", "its report is cut after"),
        ("dial(); sys.exit('core dumped')", "it printed nothing; on stderr: core dumped"),
        (f"dial(); say(Path({str(DATA / 'error-server-terminated.json')!r}).read_bytes())", "it reports: the server has terminated"),
        ("dial(); os.kill(os.getpid(), 9)", "it printed nothing"),
    ],
)
async def test_output_that_is_no_result_fails_in_one_sentence_that_names_link_and_cause(fake, client, says):
    with pytest.raises(ToolFailed) as caught:
        await fake(client=client).measure(cell())
    assert says in str(caught.value)
    assert "link a" in str(caught.value)
    assert "\n" not in str(caught.value)


async def test_a_client_that_hangs_is_ended_with_its_children_and_reported(fake, monkeypatch, tmp_path):
    monkeypatch.setattr(iperf3, "GRACE_S", 2.0)
    client = f"import subprocess; p = subprocess.Popen(['sleep', '60']); Path({str(tmp_path / 'child')!r}).write_text(str(p.pid)); time.sleep(60)"
    with pytest.raises(ToolFailed, match=r"link a: the client did not end within 5 s and was ended; see whether the link lets TCP through"):
        await fake(client=client).measure(cell())
    assert await asyncio.to_thread(eventually, lambda: ended(int((tmp_path / "child").read_text())))


async def test_one_link_that_fails_ends_the_test_of_the_other(fake, tmp_path, monkeypatch):
    monkeypatch.setattr(iperf3_program, "SERVER_FAILS_S", 0.2)
    monkeypatch.setattr(iperf3_program, "SERVER_ENDS_S", 2 * LIMIT_S)  # only a client that has a result is worth the wait
    client = (
        f"say(b'no') if option('-c') == '172.16.11.2' else (Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid())), time.sleep(60))"
    )
    running = fake(client=client, server="s = socket.create_server(('127.0.0.1', int(option('-p')))); time.sleep(3600)")
    with pytest.raises(ToolFailed, match="link b: its output is not JSON"):
        await asyncio.wait_for(running.measure(cell(links=("a", "b"))), LIMIT_S)
    if (tmp_path / "pid").exists() and (pid := (tmp_path / "pid").read_text()):  # it may have been ended before it wrote that
        assert ended(int(pid))


async def test_a_server_that_does_not_start_is_reported_with_what_it_said(fake):
    said = json.dumps({"error": "error - unable to start listener for connections: Cannot assign requested address"})
    with pytest.raises(
        ToolFailed,
        match=r"sink: iperf3: the server on 172.16.10.2 port 52.. does not listen: unable to start listener .* requested address",
    ):
        await fake(server=f"say({said.encode()!r})").measure(cell())


async def test_a_server_that_loses_the_race_for_a_port_gets_the_next(fake):
    said = json.dumps({"error": "unable to start listener for connections: Address already in use"})
    server = f"if turn() == 0: say({said.encode()!r}); sys.exit()\n    {LISTEN}"
    measured = await fake(server=server).measure(cell())
    assert measured.figures["a"]["goodput_bps"] > 0
    assert measured.raw["iperf3-a-server.json"] == SERVER


async def test_a_server_that_never_listens_is_reported(fake, monkeypatch):
    monkeypatch.setattr(iperf3_program, "LISTEN_TRIES", 3)
    with pytest.raises(ToolFailed, match="does not listen: it said nothing"):
        await fake(server="time.sleep(60)").measure(cell())


async def checked():
    site = GeneratorSite({"source": LocalHost("source"), "sink": LocalHost("sink")}, BED, {}, None)
    return await iperf3.check(site, [cell()])


async def test_the_version_is_told(fake):
    fake()
    assert await checked() == "3.12"


@pytest.mark.parametrize(
    ("program", "says"),
    [
        ("#!/bin/sh\necho 'iperf 3.0.11'\n", "iperf3 3.0 is too old; install 3.1 or later"),
        ("#!/bin/sh\necho 'iperf 2.1.8 (12 August 2022) pthreads'\n", "iperf3 2.1 is too old; install 3.1 or later"),
        ("#!/bin/sh\necho garbage\n", "`iperf3 --version` says 'garbage', which reports no version; install it"),
        ("#!/bin/sh\nexit 1\n", "`iperf3 --version` says '', which reports no version; install it"),
    ],
)
async def test_an_iperf3_that_cannot_be_used_is_named_with_the_remedy(fake, program, says):
    fake(whole=program)
    with pytest.raises(ToolsMissing) as caught:
        await checked()
    assert [says in str(missing) for missing in caught.value.missing] == [True, True], "one of each end"


async def test_an_absent_iperf3_is_named_with_the_remedy(monkeypatch):
    monkeypatch.setattr(iperf3_program, "PROGRAM", "/nowhere/iperf3")
    with pytest.raises(ToolsMissing) as caught:
        await checked()
    ends = ("source", "sink")
    assert str(caught.value).splitlines() == [f"{end}: iperf3 is not there; install it (Debian: apt install iperf3)" for end in ends]


@pytest.mark.parametrize(
    "params",
    [{"duration_s": 1.5}, {"omit_s": 0.5}, {"duration_s": 0}, {"duration_s": None}, {"streams": 0}, {"streams": 129}, {"omit_s": 61}],
)
def test_what_iperf3_would_silently_read_as_something_else_is_refused(params):
    with pytest.raises(ValueError, match=next(iter(params))):
        cell(**params)
