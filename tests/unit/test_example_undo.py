"""Examples put back what they found: no undo step writes a value that nobody read."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

from dutlab.dut.levels import KnobLevel, level_of
from dutlab.errors import InputError
from dutlab.spec.experiment import Experiment, LabRef
from dutlab.spec.loader import load_experiment, load_testbed

EXAMPLES = Path(__file__).parents[2] / "examples"
LEVELS = EXAMPLES / "firewall-modes" / "openbsd-levels.yaml"
SETS = re.compile(r"\bsysctl\b[^;&|]*=|>\s*/proc/sys/")


def on_machines() -> list[tuple[str, Experiment]]:
    """Experiments on machines of their own; a lab is made by dutlab, so what it was is known."""
    found = []
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        with suppress(InputError):  # a testbed, a workflow
            experiment = load_experiment(path)
            found += [] if isinstance(experiment.testbed, LabRef) else [(str(path.relative_to(EXAMPLES)), experiment)]
    return found


def test_no_example_restores_a_sysctl_of_a_machine_to_a_value_of_its_own() -> None:
    found = on_machines()
    assert "firewall-modes/openbsd-levels.yaml" in dict(found)
    for name, experiment in found:
        restores = [command for mode in experiment.modes.values() for command in mode.restore]
        restores += [command for of in experiment.levels.values() for level in of.values() for part in level for command in part.restore]
        assert [command for command in restores if SETS.search(str(command))] == [], name


def test_forwarding_is_a_knob_that_is_read_before_it_is_set() -> None:
    experiment = load_experiment(LEVELS)
    testbed = load_testbed(EXAMPLES / "testbeds" / "openbsd-pf.yaml")
    name = "sysctl.net.inet.ip.forwarding"
    assert experiment.factors[name] == ("1",)
    level = level_of((name, "1"), None, testbed, {testbed.dut: None})  # type: ignore[dict-item] -- no host is asked
    assert isinstance(level, KnobLevel)
    ((setting,),) = level.settings.values()
    assert (setting.read, setting.wanted) == ("sysctl -n net.inet.ip.forwarding", "1")
