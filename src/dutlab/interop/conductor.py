"""Configuration files of Conductor, George Neville-Neil's test runner.

There are those of 2015, with [Clients] and [Master], and those of today, with [Workers] and [Coordinator].

A coordinator's file names the hosts and a file for each; a host's file has the steps of four phases. What they mean here:

    key begins with `spawn` (2015: has it anywhere)     left running; in Startup and Run (2015: in Run)
    key `timeoutN`, in Run                              ended after N seconds, as asked, if it has not ended before
    value begins with `spawn:` or `timeoutN:`, in Run   the same (today's files)
    anything else                                       run, and waited for; in files of 2015 for 30 s at most
    no value                                            does nothing, and succeeds

Names of keys mean nothing else and may be repeated; steps go in the order of the file. `%%` is `%` and `%(key)s` the value of `key`. Ports
are read and not used: dutlab reaches hosts in its own ways.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from dutlab.errors import Fault, FaultKind, InputError
from dutlab.interop.ini import DEFAULTS, Entry, IniSection, interpolated, parse_ini
from dutlab.spec.workloads.steps import PHASES, Phase, Step, StepsWorkload
from dutlab.units import Seconds

ORIGINAL_LIMIT_S = Seconds(30.0)
"""The original's limit of a step that names no time-out."""
_LONGEST_S = 366 * 86400.0
_NOTHING = ":"
"""The shell's command that does nothing."""
_TIMEOUT_KEY = re.compile(r"timeout(\d+)")
_TIMEOUT_VALUE = re.compile(r"timeout(\d+):\s*(.+)", re.DOTALL)
_SPAWN_VALUE = re.compile(r"spawn:\s*(.+)", re.DOTALL)
_CPUSET = re.compile(r"\bcpuset\s+-l\s+([0-9,-]+)\s+")


class Dialect(Enum):
    """Version of Conductor for which a host's file was written."""

    OF_2015 = "2015"
    TODAY = "today"


class StepLimit(Enum):
    """Plain steps that have the original's limit of 30 s."""

    OF_2015 = "those of files with [Master]"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True)
class ReadOptions:
    """Options of reading, beyond the grammar of files."""

    limit: StepLimit = StepLimit.OF_2015
    translate: bool = False
    """`cpuset -l LIST COMMAND` of FreeBSD becomes `taskset -c LIST COMMAND`."""


@dataclass(frozen=True)
class HostFile:
    """A host's part of a test."""

    player: str
    """The address at which the original finds it."""
    phases: Mapping[Phase, tuple[Step, ...]]


@dataclass(frozen=True)
class Test:
    """A whole test."""

    __test__ = False  # not a test class, whatever its name says to pytest

    trials: int
    hosts: Mapping[str, HostFile]
    faults: tuple[Fault, ...] = ()
    report: Mapping[str, str] = field(default_factory=dict)
    """`format` and `output`, where the file asks for the original's report."""
    names: Mapping[str, str] = field(default_factory=dict)
    """A host's name in the file → in `hosts`, where it is such as a file's name may have."""

    def workload(self, only: frozenset[str] | None = None, *, on_failure: str = "keep-going") -> StepsWorkload:
        """The steps of all hosts, or of those in `only`. Raises InputError when they have none."""
        kept = {name: host for name, host in self.hosts.items() if only is None or name in only}
        body: dict[str, Any] = {p: {name: host.phases[p] for name, host in kept.items() if host.phases[p]} for p in PHASES}
        if not any(body.values()):
            raise InputError(f"nothing to run: {', '.join(kept)} has no step in any phase", remedy="write steps in [Startup], [Run] …")
        return StepsWorkload.model_validate({**body, "on_failure": on_failure})


def read_test(text: str, file: str, open_file: Callable[[str], str], reading: ReadOptions | None = None) -> Test:
    """The test of a coordinator's file. `open_file` gives the text of a path in it, or raises OSError.

    Nothing is raised: all that is wrong, in all files, is in `faults`.
    """
    sections, faults = _sections(text, file)
    named = sections.get("Workers") or sections.get("Clients")
    if named is None or not named.entries:
        faults.append(
            Fault(
                file,
                1,
                1,
                "Workers",
                "missing; a coordinator's file has [Workers] (2015: [Clients]) with `name: file` a host",
                FaultKind.MISSING,
            )
        )
    trials, report = 1, dict[str, str]()
    if test := sections.get("Test"):
        trials = _trials(test, file, faults)
        report = {key: value for key in ("format", "output") if (value := test.value(key)) is not None}
    hosts: dict[str, HostFile] = {}
    names: dict[str, str] = {}
    for entry in named.entries if named else ():
        try:
            content = open_file(entry.value)
        except (OSError, UnicodeError, ValueError) as error:  # ValueError: a NUL in the path
            why = getattr(error, "strerror", None) or str(error)
            faults.append(Fault(file, entry.line, 1, entry.key, f"{entry.value} cannot be read: {why}", FaultKind.UNREADABLE))
            continue
        host, wrong = read_host(content, entry.value, reading or ReadOptions())
        faults += wrong
        if entry.key in names:
            faults.append(Fault(file, entry.line, 1, entry.key, "duplicate; each host needs a different name", FaultKind.DUPLICATE))
        names[entry.key] = name = _free(plain_name(entry.key), hosts)
        hosts[name] = host
    return Test(trials, hosts, tuple(faults), report, names)


