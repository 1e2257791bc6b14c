"""TRex's adapter against a stand-in of its client: the protocol, the order of calls and the accounts. No TRex was there."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import struct
import sys
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path
from types import SimpleNamespace

import pytest
from ruamel.yaml import YAML

from dutlab.doubts import DoubtKind
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import Done
from dutlab.hosts.local import LocalHost
from dutlab.methods.ledger import starved
from dutlab.methods.ports import Offer
from dutlab.spec.generators.trex import TrexModel
from dutlab.spec.links import Port
from dutlab.spec.mixes import frame_mix
from dutlab.spec.traffic import Directions
from dutlab.tools.engine.load import Direction
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.generators import trex, trex_client
from dutlab.tools.generators.trex_client import ALSO, NEEDED, counters_of
from dutlab.tools.generators.trex_words import TrexPort, checksum, config_of, frame_of
from dutlab.units import Pps, Seconds
from generator_files import direction

STAND_IN = Path(__file__).parents[1] / "stand_ins" / "trex_api.py"
SERVER = '#!/bin/sh\nprintf "%s\\n" "$*" >"$TREX_STAND_IN/server"\ncp "$6" "$TREX_STAND_IN/cfg"\nmv "$TREX_STAND_IN/cfg" "$TREX_STAND_IN/cfg.yaml"\nexec sleep 60\n'


@pytest.fixture(autouse=True)
def _passed(monkeypatch):
    """What the stand-in is told by the environment."""
    monkeypatch.setenv("DUTLAB_PASS_VARIABLES", "TREX_STAND_IN DUT_LOSES RX_MISSES STRETCHES LEFT UP_WITH STARTS_AFTER")


@pytest.fixture
def release(tmp_path, monkeypatch):
    """A folder like a release of TRex, with the stand-in in its client's place."""
    stl = tmp_path / "automation/trex_control_plane/interactive/trex/stl"
    stl.mkdir(parents=True)
    (stl / "api.py").write_text(STAND_IN.read_text())
    (stl / "__init__.py").touch()
    (stl.parent / "__init__.py").touch()
    (tmp_path / "t-rex-64").write_text(SERVER)
    (tmp_path / "_t-rex-64").touch()
    for program in ("t-rex-64", "_t-rex-64"):
        (tmp_path / program).chmod(0o755)
    (tmp_path / "find_python.sh").write_text(f"echo looking\nPYTHON={sys.executable}\n")
    monkeypatch.setenv("TREX_STAND_IN", str(tmp_path))

    async def direction_of(hosts, testbed, name, *, reverse=False):
        back = direction(source="10.0.2.2", destination="10.0.1.2") if reverse else direction()
        port = Port(host="sink" if reverse else "source", interface="lo")
        return Direction(
            f"{name}.back" if reverse else name,
            name,
            port,
            port,
            back.source,
            back.destination,
            back.destination_mac,
            49152,
            isolated=False,
        )

    async def directions_of(hosts, testbed, offer):
        backs = [False] if offer.directions is Directions.FORWARD else [False, True]
        return [await direction_of(hosts, testbed, name, reverse=back) for name in offer.links for back in backs]

    real = trex.held_folder

    @asynccontextmanager
    async def held_folder(host):
        if not isinstance(host, ClientHere):
            async with real(host) as folder:
                yield folder
            return
        (tmp_path / "held").mkdir(exist_ok=True)
        yield str(tmp_path / "held")

    monkeypatch.setattr(trex, "held_folder", held_folder)
    clock = Clock()
    monkeypatch.setattr(trex_client, "time", clock)
    monkeypatch.setitem(sys.modules, "time_of_the_stand_in", clock)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(trex, "direction_of", direction_of)
    monkeypatch.setattr(trex, "directions_of", directions_of)
    return tmp_path


class Clock:
    """Time for the client and the stand-in: nobody waits."""

    def __init__(self):
        self.now_s = 1000.0

    def monotonic(self):
        return self.now_s

    time = monotonic

    def monotonic_ns(self):
        return round(self.now_s * 1e9)

    def sleep(self, seconds):
        self.now_s += seconds


class InProcess:
    """The client in this process."""

    def __init__(self):
        for name in [name for name in sys.modules if name.partition(".")[0] == "trex"]:
            del sys.modules[name]
        self.talk, self.answers = trex_client.Conversation(), []

    async def write(self, data):
        self.answers.append(trex_client.answered(self.talk, data.decode()).encode())

    async def readline(self):
        return self.answers.pop(0) if self.answers else b""

    async def close_stdin(self):
        self.talk.close()

    async def end(self, grace_s=2.0):
        return Done("source", (), 0, b"", b"", 0.0, 0.0)


