"""The tunnels of modes ipsec and ipsec-cbc, word for word as each system's manual has them, and what each system says when it refuses."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dut_families import E302
from dutlab.dut.ipsec import TunnelEndState, fed
from dutlab.dut.ipsec_rules import AES_CBC_SHA256, AES_GCM, LinkTunnel, Suite
from dutlab.dut.linux_ipsec import XfrmEnd
from dutlab.dut.vpp_ipsec import VppEnd
from dutlab.dut.vyos_ipsec import VyosEnd
from dutlab.errors import CommandFailed, HostError, ToolMissing
from dutlab.hosts.host import Done
from dutlab.runner.undo import carry_out
from dutlab.spec.testbed import Testbed
from golden import Golden
from tunnel_ends import KEY, OF, VPP, VYOS, WAYS, Keyed

_KEYS = re.compile(r"\b(?:0x)?(?!0{32})[0-9a-f]{32,}\b")


def lengths(text: str) -> str:
    """Keys as how many bytes they have."""
    return _KEYS.sub(lambda m: f"K{len(m[0].removeprefix('0x')) // 2}", text)


async def told(name: str, mode: str) -> dict[str, list[str]]:
    """What both ends were told."""
    ends = OF[name]
    hosts = ends.hosts()
    await ends.made(mode, hosts).apply(hosts["dut"], ends.bed)
    return {name: lengths(host.tunnels).splitlines() for name, host in hosts.items()}


async def test_each_system_is_told_its_end_in_its_own_words(golden: Golden) -> None:
    """As the manuals of setkey, ipsecctl, VPP, VyOS and swanctl have them; keys by how many bytes they have."""
    pages = []
    for ends, mode in WAYS:
        for end, lines in (await told(ends.name, mode)).items():
            pages += [f"# {ends.name}, {mode}: {end}", *(re.sub(r"salt 0x[0-9a-f]{8}\b", "salt S4", line) for line in lines)]
    golden.check("commands-ipsec.txt", "\n".join(pages) + "\n")


@pytest.mark.parametrize("suite", [AES_GCM, AES_CBC_SHA256], ids=lambda suite: suite.mode.name)
async def test_a_linux_router_passes_on_what_comes_out_of_the_tunnel_and_goes_back(suite: Suite) -> None:
    dut, end = Keyed.of("linux-router-ipsec"), XfrmEnd(suite, "router")
    before = dict(dut.state)
    steps = await end.undo(dut, E302)
    assert await end.held(dut) == TunnelEndState({}, 0), "policies of sockets are nobody's tunnels"
    await end.apply(dut, LinkTunnel.all_of(E302, suite))
    assert lengths(dut.tunnels).splitlines()[4:7] == [
        f"xfrm policy add src {near} dst {far} dir {way} tmpl src {start} dst {stop} proto esp reqid 4096 mode tunnel"
        for way, near, far, start, stop in (
            ("out", "172.16.10.0/24", "172.16.0.0/24", "172.16.0.1", "172.16.0.2"),
            ("in", "172.16.0.0/24", "172.16.10.0/24", "172.16.0.2", "172.16.0.1"),
            ("fwd", "172.16.0.0/24", "172.16.10.0/24", "172.16.0.2", "172.16.0.1"),
        )
    ]
    held = await end.held(dut)
    assert (set(held.bytes_by_spi), held.policies) == ({0x1000, 0x1001, 0x1002, 0x1003}, end.policies(E302))
    await carry_out(steps, {"dut": dut})
    assert dut.state == before


@pytest.mark.parametrize("esp", ["no", "unknown"])
async def test_a_linux_router_without_esp_is_refused_before_anything_changes(esp: str) -> None:
    dut = Keyed.of("linux-router-ipsec", esp=esp)
    with pytest.raises((HostError, ToolMissing)):
        await XfrmEnd(AES_GCM, "router").undo(dut, E302)
    assert dut.state["tunnels"] == "none"
    assert not [argv for argv, _ in dut.ran if argv[:2] == ("ip", "-batch")]


@pytest.mark.parametrize(("end", "bed"), [(VppEnd(AES_GCM), VPP), (VyosEnd(AES_GCM), VYOS)], ids=["vpp", "vyos"])
async def test_what_a_system_repeats_as_it_refuses_shows_no_key(end: VppEnd | VyosEnd, bed: Testbed) -> None:
    tunnels = LinkTunnel.all_of(bed, AES_GCM)

    class Repeats(Keyed):
        async def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 30.0, check: bool = True) -> Done:
            if KEY.search(stdin.decode()):
                self.says = self.complains = f"ipsec sa: parse error: '{tunnels[0].keys_in[0]} {tunnels[0].secret}'\n"
                self.status = 1
            return await super().run(argv, stdin=stdin, timeout_s=timeout_s, check=check)

    dut = Repeats.of("vpp-ipsec" if bed is VPP else "vyos-ipsec", "vpp" if bed is VPP else "vyos")
    with pytest.raises(CommandFailed, match="parse error: 'KEY KEY'") as refused:
        await end.apply(dut, tunnels)
    assert not KEY.search(refused.value.stderr_tail)


async def test_a_refusal_of_vpp_with_status_0_and_of_strongswan_is_told_in_its_words() -> None:
    ends = OF["vpp"]
    hosts = ends.hosts()
    hosts["dut"].says = "policy-index:0\nipsec sa: failed: -77\n"
    with pytest.raises(CommandFailed, match="ipsec sa: failed: -77"):
        await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)
    hosts["dut"].says = "policy-index:0\npolicy-index:1\n"
    await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)
    # A negotiation that fails is told in strongswans words.
    ends = OF["vyos"]
    hosts = ends.hosts()
    hosts["source"].state["esp"] = "no"
    with pytest.raises(CommandFailed, match="NO_PROPOSAL_CHOSEN"):
        await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)


@pytest.mark.parametrize(("swan", "said"), [("down", "strongSwan"), ("theirs", "other IPsec tunnels")])
async def test_a_strongswan_that_is_not_there_or_not_ours_is_refused(swan: str, said: str) -> None:
    ends = OF["vyos"]
    hosts = ends.hosts(swan=swan)
    with pytest.raises((HostError, ToolMissing), match=said):
        await ends.made("ipsec", hosts).undo(hosts["dut"], ends.bed)


def test_a_file_of_keys_is_nobody_elses_and_gone_with_the_command(tmp_path: Path) -> None:
    shown = 'stat -c %a "$f"; cat "$f"; echo "$f"'
    env = {"PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    done = subprocess.run(["sh", "-c", fed(shown)], input="secret\n", env=env, capture_output=True, text=True, check=True)
    mode, text, name = done.stdout.split()
    assert (mode, text) == ("600", "secret")
    assert Path(name).parent == tmp_path
    assert not list(tmp_path.iterdir())
