"""What distorts results, made for real: found, fixed by the commands that the finding names, and brought back by its undo."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from capability import need
from dutlab import labs
from dutlab.analysis.doctor import Finding
from dutlab.hosts.host import Host
from dutlab.hosts.local import LocalHost
from dutlab.hosts.netns import NetnsHost
from dutlab.runner.examine import examine, examine_machine
from lab_fixtures import lab_up
from run_records import record_in

OF_THE_MACHINE = {"busy-cpu", "stolen-cpu"}
"""What others do on the machine that the tests run on."""
KEPT_RULES = Path("/root/rules-before.nft")
FAULTS = {
    "mtu-mismatch": ("source", "ip link set dev eth-a mtu 1400"),
    "offloads-off": ("sink", "ethtool -K eth-b gro off"),
    "firewall-in-the-way": ("sink", "nft 'add table ip t; add chain ip t c {type filter hook input priority 0;}; add rule ip t c counter'"),
    "neighbour-ageing": ("dut", "ip neigh change 172.16.10.2 dev out-a nud stale"),
}


@pytest.fixture
def kept_rules() -> Iterator[Path]:
    need("machine without kept rules", not KEPT_RULES.exists())
    yield KEPT_RULES
    KEPT_RULES.unlink(missing_ok=True)


async def sh(host: Host, command: str) -> None:
    await host.run(["sh", "-c", command])


async def found_in(lab: labs.Lab) -> dict[str, Finding]:
    hosts = lab.hosts()
    try:
        examined = await examine(lab.testbed, hosts, pinned=lab.cpus)
    finally:
        for host in hosts.values():
            await host.close()
    return {f.kind: f for f in examined.findings if f.kind not in OF_THE_MACHINE}


async def carry_out(lab: labs.Lab, findings: Mapping[str, Finding], which: str) -> None:
    hosts = lab.hosts()
    for finding in findings.values():
        for step in getattr(finding, which):
            await sh(hosts[step.host], step.command)


async def test_faults_are_found_cured_and_brought_back_by_the_commands_of_their_findings(lab: labs.Lab, kept_rules: Path) -> None:
    if len(os.sched_getaffinity(0)) > 1:
        assert await found_in(lab) == {}
    hosts = lab.hosts()
    for role, command in FAULTS.values():
        await sh(hosts[role], command)
    sick = await found_in(lab)
    assert set(FAULTS) <= set(sick)
    assert sick["mtu-mismatch"].where == ("link a",)
    assert sick["offloads-off"].where == ("sink:eth-b",)
    assert sick["neighbour-ageing"].where == ("dut:out-a",)
    assert [e.said for e in sick["firewall-in-the-way"].evidence] == ["table ip t: 1 rule"]
    made = {kind: sick[kind] for kind in FAULTS}

    await carry_out(lab, made, "cure")
    assert not set(FAULTS) & set(await found_in(lab))
    assert kept_rules.exists()

    await carry_out(lab, made, "undo")
    assert set(await found_in(lab)) & set(FAULTS) == set(FAULTS) - {"neighbour-ageing"}  # a deleted entry is learnt anew when it is needed


async def test_a_wire_that_loses_long_packets_is_found_although_both_its_ends_agree(lab: labs.Lab) -> None:
    drop = "add table ip switch; add chain ip switch c {type filter hook prerouting priority -400;}; add rule ip switch c meta length > 1486 ip daddr 172.16.0.1 drop"
    await lab.hosts()["dut"].run(["nft", drop])
    found = (await found_in(lab))["jumbo-meaning"]
    assert "packets of 1486 bytes pass, but none of 1500, the MTU of both" in found.what
    assert found.where == ("link a",)
    assert "source:eth-a and dut:in-a" in found.what


async def test_a_segment_is_examined_pair_by_pair(label: str) -> None:
    async with lab_up("flat", label) as flat:
        hosts = flat.hosts()
        assert not {"mtu-mismatch", "jumbo-meaning"} & set(await found_in(flat))
        await sh(hosts["pc1"], "ip link set dev eth0 mtu 1400")
        mismatch = (await found_in(flat))["mtu-mismatch"]
        assert mismatch.where == ("link lan",)
        assert "MTUs from 1400 to 1500; hosts of one network differ" in mismatch.what
        await carry_out(flat, {"mtu-mismatch": mismatch}, "cure")
        drop = "add table ip port; add chain ip port c {type filter hook prerouting priority -400;}; add rule ip port c meta length > 1486 drop"
        await hosts["pc3"].run(["nft", drop])
        found = await found_in(flat)
        assert "mtu-mismatch" not in found
        assert "between pc2:eth0 and pc3:eth0 packets of 1486 bytes pass, but none of 1500" in found["jumbo-meaning"].what


async def test_generator_and_dut_on_one_core_are_found(label: str) -> None:
    async with lab_up("three-node", label, layout="one-core") as one_core:
        assert "the DUT forwards on core" in (await found_in(one_core))["shared-core"].what


async def test_a_port_that_sends_one_way_at_a_time_is_found(namespace: str) -> None:
    host = NetnsHost("dut", namespace)
    await sh(host, "ip tuntap add dev t0 mode tap && ip link set t0 up && ethtool -s t0 speed 100 duplex half autoneg off")
    examined = await examine_machine(host, ["t0"])
    (half,) = [f for f in examined.findings if f.kind == "half-duplex"]
    assert half.evidence[0].said == "half"
    assert examined.facts["dut"]["interfaces"]["t0"]["duplex"] == "half"


async def test_a_busy_core_is_found_and_named() -> None:
    host, core = LocalHost("dut"), max(os.sched_getaffinity(0))
    burner = await host.spawn(["taskset", "-c", str(core), "sh", "-c", "while :; do :; done"])
    try:
        findings = (await examine_machine(host, ["lo"])).findings
    finally:
        await burner.end()
    (busy,) = [f for f in findings if f.kind == "busy-cpu"]
    assert f"core {core} " in busy.evidence[0].said
    assert busy.price.percent is not None and busy.price.percent > 50
    await host.close()


def test_a_run_tells_findings_first_and_keeps_them_in_folder_records_and_report(
    standing_lab: str, tmp_path: Path, dutlab: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    subprocess.run(["ip", "-n", f"dutlab-{standing_lab}-source", "link", "set", "dev", "eth-b", "mtu", "1400"], check=True)
    told = dutlab("doctor", "--lab", standing_lab, "--json")
    assert told.returncode == 1, told.stderr
    findings = {f["kind"]: f for f in json.loads(told.stdout)["findings"]}
    assert findings["mtu-mismatch"]["cure"] == [{"host": "source", "command": "ip link set dev eth-b mtu 1500"}]

    (tmp_path / "e.yaml").write_text(
        "experiment: sick\ntestbed: {lab: three-node}\nfactors: {mode: [router]}\nworkloads:\n  - path-mtu: {links: [[a]]}\nrepeats: 1\n"
    )
    done = dutlab("run", "e.yaml", "--lab", standing_lab)
    assert done.returncode == 0, done.stderr
    lines = done.stderr.splitlines()
    assert [line[:12] for line in lines if "the ports of link b have MTUs" in line or line.startswith("[1/1]")] == [
        "note: link b",
        "[1/1] router",
    ]
    (folder,) = (tmp_path / "runs").iterdir()
    kept = json.loads((folder / "doctor.json").read_text())["findings"]
    assert "mtu-mismatch" in [f["kind"] for f in kept]
    doubts = record_in(folder / "trials/0001/record.json")["doubts"]
    assert [d["grade"] for d in doubts if "MTUs from 1400 to 1500" in d["detail"]] == [
        "warning"
    ]  # 0.4 % of goodput, and every longer frame


def test_a_testbed_file_is_examined_and_a_black_box_left_alone(
    namespace: str, tmp_path: Path, python: str, python_env: dict[str, str]
) -> None:
    setup = [
        "link add a0 mtu 9000 type veth peer name a1", "link add b0 mtu 1500 type veth peer name b1",
        *(f"link set {port} up" for port in ("a0", "a1", "b0", "b1")),
        "addr add 172.16.0.2/24 dev a0", "addr add 172.16.10.2/24 dev b0",
    ]  # fmt: skip
    subprocess.run(["ip", "-n", namespace, "-batch", "-"], input="\n".join(setup), text=True, check=True)
    (tmp_path / "t.yaml").write_text(
        "testbed: t\nhosts: {source: {local: true}, dut: {family: black-box}, sink: {local: true}}\n"
        "links: {a: {path: [source:a0, dut:lan, dut:wan, sink:b0], addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}}\n"
    )
    inside = ["ip", "netns", "exec", namespace, python, "-m", "dutlab", "doctor", "--testbed", str(tmp_path / "t.yaml"), "--json"]
    done = subprocess.run(inside, env=python_env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    (found,) = [f for f in json.loads(done.stdout)["findings"] if f["kind"] == "mtu-mismatch"]
    assert [(e["host"], e["said"]) for e in found["evidence"]] == [("source", "9000"), ("sink", "1500")]
    assert "the router between" in found["what"]


def test_one_queue_against_several_is_proven_by_its_own_cure_in_the_lab_whose_ports_have_four(
    label: str, tmp_path: Path, dutlab: Callable[..., subprocess.CompletedProcess[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    need("two cores", len(os.sched_getaffinity(0)) > 1)
    monkeypatch.setenv("DUTLAB_DISTURBED", "count")
    assert (up := dutlab("lab", "up", "four-queues", "--label", label)).returncode == 0, up.stderr
    try:
        done = dutlab("doctor", "--lab", label, "--prove", "one-queue", "--repeats", "1", "--json", "duration=200ms")
        told = json.loads(done.stdout)
        assert {(of["before"], of["after"], of["figure"]) for of in told["pairs"]} == {("nothing", "one-queue", "received_pps")}
        finding = next(f for f in json.loads(dutlab("doctor", "--lab", label, "--json").stdout)["findings"] if f["kind"] == "one-queue")
        assert len(finding["where"]) == 8, "as the hosts were found"
        assert {step["command"].rpartition(" ")[0] for step in finding["cure"]} >= {"ethtool -L in-a rx", "ethtool -L eth-b rx"}
    finally:
        assert dutlab("lab", "down", label).returncode == 0


def test_a_finding_is_proven_by_its_own_cure_which_is_undone_each_time(
    standing_lab: str, tmp_path: Path, dutlab: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    sink = ["ip", "netns", "exec", f"dutlab-{standing_lab}-sink", "ethtool"]
    subprocess.run([*sink, "-K", "eth-a", "gro", "off"], check=True)
    done = dutlab("doctor", "--lab", standing_lab, "--prove", "offloads-off", "--repeats", "2", "--json", "omit=0s", "duration=1s")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["finding"] == "offloads-off"
    assert {(of["before"], of["after"], of["figure"]) for of in told["pairs"]} == {("nothing", "offloads-off", "goodput_bps")}
    assert all(of["first"]["n"] == of["second"]["n"] == 2 for of in told["pairs"])
    levels = [record_in(path)["cell"]["factors"]["cured"] for path in sorted((tmp_path / told["run"]).glob("trials/*/record.json"))]
    assert sorted(levels) == sorted(["nothing", "offloads-off"] * 2 * len(told["pairs"]))
    features = subprocess.run([*sink, "-k", "eth-a"], check=True, capture_output=True, text=True).stdout
    assert "generic-receive-offload: off" in features
