"""The tunnels of modes ipsec and ipsec-cbc, word for word as each system's manual has them, and what each system says when it refuses."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from dut_families import E302
from dutlab.dut.ipsec import Held, fed
from dutlab.dut.ipsec_rules import AES_CBC_SHA256, AES_GCM, LinkTunnel, Suite
from dutlab.dut.linux_ipsec import XfrmEnd
from dutlab.dut.vpp_ipsec import VppEnd
from dutlab.dut.vyos_ipsec import VyosEnd
from dutlab.errors import CommandFailed, HostError, ToolMissing
from dutlab.hosts.host import Done
from dutlab.runner.undo import carry_out
from dutlab.spec.testbed import Testbed
from tunnel_ends import KEY, OF, VPP, VYOS, Keyed

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


async def test_freebsd_and_a_linux_source() -> None:
    said = await told("freebsd-pf", "ipsec")
    assert said["dut"][:6] == [
        "flush ;",
        "spdflush ;",
        "add 172.16.0.2 172.16.0.1 esp 0x1000 -m tunnel -E aes-gcm-16 K20 ;",
        "add 172.16.0.1 172.16.0.2 esp 0x1001 -m tunnel -E aes-gcm-16 K20 ;",
        "spdadd 172.16.0.0/24 172.16.10.0/24 any -P in ipsec esp/tunnel/172.16.0.2-172.16.0.1/require ;",
        "spdadd 172.16.10.0/24 172.16.0.0/24 any -P out ipsec esp/tunnel/172.16.0.1-172.16.0.2/require ;",
    ]
    assert said["source"][2:6] == [
        "xfrm state add src 172.16.0.2 dst 172.16.0.1 proto esp spi 0x1000 reqid 4096 mode tunnel aead rfc4106(gcm(aes)) K20 128",
        "xfrm state add src 172.16.0.1 dst 172.16.0.2 proto esp spi 0x1001 reqid 4096 mode tunnel aead rfc4106(gcm(aes)) K20 128",
        "xfrm policy add src 172.16.0.0/24 dst 172.16.10.0/24 dir out tmpl src 172.16.0.2 dst 172.16.0.1 proto esp reqid 4096 mode tunnel",
        "xfrm policy add src 172.16.10.0/24 dst 172.16.0.0/24 dir in tmpl src 172.16.0.1 dst 172.16.0.2 proto esp reqid 4096 mode tunnel",
    ]
    assert len(said["dut"]) == 2 + 2 * 2 + 2 * 4


async def test_cbc_has_a_key_for_each_of_its_two_algorithms() -> None:
    said = await told("freebsd-pf", "ipsec-cbc")
    assert "-E rijndael-cbc K16 -A hmac-sha2-256 K32 ;" in said["dut"][2]
    assert "enc cbc(aes) K16 auth-trunc hmac(sha256) K32 128" in said["source"][2]


async def test_openbsd_says_both_ways_and_requires_both() -> None:
    said = await told("openbsd-pf", "ipsec-cbc")
    assert said["dut"][:4] == [
        "esp tunnel from 172.16.0.2 to 172.16.0.1 spi 0x00001000 auth hmac-sha2-256 enc aes-128 authkey K32 enckey K16",
        "esp tunnel from 172.16.0.1 to 172.16.0.2 spi 0x00001001 auth hmac-sha2-256 enc aes-128 authkey K32 enckey K16",
        "flow esp in from 172.16.0.0/24 to 172.16.10.0/24 local 172.16.0.1 peer 172.16.0.2 type require",
        "flow esp out from 172.16.10.0/24 to 172.16.0.0/24 local 172.16.0.1 peer 172.16.0.2 type require",
    ]


async def test_vpp_is_told_by_a_file_of_its_own_words() -> None:
    both = "local-ip-range 172.16.10.0 - 172.16.10.255 remote-ip-range 172.16.0.0 - 172.16.0.255"
    said = (await told("vpp", "ipsec"))["dut"]
    assert [re.sub(r"salt 0x[0-9a-f]{8}\b", "salt S4", line) for line in said] == [
        "ipsec sa add 4096 spi 4096 esp crypto-alg aes-gcm-128 crypto-key K16 salt S4 tunnel src 172.16.0.2 dst 172.16.0.1 inbound",
        "ipsec sa add 4097 spi 4097 esp crypto-alg aes-gcm-128 crypto-key K16 salt S4 tunnel src 172.16.0.1 dst 172.16.0.2",
        "ipsec spd add 4096",
        f"ipsec policy add spd 4096 inbound priority 100 action protect sa 4096 {both}",
        f"ipsec policy add spd 4096 inbound priority 10 action discard {both}",
        f"ipsec policy add spd 4096 outbound priority 100 action protect sa 4097 {both}",
        "ipsec policy add spd 4096 outbound priority 50 action bypass local-ip-range 172.16.0.1 - 172.16.0.1 remote-ip-range 172.16.0.0 - 172.16.0.255",
        "set interface ipsec spd TenGigabitEthernet3/0/0 4096",
    ]
    assert "crypto-alg aes-cbc-128 crypto-key K16 integ-alg sha-256-128 integ-key K32 tunnel" in (await told("vpp", "ipsec-cbc"))["dut"][0]


@pytest.mark.parametrize(("mode", "encryption"), [("ipsec", "aes128gcm128"), ("ipsec-cbc", "aes128")])
async def test_vyos_and_strongswan_agree_on_who_they_are_and_what_they_propose(mode: str, encryption: str) -> None:
    said = await told("vyos", mode)
    set_ = "/opt/vyatta/sbin/my_set vpn ipsec "
    words = [line.removesuffix(" || refused=1").removeprefix(set_) for line in said["dut"] if line.startswith(set_)]
    assert (said["dut"][1], said["dut"][3]) == ("configure", "/opt/vyatta/sbin/my_delete vpn ipsec")
    peer = "site-to-site peer dutlab-a"
    for line in (
        "ike-group dutlab key-exchange ikev2", "ike-group dutlab proposal 1 dh-group 19", "ike-group dutlab proposal 1 encryption aes128",
        f"esp-group dutlab proposal 1 encryption {encryption}", "esp-group dutlab proposal 1 hash sha256", "esp-group dutlab pfs disable",
        "authentication psk dutlab-a id 172.16.0.1", "authentication psk dutlab-a id 172.16.0.2", "authentication psk dutlab-a secret K32",
        f"{peer} authentication local-id 172.16.0.1", f"{peer} authentication remote-id 172.16.0.2", f"{peer} connection-type respond",
        f"{peer} tunnel 1 local prefix 172.16.10.0/24", f"{peer} tunnel 1 remote prefix 172.16.0.0/24", "interface eth1",
    ):  # fmt: skip
        assert line in words
    source = [line.strip() for line in said["source"]]
    for line in (
        "version = 2", "local_addrs = 172.16.0.2", "remote_addrs = 172.16.0.1", "proposals = aes128-sha256-ecp256",
        f"esp_proposals = {encryption}-sha256", "local_ts = 172.16.0.0/24", "remote_ts = 172.16.10.0/24", "secret = K32",
    ):  # fmt: skip
        assert line in source


@pytest.mark.parametrize("suite", [AES_GCM, AES_CBC_SHA256], ids=lambda suite: suite.name)
async def test_a_linux_router_passes_on_what_comes_out_of_the_tunnel_and_goes_back(suite: Suite) -> None:
    dut, end = Keyed.of("linux-router-ipsec"), XfrmEnd(suite, "router")
    before = dict(dut.state)
    steps = await end.undo(dut, E302)
    assert await end.held(dut) == Held({}, 0), "policies of sockets are nobody's tunnels"
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


async def test_vpp_that_refuses_with_status_0_has_refused() -> None:
    ends = OF["vpp"]
    hosts = ends.hosts()
    hosts["dut"].says = "policy-index:0\nipsec sa: failed: -77\n"
    with pytest.raises(CommandFailed, match="ipsec sa: failed: -77"):
        await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)
    hosts["dut"].says = "policy-index:0\npolicy-index:1\n"
    await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)


async def test_a_negotiation_that_fails_is_told_in_strongswans_words() -> None:
    ends = OF["vyos"]
    hosts = ends.hosts()
    hosts["source"].state["esp"] = "no"
    with pytest.raises(CommandFailed, match="received NO_PROPOSAL_CHOSEN notify, no CHILD_SA built"):
        await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)


@pytest.mark.parametrize(("swan", "said"), [("down", "source: strongSwan does not answer"), ("theirs", "source: it has IPsec of its own")])
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
