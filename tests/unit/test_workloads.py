"""The registry of workloads: each record names code that is there and fits."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

from dutlab.analysis.compare import compare
from dutlab.analysis.comparison import Pair
from dutlab.analysis.verdict import Verdict
from dutlab.by_path import named
from dutlab.measures import direction_of
from dutlab.spec import workloads
from dutlab.spec.workloads import Need, WorkloadModel, model_of
from dutlab.spec.workloads.frames import FrameWorkload
from dutlab.workload_plug import WorkloadPlug
from dutlab.workloads import WORKLOADS, main_figures, plug_of, settable


@pytest.mark.parametrize("plug", WORKLOADS.values(), ids=lambda plug: plug.name)
def test_a_record_names_code_that_is_there(plug: WorkloadPlug) -> None:
    assert bool(plug.settings) == bool(plug.method) + bool(plug.tool), "settings need a method or a tool, and one of them"
    if plug.settings:
        assert model_of(plug.name).kind == plug.name
        inspect.signature(named(plug.method or plug.tool)).bind("where", "cell")  # raises TypeError if it takes others
    inspect.signature(named(plug.section)).bind("run", "groups", "labels", "book")
    if plug.check:
        inspect.signature(named(plug.check)).bind("site", "cells")


def test_every_model_of_settings_is_registered() -> None:
    for module in pkgutil.iter_modules(workloads.__path__, f"{workloads.__name__}."):
        importlib.import_module(module.name)

    def kinds(model: type[WorkloadModel]) -> set[str]:
        own = {model.kind} if "kind" in vars(model) else set()
        return own.union(*map(kinds, model.__subclasses__()))

    assert kinds(WorkloadModel) == set(settable())


def test_a_workload_that_nobody_registered_has_a_bare_record_and_no_settings() -> None:
    assert plug_of("netperf") == WorkloadPlug("netperf")
    with pytest.raises(KeyError):
        model_of("netperf")


def test_the_registry_loads_none_of_the_code_that_it_names() -> None:
    script = "import sys, dutlab.workloads; print(*(name for name in sys.modules if name.startswith('dutlab.')))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["dutlab.subject", "dutlab.workload_plug", "dutlab.workloads"]


@pytest.mark.parametrize(
    ("workload", "held", "judged"),
    [
        ("sweep", ["loss_ratio", "received_pps", "offered_pps"], ["received_pps"]),
        ("search", ["received_pps", "ndr/lower_pps", "pdr/lower_pps"], ["ndr/lower_pps", "pdr/lower_pps"]),
        ("latency", ["rate_pps", "50%/tl_ns", "50%/wcl_ns"], ["50%/tl_ns"]),
        ("reconf", ["received_pps", "forward/outage_ns", "forward/outage_max_ns"], ["forward/outage_ns"]),
        ("fio", ["iops.read"], ["iops.read"]),
        ("netperf", ["rtt_p50_ns", "seen_by_nobody"], ["rtt_p50_ns"]),
        ("sweep", ["seen_by_nobody"], []),
    ],
)
def test_a_cell_is_judged_by_the_first_figure_of_its_workload_that_it_has(workload: str, held: list[str], judged: list[str]) -> None:
    assert main_figures(workload, held) == judged


@pytest.mark.parametrize("figure", ["forward/outage_ns", "back/outage_max_ns", "50%/tl_ns", "100%/wcl_ns", "rtt_p50_ns", "latency_p99_ns"])
def test_less_of_a_time_is_better(figure: str) -> None:
    """An outage that grew was called faster."""
    assert direction_of(figure) == "lower"
    (found,) = compare([Pair("cell", figure, (101.0, 102.0, 103.0, 104.0, 105.0, 106.0), (201.0, 202.0, 203.0, 204.0, 205.0, 206.0))])
    assert found.verdict is Verdict.WORSE


def test_more_of_a_rate_is_better() -> None:
    figures = ("received_pps", "ndr/lower_pps", "goodput_bps", "iops.read", "rate_pps")
    assert {direction_of(figure) for figure in figures} == {"higher"}


@pytest.mark.parametrize("kind", settable())
def test_each_workload_says_what_it_needs_of_the_hosts_of_its_links(kind: str) -> None:
    needs = model_of(kind).needs
    assert needs and needs <= frozenset(Need)
    assert Need.FRAMES in needs or not issubclass(model_of(kind), FrameWorkload)
    assert Need.FRAMES not in needs or kind not in {"iperf3", "matrix", "path-mtu", "steps", "datagrams"}, "they need no engine"
