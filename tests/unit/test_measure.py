"""`dutlab measure` and the short commands: options and KEY=VALUE become an experiment, or are refused all at once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from ruamel.yaml import YAML

from dutlab import labs
from dutlab.cli.main import dutlab, main
from dutlab.cli.manner import CommonOptions
from dutlab.cli.measure import measure
from dutlab.cli.one_workload import default_mode, given_workload, lab_of
from dutlab.cli.two_ports import split_words
from dutlab.errors import InputError
from dutlab.labs import StandingLab
from dutlab.spec.loader import LoadedExperiment
from dutlab.workloads import settable

BED = {"experiment": "x", "testbed": {"lab": "three-node"}, "factors": {"mode": ["router"]}}
Said = tuple[int, str]


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Callable[..., Said]:
    """Runs the command in an empty folder: its status and what it wrote to standard error."""
    monkeypatch.chdir(tmp_path)

    def ended(*argv: str) -> Said:
        monkeypatch.setattr(sys, "argv", ["dutlab", *argv])
        with pytest.raises(SystemExit) as end:
            main()
        return int(end.value.code or 0), capsys.readouterr().err

    return ended


def body(kind: str, *settings: str, **of_options: object) -> Any:
    """The workload's body in the experiment file that is kept."""
    given = given_workload(BED, kind, of_options, settings)
    (workload,) = YAML(typ="safe", pure=True).load(given.text)["workloads"]
    return workload[kind]


def test_settings_are_those_of_an_experiment_file_and_change_what_an_option_said() -> None:
    assert body("sweep", "frame_sizes=64,imix", "rates=max", "duration=10s") == {
        "frame_sizes": [64, "imix"],
        "rates": ["max"],
        "duration": "10s",
    }
    assert body("sweep", "frame_sizes=rfc2544") == {"frame_sizes": "rfc2544"}
    assert body("search", "preset=csit,rfc2544", "links=[[a, b]]") == {"preset": "csit,rfc2544", "links": [["a", "b"]]}
    assert body("steps", "run.source=[uname -a]") == {"run": {"source": ["uname -a"]}}
    # A setting changes what an option said.
    assert body("sweep", "frame_sizes=128", frame_sizes=[64], duration=None) == {"frame_sizes": [128]}


def test_every_fault_is_told_at_once_and_a_mistyped_key_gets_a_suggestion(said: Callable[..., Said]) -> None:
    status, error = said("measure", "sweep", "frame_sizes=9,64", "durations=3s", "warmup=", "=5", "--link", "z", "--mode", "rooter")
    lines = error.removeprefix("dutlab: ").splitlines()
    assert status == 2
    assert {line.partition(": ")[0] for line in lines} == {"warmup=", "=5", "factors.mode.0", "frame_sizes.0", "durations", "links.0.0"}
    assert "did you mean duration?" in error
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("measure", "swep"), "swep: unknown workload (known: "),
        (("measure", "swep"), "did you mean sweep?"),
        (("measure", "flent"), "flent: unknown workload"),
        (("measure", "sweep", "duration"), "duration: write duration=VALUE"),
        (("measure", "sweep", "duration", "5s"), "duration: write duration=VALUE"),
        (("measure", "sweep", "eth1"), "name two ports"),
        (("measure", "sweep", "eth1", "eth2", "--lab", "three-node"), "--lab, --testbed, --link and --mode"),
        (("measure", "sweep", "--gateway", "192.0.2.1"), "need two ports"),
        (("measure", "sweep", "--lab", "three-node", "--testbed", "t.yaml"), "--lab and --testbed"),
        (("measure", "sweep", "--lab", "four-node"), "'four-node'"),
        (("measure", "sweep", "--name", "box a"), "Invalid value for '--name'"),
        (("test", "--lab", "--name", "../x"), "Invalid value for '--name'"),
        (("search", "lowest"), "lowest: write KEY=VALUE"),
        (("search", "lowst=1kpps"), "did you mean lowest?"),
        (("rfc2544", "networks=3"), "networks"),
        (("matrix", "rates=5"), "unknown key"),
        (("loadtest", "-o", "x.json", "--link", "a", "--link", "b"), "give one --link"),
        (("loadtest", "-s", "trafgn"), "nor an address"),
        (("test", "--lab", "two-port", "eth1"), "its own box"),
        (("test", "--lab", "no-such"), "'no-such'"),
        (("run", "e.yaml", "--lab", "x", "--testbed", __file__), "--lab and --testbed"),
        (("calibrate", "--lab", "x", "--testbed", __file__), "--lab and --testbed"),
        (("calibrate", "--link", "a+z"), "no link z"),
    ],
)
def test_what_cannot_be_measured_is_refused_before_anything_is_built(said: Callable[..., Said], argv: tuple[str, ...], words: str) -> None:
    status, error = said(*argv)
    assert (status, words in error) == (2, True), error
    assert not Path("runs").exists()


def test_words_with_an_equals_sign_are_settings_and_the_others_ports() -> None:
    assert split_words(("eth1", "rate=1kpps", "eth2"), "latency") == (("rate=1kpps",), ("eth1", "eth2"))
    with pytest.raises(InputError, match="rate: write rate=VALUE"):
        split_words(("rate",), "latency")


def test_a_lab_is_one_that_stands_by_its_label_or_one_to_build_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    box = StandingLab("box", "two-port", since_s=0.0, owner_pid=1, owner_alive=True, complete=True, namespaces={})
    monkeypatch.setattr(labs, "standing", lambda: [box])
    assert lab_of("box") == ("two-port", "box")
    assert lab_of("three-node") == ("three-node", None)


def test_a_run_takes_the_lab_of_its_option_in_place_of_the_files(monkeypatch: pytest.MonkeyPatch, said: Callable[..., Said]) -> None:
    taken: list[LoadedExperiment] = []
    monkeypatch.setattr("dutlab.cli.run.become_root", lambda: None)
    monkeypatch.setattr(CommonOptions, "carry_out", lambda _, given, __: taken.append(given))
    monkeypatch.setattr(CommonOptions, "finish", lambda _, __: None)
    Path("e.yaml").write_text("experiment: x\ntestbed: t.yaml\nfactors: {mode: [router]}\nworkloads: [{path-mtu: {}}]\n")
    said("run", "e.yaml", "--lab", "three-node-ssh")
    assert [str(given.experiment.testbed) for given in taken] == ["lab three-node-ssh"]


def test_every_workload_completes_and_is_in_the_help() -> None:
    words = {item.value for item in ShellComplete(dutlab, {}, "dutlab", "_DUTLAB_COMPLETE").get_completions(["measure"], "")}
    assert words == set(settable())
    with measure.make_context("measure", ["sweep"]) as ctx:
        assert all(f"  {name} " in measure.get_help(ctx) for name in settable())


def test_hosts_without_a_dut_are_measured_as_found_where_no_mode_is_given(tmp_path: Path) -> None:
    """As docs/how-to/find-a-slow-path.md has it: `dutlab matrix --testbed home.yaml`."""
    home = tmp_path / "home.yaml"
    home.write_text(
        "testbed: home\nhosts:\n  nas: {ssh: root@192.0.2.10}\n  desk: {local: true}\n"
        "links:\n  lan: {segment: [nas:eth0, desk:eth1], addresses: [192.0.2.10/24, 192.0.2.11/24]}\n"
    )
    assert default_mode("", home) == "as-found"
    assert [default_mode(lab, None) for lab in ("three-node", "four-hosts", "jbod", "raid")] == ["router", "router", "as-found", "as-found"]
