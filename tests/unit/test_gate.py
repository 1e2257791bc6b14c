"""gate: when a newer version is called worse, what is measured again, and what CI is told."""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Callable, Collection, Sequence
from math import exp
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dutlab.analysis.comparison import Pair
from dutlab.analysis.design import RunOrder
from dutlab.analysis.gate import CellName, gate_counts, gate_rounds, overall, seen
from dutlab.analysis.verdict import CheckKind
from dutlab.cli.outcome_formats import FORMATS
from dutlab.cli.versions import VersionKind, rules_mode, version_of, versions_of
from dutlab.errors import InputError
from dutlab.report.questions.gated import GatePart, GateResult
from dutlab.stats.functions import FunctionChange
from dutlab.stats.sequential import FEWEST, mean_reach

COUNT, RATE = "exact_instructions_per_frame", "received_pps"
Kind = CheckKind


def counts(**cells: tuple[float, float]) -> list[Pair]:
    return [Pair(name, COUNT, (first,), (second,)) for name, (first, second) in cells.items()]


class Device:
    """Two versions whose rates have `change` between them, measured round by round."""

    def __init__(self, seed: int, change: float, spread: float, most: int = 200, cells: int = 1) -> None:
        self._dice, self._change, self._spread, self._most, self._cells = random.Random(seed), change, spread, most, cells
        self.rounds = 0

    def __call__(self, names: Collection[CellName], enough: Callable[[Sequence[Pair]], bool]) -> Sequence[Pair]:
        labels = [label for label, _ in names] or [f"cell {n}" for n in range(self._cells)]
        values = {label: ([], []) for label in labels}  # type: dict[str, tuple[list[float], list[float]]]
        pairs: list[Pair] = []
        while self.rounds < self._most:
            self.rounds += 1
            for first, second in values.values():
                first.append(1e6 * exp(self._dice.gauss(0, self._spread)))
                second.append(1e6 * (1 + self._change) * exp(self._dice.gauss(0, self._spread)))
            at = tuple(range(len(next(iter(values.values()))[0])))
            pairs = [Pair(name, RATE, tuple(a), tuple(b), RunOrder.ROUNDS, at, at) for name, (a, b) in values.items()]
            if enough(pairs):
                break
        return pairs


def test_an_interval_holds_at_every_look() -> None:
    """Of 200 series of 60 values, each looked at after every value, few intervals ever leave the mean out."""
    left = 0
    for seed in range(200):
        dice, values = random.Random(seed), list[float]()
        for _ in range(60):
            values.append(dice.gauss(0, 1))
            reach = mean_reach(values, 0.05)
            if reach is not None and not reach.low <= 0 <= reach.high:
                left += 1
                break
    assert left <= 10
    assert mean_reach([1.0] * (FEWEST - 1), 0.05) is None
    same = mean_reach([1.0] * 20, 0.05)
    assert same is not None and same.low < 1 < same.high, "equal values are known to the step of a clock at best"


@pytest.mark.parametrize(
    ("again", "kind", "rounds"),
    [({"a": (100.0, 101.0)}, Kind.FAIL, 1), ({"a": (100.0, 100.0)}, Kind.PASS, 1), ({}, Kind.CANNOT_TELL, 0)],
    ids=["confirmed", "not-confirmed", "no-result"],
)
def test_a_count_that_is_worse_is_counted_again_and_that_decides(again: dict[str, tuple[float, float]], kind: Kind, rounds: int) -> None:
    asked: list[Collection[CellName]] = []

    def second(names: Collection[CellName]) -> Sequence[Pair]:
        asked.append(names)
        return counts(**again)

    found = gate_counts(counts(a=(100.0, 101.0), b=(100.0, 100.05), c=(100.0, 99.0)), second, 0.001)
    assert [c.kind for c in found] == [kind, Kind.PASS, Kind.PASS]
    assert asked == [[("a", COUNT)]]
    assert found[0].again == rounds
    assert seen(found[1:], 0.001) == 0.001
    assert overall(found) is kind


def test_a_count_that_one_version_lacks_cannot_be_told() -> None:
    (found,) = gate_counts([Pair("a", COUNT, (1.0,), ())], lambda _: (), 0.001)
    assert (found.kind, found.worse) == (Kind.CANNOT_TELL, None) and found.why
    assert overall([]) is Kind.CANNOT_TELL and seen([found], 0.001) is None


def test_rounds_end_when_it_can_tell_and_an_alarm_is_measured_twice() -> None:
    same, slower, noisy = Device(1, 0.0, 0.005), Device(2, -0.03, 0.01), Device(3, 0.0, 0.2, most=30)
    (passed,), (failed,), (unknown,) = (gate_rounds(of, 0.03) for of in (same, slower, noisy))
    assert (passed.kind, passed.again) == (Kind.PASS, 0) and same.rounds < 30
    assert failed.kind is Kind.FAIL and failed.again >= FEWEST and failed.rounds >= FEWEST
    assert slower.rounds == failed.rounds + failed.again < 60
    assert unknown.kind is Kind.CANNOT_TELL and unknown.at_most is not None and unknown.at_most > 0.03
    assert failed.worse is not None and 0.01 < failed.worse < 0.05