class ClientHere(LocalHost):
    """This machine, whose TRex client is not a program of its own."""

    async def spawn(self, argv, **how):
        return InProcess() if trex._CLIENT in argv else await super().spawn(argv, **how)


def offered(model, offer, links=("a",), *, fails_first=False, host_of=ClientHere):
    async def drive():
        host = host_of("source")
        port = Port(host="source", interface="lo")
        testbed = SimpleNamespace(links={name: SimpleNamespace(source=port, sink=port, path=(port, port)) for name in links})
        tool = trex.Trex(model, GeneratorSite({"source": host, "sink": host}, testbed, {}, None))
        try:
            version = await tool.check()
            if fails_first:
                with pytest.raises(ToolFailed):
                    await tool.offer(offer)
            return version, await tool.offer(offer)
        finally:
            await tool.close()
            await host.close()

    return asyncio.run(drive())


def wanted(sizes=64, rate=1000.0, duration=0.4, drain=0.3, **more):
    return Offer(("a",), frame_mix(sizes), None if rate is None else Pps(rate), Seconds(duration), drain=Seconds(drain), **more)


def model(release, **more):
    return TrexModel.model_validate({"path": str(release), **more})


def test_a_trial_has_three_numbers_read_after_the_drain(release, monkeypatch):
    monkeypatch.setenv("DUT_LOSES", "10")
    version, outcome = offered(model(release), wanted())
    (flow,) = outcome.flows
    assert version == outcome.facts["trex_version"] == "v3.08"
    assert (flow.intended_frames, flow.sent_frames, flow.received_frames, flow.lost_frames) == (400, 400, 360, 40)
    assert flow.balances
    assert flow.sent_seconds == pytest.approx(0.4)
    assert [d.kind for d in outcome.doubts] == [DoubtKind.COUNTED_BY_PORTS]
    assert (release / "disconnected").exists()
    # The stand-in's frames are on their way for 0.2 s: read at once, half of them have not come.
    _, outcome = offered(model(release), wanted(drain=0.0))
    assert outcome.flows[0].received_frames == 360


def test_counters_that_never_stand_still_are_a_doubt(release):
    api = release / "automation/trex_control_plane/interactive/trex/stl/api.py"
    api.write_text(api.read_text().replace('"ipackets": came', '"ipackets": time.monotonic_ns() % 1_000_003 + came'))
    _, outcome = offered(model(release), wanted())
    assert DoubtKind.TOOL_INCOMPLETE in {d.kind for d in outcome.doubts}


def test_what_its_own_receiver_missed_had_reached_its_port_and_is_not_the_duts_loss(release, monkeypatch):
    monkeypatch.setenv("DUT_LOSES", "100")
    monkeypatch.setenv("RX_MISSES", "10")
    _, outcome = offered(model(release), wanted())
    (flow,) = outcome.flows
    assert (flow.sent_frames, flow.received_frames, flow.lost_frames) == (400, 396, 4)
    assert [d.detail for d in outcome.doubts if d.kind is DoubtKind.RX_DROPPED] == ["39 frames"]


def test_a_trial_that_is_late_is_stopped_and_takes_its_real_length(release, monkeypatch):
    monkeypatch.setenv("STRETCHES", "10")
    _, outcome = offered(model(release), wanted(duration=0.4))
    (flow,) = outcome.flows
    assert flow.intended_frames == 400
    assert 0 < flow.sent_frames < 400
    assert flow.refused_frames == 400 - flow.sent_frames
    assert flow.sent_seconds == pytest.approx(0.4 * 1.1 + 1)
    assert float(outcome.facts["trex_stopped_late_after_s"]) == pytest.approx(flow.sent_seconds, abs=0.001)
    assert starved(wanted(duration=0.4), flow), "the methods see that the rate was not reached"


def test_what_a_stopped_trial_left_in_the_senders_ring_is_not_counted_in_the_next(release, monkeypatch):
    monkeypatch.setenv("STRETCHES", "10")
    monkeypatch.setenv("LEFT", "50")
    # The warm-up is the trial that is stopped.
    _, outcome = offered(model(release), wanted(duration=0.4, warmup=Seconds(0.4)))
    said = [json.loads(line) for line in outcome.raw["trex-client.jsonl"].splitlines()]
    warm, trial = (line["ok"] for line in said if "ports" in line.get("ok", {}) and isinstance(line["ok"]["ports"], dict))
    assert warm["late"] and trial["late"]
    share = trial["seconds"] / 4.0
    assert trial["ports"]["0"]["opackets"] <= 400 * share + 1, "none of the 50"


