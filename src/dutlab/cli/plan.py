"""Command `plan`. It has a separate module, which loads less than those that carry plans out."""

from __future__ import annotations

from pathlib import Path

import click

from dutlab.cli.options import BED, LAB_WORDS, SET, TESTBED_WORDS, insist_on_one
from dutlab.cli.terminal import say, terminal
from dutlab.outside import AtPipe


@click.command()
@click.argument("experiment", type=click.Path(path_type=Path))
@SET
@click.option("--lab", metavar="NAME", help=f"{LAB_WORDS}  [the file's]")
@click.option("--testbed", "bed", type=BED, help=f"{TESTBED_WORDS}  [the file's]")
@click.option("--trials", "each", is_flag=True, help="List every trial in its order.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def plan(*, experiment: Path, overrides: tuple[str, ...], lab: str | None, bed: Path | None, as_json: bool, each: bool) -> None:
    """Connects to no host and changes nothing.

    \b
    Example:
      dutlab plan examples/firewall-modes/experiment.yaml
      dutlab plan examples/firewall-modes/experiment.yaml --testbed testbed.yaml
      ./make-experiment | dutlab plan -
    """
    from dutlab.cli.plan_text import plan_lines
    from dutlab.plan.trials import make_plan
    from dutlab.spec.loader import given_experiment, testbed_of
    from dutlab.spec.yaml_source import read_file

    insist_on_one(lab, bed)
    if lab is not None:
        from dutlab.cli.one_workload import lab_of

        overrides = (*overrides, f"testbed.lab={lab_of(lab)[0]}")
    definition = given_experiment(read_file(experiment, AtPipe.READ), experiment, overrides, testbed=bed)
    testbed = testbed_of(definition)
    schedule = make_plan(definition.experiment, testbed)
    if as_json:
        import json

        say(json.dumps(schedule.to_json(), indent=2))
    else:
        for line in plan_lines(schedule, testbed, width=terminal()[0], each=each):
            say(line)
