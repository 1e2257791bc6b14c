"""All that the commands print: without what a terminal would obey, since much of it came from hosts, files and other people's runs."""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

import click

from dutlab.printable import printable, printable_lines

_COLOUR = re.compile("(\033\\[[0-9;]*m)")
_chosen = {"colour": "auto"}
_RENEW = "\r\033[K"


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """To standard output, or to standard error with `err`."""
    click.echo(printable_lines(str(text)), err=err, nl=nl)


def wrapped(text: str) -> list[str]:
    """The lines of a sentence: broken between words on a terminal, one line where standard output goes to a file or a program."""
    width = line_width()
    return [text] if width is None else textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def say_words(sentence: str, *, err: bool = False) -> None:
    """Print a sentence as say() does, wrapped."""
    say("\n".join(wrapped(printable(sentence))), err=err)


def say_shaded(line: str) -> None:
    """To standard output, a line with colours (SGR, ECMA-48 section 8.3.117): those stay, and nothing else that a terminal would obey."""
    click.echo(_shaded(line))


def say_paged(lines: Sequence[str]) -> None:
    """Print as say_shaded(), through the user's pager where standard output is a terminal with fewer lines."""
    if sys.stdout.isatty() and len(lines) >= shutil.get_terminal_size((80, 24)).lines:
        os.environ.setdefault("LESS", "-FRX")  # keep colours, and leave the text on the screen
        click.echo_via_pager("".join(f"{_shaded(line)}\n" for line in lines))
        return
    for line in lines:
        say_shaded(line)


def _shaded(line: str) -> str:
    return "".join(part if _COLOUR.fullmatch(part) else printable(part) for part in _COLOUR.split(line))


def tell(text: str, *, end: str = "\n", renew: bool = False) -> None:
    """To standard error, over the terminal's line with `renew`, while and after measuring.

    A closed pipe is ignored: what cannot be written to it is dropped.
    """
    with suppress(OSError):
        click.echo((_RENEW if renew else "") + printable_lines(text) + end, err=True, nl=False)


def answer(line: str) -> None:
    """Print as say_shaded(), for a command whose exit status must not depend on the reader."""
    with suppress(BrokenPipeError):
        say_shaded(line)


def use_colour(choice: str) -> None:
    """`always` and `never` as the user's config file says; `auto` asks the terminal."""
    _chosen["colour"] = choice


def line_width() -> int | None:
    """Return the longest line on standard output; None where that is a file or a program, which want a row on one line."""
    return terminal()[0] if sys.stdout.isatty() else None


def terminal() -> tuple[int, bool]:
    """Return the width of standard output, 80 where it is not a terminal, and whether it may be coloured (no-color.org)."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    coloured = {"always": True, "never": False}.get(_chosen["colour"], coloured)
    return shutil.get_terminal_size((80, 24)).columns, coloured


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), indent: str = "") -> Iterator[str]:
    """Lines of a table of words: as wide as the terminal, and where there is none as they need; columns in `right` go to the right."""
    from dutlab.report.model.table import word_table
    from dutlab.report.pages.terminal import terminal_table

    width = (line_width() or sys.maxsize) - len(indent)
    for line in terminal_table(word_table(head, rows, right=right), width=width):
        yield indent + line