def test_a_counter_that_this_trex_lacks_is_a_named_fault_or_one_that_it_can_do_without(release):
    counted = dict.fromkeys((*NEEDED, *ALSO), 1)
    for counter in counted:
        fewer = {name: count for name, count in counted.items() if name != counter}
        if counter in ALSO:
            assert counters_of({0: fewer}, 0) == fewer
            continue
        with pytest.raises(ValueError, match=f" {counter}$"):
            counters_of({0: fewer}, 0)
    api = release / "automation/trex_control_plane/interactive/trex/stl/api.py"
    api.write_text(re.sub(r'"ierrors": [^,}]+,? ?', "", api.read_text()))
    _, outcome = offered(model(release), wanted())
    assert [d.kind for d in outcome.doubts] == [DoubtKind.COUNTED_BY_PORTS, DoubtKind.TOOL_INCOMPLETE]


def test_a_warm_up_is_not_counted_and_the_raw_conversation_is_kept(release):
    _, outcome = offered(model(release), wanted(warmup=Seconds(0.2)))
    assert outcome.flows[0].sent_frames == 400
    said = [json.loads(line) for line in outcome.raw["trex-client.jsonl"].splitlines()]
    assert [line["op"] for line in said if "op" in line] == ["connect", "offer", "offer"]


def test_sizes_are_mixed_by_weight_and_both_ways_are_two_ports(release):
    _, outcome = offered(model(release), wanted("imix", rate=1200.0, directions=Directions.BOTH))
    asked = next(json.loads(line) for line in outcome.raw["trex-client.jsonl"].splitlines() if b'"offer"' in line)
    assert [(w["tx"], w["rx"]) for w in asked["directions"]] == [(0, 1), (1, 0)]
    assert [(len(s["frame"]) // 2 + 4, s["pps"]) for s in asked["directions"][0]["streams"]] == [(64, 700.0), (594, 400.0), (1518, 100.0)]
    assert [flow.link for flow in outcome.flows] == ["a", "a.back"]
    assert outcome.flows[0].mean_frame_bytes == pytest.approx((7 * 64 + 4 * 594 + 1518) / 12)


def test_as_fast_as_it_can_is_all_of_the_line_and_a_profile_of_the_users_own_is_scaled(release):
    _, outcome = offered(model(release), wanted(rate=None))
    assert outcome.flows[0].intended_frames == outcome.flows[0].sent_frames == 400
    # A profile of the users own is scaled to the rate and tells its sizes.
    (release / "profile.py").write_text("1280 512")
    profile = {"profile": f"{release}/profile.py", "tunables": {"longer": 20}}
    _, outcome = offered(model(release, **profile, server="running", address="trex.lab"), wanted(rate=500.0))
    assert (outcome.flows[0].sent_frames, outcome.flows[0].mean_frame_bytes) == (200, 1300)
    assert b'"address": "trex.lab"' in outcome.raw["trex-client.jsonl"]


def test_the_server_is_started_with_a_configuration_for_the_kernels_interfaces_and_ended(release, monkeypatch):
    monkeypatch.setenv("UP_WITH", str(release / "cfg.yaml"))
    offered(model(release), wanted(), links=("a", "b"))
    assert (release / "server").read_text().startswith("-i --iom 0 --no-scapy-server --cfg /")
    (cfg,) = YAML(typ="safe").load(release / "cfg.yaml")
    assert (cfg["low_end"], cfg["port_limit"], cfg["interfaces"]) == (True, 4, ["lo"] * 4)
    assert cfg["port_info"][0] == {"dest_mac": "02:00:00:00:00:02", "src_mac": "00:00:00:00:00:00"}


def test_a_server_that_begins_late_is_waited_for_and_one_that_runs_is_left_alone(release, monkeypatch):
    monkeypatch.setenv("STARTS_AFTER", "1")
    version, _ = offered(model(release, server="running"), wanted())
    assert version == "v3.08"
    assert not (release / "server").exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda api: api.replace('return {"version"', "raise STLError('busy')\n        return {\"version\""), "busy"),
        (lambda _: "raise ImportError('no scapy')", "no scapy"),
        (lambda _: "import os, sys\nprint('Killed', file=sys.stderr)\nos._exit(9)", "Killed"),
        (lambda api: api.replace("def get_stats(self, ports=None):", "def get_stats(self, ports=None):\n        return {}"), "opackets, ipackets, obytes"),
        (lambda api: api.replace("frames = round(rate * duration)", "frames = 0"), "sent nothing"),
    ],
)  # fmt: skip
def test_a_client_that_fails_is_told_with_the_reason(release, change, why):
    api = release / "automation/trex_control_plane/interactive/trex/stl/api.py"
    api.write_text(change(api.read_text()))
    with pytest.raises(ToolFailed, match=why) as failed:
        offered(model(release), wanted(), host_of=LocalHost if why == "Killed" else ClientHere)
    assert (failed.value.tool, failed.value.host) == ("trex", "source")


