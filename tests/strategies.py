"""Hypothesis strategies for what users write and what follows from it: raw files as plain data, experiments, testbeds."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from dutlab.spec.experiment import Experiment
from dutlab.spec.known import FAMILY_MODES, MDRAID, WITHOUT_A_WAY_IN
from dutlab.spec.model import FILE_CONTEXT
from dutlab.spec.testbed import Testbed

names = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
whole_seconds = st.integers(1, 60).map(lambda n: f"{n}s")
frame_sizes = st.one_of(st.integers(64, 1518), st.sampled_from(["imix", "imix-csit"]))
link_sets = st.lists(
    st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=2, unique=True), min_size=1, max_size=3, unique_by=lambda s: tuple(sorted(s))
)


def raw_links(count: int) -> dict[str, Any]:
    """Links a, b, … of a testbed file, every address once."""
    return {
        chr(ord("a") + i): {
            "speed": "10G",
            "path": [f"source:eth{i}", f"dut:in{i}", f"dut:out{i}", f"sink:eth{i}"],
            "addresses": [f"172.16.{i}.2/24", f"172.16.{i}.1/24", f"172.16.{100 + i}.1/24", f"172.16.{100 + i}.2/24"],
        }
        for i in range(count)
    }


@st.composite
def raw_testbeds(draw: st.DrawFn) -> dict[str, Any]:
    """A right testbed file."""
    hosts = {
        role: {"ssh": f"root@192.0.2.{i}", "family": draw(st.sampled_from(sorted(FAMILY_MODES.keys() - WITHOUT_A_WAY_IN - {MDRAID})))}
        for i, role in enumerate(("source", "dut", "sink"), start=1)
    }
    links = raw_links(draw(st.integers(1, 3)))
    for link in links.values():
        if draw(st.booleans()):
            del link["speed"]
        if draw(st.booleans()):
            link["mtu"] = draw(st.integers(1518, 9216))
        if draw(st.booleans()):
            link["isolated"] = draw(st.booleans())
    return {"testbed": draw(names), "hosts": hosts, "links": links}


@st.composite
def raw_experiments(draw: st.DrawFn) -> dict[str, Any]:
    """A right experiment file on the lab three-node."""
    # In a mode with tunnels a workload of frames is refused.
    clear = [name for name, mode in FAMILY_MODES["linux"].items() if mode.tunnel is None and mode.forwards != "ethernet"]
    modes = st.lists(st.sampled_from(clear), min_size=1, max_size=4, unique=True)
    factors: dict[str, Any] = {"mode": draw(modes)}
    for name in draw(st.lists(st.sampled_from(["bios-turbo", "cable", "dimms"]), max_size=2, unique=True)):
        factors[name] = draw(st.lists(st.one_of(st.integers(0, 9), names), min_size=1, max_size=3, unique_by=str))
    workloads: list[dict[str, Any]] = []
    if draw(st.booleans()):
        workloads.append({"iperf3": {"streams": draw(st.integers(1, 128)), "duration": draw(whole_seconds), "links": draw(link_sets)}})
    if draw(st.booleans()) or not workloads:
        sizes = draw(st.lists(frame_sizes, min_size=1, max_size=4, unique_by=str))
        workloads.append({"sweep": {"frame_sizes": sizes, "duration": draw(whole_seconds), "links": draw(link_sets)}})
    return {
        "experiment": draw(names),
        "testbed": {"lab": "three-node"},
        "factors": factors,
        "workloads": workloads,
        "repeats": draw(st.integers(1, 3)),
        "order": draw(st.sampled_from(["shuffled", "as-written"])),
    }


testbeds = raw_testbeds().map(lambda raw: Testbed.model_validate(raw, context=FILE_CONTEXT))
experiments = raw_experiments().map(lambda raw: Experiment.model_validate(raw, context=FILE_CONTEXT))
"""All of them drive links a and b at most."""
