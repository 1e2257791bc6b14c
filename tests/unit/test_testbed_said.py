"""What a report knows of a run's testbed: which host was measured, whatever it is called, and the order in which packets come by hosts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dutlab.report.model.run_report import RunReport
from dutlab.report.pages.method_words import _what
from dutlab.report.sections.watched import cpus
from dutlab.store.read import dut_of, hosts_along

PATH = ["s1:eth0", "fw:in", "fw:out", "t1:eth0"]


@pytest.mark.parametrize(
    ("testbed", "dut", "along"),
    [
        ({"hosts": {"s1": {}, "fw": {}, "t1": {}}, "links": {"a": {"path": PATH}}}, "fw", ["s1", "fw", "t1"]),
        ({"hosts": {"x": {}, "dut": {}}, "links": {"a": {"path": ["x:e", "y:a", "y:b", "dut:e"]}}}, "dut", ["x", "y", "dut"]),
        ({"hosts": {"p": {}, "q": {}}, "links": {"lan": {"segment": ["q:e", "p:e"]}}}, "dut", ["q", "p"]),
        ({"hosts": {"a": {}, "b": {}}, "links": {"a": {"path": ["a:e", "b:e"]}, "c": {"path": PATH}}}, "fw", ["a", "b", "s1", "fw", "t1"]),
        ({"hosts": None, "links": {"a": None, "b": {"path": "x"}}}, "dut", []),
        (None, "dut", []),
    ],
)
def test_the_measured_host_is_called_dut_or_is_the_one_that_paths_go_through(testbed: Any, dut: str, along: list[str]) -> None:
    assert (dut_of({"testbed": testbed}), hosts_along({"testbed": testbed})) == (dut, along)


def test_the_cores_shown_are_those_of_the_measured_host(tmp_path: Any) -> None:
    class Record:
        trial = 1

    class Group:
        label = "router"
        measured = (Record(),)

        class cell:  # noqa: N801 -- in the place of an attribute
            workload = "sweep"

    means: Any = {1: {("fw", 0): {"system": 40.0}, ("t1", 0): {"system": 90.0}}}
    groups: Any = [Group()]
    assert [c.host for c in cpus(means, groups, ["router"], "fw")] == ["fw"]
    assert [c.host for c in cpus(means, groups, ["router"], "dut")] == ["fw", "t1"]


# ---- How a run was measured, in sentences: what has no link names none


def what(workload: str, asked: str, *links: str) -> list[str]:
    trials = [SimpleNamespace(workload=workload, asked=asked, links=of) for of in links]
    return _what(cast("RunReport", SimpleNamespace(trials=trials)))


def test_a_workload_without_links_names_none() -> None:
    assert what("steps", "steps", "") == ["workload steps."]
    (of,) = what("iperf3", "iperf3, 1 s", "a", "a+b")
    assert of.startswith("iperf3: iperf3, 1 s, ") and "link a" in of and "links a+b" in of
