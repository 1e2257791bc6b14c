"""How a run was measured, in sentences: what has no link names none."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from dutlab.report.model.run_report import RunReport
from dutlab.report.pages.method_words import _what


def what(workload: str, asked: str, *links: str) -> list[str]:
    trials = [SimpleNamespace(workload=workload, asked=asked, links=of) for of in links]
    return _what(cast("RunReport", SimpleNamespace(trials=trials)))


def test_a_workload_without_links_names_none() -> None:
    assert what("steps", "steps", "") == ["workload steps."]
    assert what("iperf3", "iperf3, 1 s", "a", "a+b") == ["iperf3: iperf3, 1 s, on link a and links a+b at once."]
