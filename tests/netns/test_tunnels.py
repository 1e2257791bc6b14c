"""The ends of tunnels on a real kernel, as far as it goes: what it refuses, policies and their way back, and keys that two daemons agree on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from capability import have_esp, have_strongswan, need, need_engine
from dutlab import labs
from dutlab.cli.console import Console
from dutlab.dut import family
from dutlab.dut.ipsec import TunnelEndState
from dutlab.dut.ipsec_rules import AES_CBC_SHA256, AES_GCM, LinkTunnel, Suite
from dutlab.dut.linux_ike import IkeEnd
from dutlab.dut.linux_ipsec import XfrmEnd, away, held
from dutlab.dut.strongswan import StrongswanEnd
from dutlab.dut.vyos_ipsec import VyosEnd
from dutlab.dut.vyos_ipsec import words as vyos_words
from dutlab.errors import CommandFailed, HostError, TestbedError
from dutlab.hosts.host import Host, Process
from dutlab.hosts.netns import NetnsHost
from dutlab.runner.execution import RunOptions
from dutlab.runner.run import run
from dutlab.runner.undo import carry_out
from dutlab.spec.loader import read_experiment
from dutlab.systems.modes import DeclaredMode
from dutlab.tools.engine.engine import Engine
from processes import LIMIT_S

NOTHING = TunnelEndState({}, 0)


@pytest.mark.parametrize("mode", ["ipsec", "ipsec-cbc"])
async def test_a_kernel_without_esp_is_refused_with_words_before_anything_changes(lab: labs.Lab, hosts: dict[str, Host], mode: str) -> None:
    need("kernel without ESP", not have_esp())
    said = rf"dut: its kernel cannot encrypt as mode {mode} needs: Error: Requested .* not found.; boot a kernel with CONFIG_INET_ESP \(module esp4\)"
    before = await of_dut(hosts["dut"])
    with pytest.raises(HostError, match=said):
        await family("linux").modes_among(hosts)[mode].undo(hosts["dut"], lab.testbed)
    assert await of_dut(hosts["dut"]) == before


async def test_all_ciphers_that_a_kernel_lacks_are_named_before_the_first_trial(tmp_path: Path) -> None:
    need("kernel without ESP", not have_esp())
    (tmp_path / "e.yaml").write_text(
        "experiment: e\ntestbed: {lab: three-node}\nfactors: {mode: [router, ipsec-null, ipsec-3des-md5]}\nrepeats: 1\norder: as-written\n"
        "workloads: [{iperf3: {duration: 1s, omit: 0s}}]\n"
    )
    options = RunOptions(runs=tmp_path / "runs", engine_binary=need_engine(), command=("dutlab", "run"))
    said = r"dut: .* as mode ipsec-null needs: .*; dut: .* as mode ipsec-3des-md5 needs: .*; boot a kernel with CONFIG_INET_ESP \(module esp4\)"
    with pytest.raises(TestbedError, match=said):
        await run(read_experiment(tmp_path / "e.yaml"), options, Console())
    (journal,) = (tmp_path / "runs").glob("*/journal.jsonl")
    assert '"trial-started"' not in journal.read_text()


@pytest.mark.parametrize("mode", ["ipsec", "ipsec-cbc"])
async def test_a_router_of_tunnels_is_verified_by_packets_and_put_back(lab: labs.Lab, hosts: dict[str, Host], mode: str) -> None:
    need("ESP", have_esp())
    made = family("linux").modes_among(hosts)[mode]
    prober = Engine(hosts, lab.testbed, lab.cpus, str(need_engine()), backend="af_packet")
    before = await of_dut(hosts["dut"])
    steps = await made.undo(hosts["dut"], lab.testbed)
    await made.apply(hosts["dut"], lab.testbed)
    assert [c for c in await made.verify(hosts["dut"], lab.testbed, prober) if not c.passed] == []
    await carry_out(steps, hosts)
    await prober.close()
    assert await of_dut(hosts["dut"]) == before
    assert await held(hosts["source"]) == NOTHING


async def test_policies_drop_what_is_not_encrypted_and_leave_nothing_behind(lab: labs.Lab, hosts: dict[str, Host]) -> None:
    dut, end = hosts["dut"], XfrmEnd(AES_GCM, "router")
    router = family("linux").modes["router"]
    prober = Engine(hosts, lab.testbed, lab.cpus, str(need_engine()), backend="af_packet")
    steps = [away(dut), *await router.undo(dut, lab.testbed)]
    before = await of_dut(dut)
    await router.apply(dut, lab.testbed)
    assert (await prober.probe(["a"]))[0].received == 10
    policies = "".join(f"{line}\n" for t in LinkTunnel.all_of(lab.testbed, AES_GCM) for line in end.words(t) if " policy " in line)
    await dut.run(["ip", "-batch", "-"], stdin=policies.encode())
    assert await end.held(dut) == TunnelEndState({}, end.policies(lab.testbed))
    assert (await prober.probe(["a"]))[0].received == 0
    with pytest.raises(HostError, match="dut: it has other IPsec tunnels"):
        await end.undo(dut, lab.testbed)
    await carry_out(steps, hosts)
    assert await of_dut(dut) == before
    await router.apply(dut, lab.testbed)
    assert (await prober.probe(["a"]))[0].received == 10
    await prober.close()


class WithDaemon(NetnsHost):
    """A namespace whose programs find the IKE daemon that a test started in it."""

    folder = Path()

    def _carry(self, argv: Sequence[str]) -> list[str]:
        return super()._carry(["env", f"STRONGSWAN_CONF={self.folder}/strongswan.conf", *argv])


@pytest.fixture
async def daemons(lab: labs.Lab, tmp_path: Path) -> AsyncIterator[dict[str, WithDaemon]]:
    need("strongswan", have_strongswan())
    hosts: dict[str, WithDaemon] = {}
    running: list[Process] = []
    for name in ("source", "dut"):
        folder = tmp_path / name
        folder.mkdir()
        conf = f"plugins {{ vici {{ socket = unix://{folder}/vici }} }}"
        logged = f"filelog {{ log {{ path = {folder}/log\n default = 1\n cfg = 1\n flush_line = yes }} }}"
        (folder / "strongswan.conf").write_text(
            f"charon-systemd {{\n{conf}\n{logged}\njournal {{ default = -1 }} }}\nswanctl {{ socket = unix://{folder}/vici }}\n"
        )
        hosts[name] = WithDaemon(name, lab.namespaces[name])
        hosts[name].folder = folder
        running.append(await hosts[name].spawn(["charon-systemd"]))
    for host in hosts.values():
        async with asyncio.timeout(LIMIT_S):
            while (await host.run(["swanctl", "--stats"], check=False)).status != 0:
                await asyncio.sleep(0.1)
    yield hosts
    for process in running:
        await process.end(grace_s=5.0)
    for host in hosts.values():
        await host.close()


@pytest.mark.parametrize(
    ("suite", "chosen"), [(AES_GCM, "AES_GCM_16_128"), (AES_CBC_SHA256, "AES_CBC_128/HMAC_SHA2_256_128")], ids=["gcm", "cbc"]
)
async def test_the_source_agrees_on_keys_with_a_daemon_that_is_set_as_vyos_sets_its_own(
    lab: labs.Lab, daemons: dict[str, WithDaemon], suite: Suite, chosen: str
) -> None:
    source, dut = daemons["source"], daemons["dut"]
    tunnels = LinkTunnel.all_of(lab.testbed, suite)
    (dut.folder / "as-vyos.conf").write_text(as_vyos_writes(vyos_words(tunnels, suite)))
    await dut.run(["swanctl", "--load-all", "--noprompt", "--file", f"{dut.folder}/as-vyos.conf"])
    assert (await held(dut)).policies == VyosEnd(suite).policies(lab.testbed), "they exist before the peer has called"
    end = StrongswanEnd(suite)
    if have_esp():
        await end.undo(source, lab.testbed)
        await end.apply(source, tunnels)
        for link in lab.testbed.links.values():
            await source.run(["ping", "-n", "-c", "3", "-I", str(link.source_address.ip), str(link.dut_out_address.ip)])
        for host in daemons.values():
            assert sorted((await held(host)).bytes_by_spi.values()) == [252] * 4
    else:
        with pytest.raises(HostError, match="source: its kernel cannot encrypt"):
            await end.undo(source, lab.testbed)
        with pytest.raises(CommandFailed, match="no CHILD_SA built"):
            await end.apply(source, tunnels)
    assert re.search(r"dutlab-a: #\d+, ESTABLISHED, IKEv2", (await source.run(["swanctl", "--list-sas"])).text)
    assert f"selected proposal: ESP:{chosen}/NO_EXT_SEQ" in (dut.folder / "log").read_text()
    with pytest.raises(HostError, match="source: it has other IPsec tunnels"):
        await end.undo(source, lab.testbed)
    await carry_out([end.away(source, lab.testbed)], {"source": source})
    left = [await source.run(["swanctl", what]) for what in ("--list-conns", "--list-sas")]
    assert [done.text for done in left] == ["", ""]
    assert await held(source) == NOTHING


async def test_a_cipher_that_a_daemon_does_not_know_is_named_and_the_daemon_is_gone(
    lab: labs.Lab, hosts: dict[str, Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    need("strongswan", have_strongswan())
    monkeypatch.setenv("DUTLAB_PASS_VARIABLES", "PYTEST_CURRENT_TEST")
    source = hosts["source"]
    await IkeEnd(AES_GCM).ask_daemon(source, lab.testbed)
    unknown = replace(AES_GCM, mode=DeclaredMode("ikev2-rot13"), ike=("rot13", ""))
    with pytest.raises(HostError, match=r"source: its strongSwan refuses mode ikev2-rot13: .*esp_proposals"):
        await IkeEnd(unknown).ask_daemon(source, lab.testbed)
    assert not [comm for pid in processes_of_ours() if (comm := (pid / "comm").read_text()) == "charon-systemd\n"]


def processes_of_ours() -> list[Path]:
    """Those that began in the network of these tests, also in a namespace that is gone with its command."""
    ours = f"PYTEST_CURRENT_TEST={os.environ['PYTEST_CURRENT_TEST']}".encode()
    found = []
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += [environ.parent] if ours in environ.read_bytes().split(b"\0") else []
    return found


def as_vyos_writes(lines: Sequence[str]) -> str:
    """swanctl.conf of `set vpn ipsec` lines, as templates/ipsec/swanctl/peer.j2 of vyos-1x makes it."""
    told = [line.removeprefix("set vpn ipsec ").split() for line in lines]

    def values(*path: str) -> list[str]:
        return [words[-1] for words in told if tuple(words[:-1]) == path]

    def proposal(group: str) -> str:
        (cipher,), (hash_,) = values(group, "dutlab", "proposal", "1", "encryption"), values(group, "dutlab", "proposal", "1", "hash")
        return "-".join([cipher, hash_, *({"19": "ecp256"}[dh] for dh in values(group, "dutlab", "proposal", "1", "dh-group"))])

    connections, secrets = "", ""
    for peer in dict.fromkeys(words[2] for words in told if words[0] == "site-to-site"):
        at = ("site-to-site", "peer", peer)
        (local,), (remote,) = values(*at, "local-address"), values(*at, "remote-address")
        ids = [*values(*at, "authentication", "local-id"), *values(*at, "authentication", "remote-id")]
        action = {"respond": "trap"}[values(*at, "connection-type")[0]]
        connections += f"""{peer} {{ proposals = {proposal("ike-group")}
 version = 2
 local_addrs = {local}
 remote_addrs = {remote}
 rekey_time = {values("ike-group", "dutlab", "lifetime")[0]}s
 mobike = yes
 keyingtries = 1
 local {{ id = "{ids[0]}"
 auth = psk }}
 remote {{ id = "{ids[1]}"
 auth = psk }}
 children {{ {peer}-tunnel-1 {{ esp_proposals = {proposal("esp-group")}
 life_time = {(values("esp-group", "dutlab", "lifetime") or ["3600"])[0]}s
 local_ts = {",".join(values(*at, "tunnel", "1", "local", "prefix"))}
 remote_ts = {",".join(values(*at, "tunnel", "1", "remote", "prefix"))}
 mode = tunnel
 start_action = {action} }} }} }}
"""
        known = "".join(f' id-{n} = "{who}"\n' for n, who in enumerate(values("authentication", "psk", peer, "id")))
        secrets += f'ike-{peer} {{\n{known} secret = "{values("authentication", "psk", peer, "secret")[0]}" }}\n'
    return f"connections {{ {connections} }}\nsecrets {{ {secrets} }}\n"


async def of_dut(dut: Host) -> tuple[TunnelEndState, str]:
    """Tunnels, forwarding and rules."""
    return await held(dut), (await dut.run(["sh", "-c", "cat /proc/sys/net/ipv4/ip_forward; nft list ruleset"])).text
