"""Facts of an interface: its driver, queues, offloads and interrupts, and the slot of its card."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dutlab.systems.facts import Answers, FactTree, Question
from dutlab.systems.linux_facts.text import coalescing, colon_pairs, first_of_json, irq_cores, pause_frames, ring_sizes
from dutlab.systems.optics import optic_of
from dutlab.systems.pcie import pcie_path

_FILES = {
    "speed": "speed_mbps",
    "duplex": "duplex",
    "operstate": "operstate",
    "threaded": "napi_threaded",
    "device/numa_node": "numa_node",
    "device/local_cpulist": "near_cores",
}


def questions(name: str, root: str) -> Iterator[Question]:
    """Yield the questions about the interface `name`."""
    yield ("ip", "-d", "-j", "link", "show", "dev", name)
    yield from (("slurp", f"{root}/sys/class/net/{name}/{file}") for file in _FILES)
    yield from (("ethtool", option, name) for option in ("-i", "-g", "-l", "-c", "-a"))
    yield ("ethtool", "--json", "-k", name)
    yield ("pcie", root, name)
    yield ("irqs", root, name)
    yield ("optic", name)


def put(facts: FactTree, answers: Answers, name: str, root: str) -> None:
    """Store the answers under `interfaces/NAME`."""
    at = f"interfaces/{name}"
    output, why = answers.output_of("ip", "-d", "-j", "link", "show", "dev", name)
    link = first_of_json(output)
    for key, field in (("mtu", "mtu"), ("mac", "address"), ("rx_queues", "num_rx_queues"), ("tx_queues", "num_tx_queues")):
        facts.put(f"{at}/{key}", link.get(field), why if not output else "not in the output of ip")
    virtual = link.get("linkinfo", {}).get("info_kind")
    facts.put(f"{at}/kind", (virtual or "physical") if link else None, why)
    for file, key in _FILES.items():
        text, why = answers.of("slurp", f"{root}/sys/class/net/{name}/{file}")
        if file == "speed" and text is not None and (text == "-1" or virtual):
            # A veth pair reports 10 Gb/s, but its speed depends on the cores; -1 is a link that is down, or a driver without a speed.
            text, why = None, "no cable, so no speed" if virtual else "the link is down, or its driver does not know"
        facts.put(f"{at}/{key}", int(text) if text and re.fullmatch(r"-?\d+", text) and key != "near_cores" else text, why)
    _of_driver(facts, answers, name, at)
    _of_slot(facts, answers, name, at, root)


def _of_driver(facts: FactTree, answers: Answers, name: str, at: str) -> None:
    output, why = answers.output_of("ethtool", "-i", name)
    pairs = colon_pairs(output or "")
    for key, field in (("driver", "driver"), ("driver_version", "version"), ("firmware", "firmware-version"), ("bus", "bus-info")):
        facts.put(f"{at}/{key}", pairs.get(field) or None, "the driver does not report it" if output else why)
    output, why = answers.output_of("ethtool", "--json", "-k", name)
    features = {k: v["active"] for k, v in first_of_json(output).items() if isinstance(v, dict) and "active" in v}
    facts.put(f"{at}/offloads", features or None, "this ethtool prints no JSON" if output else why)
    free = [k for k, v in first_of_json(output).items() if isinstance(v, dict) and v.get("active") is False and v.get("fixed") is False]
    facts.put(f"{at}/offloads_off_by_choice", free if features else None, "this ethtool prints no JSON" if output else why)
    for key, option, reader in (
        ("rings", "-g", ring_sizes), ("channels", "-l", ring_sizes), ("coalescing", "-c", coalescing), ("pause_frames", "-a", pause_frames),
    ):  # fmt: skip
        output, why = answers.output_of("ethtool", option, name)
        facts.put(f"{at}/{key}", (reader(output) or None) if output else None, "the driver has none to set" if output else why)
    output, why = answers.output_of("optic", name)
    optic = optic_of(output) if output else None
    facts.put(f"{at}/optic", optic.to_json() if optic else None, "no module" if output else why)


def _of_slot(facts: FactTree, answers: Answers, name: str, at: str, root: str) -> None:
    output, why = answers.output_of("pcie", root, name)
    facts.put(f"{at}/pcie", [step.to_json() for step in pcie_path(output)] if output else None, why)
    output, why = answers.output_of("irqs", root, name)
    facts.put(f"{at}/irqs", irq_cores(output) if output else None, why)
