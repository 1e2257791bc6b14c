"""Completion in real shells, and manual pages as groff reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from capability import need
from dutlab.cli.main import COMMANDS, dutlab
from dutlab.cli.man_pages import pages
from processes import LIMIT_S
from terminal import at_terminal, read_until, with_dutlab

BASH = """
eval "$(_DUTLAB_COMPLETE=bash_source dutlab)"
complete -p dutlab >&2
complete_words() {
    COMP_WORDS=(dutlab "$@"); COMP_CWORD=$#; COMPREPLY=()
    _dutlab_completion dutlab
    printf '%s\\n' "${COMPREPLY[@]}"
}
complete_words measure swe; complete_words check --for; complete_words check --format gi
"""
FISH = "_DUTLAB_COMPLETE=fish_source dutlab | source; complete -C 'dutlab check --for'; complete -C 'dutlab check --format gi'"


@pytest.fixture
def path(tmp_path: Path) -> dict[str, str]:
    return with_dutlab(tmp_path)


def shell(argv: list[str], env: dict[str, str]) -> set[str]:
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


def test_bash_completes(path: dict[str, str]) -> None:
    assert shell(["bash", "--norc", "-c", BASH], path) == {"sweep", "--format", "github"}


def test_fish_completes(path: dict[str, str]) -> None:
    need("fish", have=shutil.which("fish") is not None)
    assert shell(["fish", "--no-config", "-c", FISH], path) >= {"--format", "github"}


def test_zsh_completes_as_somebody_types(path: dict[str, str]) -> None:
    need("zsh", have=shutil.which("zsh") is not None)
    with at_terminal(["zsh", "-f", "-i"], path) as terminal:
        os.write(terminal, b'autoload -Uz compinit; compinit -u -D; eval "$(_DUTLAB_COMPLETE=zsh_source dutlab)"; print rea""dy\n')
        read_until(terminal, b"ready\r\n")
        os.write(terminal, b"dutlab verify-c\t")
        read_until(terminal, b"verify-claim")


def test_every_command_has_a_page_with_each_of_its_options() -> None:
    found = dict(pages())
    for name in COMMANDS:
        command = dutlab.get_command(click.Context(dutlab), name)
        assert command is not None
        page = found[f"dutlab-{name}.1"]
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[-1].replace("-", "\\-") in page, (name, option.opts)
        assert f"dutlab\\-{name}".replace("verify-claim", "verify\\-claim") in found["dutlab.1"]


def test_groff_reads_every_page_without_complaint(tmp_path: Path) -> None:
    need("groff", have=shutil.which("groff") is not None)
    for name, page in pages():
        (tmp_path / name).write_text(page)
    done = subprocess.run(
        ["groff", "-man", "-ww", "-z", "-K", "utf8", "-T", "utf8", *sorted(map(str, tmp_path.glob("*.1")))],
        capture_output=True, text=True, timeout=LIMIT_S, check=True,
    )  # fmt: skip
    assert [line for line in done.stderr.splitlines() if "cannot adjust line" not in line] == []
    text = subprocess.run(
        ["groff", "-man", "-K", "utf8", "-T", "utf8", str(tmp_path / "dutlab-check.1")], capture_output=True, text=True, timeout=LIMIT_S, check=True
    ).stdout  # fmt: skip
    assert "--baseline" in text and "dutlab check runs/" in text
