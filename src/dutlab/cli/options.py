"""Options that several commands have."""

from __future__ import annotations

from pathlib import Path

import click

RUNS = click.option("--runs", type=click.Path(path_type=Path, file_okay=False), default=Path("runs"), help="Where run folders go.  [runs]")
