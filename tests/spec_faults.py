"""Faults of input files as tests assert them: where, at which key, of which kind. Their sentences are on pages in tests/golden."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

import pytest
from pydantic import ValidationError

from dutlab.errors import Fault, SpecRefused
from dutlab.spec.loader import given_experiment, given_testbed
from dutlab.spec.model import plain_faults

Change = tuple[str, str, str]
"""What is written, what instead, and one of the faults in brief."""


def faults_of_experiment(text: str, *options: str, path: Path | None = None) -> tuple[Fault, ...]:
    """Those of an experiment file with this text; where it lies at no `path`, where it could name other files, it is read once."""
    return _faults(text, options) if path is None else _faults.__wrapped__(text, options, path)


@cache
def _faults(text: str, options: tuple[str, ...], path: Path = Path("experiment.yaml")) -> tuple[Fault, ...]:
    with pytest.raises(SpecRefused) as refused:
        given_experiment(text.encode(), path, options)
    return tuple(refused.value.faults)


@cache
def faults_of_testbed(text: str) -> tuple[Fault, ...]:
    """Those of a testbed file with this text."""
    with pytest.raises(SpecRefused) as refused:
        given_testbed(text.encode(), Path("testbed.yaml"))
    return tuple(refused.value.faults)


def brief(faults: Iterable[Fault]) -> list[str]:
    """`7:14 links.a.speed unit`, a fault an item."""
    return [f"{fault.line}:{fault.column} {fault.path} {fault.kind}" for fault in faults]


def brief_of_model(error: ValidationError) -> list[str]:
    """The same where no file was read: `links.a.speed unit`."""
    return [f"{'.'.join(map(str, loc))} {kind}".strip() for loc, _, kind in plain_faults(error)]


def page(changes: Sequence[Change], text: str, faults: Callable[[str], Iterable[Fault]]) -> str:
    """A golden page: each change of a right text, and all that is said of it."""
    lines = list[str]()
    for old, new, _ in changes:
        lines += [f"{old!r} → {new!r}", *(f"    {fault}" for fault in faults(text.replace(old, new, 1)))]
    return "\n".join(lines) + "\n"
