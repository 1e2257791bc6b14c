"""Parser of Conductor's text output into the members of its JSON report, which `conductor_run` reads.

The log of 2015 is the output of its `conduct` (client.py, phase.py). It has `0 phase received` once for each host when a phase is sent.
Then come the rows of each host, one per step: `CODE OUTPUT`. `done` or `65535 phases complete` ends them. The log names neither hosts nor
phases nor trials. Hosts are in the order of the file, phases in Conductor's order, and four phases are a trial. An output ends with two
newlines, its own and a printed one. So a row begins after an empty line, or after a message of a single line. Under Python 3 an output is
printed as Python writes bytes (`0 b'running'`), on one line; it is read as those bytes.

The report of 2025 (`-f text`) has the names of hosts, phases and trials.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from dutlab.interop.conductor_report import PHASE_DONE, PHASE_DONE_WORDS, SPAWNED
from dutlab.spec.workloads.steps import PHASES

_HANDED_OUT = "0 phase received"
_ENDS = ("done", f"{PHASE_DONE} {PHASE_DONE_WORDS}")
_ROW = re.compile(r"(?P<code>-?\d{1,5}) (?P<message>.*)$")
_ONE_LINE = re.compile(rf"{SPAWNED}$|Timeout$|Command timed out after |\[['\"].*\]$|b(?P<mark>['\"]).*(?P=mark)$|$")
"""Conductor's own messages, which have no newline. For a failed step the message is its command, as Python prints a list."""
_LOG_LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d - [A-Z]+ - ")
_NAMED = re.compile(
    r"(?:(?P<trial>Trial) \d+:|  Phase: (?P<phase>\w+)|    Worker: (?P<worker>.*)|        Code: (?P<code>-?\d+), Message: (?P<message>.*))$"
)
Rows = list[dict[str, Any]]


def is_log(text: str) -> bool:
    """Return True if `text` is the log of 2015."""
    return _HANDED_OUT in text and not text.lstrip().startswith("{")


def is_text_report(text: str) -> bool:
    """Return True if `text` is the output of `-f text`."""
    return text.startswith("Conductor Test Results\n")


def read_log(text: str) -> tuple[dict[str, Any], list[str]]:
    """Return the trials of a log, and its faults."""
    phases = list(_phases([line for line in text.splitlines() if not _LOG_LINE.match(line)]))
    for row in (row for hosts in phases for rows in hosts for row in rows):
        row["message"] = _meant(row["message"])
    trials = [{"phases": {name: _workers(hosts) for name, hosts in zip(PHASES, four, strict=False)}} for four in _fours(phases)]
    faults = []
    if len(phases) % len(PHASES):
        faults.append(f"the last of its trials has {len(phases) % len(PHASES)} of {len(PHASES)} phases, which are read as the first ones")
    return {"trials": trials}, faults


def _meant(message: str) -> str:
    """Return the text of an output that is written as Python writes bytes; return any other message unchanged."""
    if not (match := _ONE_LINE.match(message)) or not match["mark"]:
        return message
    try:
        return bytes(ast.literal_eval(message)).decode("utf-8", "replace")
    except (ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        return message


def read_text_report(text: str) -> dict[str, Any]:
    """Return the trials of a text report."""
    trials: list[dict[str, Any]] = []
    workers: dict[str, Any] = {}
    rows: Rows = []
    for line in text.splitlines():
        match = _NAMED.match(line)
        if match is None:
            if rows:
                rows[-1]["message"] += f"\n{line}"
        elif match["trial"]:
            trials.append({"phases": {}})
            rows = []
        elif match["phase"] and trials:
            workers = trials[-1]["phases"].setdefault(match["phase"], {"workers": {}})["workers"]
        elif match["worker"] is not None:
            rows = []
            workers[match["worker"]] = {"name": match["worker"], "results": rows}
        elif match["code"]:
            rows.append({"code": int(match["code"]), "message": match["message"]})
    return {"trials": trials}


def _phases(lines: list[str]) -> Iterator[list[Rows]]:
    """Yield the rows of each host, phase by phase. The rows of a phase that was cut are kept."""
    handed, hosts, rows = 0, list[Rows](), Rows()
    before = ""
    for line in lines:
        if line == _HANDED_OUT and not rows and (not hosts or len(hosts) == handed):
            if hosts:
                yield hosts
                handed, hosts = 0, []
            handed += 1
        elif line in _ENDS and len(hosts) < handed:
            hosts.append(rows)
            rows = []
        elif (match := _ROW.match(line)) and (not rows or not before or _ONE_LINE.match(rows[-1]["message"])):
            rows.append({"code": int(match["code"]), "message": match["message"]})
        elif rows:
            rows[-1]["message"] += f"\n{line}"
        before = line
    if hosts or rows:
        yield [*hosts, *([rows] if rows else [])]


def _fours(phases: list[list[Rows]]) -> Iterator[list[list[Rows]]]:
    for at in range(0, len(phases), len(PHASES)):
        yield phases[at : at + len(PHASES)]


def _workers(hosts: list[Rows]) -> dict[str, Any]:
    return {"workers": {f"host-{n}": {"name": f"host-{n}", "results": rows} for n, rows in enumerate(hosts, 1)}}
