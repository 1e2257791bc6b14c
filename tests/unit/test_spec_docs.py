"""The reference says what the models do: every example loads, every key is explained, every default is the one in force."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dutlab.plan.trials import make_plan
from dutlab.spec.drives import ArraySpec, DriveSpec
from dutlab.spec.experiment import CustomMode, Experiment
from dutlab.spec.factors import KNOBS, LevelCommands
from dutlab.spec.generators import GENERATORS
from dutlab.spec.known import FAMILY_MODES, LABS
from dutlab.spec.links import Link
from dutlab.spec.loader import load_experiment, load_testbed
from dutlab.spec.mixes import NAMED_MIXES
from dutlab.spec.power import SWITCHES
from dutlab.spec.sensors import SENSORS, WATCHES
from dutlab.spec.testbed import HostSpec, Testbed
from dutlab.spec.traffic import Burst, FlowSet, Traffic
from dutlab.spec.vary import VaryRule
from dutlab.spec.workloads import model_of
from dutlab.spec.workloads.multi_stream import ChainSpec, ChainStep, StreamSpec
from dutlab.spec.workloads.search import SearchGoal
from dutlab.spec.workloads.soak_power import PowerPhase
from dutlab.spec.workloads.steps import Step
from dutlab.workloads import settable

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference"
TESTBED_PAGE = (REFERENCE / "testbed-file.md").read_text()
SENSORS_PAGE = (REFERENCE / "sensors.md").read_text()
EXPERIMENT_PAGE = (REFERENCE / "experiment-file.md").read_text()


OF_TESTBEDS = (Testbed, HostSpec, Link, DriveSpec, ArraySpec)
OF_EXPERIMENTS = (
    Experiment, *map(model_of, settable()), *GENERATORS.values(), SearchGoal, PowerPhase, Step, Traffic, FlowSet, Burst, VaryRule, StreamSpec,
    ChainSpec, ChainStep, CustomMode, LevelCommands,
)  # fmt: skip


def blocks(page):
    return re.findall(r"^```yaml\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("text", blocks(TESTBED_PAGE), ids=lambda t: t.split("\n")[0])
def test_every_testbed_of_the_reference_loads(tmp_path, text):
    (tmp_path / "t.yaml").write_text(text)
    assert load_testbed(tmp_path / "t.yaml").links


@pytest.mark.parametrize("text", blocks(EXPERIMENT_PAGE), ids=lambda t: t.split("\n")[0])
def test_every_experiment_of_the_reference_loads_and_can_be_planned(tmp_path, text):
    (tmp_path / "e.yaml").write_text(text)
    experiment = load_experiment(tmp_path / "e.yaml")
    assert make_plan(experiment, load_testbed(ROOT / "examples" / "testbeds" / "e302-9d.yaml")).trials


@pytest.mark.parametrize(("page", "model"), [*((TESTBED_PAGE, m) for m in OF_TESTBEDS), *((EXPERIMENT_PAGE, m) for m in OF_EXPERIMENTS)])
def test_every_key_has_its_row(page, model):
    rows = set(re.findall(r"^\| `([a-z0-9_-]+)` \|", page, re.MULTILINE))
    assert set(model.file_keys()) <= rows


def test_no_row_explains_a_key_that_is_none():
    for page, models in (
        (TESTBED_PAGE, (*OF_TESTBEDS, *SWITCHES.values())),
        (SENSORS_PAGE, tuple(SENSORS.values())),
        (EXPERIMENT_PAGE, OF_EXPERIMENTS),
    ):
        known = {key for model in models for key in model.file_keys()} | {"kind", *SENSORS, *KNOBS}
        assert set(re.findall(r"^\| `([a-z0-9_]+)` \|", page, re.MULTILINE)) <= known


def test_the_reference_names_everything_that_can_be_named():
    assert set(KNOBS) <= set(re.findall(r"^\| `([a-z0-9_-]+)` \|", EXPERIMENT_PAGE, re.MULTILINE))
    for name in (*FAMILY_MODES, *FAMILY_MODES["linux"]):
        assert f"`{name}`" in TESTBED_PAGE
    for kind in SENSORS:
        assert f"| `{kind}` |" in SENSORS_PAGE
        for key in SENSORS[kind].file_keys():
            assert f"`{key}`" in SENSORS_PAGE, f"{key} of {kind}"
    for kind, switch in SWITCHES.items():
        for key in {kind, *switch.file_keys()} - set(SENSORS["snmp"].file_keys()) - set(SENSORS["redfish"].file_keys()):
            assert f"`{key}`" in TESTBED_PAGE, f"{key} of {kind}"
    for name in (*NAMED_MIXES, *WATCHES, *GENERATORS):
        assert f"`{name}`" in EXPERIMENT_PAGE
    for name in LABS:
        assert f"{{lab: {name}}}" in EXPERIMENT_PAGE


@pytest.mark.parametrize("path", sorted((ROOT / "examples" / "testbeds").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_ready_testbed_fits_an_experiment_with_every_mode_of_its_family(path, tmp_path):
    testbed = load_testbed(path)
    modes = FAMILY_MODES[testbed.hosts["dut"].family]
    workload = "sweep" if testbed.hosts["source"].local else "iperf3"  # a kernel reaches its own ports without the DUT
    text = f"experiment: all\ntestbed: {path}\nfactors: {{mode: [{', '.join(modes)}]}}\nworkloads: [{{{workload}: {{duration: 1s}}}}]\n"
    (tmp_path / "e.yaml").write_text(text)
    assert load_experiment(tmp_path / "e.yaml").factors["mode"] == tuple(modes)


def test_every_family_with_modes_has_a_ready_testbed():
    shown = {load_testbed(path).hosts["dut"].family for path in (ROOT / "examples" / "testbeds").glob("*.yaml")}
    shown.add(load_testbed(ROOT / "examples" / "storage" / "server-testbed.yaml").dut_family)
    shown.add(load_testbed(ROOT / "examples" / "exact" / "testbed.yaml").dut_family)
    assert shown >= {name for name, modes in FAMILY_MODES.items() if modes} - {"linux"}


def test_the_design_example_of_a_testbed_is_the_ready_one():
    assert load_testbed(ROOT / "examples" / "testbeds" / "e302-9d.yaml").links["b"].speed == 10e9


@pytest.mark.parametrize("name", ["firewall-modes", "loadtest"])
def test_the_published_figures_stand_in_the_examples_readme(name):
    folder = ROOT / "examples" / name
    for line in (folder / "published.csv").read_text().splitlines()[1:]:
        assert "| " + line.replace(",", " | ") + " |" in (folder / "README.md").read_text()
