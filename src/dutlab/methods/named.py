"""Which method carries out which workload. A method's module is imported when it is asked for, so that start-up stays short."""

from __future__ import annotations

import importlib

from dutlab.methods.ports import Method

METHODS = {
    "generators": "dutlab.methods.sweep",
    "soak": "dutlab.methods.soak",
    "latency": "dutlab.methods.latency",
    "loadtest": "dutlab.methods.loadtest",
    "quick-test": "dutlab.methods.quick_test",
    "reconf": "dutlab.methods.reconf",
    "rfc2544": "dutlab.methods.rfc2544.suite",
    "routes": "dutlab.methods.routes",
    "search": "dutlab.methods.search",
    "state": "dutlab.methods.state.suite",
    "sweep": "dutlab.methods.sweep",
}
"""Workload → the module whose `measure` is its method."""


def method_of(workload: str) -> Method:
    """The method of a workload that has one. Raises KeyError."""
    method: Method = importlib.import_module(METHODS[workload]).measure
    return method
