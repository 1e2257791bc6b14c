"""Command `schema`: print the JSON Schema of an input file."""

from __future__ import annotations

import json

import click

from dutlab.choices import FILE_MODELS
from dutlab.cli.terminal import say


@click.command()
@click.argument("kind", type=click.Choice(list(FILE_MODELS)))
def schema(kind: str) -> None:
    """With the schema, an editor completes keys and marks faults in files whose first line is
    `# yaml-language-server: $schema=experiment.schema.json`.

    \b
    Example:
      dutlab schema experiment > experiment.schema.json
    """
    from dutlab.spec.file_schema import file_schema

    say(json.dumps(file_schema(kind), indent=1))
