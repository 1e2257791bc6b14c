"""Manual pages from `--help`: `python -m dutlab.cli.man_pages FOLDER` writes one for each command (groff_man(7))."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

import click

from dutlab.cli.main import SECTIONS, dutlab

_KEPT = "\b"
"""Click's mark for a paragraph that is not wrapped."""


def pages() -> Iterator[tuple[str, str]]:
    """Yield (file name, text) for every command, the group `dutlab` first."""
    yield from _pages("dutlab", dutlab, None)


def _pages(name: str, command: click.Command, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    ctx = click.Context(command, info_name=name, parent=parent)
    yield f"{ctx.command_path.replace(' ', '-')}.1", _page(command, ctx)
    if isinstance(command, click.Group):
        for sub in command.list_commands(ctx):
            if (subcommand := command.get_command(ctx, sub)) is not None:
                yield from _pages(sub, subcommand, ctx)


def _page(command: click.Command, ctx: click.Context) -> str:
    title = ctx.command_path.replace(" ", "-")
    lines = [
        f'.TH "{_text(title.upper())}" "1" "" "dutlab {_text(version("dutlab"))}" "dutlab"',
        ".SH NAME", f"{_text(title)} \\- {_text(command.get_short_help_str(300).rstrip('.'))}",
        ".SH SYNOPSIS", f".B {_text(ctx.command_path)}", _text(" ".join(command.collect_usage_pieces(ctx))),
        ".SH DESCRIPTION", *_paragraphs(command.help or ""),
    ]  # fmt: skip
    if options := [record for param in command.get_params(ctx) if (record := param.get_help_record(ctx)) is not None]:
        lines += [".SH OPTIONS", *(line for names, text in options for line in (".TP", f".B {_text(names)}", _text(text)))]
    if isinstance(command, click.Group):
        lines += _commands(command, ctx)
    else:
        lines += [".SH SEE ALSO", ".BR dutlab (1)"]
    return "\n".join(lines) + "\n"


def _commands(group: click.Group, ctx: click.Context) -> Iterator[str]:
    sections = SECTIONS if group is dutlab else {"Commands": dict.fromkeys(group.list_commands(ctx))}
    for section, names in sections.items():
        yield f'.SH "{_text(section.upper())}"'
        for name in names:
            subcommand = group.get_command(ctx, name)
            yield from (".TP", f".BR {_text(ctx.command_path.replace(' ', '-'))}\\-{_text(name)} (1)")
            yield _text(subcommand.get_short_help_str(300) if subcommand is not None else "")


def _paragraphs(help_text: str) -> Iterator[str]:
    for paragraph in help_text.split("\n\n"):
        lines = [line.strip() for line in paragraph.strip("\n").splitlines()]
        if lines and lines[0] == _KEPT:
            yield from (".PP", ".nf", *map(_text, lines[1:]), ".fi")
        elif lines:
            yield from (".PP", _text(" ".join(lines)))


def _text(text: str) -> str:
    """Escape text for groff: backslashes, dashes of options, and a dot or quote that begins a line."""
    escaped = text.replace("\\", "\\e").replace("-", "\\-").replace("\n", " ")
    return f"\\&{escaped}" if escaped[:1] in {".", "'"} else escaped


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, page in pages():
        (folder / name).write_text(page, encoding="utf-8")
