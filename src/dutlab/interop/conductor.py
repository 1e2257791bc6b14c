"""Reader of configuration files of Conductor, George Neville-Neil's test runner.

There are two versions: that of 2015, with [Clients] and [Master], and that of today, with [Workers] and [Coordinator].

A coordinator's file names the hosts and a file for each. A host's file has the steps of four phases. Their meaning here:

    key begins with `spawn` (2015: contains it)         left running; in Startup and Run (2015: in Run)
    key `timeoutN`, in Run                              ended after N seconds if it still runs, which is not a failure
    value begins with `spawn:` or `timeoutN:`, in Run   the same (today's files)
    anything else                                       run to its end; in files of 2015 for 30 s at most
    no value                                            does nothing, and succeeds

Names of keys have no other meaning and may be repeated. Steps are in the order of the file. `%%` is `%` and `%(key)s` the value of `key`.
Ports are read and not used: dutlab connects to hosts in other ways.
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
"""Conductor's time limit of a step without a time-out."""
_LONGEST_S = 366 * 86400.0
_NOTHING = ":"
"""The shell's command that does nothing."""
_TIMEOUT_KEY = re.compile(r"timeout(\d+)")
_TIMEOUT_VALUE = re.compile(r"timeout(\d+):\s*(.+)", re.DOTALL)
_SPAWN_VALUE = re.compile(r"spawn:\s*(.+)", re.DOTALL)
_CPUSET = re.compile(r"\bcpuset\s+-l\s+([0-9,-]+)\s+")


class Dialect(Enum):
    """Version of Conductor that a host's file is for."""

    OF_2015 = "2015"
    TODAY = "today"


class StepLimit(Enum):
    """Choice of plain steps that get Conductor's limit of 30 s."""

    OF_2015 = "those of files with [Master]"
    ALL = "all"
    NONE = "none"


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading the files."""

    limit: StepLimit = StepLimit.OF_2015
    translate: bool = False
    """True to convert `cpuset -l LIST COMMAND` of FreeBSD into `taskset -c LIST COMMAND`."""


@dataclass(frozen=True)
class HostFile:
    """A host's part of a test."""

    player: str
    """Address of the host for Conductor."""
    phases: Mapping[Phase, tuple[Step, ...]]


@dataclass(frozen=True)
class Test:
    """A whole test."""

    __test__ = False  # tells pytest that this is not a test class

    trials: int
    hosts: Mapping[str, HostFile]
    faults: tuple[Fault, ...] = ()
    report: Mapping[str, str] = field(default_factory=dict)
    """`format` and `output`, if the file requests Conductor's report."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Name of a host in the file → its name in `hosts`, which can be a part of a file name."""

    def workload(self, only: frozenset[str] | None = None, *, on_failure: str = "keep-going") -> StepsWorkload:
        """Return the workload with the steps of all hosts, or of those in `only`. Raises InputError if there are no steps."""
        kept = {name: host for name, host in self.hosts.items() if only is None or name in only}
        body: dict[str, Any] = {p: {name: host.phases[p] for name, host in kept.items() if host.phases[p]} for p in PHASES}
        if not any(body.values()):
            raise InputError(f"nothing to run: {', '.join(kept)} has no step in any phase", remedy="write steps in [Startup], [Run] …")
        return StepsWorkload.model_validate({**body, "on_failure": on_failure})


def read_test(text: str, file: str, open_file: Callable[[str], str], reading: ReadOptions | None = None) -> Test:
    """Return the test of a coordinator's file. `open_file` returns the text of a path in it, or raises OSError.

    This function raises nothing: the result's `faults` has the faults of all files.
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
    """Return `name`, with a number after it if another host has that name: `a.b` and `a-b` are two hosts."""
    return next(n for n in (name, *(f"{name[:44]}-{i}" for i in range(2, len(taken) + 3))) if n not in taken)


def _sections(text: str, file: str) -> tuple[dict[str, IniSection], list[Fault]]:
    sections, faults = parse_ini(text, file)
    sections, wrong = interpolated(sections, file)
    return sections, faults + wrong


def plain_name(text: str) -> str:
    """Return `text` as one of our names, which can be a part of a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:48].strip("-") or "unnamed"


def read_host(text: str, file: str, reading: ReadOptions) -> tuple[HostFile, list[Fault]]:
    """Read a host's file; return its faults too."""
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
    trials = test.value("trials")
    if trials is None:
        return 1
    if not (trials.isascii() and trials.isdecimal() and len(trials) <= 4 and int(trials) <= 1000):  # noqa: PLR2004 -- the range of an experiment
        line = next(e.line for e in test.entries if e.key == "trials")
        faults.append(Fault(file, line, 1, "Test.trials", f"{trials!r} is not a number of trials from 0 to 1000", FaultKind.RANGE))
        return 1
    return int(trials)


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
