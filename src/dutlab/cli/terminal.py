"""Output of the commands, without control sequences, since much text is from hosts, files and runs of other users."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

import click

from dutlab.printable import printable, printable_lines

_COLOUR = "(\033\\[[0-9;]*m)"
_chosen = {"colour": "auto"}
_RENEW = "\r\033[K"


def say(text: object = "", *, err: bool = False, nl: bool = True) -> None:
    """Print to standard output, or to standard error with `err`."""
    click.echo(printable_lines(str(text)), err=err, nl=nl)


def wrapped(text: str) -> list[str]:
    """Return the lines of a sentence: wrapped between words on a terminal, one line if standard output is a file or a program."""
    width = line_width()
    if width is None:
        return [text]
    import textwrap

    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def say_words(sentence: str, *, err: bool = False) -> None:
    """Print a sentence as say() does, wrapped."""
    say("\n".join(wrapped(printable(sentence))), err=err)


def say_shaded(line: str) -> None:
    """Print a line with colours (SGR, ECMA-48 section 8.3.117) to standard output, without other control sequences."""
    click.echo(_shaded(line))


def say_paged(lines: Sequence[str]) -> None:
    """Print as say_shaded(), through the user's pager if the terminal has fewer lines."""
    if sys.stdout.isatty() and len(lines) >= _size().lines:
        os.environ.setdefault("LESS", "-FRX")  # keep colours, and leave the text on the screen
        click.echo_via_pager("".join(f"{_shaded(line)}\n" for line in lines))
        return
    for line in lines:
        say_shaded(line)


def _shaded(line: str) -> str:
    return "".join(part if re.fullmatch(_COLOUR, part) else printable(part) for part in re.split(_COLOUR, line))


def tell(text: str, *, end: str = "\n", renew: bool = False) -> None:
    """Print to standard error; `renew` overwrites the terminal's current line. Ignore a closed pipe and other write errors."""
    with suppress(OSError):
        click.echo((_RENEW if renew else "") + printable_lines(text) + end, err=True, nl=False)


def answer(line: str) -> None:
    """Print as say_shaded(), for a command whose exit status must not depend on the reader."""
    with suppress(BrokenPipeError):
        say_shaded(line)


def use_colour(choice: str) -> None:
    """Set the use of colours: `always`, `never`, or `auto`, which depends on the terminal."""
    _chosen["colour"] = choice


def line_width() -> int | None:
    """Return the width of standard output; None if it is a file or a program, which get each row as one line."""
    return terminal()[0] if sys.stdout.isatty() else None


def terminal() -> tuple[int, bool]:
    """Return the width of standard output, 80 if it is not a terminal, and whether it may have colours (no-color.org)."""
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    coloured = {"always": True, "never": False}.get(_chosen["colour"], coloured)
    return _size().columns, coloured


def _size() -> os.terminal_size:
    import shutil

    return shutil.get_terminal_size((80, 24))


def table(head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[int] = (), indent: str = "") -> Iterator[str]:
    """Yield the lines of a table, as wide as the terminal, or as wide as necessary without one; columns in `right` are right-aligned."""
    from dutlab.report.model.table import word_table
    from dutlab.report.pages.terminal import terminal_table

    width = (line_width() or sys.maxsize) - len(indent)
    for line in terminal_table(word_table(head, rows, right=right), width=width):
        yield indent + line
