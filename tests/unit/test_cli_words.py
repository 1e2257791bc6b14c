"""What the command line says of wrong words, and the status that it ends with."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import click
import pytest

from dutlab.cli.console import Console
from dutlab.cli.loop import run_in_order
from dutlab.cli.main import COMMANDS, dutlab
from dutlab.errors import InputError
from dutlab.labs import lab_names
from dutlab.runner.execution import RunOptions
from dutlab.runner.run import resume
from fake_run import Wanted, build

Ended = tuple[int, str, str]
Told = Callable[..., Ended]


@pytest.fixture
def told(command: Told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Told:
    """Runs the command in an empty folder: status, standard output, standard error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return command


def leaves(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    yield name, command
    if isinstance(command, click.Group):
        for sub in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), sub)
            assert found is not None
            yield from leaves(found, f"{name} {sub}")


def test_the_help_of_every_command_has_an_example_of_that_command() -> None:
    for name, command in leaves(dutlab, "dutlab"):
        example = (command.help or "").partition("Example:")[2]
        assert name in example, name


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        *(
            ([word, "notes"], "plan.json, resolved.json, trials")
            for word in ("resume", "undo", "report", "plot", "compare", "cost", "rescore", "claims")
        ),
        *((argv, "runs: cannot be read") for argv in (["runs"], ["query", "SELECT 1"], ["history", "x"])),
        (["doctor", "--lab", "four-node"], ", ".join(lab_names())),
        (["comapre"], "'compare'?"),
    ],
)
def test_what_there_is_not_is_a_wrong_argument(told: Told, tmp_path: Path, argv: list[str], said: str) -> None:
    (tmp_path / "notes").mkdir()
    status, _, error = told(*argv)
    assert (status, said in error) == (2, True), error
    assert "Did you mean" not in told("xyzzy")[2]


def test_every_command_is_found_by_its_name() -> None:
    for name in COMMANDS:
        found = dutlab.get_command(click.Context(dutlab), name)
        assert found is not None
        assert found.name == name
        shown, _, _ = found.get_help(click.Context(found, info_name=name)).partition("Example:")
        assert not re.search(r"[a-z,.:;] {3,}\w", shown), f"{name} --help has gaps in its sentences"


def test_a_reader_that_has_enough_is_no_fault() -> None:
    command = [sys.executable, "-c", "from dutlab.cli.main import main; main()", "limits", "ethernet", "--speed", "10G"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as pipe:
        done = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, "[Errno 28]" in done.stderr) == (1, True)


def test_progress_that_nobody_reads_ends_nothing_and_neither_does_a_closed_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    restored = []

    async def measuring() -> None:
        try:
            os.kill(os.getpid(), signal.SIGHUP)
            await asyncio.sleep(30)
        finally:
            restored.append("yes")

    with Path("/dev/full").open("w", buffering=1) as full:
        monkeypatch.setattr(sys, "stderr", full)
        Console().note("not read")
        with pytest.raises(KeyboardInterrupt):
            run_in_order(measuring())
        monkeypatch.undo()
        with suppress(OSError):
            full.close()
    assert restored == ["yes"]


def test_ports_that_a_testbed_names_and_its_hosts_have_not_are_refused_at_once(told: Told, tmp_path: Path) -> None:
    (tmp_path / "t.yaml").write_text(
        "testbed: t\nhosts: {source: {local: true}, dut: {family: black-box}, sink: {local: true}}\n"
        "links: {a: {path: [source:no-port, dut:in, dut:out, sink:nor-this],"
        " addresses: [172.16.0.2/24, 172.16.0.1/24, 172.16.10.1/24, 172.16.10.2/24]}}\n"
    )
    status, _, error = told("doctor", "--testbed", "t.yaml")
    lines = error.splitlines()
    assert (status, len(lines)) == (3, 2), error
    assert "no-port" in lines[0] and "nor-this" in lines[1]


def test_an_answer_is_waited_for_beside_everything_else(monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"turbo is off\n\nand on\n")
    with os.fdopen(reading) as stdin, os.fdopen(writing, "wb") as typed:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert run_in_order(Console().ask("switch turbo off")) == "turbo is off"
        assert run_in_order(Console().ask("switch turbo on")) == "and on"  # an empty line is not an answer

        async def ctrl_c() -> None:
            asyncio.get_running_loop().call_later(0.1, os.kill, os.getpid(), signal.SIGINT)
            await Console().ask("never answered")

        with pytest.raises(KeyboardInterrupt):
            run_in_order(ctrl_c())
        typed.close()
        with pytest.raises(InputError, match="no answer"):
            run_in_order(Console().ask("anybody there"))


def test_a_fault_of_an_option_names_no_file_that_there_is_not(told: Told) -> None:
    assert told("search", "--preset", "foo")[2].startswith("dutlab: preset: ")
    status, _, error = told("search", "--size", "9", "--link", "z", "--mode", "rooter")
    assert status == 2
    assert [line.removeprefix("dutlab: ").partition(": ")[0] for line in error.splitlines()] == [
        "factors.mode.0",
        "frame_sizes.0",
        "links.0.0",
    ]


async def test_a_run_that_ended_and_lost_a_record_is_not_measured_on(tmp_path: Path) -> None:
    made = build(tmp_path, Wanted(repeats=1, sizes=(64,), seconds=2, cores=0, bad_luck=False))
    (made / "trials/0002/record.json").unlink()
    options = RunOptions(runs=tmp_path, engine_binary=Path("/absent"), command=("dutlab",))
    with pytest.raises(InputError, match=r"missing: trials/0002/record\.json"):
        await resume(made, options, Console())
