"""`python -m dutlab`: the command, from a source tree."""

from dutlab.cli.main import main

main()
