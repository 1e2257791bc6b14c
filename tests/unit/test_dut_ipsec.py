"""Modes ipsec and ipsec-cbc of every family: keys that match at both ends and stand nowhere else, the way back, and what verify notices."""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pytest

from dut_families import EXAMPLES
from dutlab.dut import family
from dutlab.errors import CommandFailed, HostError, SpecRefused, ToolMissing
from dutlab.runner.undo import carry_out
from dutlab.spec.known import FAMILY_MODES
from dutlab.spec.loader import load_experiment
from dutlab.systems.modes import IPSEC
from tunnel_ends import FAMILIES, KEY, OF, WAYS, Ends, Silence

each_way = pytest.mark.parametrize(("ends", "mode"), WAYS, ids=[f"{ends.name}-{mode}" for ends, mode in WAYS])
each_family = pytest.mark.parametrize("ends", FAMILIES, ids=[ends.name for ends in FAMILIES])


@each_way
async def test_both_ends_are_keyed_alike_and_the_way_leads_back(ends: Ends, mode: str) -> None:
    hosts = ends.hosts()
    before = {name: dict(host.state) for name, host in hosts.items()}
    steps = await ends.made(mode, hosts).undo(hosts["dut"], ends.bed)
    assert {name: host.state for name, host in hosts.items()} == before, "undo() changes nothing"
    await ends.made(mode, hosts).apply(hosts["dut"], ends.bed)
    keys = ends.keys(hosts["dut"])
    assert keys, "there are some"
    assert keys == ends.keys(hosts["source"])
    assert len(set(keys)) == len(keys), "no key twice"
    checks = await ends.made(mode, hosts).verify(hosts["dut"], ends.bed, Silence())
    assert [c for c in checks if not c.passed] == []
    told = repr([*(argv for host in hosts.values() for argv, _ in host.ran), *map(asdict, steps), *map(asdict, checks)])
    assert not [key for host in hosts.values() for key in KEY.findall(host.tunnels) if key in told], "no key is shown anywhere"
    await carry_out(steps, hosts)
    assert {name: host.state for name, host in hosts.items()} == before


@each_way
@pytest.mark.parametrize(
    ("host", "tampered", "received", "noticed"),
    [
        (
            "dut",
            {"tunnels": "half"},
            0,
            {"dut: two associations a link", "dut: POLICIES policies", "dut: frames pass through every association"},
        ),
        ("source", {"tunnels": "none"}, 0, {
            "source: two associations a link", "source: POLICIES policies", "link LINK: the source's own packets pass",
            "dut: frames pass through every association",
        }),
        ("dut", {}, 10, {"link LINK: what is not encrypted is dropped"}),
    ],
)  # fmt: skip
async def test_what_somebody_changed_meanwhile_is_noticed(ends, mode, host, tampered, received, noticed) -> None:
    hosts = ends.hosts()
    made = ends.made(mode, hosts)
    await made.apply(hosts["dut"], ends.bed)
    hosts[host].state.update(tampered)
    checks = await made.verify(hosts["dut"], ends.bed, Silence(received))
    found = {c.statement for c in checks if not c.passed}
    (policies,) = {c.statement.split()[1] for c in checks if c.statement.startswith(f"{host}: ") and c.statement.endswith(" policies")}
    assert found == {what.replace("LINK", link).replace("POLICIES", policies) for what in noticed for link in ends.bed.links}


async def test_an_association_that_nothing_passes_is_noticed_although_the_ping_comes_back() -> None:
    ends = OF["freebsd-pf"]
    hosts = ends.hosts()
    await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)
    hosts["source"].other = None
    checks = await ends.made("ipsec", hosts).verify(hosts["dut"], ends.bed, Silence())
    failed = {c.statement.partition(":")[0]: c.found for c in checks if not c.passed}
    assert {host: re.findall("0x[0-9a-f]+", found) for host, found in failed.items()} == {
        host: ["0x1000", "0x1001", "0x1002", "0x1003"] for host in ("dut", "source")
    }


@pytest.mark.parametrize(
    ("name", "tampered", "noticed"),
    [
        ("freebsd-pf", {"forwarding": "0"}, "net.inet.ip.forwarding is 1"),
        ("openbsd-pf", {"pf": "on"}, "pf is off"),
        ("vpp", {"nat": "on"}, "translation is that of the mode"),
        ("vyos", {"config": "nat"}, "firewall and NAT are those of the mode"),
    ],
)
async def test_the_router_below_the_tunnels_is_looked_at_too(name: str, tampered: dict[str, str], noticed: str) -> None:
    ends = OF[name]
    hosts = ends.hosts()
    await ends.made("ipsec-cbc", hosts).apply(hosts["dut"], ends.bed)
    hosts["dut"].state.update(tampered)
    checks = await ends.made("ipsec-cbc", hosts).verify(hosts["dut"], ends.bed, Silence())
    assert [c.statement for c in checks if not c.passed] == [noticed]


