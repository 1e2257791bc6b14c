"""Where a card of FreeBSD sits, as pciconf(8) tells: its own link; of the bridges above it nothing.

The format is that of usr.sbin/pciconf/cap.c (cap_express). OpenBSD's pcidump(8) is not read.
"""

from __future__ import annotations

import re

from dutlab.hosts.facts.pcie import PcieStep
from dutlab.hosts.facts.questions import Answers, Question
from dutlab.hosts.facts.tree import FactTree

_ASPM = {"disabled": "off", "L0s/L1": "L0s and L1"}


def question(name: str) -> Question:
    """What is asked of the interface `name`, which is also what the device is called; Linux refuses it at once."""
    return ("bsd", "pciconf", "-lc", name)


def put(facts: FactTree, answers: Answers, name: str) -> None:
    """Into `interfaces/NAME/pcie`; where pciconf tells nothing, what is there stays."""
    said, _ = answers.said(*question(name))
    if step := pciconf_step(said or ""):
        facts.put(f"interfaces/{name}/pcie", [step.to_json()])


def pciconf_step(text: str) -> PcieStep | None:
    """`pciconf -lc` of one device; None where it has no PCI Express link."""
    link = re.search(r"link x(\d+)\(x(\d+)\)(?: speed ([\d.]+)\(([\d.]+)\))?(?: ASPM ([^\s(]+))?", text)
    if link is None:
        return None
    address = re.search(r"@pci([\d:]+?):?\s", text)
    data, read = re.search(r"max data (\d+)\((\d+)\)", text), re.search(r"max read (\d+)", text)
    return PcieStep(
        address[1] if address else "",
        float(link[3]) if link[3] else None,
        int(link[1]),
        float(link[4]) if link[4] else None,
        int(link[2]),
        int(data[1]) if data else None,
        int(data[2]) if data else None,
        int(read[1]) if read else None,
        _ASPM.get(link[5], link[5]) if link[5] else None,
    )
