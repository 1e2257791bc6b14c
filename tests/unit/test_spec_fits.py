"""What a workload needs of hosts and links and a testbed has not: each refused at its place, before any host is reached."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.errors import SpecRefused
from dutlab.plan.trials import make_plan
from dutlab.spec.loader import given_experiment, load_experiment
from dutlab.spec.loader import testbed_of as bed_of
from dutlab.spec.workloads.generators import GeneratorsSetting

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


def refused(tmp_path: Path, bed: str, workload: str, mode: str = "router") -> str:
    (tmp_path / "bed.yaml").write_text(bed)
    path = tmp_path / "e.yaml"
    path.write_text(f"experiment: e\ntestbed: bed.yaml\nfactors: {{mode: [{mode}]}}\nworkloads:\n  - {workload}\n")
    with pytest.raises(SpecRefused) as why:
        load_experiment(path)
    return str(why.value).replace(f"{path}:", "")


@pytest.mark.parametrize(
    ("workload", "what"),
    [
        ("sweep: {links: [[win]]}", "workloads.0.sweep: frames need Linux at both ends of link win; pc is windows: use iperf3"),
        ("sweep: {links: [[lan]]}", "workloads.0.sweep: goes from one end of a path to the other, but link lan is a segment: use matrix or path-mtu"),
        ("iperf3: {links: [[lan]]}", "workloads.0.iperf3: goes from one end of a path to the other, but link lan is a segment"),
        ("generators: {generators: [engine], links: [[pair]]}", "workloads.0.generators: is about what the DUT does to frames, and link pair goes through none"),
        ("generators: {generators: [engine], links: [[a]], senders: [s2]}", "workloads.0.generators.senders.0: no set of links that this drives has all of them begin, or all of them end, at 's2' (known: s1, t1"),
        ("generators: {generators: [engine], links: [[a, b]], senders: [s1, t1]}", "workloads.0.generators.senders.0: no set of links"),
        ("generators: {generators: [ipgen], frame_sizes: [64], links: [[a]], senders: [t1]}", "workloads.0.generators.senders.0: generator ipgen cannot be asked for"),
        ("iperf3: {links: [[x]]}", "workloads.0.iperf3.links.0.0: testbed bed has no link 'x' (known: a, b, back, lan, pair, win"),
        ("steps: {run: {s9: [uname]}}", "workloads.0.steps.run.s9: testbed bed has no host 's9'"),
    ],
)  # fmt: skip
def test_a_workload_that_needs_what_hosts_and_links_have_not_is_refused_at_its_place(tmp_path: Path, workload: str, what: str) -> None:
    assert what in refused(tmp_path, BED, workload)


def test_a_testbed_without_links_or_without_a_way_in_carries_no_traffic(tmp_path: Path) -> None:
    said = refused(tmp_path, ALONE, "iperf3: {}", mode="as-found")
    assert "workloads.0.iperf3: drives links, and testbed alone has none: write one, or use steps" in said
    said = refused(tmp_path, NO_WAY_IN, "iperf3: {}", mode="as-found")
    assert "workloads.0.iperf3: needs commands at both ends of link a, and there is no way into dut" in said


def test_a_mode_that_a_lab_cannot_have_is_refused_with_the_reason_and_what_it_has() -> None:
    text = "experiment: e\ntestbed: {lab: uml-router}\nfactors: {mode: [router, nat, mine]}\nmodes: {mine: {}}\nworkloads: [iperf3: {}]\n"
    with pytest.raises(SpecRefused) as why:
        given_experiment(text.encode(), Path("e.yaml"))
    (fault,) = why.value.faults
    assert "lab uml-router cannot have mode nat: the guest's kernel has no nf_tables for IP (it has router, and modes of your own)" in str(
        fault
    )


@pytest.mark.parametrize(("links", "refused"), [("[[a], [b]]", False), ("[[a, b]]", True)])
def test_only_the_engine_drives_links_that_share_a_port_at_once(links: str, refused: bool) -> None:
    text = "experiment: e\ntestbed: {lab: fan-in}\nfactors: {mode: [router]}\ngenerator: GENERATOR\nworkloads: [sweep: {rates: [max], links: LINKS}]\n"
    text = text.replace("LINKS", links)
    assert given_experiment(text.replace("GENERATOR", "engine").encode(), Path("e.yaml"))
    pktgen = text.replace("GENERATOR", "pktgen").encode()
    if not refused:
        assert given_experiment(pktgen, Path("e.yaml"))
        return
    with pytest.raises(SpecRefused) as why:
        given_experiment(pktgen, Path("e.yaml"))
    (of_the_set,) = [str(f) for f in why.value.faults if "share a port" in str(f)]
    assert of_the_set == (
        "e.yaml:5:43: workloads.0.sweep.links.0: generator pktgen cannot be asked for links that share a port at once: "
        "nothing tells whose frames a port counts, unless the links are driven one by one; use engine"
    )


def test_what_goes_on_to_the_sink_is_refused_where_the_tunnel_is_between_source_and_dut() -> None:
    text = "experiment: e\ntestbed: {lab: uml-two-sites}\nfactors: {mode: [ikev2-host]}\nworkloads: [iperf3: {}, sweep: {}]\n"
    with pytest.raises(SpecRefused) as refused:
        given_experiment(text.encode(), Path("e.yaml"))
    assert str(refused.value).count("is past the tunnel of mode ikev2-host: it is between source and DUT; use steps") == 2


def test_a_lab_with_one_end_for_tunnels_names_the_lab_with_two() -> None:
    text = "experiment: e\ntestbed: {{lab: {}}}\nfactors: {{mode: [ipsec-3des-md5]}}\nworkloads: [iperf3: {{links: [[a]]}}]\n"
    with pytest.raises(SpecRefused, match=r"cannot have mode ipsec-3des-md5: .*use lab uml-two-sites"):
        given_experiment(text.format("uml-router").encode(), Path("e.yaml"))
    with pytest.raises(SpecRefused, match=r"cannot have mode ipsec-3des-md5: .*use lab qemu-two-sites"):
        given_experiment(text.format("qemu-router").encode(), Path("e.yaml"))
    for two in ("uml-two-sites", "qemu-two-sites"):
        assert given_experiment(text.format(two).encode(), Path("e.yaml"))


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