@each_family
@pytest.mark.parametrize("end", ["dut", "source"])
async def test_tunnels_of_somebodys_are_never_taken_away(ends: Ends, end: str) -> None:
    hosts = ends.hosts()
    hosts[end].state["tunnels"] = "theirs"
    with pytest.raises(HostError, match=f"^{end}: "):
        await ends.made("ipsec-cbc", hosts).undo(hosts["dut"], ends.bed)


@each_way
async def test_a_source_whose_kernel_cannot_encrypt_is_refused_in_its_words_before_anything_changes(ends: Ends, mode: str) -> None:
    hosts = ends.hosts(esp="no")
    said = {"ipsec": "AEAD algorithm not found", "ipsec-cbc": "type not found"}[mode]
    with pytest.raises(HostError, match=f"^source: .* {mode} .*{said}.*CONFIG_INET_ESP"):
        await ends.made(mode, hosts).undo(hosts["dut"], ends.bed)


async def test_what_cannot_be_found_out_is_not_guessed() -> None:
    ends = OF["vpp"]
    hosts = ends.hosts(esp="unknown")
    with pytest.raises(ToolMissing, match="install util-linux"):
        await ends.made("ipsec", hosts).undo(hosts["dut"], ends.bed)


@each_family
async def test_a_tunnel_without_its_other_end_is_none(ends: Ends) -> None:
    with pytest.raises(HostError, match="two ends"):
        await family(ends.name).modes_among({})["ipsec-cbc"].apply(ends.hosts()["dut"], ends.bed)


def test_every_family_that_a_command_reaches_has_a_mode_with_tunnels_that_is_tried_here_or_on_a_real_kernel() -> None:
    having = {name for name, modes in FAMILY_MODES.items() if set(modes.values()) & set(IPSEC)}
    assert (
        having
        == {*OF, "linux"}
        == {name for name, modes in FAMILY_MODES.items() if modes} - {"manual", "black-box", "mdraid", "linux-exact"}
    )


@pytest.mark.parametrize("ends", [OF["openbsd-pf"], OF["vpp"], OF["vyos"]], ids=lambda ends: ends.name)
async def test_every_exchange_of_a_transcript_of_tunnels_is_asked_for(ends: Ends) -> None:
    hosts = ends.hosts()
    made = ends.made("ipsec-cbc", hosts)
    steps = await made.undo(hosts["dut"], ends.bed)
    await made.apply(hosts["dut"], ends.bed)
    await made.verify(hosts["dut"], ends.bed, Silence())
    hosts["dut"].state["tunnels"] = "half"
    await made.verify(hosts["dut"], ends.bed, Silence())
    await carry_out(steps, hosts)
    hosts["dut"].state["tunnels"] = "theirs"
    with pytest.raises(HostError):
        await made.undo(hosts["dut"], ends.bed)
    ours = Ends(ends.name, ends.dut[:1], ends.source, ends.bed).hosts()["dut"].exchanges
    assert [e.argv for e in hosts["dut"].exchanges[: len(ours)] if not e.used] == []


async def test_a_line_that_the_kernel_refuses_is_a_failure_although_setkey_ends_with_0() -> None:
    ends = OF["freebsd-pf"]
    hosts = ends.hosts()
    hosts["dut"].says = "The result of line 3: Invalid argument.\n"
    with pytest.raises(CommandFailed, match="line 3: Invalid argument"):
        await ends.made("ipsec", hosts).apply(hosts["dut"], ends.bed)
    assert hosts["source"].tunnels == ""


@pytest.mark.parametrize(("testbed", "mode"), [(str(EXAMPLES / "e302-9d.yaml"), "ipsec"), ("{lab: uml-two-sites}", "gre")])
def test_frames_that_no_kernel_encrypts_or_that_would_go_past_a_tunnel_are_refused_before_the_run(
    tmp_path: Path, testbed: str, mode: str
) -> None:
    workloads = "[{iperf3: {}}, {sweep: {frame_sizes: [64]}}]" if mode == "ipsec" else "[{sweep: {frame_sizes: [64]}}]"
    (tmp_path / "e.yaml").write_text(f"experiment: e\ntestbed: {testbed}\nfactors: {{mode: [router, {mode}]}}\nworkloads: {workloads}\n")
    with pytest.raises(SpecRefused) as refused:
        load_experiment(tmp_path / "e.yaml")
    assert [fault.path for fault in refused.value.faults] == ["workloads.1.sweep" if mode == "ipsec" else "workloads.0.sweep"]


async def test_a_module_that_setkey_loads_by_asking_is_gone_again_where_it_was_not_there_before() -> None:
    ends = OF["freebsd-pf"]
    hosts = ends.hosts()
    hosts["dut"].state["ipsec"] = "no"
    steps = await ends.made("ipsec", hosts).undo(hosts["dut"], ends.bed)
    commands = hosts["dut"].commands
    assert commands.index("kldstat -q -m ipsec") < commands.index("setkey -D"), "setkey loads it, so it is asked for before"
    assert steps[0].argv[-1].endswith("kldunload ipsec; fi")
    kept = await ends.made("ipsec", there := ends.hosts()).undo(there["dut"], ends.bed)
    assert "kldunload" not in kept[0].argv[-1]
