"""Entry point of `python -m dutlab`: the command, run from a source tree."""

from dutlab.cli.main import program

program()
