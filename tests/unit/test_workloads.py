"""The registry of workloads: each record names code that is there and fits."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys

import pytest

from dutlab.hosts.programs import Program
from dutlab.spec import workloads
from dutlab.spec.workloads import WorkloadModel, model_of
from dutlab.workloads import WORKLOADS, WorkloadPlug, named, plug_of, settable


@pytest.mark.parametrize("plug", WORKLOADS.values(), ids=lambda plug: plug.name)
def test_a_record_names_code_that_is_there(plug: WorkloadPlug) -> None:
    assert bool(plug.settings) == bool(plug.method) + bool(plug.tool), "settings need a method or a tool, and one of them"
    if plug.settings:
        assert model_of(plug.name).kind == plug.name
        inspect.signature(named(plug.method or plug.tool)).bind("where", "cell")  # raises TypeError if it takes others
    inspect.signature(named(plug.section)).bind("run", "groups", "labels", "book")
    assert all(isinstance(named(path), Program) for path in plug.on_dut)


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
    assert done.stdout.split() == ["dutlab.workloads"]
