"""Commands that any page shows exist, with their options; files that the tutorial, the how-tos, the FAQ and README show are accepted."""

from __future__ import annotations

import re
import shlex
import textwrap
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dutlab.cli.main import dutlab
from dutlab.spec.loader import load_experiment, load_testbed

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "docs/tutorial.md", ROOT / "docs/faq.md", *sorted((ROOT / "docs/how-to").glob("*.md"))]
MORE = [
    *sorted((ROOT / "docs/method").glob("*.md")),
    *sorted((ROOT / "docs/reference").glob("*.md")),
    *sorted(ROOT.glob("examples/**/*.md")),
]
SPAN = re.compile(r"`((?:[A-Z_]+=\S+ |sudo |[^`\s]*/)*dutlab [^`\n]+)`")
LINE = re.compile(r"^ *(?:\$ |sudo )?((?:\S*/)?dutlab [^#\n]+)", re.MULTILINE)
FENCED = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"^( *)```yaml\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


def shown(page: Path) -> list[str]:
    text = page.read_text()
    return [
        *SPAN.findall(FENCED.sub("", text)),
        *(line for kind, block in FENCED.findall(text) if kind in {"", "sh"} for line in LINE.findall(block)),
    ]


def fault(said: str) -> str:
    """Why this is not a command of dutlab; empty when it is, and for a sentence that begins with its name."""
    words = re.split(r"\\?[|>]", re.split(r"\bdutlab ", said, maxsplit=1)[1])[0].split()  # what a pipe or a file gets is not ours
    command: click.Command = dutlab
    while words and isinstance(command, click.Group) and not words[0].startswith("-") and not words[0].isupper():
        found = command.get_command(click.Context(command), words[0])
        if found is None:
            return f"{said}: no command {words[0]}"
        command, words = found, words[1:]
    if isinstance(command, click.Group) and words and words[0].isupper():  # COMMAND: any of them
        return ""
    known = {o for p in command.params for o in (*p.opts, *p.secondary_opts)} | {"-h", "--help"}
    given = [w.partition("=")[0].rstrip(",.;") for w in words if re.match(r"--?[a-zA-Z]", w)]
    return "".join(f"{said}: no option {o}" for o in given if o not in known)


@pytest.mark.parametrize("page", [*PAGES, *MORE], ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_every_command_that_a_page_shows_exists_with_its_options(page: Path) -> None:
    assert [f for said in shown(page) if (f := fault(said))] == []


def test_the_pages_show_commands_and_a_wrong_one_is_found() -> None:
    assert sum(len(shown(page)) for page in PAGES) > 100
    assert (
        fault("dutlab tset eth1 eth2") and fault("dutlab compare RUN --base x") and not fault("sudo dutlab lab up three-node --label mine")
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_file_that_a_page_shows_is_accepted(page: Path, tmp_path: Path) -> None:
    for indent, text in FILE.findall(page.read_text()):
        source = textwrap.dedent(indent + text.lstrip(" ")) if indent else text
        file = tmp_path / "shown.yaml"
        file.write_text(source)
        if re.search(r"^hosts:", source, re.MULTILINE):
            load_testbed(file)
        elif re.search(r"^workloads:", source, re.MULTILINE):
            load_experiment(file)
            if "testbed: {lab:" in source:
                said = CliRunner().invoke(dutlab, ["plan", str(file)])
                assert said.exit_code == 0 and " trials in " in said.stdout, said.output


def harmless(said: str) -> list[str]:
    """What can be carried out here of a command that a page shows: a calculation, or the plan of an example that it plans or runs."""
    words = shlex.split(re.split(r"\bdutlab ", said, maxsplit=1)[1])
    if words[0] == "limits":
        return words
    if words[0] in {"plan", "run"} and words[1:] and words[1].startswith("examples/") and "--interleave" not in words:
        sets = [word for n, word in enumerate(words) if "--set" in {word, words[n - 1]}]
        return ["plan", str(ROOT / words[1]), *sets]
    return []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_every_calculation_and_example_that_a_page_shows_works(page: Path) -> None:
    for command in filter(None, map(harmless, shown(page))):
        said = CliRunner().invoke(dutlab, command)
        assert said.exit_code == 0 and len(said.stdout.splitlines()) > 3, f"{command}: {said.output}"


def test_the_pages_show_calculations_and_examples() -> None:
    found = [command for page in PAGES for said in shown(page) if (command := harmless(said))]
    assert len([c for c in found if c[0] == "limits"]) >= 4 and len([c for c in found if c[0] == "plan"]) >= 6
