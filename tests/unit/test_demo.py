"""What `dutlab demo` carries out, without carrying it out: the experiments themselves run in tests/netns and tests/vm."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from dutlab.cli import run
from dutlab.cli.manner import CommonOptions


@pytest.mark.parametrize(
    ("words", "experiment", "lab"),
    [
        ([], "firewall-modes", "three-node"),
        (["--lab", "uml-router"], "guest-router", "uml-router"),
        (["--lab", "qemu-router"], "guest-firewall", "qemu-router"),
        (["storage"], "storage-demo", "raid"),
    ],
)
def test_each_demo_is_an_example_on_a_lab_of_its_own(monkeypatch: pytest.MonkeyPatch, words: list[str], experiment: str, lab: str) -> None:
    def carried_out(_: CommonOptions, given, _options) -> None:
        print(f"carried out: {given.experiment.name} on {given.experiment.testbed}")

    monkeypatch.setattr(run, "become_root", lambda: None)
    monkeypatch.setattr(CommonOptions, "carry_out", carried_out)
    monkeypatch.setattr(CommonOptions, "finish", lambda *_: None)
    monkeypatch.setattr(run, "tell", print)
    done = CliRunner().invoke(run.demo, words, catch_exceptions=False)
    *before, told = done.output.splitlines()
    assert told == f"carried out: {experiment} on lab {lab}"
    assert [line for line in before if "RAID 5, a drive lost" in line] or lab != "raid", "theory comes first"