def _free(name: str, taken: Mapping[str, object]) -> str:
    """`name`, or one with a number after it where another host has that already: `a.b` and `a-b` are two hosts."""
    return next(n for n in (name, *(f"{name[:44]}-{i}" for i in range(2, len(taken) + 3))) if n not in taken)


def _sections(text: str, file: str) -> tuple[dict[str, IniSection], list[Fault]]:
    sections, faults = parse_ini(text, file)
    sections, wrong = interpolated(sections, file)
    return sections, faults + wrong


def plain_name(text: str) -> str:
    """`text` as a name of ours, which may be a part of a file's name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:48].strip("-") or "unnamed"


def read_host(text: str, file: str, reading: ReadOptions) -> tuple[HostFile, list[Fault]]:
    """A host's file, and what is wrong with it."""
    sections, faults = _sections(text, file)
    if DEFAULTS in sections and sections[DEFAULTS].entries:
        what = "Conductor would run its keys as steps of every phase; write them in the phases where they are to run"
        faults.append(Fault(file, sections[DEFAULTS].line, 1, DEFAULTS, what))
    dialect = Dialect.TODAY if "Coordinator" in sections else Dialect.OF_2015
    owner = sections.get("Coordinator") or sections.get("Master")
    if owner is None:
        faults.append(Fault(file, 1, 1, "Coordinator", "missing; a host's file has [Coordinator] (2015: [Master])", FaultKind.MISSING))
    phases: dict[Phase, tuple[Step, ...]] = {}
    for phase in PHASES:
        section = sections.get(phase.capitalize())
        if section is None:
            faults.append(Fault(file, 1, 1, phase.capitalize(), "missing; it may be empty", FaultKind.MISSING))
        entries = section.entries if section else ()
        phases[phase] = tuple(_step(e, phase, dialect, reading) for e in entries)
        what = "has a NUL byte, which no command can have"
        faults += [Fault(file, e.line, 1, f"{phase.capitalize()}.{e.key}", what) for e in entries if "\0" in e.value]
    return HostFile((owner.value("player") if owner else None) or "", phases), faults


def _trials(test: IniSection, file: str, faults: list[Fault]) -> int:
    said = test.value("trials")
    if said is None:
        return 1
    if not (said.isascii() and said.isdecimal() and len(said) <= 4 and int(said) <= 1000):  # noqa: PLR2004 -- as an experiment may have
        line = next(e.line for e in test.entries if e.key == "trials")
        faults.append(Fault(file, line, 1, "Test.trials", f"{said!r} is not a number of trials from 0 to 1000", FaultKind.RANGE))
        return 1
    return int(said)


def _step(entry: Entry, phase: Phase, dialect: Dialect, reading: ReadOptions) -> Step:
    command = _CPUSET.sub(r"taskset -c \1 ", entry.value) if reading.translate else entry.value
    spawns = "spawn" in entry.key and phase == "run"
    if dialect is Dialect.TODAY:
        spawns = entry.key.startswith("spawn") and phase in ("startup", "run")
    limit = _TIMEOUT_KEY.fullmatch(entry.key) if phase == "run" else None
    seconds = _seconds(limit[1]) if limit else None
    if dialect is Dialect.TODAY and phase == "run":
        if match := _SPAWN_VALUE.match(command):
            spawns, command = True, match[1]
        elif match := _TIMEOUT_VALUE.match(command):
            seconds, command = _seconds(match[1]), match[2]
    command = command.replace("\0", "") or _NOTHING
    if spawns:
        return Step(spawn=command, name=entry.key)
    if seconds is not None:
        return Step(run=command, name=entry.key, timeout=seconds, at_timeout="end")
    is_limited = reading.limit is StepLimit.ALL or (reading.limit is StepLimit.OF_2015 and dialect is Dialect.OF_2015)
    return Step(run=command, name=entry.key, timeout=ORIGINAL_LIMIT_S if is_limited else None)


def _seconds(digits: str) -> Seconds:
    return Seconds(min(float(digits), _LONGEST_S))
