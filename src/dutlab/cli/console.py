"""Progress for people: a line that renews itself on a terminal, plain lines elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from dutlab.cli.answers import answer_to
from dutlab.cli.told import tell
from dutlab.dut.mode import Check
from dutlab.errors import InputError
from dutlab.plan.trials import Plan, Trial
from dutlab.report.model.loads import BACKPRESSURE, load_of
from dutlab.report.model.words import plural
from dutlab.spec.workloads.rfc2544 import variant_of
from dutlab.store.record import TrialRecord
from dutlab.units import si

_HEADLINES = (
    ("goodput_bps", "bit/s"),
    ("received_pps", "pps"),
    ("max_received_pps", "pps"),
    ("throughput_pps", "pps"),
    ("critical_pps", "pps"),
)

_OF_STEPS = (("goodput_bps", "bit/s"), ("received_pps", "pps"), ("offered_pps", "pps"), ("transactions_per_s", "/s"))


class Console:
    """A runner.progress.Progress that writes to standard error, so that standard output stays for results."""

    def __init__(self, name: str = "") -> None:
        """`name` begins every line: which of several runs it is about."""
        self._name = name
        self._total = self._done = 0
        self._renews = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._width = shutil.get_terminal_size().columns - 1  # a line that wraps cannot be renewed

    def began(self, folder: Path, plan: Plan, done: int) -> None:
        self._total, self._done = len(plan.trials), done
        there = f", {done} of them done before" if done else ""
        self._line(f"{folder}: {plural(self._total, 'trial')}{there}, about {_minutes(plan.estimate_s)}; order seed {plan.seed}")

    def mode(self, name: str, checks: Sequence[Check]) -> None:
        failed = [c for c in checks if not c.passed]
        if failed or not checks:
            said = "; ".join(f"{c.what}: {c.found}" for c in failed) or "it could not be applied"
            self._line(f"mode {name} does not hold, its trials are refused: {said}")

    def trial(self, trial: Trial, record: TrialRecord) -> None:
        self._done += 1
        cell = trial.cell
        size = f" {cell.params['frame_size']}" if "frame_size" in cell.params else ""
        pair = f" {cell.params['client']} to {cell.params['server']}" if "client" in cell.params else ""
        variant = f", {words}," if (words := variant_of(cell.params)) else ""
        link = f" {cell.link_label}" if cell.links else ""
        what = f"{cell.mode} {cell.workload}{size}{pair}{link}{variant}"
        text = f"{self._name}[{self._done}/{self._total}] {what} #{cell.repeat}: {_headline(record)}"
        if record.status == "measured" and self._renews:
            tell(text[: self._width], end="\n" if self._done == self._total else "", renew=True)
        else:
            tell(text, renew=self._renews)

    def note(self, text: str) -> None:
        self._line(f"note: {text}")

    async def ask(self, question: str) -> str:
        self._line("")
        while (answer := await answer_to(f"{question}; type what you did when it is done")) == "":
            pass
        if answer is None:
            tell("")
            raise InputError("nobody answers: standard input has ended", remedy="run it on a terminal; --unattended refuses such a plan")
        return answer

    def _line(self, text: str) -> None:
        tell(f"{self._name}{text}" if text else "", renew=self._renews)


def _headline(record: TrialRecord) -> str:
    if record.status != "measured":
        return f"{record.status}: {record.why}"
    whole = max(record.figures, key=lambda name: name.count("+"), default="")  # all links and ways together
    figures = record.figures.get(whole, {})
    of_steps = [(own, file) for file, own in record.figures.items() if file.count("/") == 2] if record.cell.workload == "steps" else []  # noqa: PLR2004 -- HOST/PHASE/NN
    found = [si(figures[name], unit) for name, unit in _HEADLINES if name in figures]
    found += [f"{file.partition('/')[0]} {si(own[name], unit)}" for own, file in of_steps for name, unit in _OF_STEPS if name in own][:6]
    found += [f"{name.removesuffix('_lower_pps')} {si(value, 'pps')}" for name, value in figures.items() if name.endswith("_lower_pps")]
    outages = {name.split("_")[1]: value for name, value in figures.items() if name.startswith("outage_") and name.endswith("_max_ns")}
    found += [f"{way}: out of service for {si(value / 1e9, 's')} at most" for way, value in outages.items()]
    if "path_mtu_bytes" in figures:
        payload = f", payload {figures['payload_bytes']:.0f}" if "payload_bytes" in figures else ""
        found.append(f"MTU {figures['path_mtu_bytes']:.0f} bytes{payload}")
    if "loss_ratio" in figures:
        if held := load_of(record, whole, BACKPRESSURE):  # beside it a loss of nothing says little
            found.append(f"backpressure {held:.1%}")
        found.append(f"loss {figures['loss_ratio']:.3%}")
    severe = [d.text for d in record.doubts if d.grade == "severe"]
    return ", ".join(found + severe) or "measured"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"  # noqa: PLR2004 -- below two minutes seconds read better
