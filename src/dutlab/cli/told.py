"""All that the commands print: without what a terminal would obey, since much of it came from hosts, files and other people's runs."""

from __future__ import annotations

from contextlib import suppress

import click

from dutlab.printable import printable_lines

_RENEW = "\r\033[K"


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """To standard output, or to standard error with `err`."""
    click.echo(printable_lines(str(text)), err=err, nl=nl)


def tell(text: str, *, end: str = "\n", renew: bool = False) -> None:
    """To standard error, over the terminal's line with `renew`, while and after measuring.

    That nobody reads it any more ends nothing: what cannot be written, since the reader of a pipe has gone, is dropped.
    """
    with suppress(OSError):
        click.echo((_RENEW if renew else "") + printable_lines(text) + end, err=True, nl=False)


def answer(text: str) -> None:
    """To standard output, for a command whose exit status must not depend on who reads it."""
    with suppress(BrokenPipeError):
        say(text)
