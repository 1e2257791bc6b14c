"""Cores of a host by link, and iperf3 to a named server."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

from dutlab.errors import FaultKind, SpecRefused
from dutlab.spec.cores import Cores, cores_on
from dutlab.spec.loader import given_experiment, given_testbed
from dutlab.spec.testbed import Testbed

BED = """
testbed: box
hosts:
  source: {ssh: root@192.0.2.11, cpus: CORES}
  dut: {ssh: root@192.0.2.1}
  sink: {ssh: root@192.0.2.12}
links:
  a: {path: [source:eth1, dut:eth1, dut:eth2, sink:eth1], addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}
  b: {path: [source:eth2, dut:eth3, dut:eth4, sink:eth2], addresses: [172.16.1.2/24, 172.16.1.1/24, 172.16.11.1/24, 172.16.11.2/24]}
"""


def bed(cores: str) -> Testbed:
    return given_testbed(BED.replace("CORES", cores).encode(), Path("testbed.yaml"))


def test_cores_by_link_are_kept_through_a_file_a_copy_and_json() -> None:
    testbed = bed("{a: [1, 2], b: [3, 4]}")
    again = Testbed.model_validate(testbed.model_dump(mode="json", by_alias=True))
    copies = (copy.deepcopy(testbed), pickle.loads(pickle.dumps(testbed)))
    for of in (testbed, again, *copies):
        cores = of.hosts["source"].cpus
        assert (tuple(cores), dict(cores.by_link)) == ((1, 2, 3, 4), {"a": (1, 2), "b": (3, 4)})
        assert [cores_on(cores, link) for link in "abc"] == [(1, 2), (3, 4), ()]
    assert [cores_on(of, "a") for of in (Cores((1, 2)), (5,), None)] == [(1, 2), (5,), ()]
    assert tuple(bed("[1, 2]").hosts["source"].cpus) == (1, 2)


@pytest.mark.parametrize(
    ("cores", "path", "kind"),
    [
        ("{a: [1], c: [2]}", "hosts.source.cpus.c", FaultKind.UNKNOWN_NAME),
        ("{a: []}", "hosts.source.cpus.a", FaultKind.MISSING),
        ("{a: [-1]}", "hosts.source.cpus.a.0", FaultKind.RANGE),
        ("{a: one}", "hosts.source.cpus.a", FaultKind.TYPE),
        ("{}", "hosts.source.cpus", FaultKind.MISSING),
        ("[one]", "hosts.source.cpus.0", FaultKind.TYPE),
        ("{a: [1, 2], b: [3]}, cpus_per_port: 2", "hosts.source.cpus_per_port", FaultKind.CONFLICT),
    ],
)
def test_cores_that_fit_no_link_are_refused(cores: str, path: str, kind: FaultKind) -> None:
    with pytest.raises(SpecRefused) as refused:
        bed(cores)
    assert [(fault.path, fault.kind) for fault in refused.value.faults] == [(path, kind)]


def faults(workload: dict[str, Any] | str) -> list[str]:
    text = f"experiment: x\ntestbed: {{lab: three-node}}\nfactors: {{mode: [router]}}\nworkloads:\n  - {workload}\n"
    try:
        given_experiment(text.encode(), Path("x.yaml"))
    except SpecRefused as refused:
        return [fault.path for fault in refused.faults]
    return []


@pytest.mark.parametrize(
    ("workload", "paths"),
    [
        ("iperf3: {server: dut, links: [[a], [b], [a, b]]}", []),
        ("iperf3: {server: sink}", []),
        ("iperf3: {server: source}", ["workloads.0.iperf3.server"] * 2),
        ("iperf3: {server: nas, links: [[a]]}", ["workloads.0.iperf3.server"]),
        ("matrix: {server: dut}", ["workloads.0.matrix.server"]),
    ],
)
def test_a_server_is_a_host_that_every_link_leads_to(workload: str, paths: list[str]) -> None:
    assert faults(workload) == paths
