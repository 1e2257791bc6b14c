"""Mode `wireguard`: what each end is told, and what the labs say of it; tests/vm/test_qemu_router.py sends packets through it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dutlab.dut.linux_wireguard import wireguard_modes
from dutlab.errors import SpecRefused
from dutlab.hosts.host import Done
from dutlab.hosts.programs import WG
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import given_experiment, load_testbed


class End:
    """A host that shows a public key for each tunnel and keeps what it is told."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.told: list[str] = []

    async def run(self, argv, *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True) -> Done:
        self.told.append(stdin.decode())
        made = stdin.count(b"wg genkey")
        ports = '[{"ifname": "out", "mtu": 9000}, {"ifname": "in", "mtu": 1500}, {"ifname": "eth0", "mtu": 1500}]'
        keys = "".join(f"public-of-{self.name}-{n}\n" for n in range(made))
        said = ports if list(argv) == ["ip", "-j", "link"] else keys
        return Done(self.name, tuple(argv), 0, said.encode(), b"", 0.0, 0.0)


class NoRouter:
    async def apply(self, dut, testbed) -> None: ...

    async def undo(self, dut, testbed):
        return ()


BED = """
testbed: two
hosts: {source: {ssh: s}, dut: {ssh: d}, sink: {ssh: t}}
links: {a: {path: [source:eth0, dut:in, dut:out, sink:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.1.0.1/24, 10.1.0.2/24], speed: 1G}}
"""


async def test_each_end_is_told_the_others_public_key_and_only_the_sinks_port_leads_into_the_tunnel(tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").write_text(BED)
    bed, dut, source, sink = load_testbed(tmp_path / "bed.yaml"), End("dut"), End("source"), End("sink")
    mode = wireguard_modes(NoRouter(), {"source": source, "dut": dut, "sink": sink})["wireguard"]
    await mode.apply(dut, bed)
    for end, other in ((dut, "source"), (source, "dut")):
        made, peer = end.told[-2:]
        assert "mtu 1440" in made
        assert f"public-of-{other}-0" in peer
        assert f"public-of-{end.name}" not in peer
    assert "AllowedIPs = 10.0.0.2/32\nEndpoint = 10.0.0.2:51820" in dut.told[-1]
    assert "rule add iif out to 10.0.0.2/32 lookup 51820" in dut.told[-1]
    assert "allowed-ips 10.1.0.2/32 endpoint 10.0.0.1:51820" in source.told[-1]
    assert sink.told == []
    undone = await mode.undo(dut, bed)
    rule = next(text for told in dut.told for text in told.splitlines() if text.startswith("ip rule add")).removeprefix("ip rule add ")
    assert any(f"ip rule del {rule} " in step.stdin for step in undone if step.host == "dut")


async def test_of_a_thousand_peers_sixteen_have_an_end_at_the_source_and_the_sink_knows_the_way_back(tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").write_text(BED)
    bed, dut, source, sink = load_testbed(tmp_path / "bed.yaml"), End("dut"), End("source"), End("sink")
    mode = wireguard_modes(NoRouter(), {"source": source, "dut": dut, "sink": sink})["wireguard"].with_tunnels(1000)
    steps = await mode.undo(dut, bed)
    await mode.apply(dut, bed)
    peers = re.findall(r"PublicKey = (\S+)\nAllowedIPs = (\S+)\n", dut.told[-1])
    assert len(peers) == len(dict(peers)) == 1000
    assert [allowed for key, allowed in peers if "source" in key] == [
        "10.0.0.2/32", *(f"100.64.{n // 256}.{n % 256}/32" for n in (66, 133, 199, 266, 333, 399, 466, 532, 599, 666, 732, 799, 865, 932, 999))
    ]  # fmt: skip
    assert source.told[-1].count("wg set") == 16
    assert sink.told == ["route add 100.64.0.0/20 via 10.1.0.1 dev eth0\n"]
    undone = {host: "".join(step.stdin for step in steps if step.host == host) for host in ("source", "sink")}
    assert undone["source"].count("rule del from 100.64.") == 15 and "route del 100.64.0.0/20 via" in undone["sink"]


def test_a_lab_without_it_names_the_one_that_has_it() -> None:
    text = "experiment: e\ntestbed: {{lab: {}}}\nfactors: {{mode: [wireguard]}}\nworkloads: [iperf3: {{links: [[a]]}}]\n"
    for lab in ("uml-router", "uml-two-sites", "qemu-router"):
        with pytest.raises(SpecRefused, match="use lab qemu-two-sites"):
            given_experiment(text.format(lab).encode(), Path("e.yaml"))
    assert given_experiment(text.format("qemu-two-sites").encode(), Path("e.yaml"))


def test_frames_that_would_go_past_it_are_refused_and_goodput_has_the_ceiling_inside(tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").write_text(BED)
    text = "experiment: e\ntestbed: bed.yaml\nfactors: {mode: [wireguard]}\nworkloads: [%s]\n"
    with pytest.raises(SpecRefused, match="mode wireguard"):
        given_experiment((text % "sweep: {frame_sizes: [64]}").encode(), tmp_path / "e.yaml")
    experiment = given_experiment((text % "iperf3: {links: [[a]]}").encode(), tmp_path / "e.yaml").experiment
    plan = make_plan(experiment, load_testbed(tmp_path / "bed.yaml"))
    # 1440 bytes inside, 52 of them headers of IPv4 and TCP with timestamps; 1500 outside and 38 of Ethernet around it.
    assert plan.trials[0].ceilings["a"]["goodput_bps"] == pytest.approx(1e9 * (1440 - 52) / (1500 + 38))


def test_both_ends_need_wg() -> None:
    assert all(WG in programs for programs in wireguard_modes(NoRouter(), {})["wireguard"].needs().values())
