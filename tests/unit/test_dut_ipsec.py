"""Modes ipsec and ipsec-cbc: both ends' very words with keys that match, the way back on both, and what verify notices."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from dut_families import E302, EXAMPLES
from dutlab.dut import family
from dutlab.dut.mode import Mode, SeenProbe
from dutlab.errors import CommandFailed, HostError, SpecRefused
from dutlab.hosts.host import Done
from dutlab.runner.undo import carry_out
from dutlab.spec.loader import load_experiment
from transcript import TranscriptHost

MODES = ("ipsec", "ipsec-cbc")
each_mode = pytest.mark.parametrize("mode", MODES)
KEY = re.compile(r"0x[0-9a-f]{32,}")


class Keyed(TranscriptHost):
    """Takes the tunnels' text, whose keys nobody knows before, and keeps it."""

    tunnels = ""
    says = ""

    async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True) -> Done:
        """As any transcript's."""
        if KEY.search(stdin.decode()):
            self.tunnels = stdin.decode()
            self.state["tunnels"] = "ours"
            return Done(self.name, tuple(argv), 0, self.says.encode(), b"", 0.0, 0.0)
        return await super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)


@dataclass
class Silence:
    """What the engine sends arrives, or does not."""

    received: int = 0

    async def probe(self, link: str, *, reverse: bool = False) -> SeenProbe:
        del link, reverse
        return SeenProbe(10, self.received, None)


def ends(**changes: str) -> dict[str, Keyed]:
    return {"dut": Keyed.of("freebsd-ipsec", "freebsd-pf"), "source": Keyed.of("linux-ipsec", name="source", **changes)}


def made(mode: str, hosts: Mapping[str, Keyed]) -> Mode:
    return family("freebsd-pf").modes_among(hosts)[mode]


@each_mode
async def test_both_ends_are_keyed_alike_and_the_way_leads_back(mode: str) -> None:
    hosts = ends()
    before = {name: dict(host.state) for name, host in hosts.items()}
    steps = await made(mode, hosts).undo(hosts["dut"], E302)
    await made(mode, hosts).apply(hosts["dut"], E302)
    assert hosts["dut"].state["pf"] == "off"
    assert sorted(KEY.findall(hosts["dut"].tunnels)) == sorted(KEY.findall(hosts["source"].tunnels))
    assert len(set(KEY.findall(hosts["dut"].tunnels))) == {"ipsec": 4, "ipsec-cbc": 8}[mode], "no key twice"
    checks = await made(mode, hosts).verify(hosts["dut"], E302, Silence())
    assert [c for c in checks if not c.passed] == []
    await carry_out(steps, hosts)
    assert {name: host.state for name, host in hosts.items()} == before


async def test_the_tunnels_are_those_of_both_manuals() -> None:
    hosts = ends()
    await made("ipsec", hosts).apply(hosts["dut"], E302)
    dut, source = (KEY.sub("KEY", hosts[name].tunnels).splitlines() for name in ("dut", "source"))
    assert dut[:6] == [
        "flush ;",
        "spdflush ;",
        "add 172.16.0.2 172.16.0.1 esp 0x1000 -m tunnel -E aes-gcm-16 KEY ;",
        "add 172.16.0.1 172.16.0.2 esp 0x1001 -m tunnel -E aes-gcm-16 KEY ;",
        "spdadd 172.16.0.0/24 172.16.10.0/24 any -P in ipsec esp/tunnel/172.16.0.2-172.16.0.1/require ;",
        "spdadd 172.16.10.0/24 172.16.0.0/24 any -P out ipsec esp/tunnel/172.16.0.1-172.16.0.2/require ;",
    ]
    assert source[2:6] == [
        "xfrm state add src 172.16.0.2 dst 172.16.0.1 proto esp spi 0x1000 reqid 4096 mode tunnel aead rfc4106(gcm(aes)) KEY 128",
        "xfrm state add src 172.16.0.1 dst 172.16.0.2 proto esp spi 0x1001 reqid 4096 mode tunnel aead rfc4106(gcm(aes)) KEY 128",
        "xfrm policy add src 172.16.0.0/24 dst 172.16.10.0/24 dir out tmpl src 172.16.0.2 dst 172.16.0.1 proto esp reqid 4096 mode tunnel",
        "xfrm policy add src 172.16.10.0/24 dst 172.16.0.0/24 dir in tmpl src 172.16.0.1 dst 172.16.0.2 proto esp reqid 4096 mode tunnel",
    ]
    assert len(dut) == 2 + 2 * 2 + 2 * 4
    assert not [argv for host in hosts.values() for argv, _ in host.ran if KEY.search(" ".join(argv))], "no key on a command line"


