"""The user's config file: what it sets, what it cannot, and the line of every fault."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from dutlab.cli import one_workload, search, terminal
from dutlab.cli.config import config as config_command
from dutlab.cli.config_file import ON_THE_COMMAND_LINE, config_path, defaults_of, read_config
from dutlab.cli.main import COMMANDS, dutlab
from dutlab.errors import Fault, SpecRefused
from fake_run import Wanted, build
from golden import Golden

Said = tuple[int, str, str]


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr(terminal, "_chosen", {"colour": "auto"})
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "config" / "dutlab" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@pytest.fixture
def said(file: Path, command: Callable[..., Said]) -> Callable[..., Said]:
    return command


def test_the_folder_of_runs_is_that_of_the_file_unless_the_command_line_names_one(file: Path, said: Callable[..., Said]) -> None:
    build(file.parents[2] / "mine", Wanted(repeats=1, cores=0, sizes=()))
    (file.parents[2] / "other").mkdir()
    file.write_text(f'runs_folder = "{file.parents[2]}/mine"\n')
    assert "firewall-modes" in said("runs")[1]
    assert "no such run" in said("runs", "--runs", "other")[1]


def test_options_of_a_command_come_from_its_table_and_the_command_line_goes_first(file, said, monkeypatch) -> None:
    asked = list[tuple[object, ...]]()
    monkeypatch.setattr(
        search, "measure_workload", lambda _, body, __, where: asked.append((body["preset"], where.repeats, where.modes, where.runs))
    )
    file.write_text('runs_folder = "~/mine"\n[search]\npreset = "quick"\nrepeats = 3\nmode = ["router", "nat"]\n')
    said("search")
    said("search", "--preset", "csit", "--mode", "bridge", "--repeats", "1")
    home = Path("~/mine").expanduser()
    assert asked == [("quick", 3, ("router", "nat"), home), ("csit", 1, ("bridge",), home)]
    assert one_workload.DEFAULT_LAB  # the file changes nothing that is built in


FAULTS = [
    ('\ncolour = "red"\n', "2 colour unknown-name"),
    ("colour = 1\n", "1 colour unknown-name"),
    ("rnus = 1\n", "1 rnus unknown-key"),
    ("runs_folder = 'x'\n[serch]\nx = 1\n", "2 serch unknown-key"),
    ("[search]\n\npresset = 1\n", "3 search.presset unknown-key"),
    ("[search]\nrepeats = 0\n", "2 search.repeats invalid"),
    ("[search]\nmode = 'nat'\n", "2 search.mode type"),
    ("[search]\nrepeats = [1]\n", "2 search.repeats type"),
    ("[search]\nrepeats = true\n", "2 search.repeats type"),
    ("[run]\n# flag\ninterleave = 'yes'\n", "3 run.interleave type"),
    ("[run]\ntake-over = true\n", "2 run.take-over conflict"),
    ("runs = 'x'\n", "1 runs type"),
    ("runs_folder = 7\n", "1 runs_folder type"),
    ("[search]\nsize = [2026-11-22]\n", "2 search.size type"),
    ("[resume]\ntrust = true\n", "2 resume.trust conflict"),
    ("[test]\nlab = 'two-port'\n", "2 test.lab conflict"),
    ("search = 3\n", "1 search type"),
    ("[lab]\nupp = {}\n", "2 lab.upp unknown-key"),
    ("[search]\nrepeats = {a = 1}\n", "2 search.repeats type"),
    ("search.repeats = 0\n", "1 search.repeats invalid"),
]


def faults_in(file: Path, text: str) -> list[Fault]:
    file.write_text(text)
    with pytest.raises(SpecRefused) as refused:
        CliRunner().invoke(config_command, catch_exceptions=False)
    return refused.value.faults


@pytest.mark.parametrize(("text", "expected"), FAULTS)
def test_every_fault_of_the_file_has_its_line_and_kind(file: Path, text: str, expected: str) -> None:
    faults = faults_in(file, text)
    assert expected in [f"{fault.line} {fault.path} {fault.kind}" for fault in faults]
    assert {(fault.file, fault.column) for fault in faults} == {(str(file), 1)}


def test_all_faults_are_told_at_once_as_on_the_page(file: Path, golden: Golden) -> None:
    faults = faults_in(file, "colour = 1\nrnus = 1\n[search]\nrepeats = 0\nx = 1\nmode = 'nat'\n[test]\nlab = 'x'\n[lab]\nup = 3\nx = 1\n")
    assert len({fault.line for fault in faults}) >= 6
    golden.check("refusals-config.txt", "".join(f"{fault}\n" for fault in faults).replace(str(file), "config.toml"))


def test_a_fault_in_another_commands_table_hinders_nobody_and_help_is_always_shown(file: Path, said: Callable[..., Said]) -> None:
    file.write_text("[search]\nrepeats = 0\n")
    assert said("limits", "--list")[0] == said("limits")[0]
    assert "search --help" in said("search")[2] or said("search")[0] == 2
    assert said("search", "--help")[0] == 0


@pytest.mark.parametrize("content", [b"runs = \n", b"\xff\xfe", b"[a\n", b"colour = 1\ncolour = 2\n"])
def test_a_file_that_is_not_toml_is_refused_by_its_name(file: Path, said: Callable[..., Said], content: bytes) -> None:
    file.write_bytes(content)
    for command in ("config", "runs"):
        status, _, error = said(command)
        assert status == 2 and str(file) in error and "Traceback" not in error


def test_a_folder_or_a_pipe_in_its_place_is_refused_or_empty(file: Path, said: Callable[..., Said]) -> None:
    file.mkdir()
    assert said("config")[0] == 2
    file.rmdir()
    os.mkfifo(file)
    assert said("config")[0] in {0, 2}  # nothing is waited for


def test_without_a_file_everything_is_built_in(file: Path, said: Callable[..., Said]) -> None:
    shown = json.loads(said("config", "--json")[1])
    assert (shown["exists"], {s["from"] for s in shown["settings"]}) == (False, {"built in"})


def test_config_shows_what_holds_and_which_line_says_so(file: Path, said: Callable[..., Said]) -> None:
    file.write_text("# mine\ncolour = 'never'\n[search]\nrepeats = 3\n")
    rows = {s["key"]: (s["value"], s["from"]) for s in json.loads(said("config", "--json")[1])["settings"]}
    assert rows == {"runs_folder": ("runs", "built in"), "colour": ("never", "line 2"), "search.repeats": (3, "line 4")}


def test_colour_is_as_the_file_says(file: Path, said: Callable[..., Said], monkeypatch: pytest.MonkeyPatch) -> None:
    for choice, coloured in (("never", False), ("always", True)):
        file.write_text(f"colour = '{choice}'\n")
        said("runs", "--runs", str(file.parent))
        assert terminal.terminal()[1] is coloured


def test_a_relative_xdg_config_home_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", "here")
    assert config_path() == Path("~/.config/dutlab/config.toml").expanduser()


def test_a_user_without_a_home_has_no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(uid: int) -> None:
        raise KeyError(uid)

    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", nobody)
    assert read_config() is None


def test_every_command_that_has_a_folder_of_runs_takes_it_from_the_file(file: Path) -> None:
    file.write_text('runs_folder = "/somewhere"\n')
    config, ctx, with_runs = read_config(), click.Context(dutlab), 0
    assert config is not None
    for name in COMMANDS:
        command = dutlab.get_command(ctx, name)
        assert command is not None
        if not isinstance(command, click.Group) and any("--runs" in p.opts for p in command.params):
            with_runs += 1
            assert "/somewhere" in defaults_of(config, name, command).values(), name
    assert with_runs > 8


def test_the_options_that_are_refused_in_the_file_are_options_of_some_command() -> None:
    ctx = click.Context(dutlab)
    commands = [command for name in COMMANDS if (command := dutlab.get_command(ctx, name)) is not None]
    assert {opt[2:] for command in commands for param in command.params for opt in param.opts} >= ON_THE_COMMAND_LINE
