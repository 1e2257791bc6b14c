"""Options that several commands have. Each means the same everywhere."""

from __future__ import annotations

from pathlib import Path

import click

RUNS = click.option("--runs", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), help="Where run folders go.  [runs]")
LAB_WORDS = "An embedded lab: one that stands, by its label, or one to build for this, by its name."
TESTBED_WORDS = "A testbed file, instead of a lab."
LINK_WORDS = "Links to drive at once, as in a or a+b; may be given several times."