def test_equal_versions_are_hardly_ever_called_worse() -> None:
    """tests/bench/gate_rates.py has a thousand pairs, of several kinds of noise."""
    assert sum(gate_rounds(Device(seed, 0.0, 0.02, most=60, cells=4), 0.03)[0].kind is Kind.FAIL for seed in range(100)) == 0


GATE = GateResult(
    "old|.nft", "new<b>.nft",
    (
        GatePart(
            "instructions", tuple(gate_counts(counts(a=(100.0, 102.0), b=(50.0, 50.0)), lambda _: counts(a=(100.0, 102.0)), 0.001)),
            0.001, (("newer: rules 64", "nft says # no"),), ("runs/1", "runs/2"), (("a", (FunctionChange("nft_do_chain", 84.0, 0.0),)),),
        ),
    ),
)  # fmt: skip


def test_every_format_has_the_verdict_and_each_result() -> None:
    of = {name: FORMATS[name](GATE.outcome(suite="gate")) for name in FORMATS}
    assert [name for name, text in of.items() if "nft_do_chain" in text.replace("\\", "")] == list(FORMATS)
    suite = ET.fromstring(of["junit"])[0]
    assert (suite.attrib["tests"], suite.attrib["failures"], suite.attrib["errors"]) == ("2", "1", "0")
    assert (
        of["github"].splitlines()[-1].startswith("::error title=dutlab gate::FAIL")
        and "::warning title=newer%3A rules 64::" in of["github"]
    )
    ktap = of["ktap"].splitlines()
    assert ktap[:2] == ["KTAP version 1", "1..2"] and f"not ok 1 a · {COUNT}" in ktap and f"ok 2 b · {COUNT}" in ktap
    assert all(line[0] == "#" or line.split()[0] in {"KTAP", "1..2", "ok", "not"} for line in ktap)
    assert "old\\|.nft" in of["markdown"] and "new\\<b\\>.nft" in of["markdown"] and "**worse**" in of["markdown"]
    metrics = of["openmetrics"].splitlines()
    assert metrics[-1] == "# EOF" and any(line.startswith("dutlab_gate_status{") and line.endswith(" 1.0") for line in metrics)
    assert sum(line.startswith("dutlab_gate_worse_ratio{") for line in metrics) == 2
    plain = json.loads(json.dumps(GATE.plain()))
    assert (plain["kind"], plain["exit_status"], plain["parts"][0]["runs"]) == ("FAIL", 1, ["runs/1", "runs/2"])
    assert plain["parts"][0]["cells"][0]["again"] == 1
    assert plain["parts"][0]["functions"] == [{"where": "a", "functions": [{"name": "nft_do_chain", "change": 84.0, "reach": 0.0}]}]


def test_a_gate_without_a_result_says_why() -> None:
    gate = GateResult("a", "b", (GatePart("instructions", (), 0.001, (("newer: rules 64", "nft: line 3"),)),))
    assert gate.kind is Kind.CANNOT_TELL and "nft: line 3" in gate.sentence
    assert ET.fromstring(FORMATS["junit"](gate.outcome(suite="gate")))[0].attrib["errors"] == "1"


def test_no_line_of_a_rule_set_is_a_command(tmp_path: Path) -> None:
    rules = "table x {}\ndutlab-end-of-rules\ndutlab-end-of-rules-\ntouch pwned; $(touch pwned)\n"
    (tmp_path / "nft").write_text("#!/bin/sh\ncat >read\n")
    (tmp_path / "nft").chmod(0o755)
    (apply,) = rules_mode(rules)["apply"]
    subprocess.run(["sh", "-ec", apply], cwd=tmp_path, env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, check=True)
    assert (tmp_path / "read").read_text() == f"{rules}\n" and not (tmp_path / "pwned").exists()


def test_versions_are_what_they_look_like(tmp_path: Path) -> None:
    kernel = tmp_path / "vmlinuz"
    kernel.write_bytes(b"\0" * 0x202 + b"HdrS" + b"\0" * 64)
    (tmp_path / "rules.nft").write_text("table x {}")
    (tmp_path / "x.o").write_bytes(b"\x7fELF\2\1\1" + b"\0" * 9 + b"\1\0\xf7\0" + b"\0" * 64)
    (tmp_path / "e.yaml").write_text("")
    (tmp_path / "other").write_bytes(b"\xff\xfe\0" * 400)
    names = {
        kernel: VersionKind.KERNEL,
        tmp_path / "rules.nft": VersionKind.RULES,
        tmp_path / "x.o": VersionKind.XDP,
        tmp_path / "e.yaml": VersionKind.EXPERIMENT,
        tmp_path: VersionKind.RUN,
    }
    assert {path: version_of(str(path), None).kind for path in names} == names
    assert version_of("nft add table x", VersionKind.COMMANDS).own_modes["commands"]["apply"] == ["nft add table x"]
    assert "xdp obj" in version_of(str(tmp_path / "x.o"), None).own_modes["xdp"]["apply"][-1]
    for words in ((str(kernel), str(tmp_path / "rules.nft")), (str(tmp_path / "other"),), (str(tmp_path / "absent"),)):
        with pytest.raises(InputError):
            versions_of(words, None)
