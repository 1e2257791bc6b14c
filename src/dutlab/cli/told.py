"""What is said while and after measuring: that nobody reads it any more ends nothing."""

from __future__ import annotations

from contextlib import suppress

import click


def tell(text: str, *, end: str = "\n") -> None:
    """To standard error. What cannot be written is dropped: the reader of a pipe has gone, or the terminal was closed."""
    with suppress(OSError):
        click.echo(text + end, err=True, nl=False)


def answer(text: str) -> None:
    """To standard output, for a command whose exit status must not depend on who reads it."""
    with suppress(BrokenPipeError):
        click.echo(text)