def test_after_a_failure_the_next_trial_begins_with_a_new_server(release, monkeypatch):
    monkeypatch.setenv("UP_WITH", str(release / "up"))
    api = release / "automation/trex_control_plane/interactive/trex/stl/api.py"
    once = "mark = Path(os.environ['TREX_STAND_IN'], 'gone')\n        if not mark.exists():\n            mark.touch()\n            Path(os.environ['UP_WITH']).unlink()\n            raise STLError('server is gone')"
    api.write_text(api.read_text().replace("def get_stats(self, ports=None):", f"def get_stats(self, ports=None):\n        {once}"))
    (release / "t-rex-64").write_text('#!/bin/sh\necho started >>"$TREX_STAND_IN/starts"\ntouch "$UP_WITH"\nexec sleep 60\n')
    _, outcome = offered(model(release), wanted(), fails_first=True)
    assert outcome.flows[0].sent_frames == 400
    assert (release / "starts").read_text() == "started\nstarted\n"


def test_a_folder_without_trex_and_a_server_with_too_few_ports_are_told(release, tmp_path):
    with pytest.raises(ToolMissing, match="/nonexistent"):
        offered(TrexModel.model_validate({"path": "/nonexistent"}), wanted())
    with pytest.raises(ToolMissing, match=r"4 ports.* 6"):
        offered(model(release), wanted(), links=("a", "b", "c"))
    (release / "_t-rex-64").unlink()
    with pytest.raises(ToolMissing, match="lacks _t-rex-64"):  # a clone that was never built
        offered(model(release), wanted())


def test_a_server_that_ends_at_once_is_told_with_its_reason_and_not_waited_for(release, monkeypatch):
    monkeypatch.setenv("UP_WITH", str(release / "never"))
    (release / "t-rex-64").write_text("#!/bin/sh\necho Starting\necho ERROR: no huge pages >&2\necho bye >&2\nexit 3\n")
    with pytest.raises(ToolFailed, match=r"\b3\b.*ERROR: no huge pages"):
        offered(model(release), wanted(), host_of=LocalHost)


@pytest.mark.parametrize(("source", "destination", "size"), [("10.0.1.2", "10.0.2.2", 64), ("fd00::1", "fd00::2", 130)])
def test_a_frame_is_as_long_as_asked_without_its_fcs_and_its_checksums_hold(source, destination, size):
    frame = frame_of(direction(source, destination), "02:00:00:00:00:01", size)
    assert len(frame) == size - 4
    assert frame[:12] == bytes.fromhex("020000000002020000000001")
    version, header = (4, 20) if ":" not in source else (6, 40)
    ip, udp = frame[14 : 14 + header], frame[14 + header :]
    assert ip[0] >> 4 == version
    assert struct.unpack("!HHH", udp[:6]) == (49152, 7, size - 4 - 14 - header)
    if version == 4:
        assert checksum(ip) == 0  # RFC 1071: over a header with its checksum the sum is nought
        assert socket.ntohs(struct.unpack("=H", ip[2:4])[0]) == size - 18
    else:
        pseudo = ip_address(source).packed + ip_address(destination).packed + struct.pack("!II", len(udp), 17)
        assert checksum(pseudo + udp) == 0


def test_the_checksum_is_that_of_rfc_1071_and_the_configuration_names_interfaces_in_the_order_of_the_links():
    # RFC 1071 section 3: 0001 f203 f4f5 f6f7 add up to ddf2
    assert checksum(bytes.fromhex("0001f203f4f5f6f7")) == 0xFFFF - 0xDDF2
    # The configuration names interfaces in the order of the links.
    text = config_of(
        [TrexPort("eth1", "02:00:00:00:00:01", "02:00:00:00:00:02"), TrexPort("eth2", "02:00:00:00:00:04", "02:00:00:00:00:03")]
    )
    assert '  interfaces: ["eth1", "eth2"]\n' in text
    assert text.startswith("- port_limit: 2\n  version: 2\n  low_end: true\n")
