"""Experiments with one workload on the drives of this machine, written into a folder and loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from dutlab.errors import Fault, SpecRefused
from dutlab.spec.experiment import Experiment
from dutlab.spec.loader import load_experiment

D1, KEPT = "d1: {by-id: nvme-ACME_1, destroy: yes}", "d1: {by-id: nvme-ACME_1}"
BOTH = f"{D1}, d2: {{by-id: nvme-ACME_2}}"


def loaded(folder: Path, kind: str, body: str, drives: str = D1, mode: str = "as-found", more: str = "") -> Experiment:
    (folder / "testbed.yaml").write_text(f"testbed: disks\nhosts:\n  server:\n    local: true\n    drives: {{{drives}}}\n")
    text = f"experiment: disks\ntestbed: testbed.yaml\nfactors: {{mode: [{mode}]}}\nworkloads:\n  - {kind}: {body}\n{more}"
    (folder / "e.yaml").write_text(text)
    return load_experiment(folder / "e.yaml")


def refused(*how: object, **more: str) -> tuple[Fault, ...]:
    """The faults of what cannot be loaded."""
    with pytest.raises(SpecRefused) as caught:
        loaded(*how, **more)  # type: ignore[arg-type]
    return tuple(caught.value.faults)