async def test_cbc_has_a_key_for_each_of_its_two_algorithms() -> None:
    hosts = ends()
    await made("ipsec-cbc", hosts).apply(hosts["dut"], E302)
    dut, source = (KEY.sub(lambda m: f"K{len(m[0]) // 2 - 1}", hosts[name].tunnels) for name in ("dut", "source"))
    assert "-E aes-cbc K16 -A hmac-sha2-256 K32 ;" in dut
    assert "enc cbc(aes) K16 auth-trunc hmac(sha256) K32 128" in source


@pytest.mark.parametrize(
    ("dut", "source", "received", "noticed"),
    [
        ({"tunnels": "half"}, {}, 0, {"two associations a link"}),
        ({}, {"tunnels": "none"}, 0, {"link a: the source's own packets pass", "link b: the source's own packets pass"}),
        ({}, {}, 10, {"link a: what is not encrypted is dropped", "link b: what is not encrypted is dropped"}),
        ({"forwarding": "0"}, {}, 0, {"net.inet.ip.forwarding is 1"}),
        ({"pf": "on"}, {}, 0, {"pf is off"}),
    ],
)
async def test_what_somebody_changed_meanwhile_is_noticed(
    dut: dict[str, str], source: dict[str, str], received: int, noticed: set[str]
) -> None:
    hosts = ends()
    await made("ipsec", hosts).apply(hosts["dut"], E302)
    hosts["dut"].state.update(dut)
    hosts["source"].state.update(source)
    checks = await made("ipsec", hosts).verify(hosts["dut"], E302, Silence(received))
    assert {c.what for c in checks if not c.passed} == noticed


async def test_a_line_that_the_kernel_refuses_is_a_failure_although_setkey_ends_with_0() -> None:
    hosts = ends()
    hosts["dut"].says = "The result of line 3: Invalid argument.\n"
    with pytest.raises(CommandFailed, match="The result of line 3: Invalid argument"):
        await made("ipsec", hosts).apply(hosts["dut"], E302)
    assert hosts["source"].tunnels == ""


@pytest.mark.parametrize("end", ["dut", "source"])
async def test_tunnels_of_somebodys_are_never_taken_away(end: str) -> None:
    hosts = ends()
    hosts[end].state["tunnels"] = "theirs"
    with pytest.raises(HostError, match=f"{end}: it has IPsec of its own, whose keys could not be restored"):
        await made("ipsec", hosts).undo(hosts["dut"], E302)


async def test_a_tunnel_without_its_other_end_is_none() -> None:
    with pytest.raises(HostError, match="source: a tunnel has two ends"):
        await family("pfsense").modes_among({})["ipsec"].apply(ends()["dut"], E302)


def test_frames_that_no_kernel_encrypts_are_refused_before_the_run(tmp_path: Path) -> None:
    text = f"experiment: e\ntestbed: {EXAMPLES / 'e302-9d.yaml'}\nfactors: {{mode: [router, ipsec]}}\nworkloads: [iperf3, {{sweep: {{frame_sizes: [64]}}}}]\n"
    (tmp_path / "e.yaml").write_text(text)
    with pytest.raises(
        SpecRefused, match=r"workloads\.1\.sweep: its frames pass no kernel that encrypts them, so none would pass in mode ipsec"
    ):
        load_experiment(tmp_path / "e.yaml")
