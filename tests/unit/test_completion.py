"""Words that a shell completes: runs, labs, modes, links, settings and keys, as somebody types them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from dutlab.cli.completion import add_to
from dutlab.cli.main import COMMANDS, dutlab
from dutlab.spec.known import FAMILY_MODES, LABS
from dutlab.spec.workloads import model_of
from fake_run import Wanted, build
from terminal import at_terminal, read_until, with_dutlab

EXPERIMENT = Path(__file__).parents[2] / "examples" / "firewall-modes" / "experiment.yaml"


@pytest.fixture
def completed(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """The words that complete the last of the words of a line."""
    monkeypatch.setenv("_DUTLAB_COMPLETE", "bash_complete")

    def words(*line: str) -> list[str]:
        found = ShellComplete(dutlab, {}, "dutlab", "_DUTLAB_COMPLETE").get_completions(list(line[:-1]), line[-1])
        return [item.value for item in found if item.type == "plain"]

    return words


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    build(tmp_path / "runs", Wanted(repeats=1, seconds=1, cores=0))
    build(tmp_path / "runs", Wanted(repeats=1, seconds=1, cores=0, experiment="soak"))
    (tmp_path / "runs" / "notes").mkdir()
    return tmp_path / "runs"


def test_a_run_is_completed_by_a_part_of_its_name_or_by_its_path(completed: Callable[..., list[str]], runs: Path) -> None:
    soak, modes = sorted((p.parent.name for p in runs.glob("*/plan.json")), key=lambda name: "soak" not in name)
    assert completed("report", "") == [f"runs/{name}" for name in sorted([soak, modes], reverse=True)], "newest first, no other folder"
    assert completed("report", "soak") == completed("compare", f"runs/{soak}", "soak") == [f"runs/{soak}"]
    assert completed("report", f"runs/{modes[:20]}") == [f"runs/{modes}"]
    assert completed("note", "nothing-like-it") == []
    assert completed("check", f"runs/{soak}", "--baseline", "zzz") == []


def test_what_runs_have_completes_a_list_of_them(completed: Callable[..., list[str]], runs: Path) -> None:
    assert completed("runs", "--mode", "n") == ["nat"]
    assert completed("runs", "--experiment", "") == completed("history", "") == ["firewall-modes", "soak"]
    assert completed("runs", "--runs", str(runs / "absent"), "--mode", "n") == []


def test_labs_modes_and_links_are_those_of_the_testbed(completed: Callable[..., list[str]], tmp_path: Path) -> None:
    assert set(completed("search", "--lab", "uml-")) == {name for name in LABS if name.startswith("uml-")}
    assert completed("lab", "up", "three-node-s") == ["three-node-ssh"]
    assert completed("search", "--mode", "filter-") == [mode for mode in FAMILY_MODES["linux"] if mode.startswith("filter-")]
    assert completed("search", "--link", "a+") == ["a+b"] and completed("search", "--link", "") == ["a", "b"]
    bed = tmp_path / "bed.yaml"
    bed.write_text(
        "testbed: t\nhosts:\n  source: {ssh: root@192.0.2.1}\n  dut: {ssh: admin@192.0.2.2, family: freebsd-pf}\n  sink: {ssh: root@192.0.2.3}\n"
        "links:\n  wan: {speed: 10G, path: [source:eth0, dut:ix0, dut:ix1, sink:eth0],\n"
        "        addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}\n"
    )
    assert completed("search", "--testbed", str(bed), "--link", "") == ["wan"]
    modes = completed("search", "--testbed", str(bed), "--mode", "")
    assert modes and set(modes) <= set(FAMILY_MODES["freebsd-pf"])
    bed.write_text("testbed: [")
    assert completed("search", "--testbed", str(bed), "--mode", "") == [], "a file with faults completes nothing, without a word"


def test_settings_are_those_of_the_workload_with_their_values(completed: Callable[..., list[str]]) -> None:
    assert set(completed("measure", "sweep", "")) == {f"{key}=" for key in model_of("sweep").file_keys()}
    assert completed("measure", "sweep", "frame_s") == ["frame_sizes="]
    assert completed("rfc2544", "directions=") == ["directions=forward", "directions=both"]
    assert completed("rfc2544", "modifiers=broadcast,") == ["modifiers=broadcast,management", "modifiers=broadcast,routing"]
    assert completed("measure", "no-such-workload", "frame_s") == []


def test_the_keys_of_an_experiment_file_are_completed_for_set(completed: Callable[..., list[str]]) -> None:
    assert {"repeats=", "order=", "factors.mode=", "workloads.sweep.duration="} <= set(completed("run", str(EXPERIMENT), "--set", ""))
    assert completed("plan", str(EXPERIMENT), "--set", "workloads.iperf3.st") == ["workloads.iperf3.streams="]
    assert completed("run", str(EXPERIMENT), "--set", "factors.mode=nat,filter-e") == ["factors.mode=nat,filter-empty"]
    assert "repeats=" in completed("run", "absent.yaml", "--set", "")


def test_every_run_of_a_command_line_is_completed(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in COMMANDS:
        command = dutlab.get_command(click.Context(dutlab), name)
        assert command is not None
        add_to(command)
        for param in command.params:
            if isinstance(param, click.Argument) and "RUN" in (param.metavar or ""):
                assert param._custom_shell_complete is not None, (name, param.name)


def test_bash_keeps_what_is_before_an_equals_sign_and_adds_no_space_after_it(tmp_path: Path) -> None:
    env = {**os.environ, **with_dutlab(tmp_path), "PS1": "> "}
    with at_terminal(["bash", "--norc", "-i"], env) as terminal:
        os.write(terminal, b'eval "$(_DUTLAB_COMPLETE=bash_source dutlab)"; echo rea""dy\n')
        read_until(terminal, b"ready\r\n")
        os.write(terminal, b"echo [ dutlab; dutlab rfc2544 frame_s\t64 tests=throughput,lat\t ]\n")
        seen = read_until(terminal, b"rfc2544 frame_sizes=64 tests=throughput,latency  ]")
        assert b"frame_sizes= " not in seen
