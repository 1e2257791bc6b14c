"""Trust in run folders: their commands run without asking only if this user wrote them on this machine (store/seal.py)."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dutlab.dut.mode import UndoStep
from dutlab.errors import InputError
from dutlab.printable import printable
from dutlab.runner.journal import Entry, leased_hosts, left_engines, pending_undo, standing_lab, unreset
from dutlab.store.run_folder import RunFolder
from dutlab.store.seal import is_ours


class NotOurs(InputError):
    """Refusal of a run folder with commands that is from elsewhere or was changed. `commands` are lines for a person to read."""

    def __init__(self, folder: RunFolder, commands: tuple[str, ...]) -> None:
        super().__init__(
            f"{folder.path}: another user or machine made this run, or its files changed since; it names commands",
            remedy="read them, then give --trust to run them",
        )
        self.commands = commands


def insist_on_undo(folder: RunFolder, entries: Iterable[Entry]) -> None:
    """Raise NotOurs if an undo would run commands that this user did not write."""
    if (commands := tuple(_undo_commands(list(entries)))) and not is_ours(folder.path):
        raise NotOurs(folder, commands)


def insist_on_resume(folder: RunFolder, entries: Iterable[Entry]) -> None:
    """Raise NotOurs if a resume, which also runs the experiment, would run commands that this user did not write."""
    if not is_ours(folder.path):
        raise NotOurs(folder, (*_undo_commands(list(entries)), *_experiment_commands(folder.resolved)))


def _undo_commands(entries: list[Entry]) -> Iterator[str]:
    if (label := standing_lab(entries)) is not None:
        yield f"on this machine: dutlab lab down {label}"
    for _, steps in pending_undo(entries):
        yield from map(_of_step, steps)
    yield from map(_of_step, unreset(entries).steps)
    yield from (f"{host}: rm -rf {path}" for host, path in left_engines(entries))
    yield from (f"{host}: free it" for host in leased_hosts(entries))


def _of_step(step: UndoStep) -> str:
    """Return the action of a step as a line: a command, a reboot, or a power switch, which may run commands on this machine."""
    if step.switch:
        return f"{step.host}: switch it on by {step.switch}"
    if step.back_within_s:
        return f"{step.host}: reboot"
    return f"{step.host}: {shlex.join(step.argv)}{' <<< ' + shlex.quote(step.stdin) if step.stdin else ''}"


def _experiment_commands(resolved: Mapping[str, Any]) -> Iterator[str]:
    """Yield every value in the resolved experiment and testbed as a line, since any value may become part of a command."""
    for part in ("testbed", "experiment"):
        yield from (f"{part} {line}" for line in _values(resolved.get(part)))


def _values(value: Any, at: str = "") -> Iterator[str]:  # noqa: ANN401 -- JSON
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _values(inner, f"{at}.{name}".lstrip("."))
    elif isinstance(value, list):
        for n, inner in enumerate(value):
            yield from _values(inner, f"{at}.{n}".lstrip("."))
    elif value not in (None, "", False):
        yield f"{at}: {value}"


def as_lines(error: NotOurs) -> list[str]:
    """Return the commands as lines for a terminal."""
    return [f"  {printable(command)}" for command in error.commands]
