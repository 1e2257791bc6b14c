"""What a workload needs of hosts and links and a testbed has not: each refused at its place, before any host is reached."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from dutlab.errors import Fault
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import given_experiment
from dutlab.spec.loader import testbed_of as bed_of
from dutlab.spec.workloads.generators import GeneratorsSetting
from golden import Golden
from spec_faults import brief, faults_of_experiment

BED = """
testbed: bed
hosts:
  s1: {ssh: s1}
  s2: {ssh: s2}
  pc: {ssh: pc, family: windows}
  fw: {ssh: fw, family: freebsd-pf}
  t1: {ssh: t1}
links:
  a: {path: [s1:eth0, fw:in-a, fw:out-a, t1:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}
  b: {path: [s2:eth0, fw:in-b, fw:out-b, t1:eth1], addresses: [10.0.4.2/24, 10.0.4.1/24, 10.0.5.1/24, 10.0.5.2/24]}
  back: {path: [t1:eth2, fw:in-c, fw:out-c, s1:eth2], addresses: [10.0.8.2/24, 10.0.8.1/24, 10.0.9.1/24, 10.0.9.2/24]}
  pair: {path: [s2:eth1, t1:eth3], addresses: [10.0.2.2/24, 10.0.2.1/24]}
  win: {path: [pc:eth0, fw:in-w, fw:out-w, t1:eth4], addresses: [10.0.6.2/24, 10.0.6.1/24, 10.0.7.1/24, 10.0.7.2/24]}
  lan: {segment: [s1:eth3, s2:eth3, pc:eth3], addresses: [10.0.3.1/24, 10.0.3.2/24, 10.0.3.3/24]}
"""
ALONE = "testbed: alone\nhosts: {box: {ssh: box}}\n"
NO_WAY_IN = """
testbed: closed
hosts: {dut: {family: black-box}, source: {ssh: s}}
links: {a: {path: [source:eth0, dut:one], addresses: [10.0.0.1/24, 10.0.0.2/24]}}
"""


def faults(tmp_path: Path, bed: str, workload: str, mode: str = "router") -> tuple[Fault, ...]:
    (tmp_path / "bed.yaml").write_text(bed)
    text = f"experiment: e\ntestbed: bed.yaml\nfactors: {{mode: [{mode}]}}\nworkloads:\n  - {workload}\n"
    return faults_of_experiment(text, path=tmp_path / "e.yaml")


UNFIT = [
    ("sweep: {links: [[win]]}", "5:5 workloads.0.sweep"),
    ("sweep: {links: [[lan]]}", "5:5 workloads.0.sweep"),
    ("iperf3: {links: [[lan]]}", "5:5 workloads.0.iperf3"),
    ("generators: {generators: [engine], links: [[pair]]}", "5:5 workloads.0.generators"),
    ("generators: {generators: [engine], links: [[a]], senders: [s2]}", "5:64 workloads.0.generators.senders.0"),
    ("generators: {generators: [engine], links: [[a, b]], senders: [s1, t1]}", "5:67 workloads.0.generators.senders.0"),
    ("generators: {generators: [ipgen], frame_sizes: [64], links: [[a]], senders: [t1]}", "5:82 workloads.0.generators.senders.0"),
    ("iperf3: {links: [[x]]}", "5:23 workloads.0.iperf3.links.0.0"),
    ("steps: {run: {s9: [uname]}}", "5:19 workloads.0.steps.run.s9"),
]


@pytest.mark.parametrize(("workload", "at"), UNFIT)
def test_a_workload_that_needs_what_hosts_and_links_have_not_is_refused_at_its_place(tmp_path: Path, workload: str, at: str) -> None:
    assert f"{at} unfit" in brief(faults(tmp_path, BED, workload))


@pytest.mark.parametrize("bed", [ALONE, NO_WAY_IN])
def test_a_testbed_without_links_or_without_a_way_in_carries_no_traffic(tmp_path: Path, bed: str) -> None:
    assert "5:5 workloads.0.iperf3 unfit" in brief(faults(tmp_path, bed, "iperf3: {}", mode="as-found"))


def test_what_is_said_of_each(tmp_path: Path, golden: Golden) -> None:
    every = [*((BED, workload, "router") for workload, _ in UNFIT), *((bed, "iperf3: {}", "as-found") for bed in (ALONE, NO_WAY_IN))]
    said = "".join(f"{of[1]}\n    {fault.what}\n" for of in every for fault in faults(tmp_path, *of))
    labs = [
        ("uml-router", "nat", "iperf3: {}"),
        ("uml-two-sites", "ikev2-host", "sweep: {}"),
        ("qemu-router", "ipsec-3des-md5", "iperf3: {}"),
        ("bridge", "router", "iperf3: {}"),
        ("three-node", "bridge", "iperf3: {}"),
        ("bridge", "bridge", "routes: {}"),
        ("bridge", "bridge", "rfc2544: {networks: [1, 256]}"),
    ]
    for lab, mode, workload in labs:
        found = faults_of_experiment(f"experiment: e\ntestbed: {{lab: {lab}}}\nfactors: {{mode: [{mode}]}}\nworkloads: [{workload}]\n")
        said += "".join(f"{workload} in mode {mode} of {lab}\n    {fault.what}\n" for fault in found)
    golden.check("refusals-fits.txt", said)


def test_a_mode_that_a_lab_cannot_have_and_what_goes_on_to_the_sink_where_the_tunnel_ends_at_the_dut_are_refused() -> None:
    text = "experiment: e\ntestbed: {lab: uml-router}\nfactors: {mode: [router, nat, mine]}\nmodes: {mine: {}}\nworkloads: [iperf3: {}]\n"
    assert brief(faults_of_experiment(text)) == ["3:26 factors.mode.1 unfit"]
    text = "experiment: e\ntestbed: {lab: uml-two-sites}\nfactors: {mode: [ikev2-host]}\nworkloads: [iperf3: {}, sweep: {}]\n"
    assert brief(faults_of_experiment(text)) == ["4:13 workloads.0.iperf3 unfit", "4:25 workloads.1.sweep unfit"]


@pytest.mark.parametrize(("links", "refused"), [("[[a], [b]]", False), ("[[a, b]]", True)])
def test_only_the_engine_drives_links_that_share_a_port_at_once(links: str, refused: bool) -> None:
    text = "experiment: e\ntestbed: {lab: fan-in}\nfactors: {mode: [router]}\ngenerator: GENERATOR\nworkloads: [sweep: {rates: [max], links: LINKS}]\n"
    text = text.replace("LINKS", links)
    assert given_experiment(text.replace("GENERATOR", "engine").encode(), Path("e.yaml"))
    pktgen = text.replace("GENERATOR", "pktgen")
    if refused:
        assert "5:43 workloads.0.sweep.links.0 unfit" in brief(faults_of_experiment(pktgen))
    else:
        assert given_experiment(pktgen.encode(), Path("e.yaml"))


@pytest.mark.parametrize("guests", ["uml", "qemu"])
def test_a_lab_with_one_end_for_tunnels_names_the_lab_with_two(guests: str) -> None:
    text = f"experiment: e\ntestbed: {{lab: {guests}-router}}\nfactors: {{mode: [ipsec-3des-md5]}}\nworkloads: [iperf3: {{links: [[a]]}}]\n"
    (fault,) = faults_of_experiment(text)
    assert fault.path == "factors.mode.0" and f"{guests}-two-sites" in fault.what
    assert given_experiment(text.replace("-router", "-two-sites").encode(), Path("e.yaml"))


def test_a_sender_is_any_host_at_an_end_of_what_is_driven(tmp_path: Path) -> None:
    (tmp_path / "bed.yaml").write_text(BED)
    body = "{generators: [engine], frame_sizes: [64], links: [[a], [back], [a, back]], senders: [s1, t1]}"
    text = f"experiment: e\ntestbed: bed.yaml\nfactors: {{mode: [router]}}\nworkloads:\n  - generators: {body}\n"
    given = given_experiment(f"{text}repeats: 1\norder: as-written\n".encode(), tmp_path / "e.yaml")
    found = []
    for trial in make_plan(given.experiment, bed_of(given)).trials:
        assert isinstance(trial.cell.setting, GeneratorsSetting)
        found.append((trial.cell.links, trial.cell.setting.sender, trial.cell.setting.directions.value))
    assert found == [
        (("a",), "s1", "forward"), (("a",), "t1", "back"), (("back",), "s1", "back"), (("back",), "t1", "forward"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "source", "is_refused"), [("freebsd-pf", "freebsd", True), ("freebsd-pf", "linux", False), ("linux", "freebsd", True)]
)
def test_a_tunnel_begins_on_a_linux(tmp_path: Path, family: str, source: str, is_refused: bool) -> None:
    bed = (
        f"testbed: t\nhosts: {{source: {{ssh: s, family: {source}}}, dut: {{ssh: d, family: {family}}}, sink: {{ssh: k, family: {source}}}}}\n"
        "links: {a: {path: [source:eth0, dut:eth0, dut:eth1, sink:eth0], addresses: [10.0.0.2/24, 10.0.0.1/24, 10.0.1.1/24, 10.0.1.2/24]}}\n"
    )
    with nullcontext() if is_refused else pytest.raises(pytest.fail.Exception):
        assert "3:18 factors.mode.0 unfit" in brief(faults(tmp_path, bed, "iperf3: {}", mode="ipsec-cbc"))
