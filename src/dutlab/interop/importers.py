"""Import of other tools' files, for every kind in dutlab/choices.py."""

from __future__ import annotations

import json
import os
import re
from ast import literal_eval
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from dutlab import outside
from dutlab.bounds import IMPORT
from dutlab.choices import IMPORTS
from dutlab.errors import DutlabError, InputError
from dutlab.interop.figure_checks import checked
from dutlab.interop.imported_run import Imported, ImportOptions, imported_cell, once_each
from dutlab.methods.ports import Measured
from dutlab.store.replace import file_name

Importer = Callable[[str, bytes, ImportOptions], list[Imported]]
"""(name of the file, its bytes, the user's options) → its trials. Raises InputError."""
_TRIED_BYTES = 4 << 20
"""Largest file to try with the other importers. Each of them takes seconds for a larger one."""
_QUOTED = re.compile(rb"^(?:> ?)+", re.MULTILINE)
_BLOCK = re.compile(rb"(?:^[ \t]+[^\n]*\n?|^\r?\n)+", re.MULTILINE)
"""Block of indented lines, with blank lines between."""
_LITERAL = re.compile(rb"""\bb'(?:[^'\\\n]|\\[ -~]){20,}+'|\bb"(?:[^"\\\n]|\\[ -~]){20,}+\"""")
"""Bytes of some length as Python prints them: one line, in which control characters have backslashes."""


class WrongKind(InputError):
    """Error for a file that the chosen importer cannot read but others can."""

    def __init__(self, error: InputError, kinds: Sequence[str]) -> None:
        super().__init__(error.what, remedy=f"it is a file of {' or '.join(kinds)}: use `dutlab import {kinds[0]}`")
        self.kinds = tuple(kinds)


def read_data(kind: str, name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Return the checked trials of one file (`figure_checks`), as `dutlab import` keeps them.

    Raises InputError for a file without a result, WrongKind if another importer can read it, KeyError for an unknown kind.
    """
    if options.line_rate is not None and not IMPORTS[kind].has_line:
        raise InputError(f"--line-rate: files of {kind} are not of a link", remedy="leave --line-rate out")
    try:
        return _with_result(kind, name, data, options)
    except InputError as error:
        if kinds := _kinds_of(kind, name, data):
            raise WrongKind(error, kinds) from error
        raise


def read_files(kind: str, paths: Sequence[Path], options: ImportOptions) -> tuple[list[Imported], list[str]]:
    """Return the trials of all files, and the faults of files without a result. Such a file is kept too, as a failed trial.

    A file is kept with the first of its trials, under its own name if a run folder allows that name. Raises as `read_data` if no file has
    a result, and OSError.
    """
    trials, faults = list[Imported](), list[InputError]()
    for path in paths:
        name = os.fsencode(path).decode(errors="replace")  # a name may be any bytes, a record holds text
        data = outside.read_given(path, IMPORT)
        try:
            imports = read_data(kind, name, data, options)
        except InputError as error:
            faults.append(error)
            cell = imported_cell(Path(name).stem, workload=IMPORTS[kind].workload, tool=kind, params={"frame_size": "not stated"})
            imports = [Imported(cell, Measured({}), why=error.what)]
        trials += [replace(imports[0], raw={**imports[0].raw, file_name(path.name): path}), *imports[1:]]
    if len(faults) == 1 == len(paths):
        raise faults[0]
    if len(faults) == len(paths):
        raise InputError("; ".join(map(str, faults)))
    return once_each(trials), [str(fault) for fault in faults]


def _with_result(kind: str, name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read and check the trials of a file. Raises InputError, also if all figures of all trials are impossible."""
    trials = [checked(trial, options.line_rate) for trial in _read(kind, name, data, options)]
    if all(trial.why for trial in trials):
        raise InputError(f"{name}: {trials[0].why}")
    return trials


def _read(kind: str, name: str, data: bytes, options: ImportOptions) -> list[Imported]:
    """Read a file with the importer of `kind`. Raises InputError.

    No importer foresees every possible content, so any other exception also counts as a fault of the file.
    """
    read: Importer = IMPORTS[kind].importer
    data = _in_utf_8(data)
    data = _lines_in(data) or data
    try:
        try:
            return read(name, data, options)
        except InputError:
            for bare in _laid_bare(data):
                with suppress(InputError):
                    return read(name, bare, options)
            raise
    except (DutlabError, MemoryError):
        raise
    except Exception as error:
        raise InputError(f"{name}: cannot be read: {type(error).__name__}: {str(error)[:200]}") from error


def _in_utf_8(data: bytes) -> bytes:
    """Return text in UTF-8 without a byte order mark: PowerShell's `>` writes UTF-16, spreadsheets write the mark."""
    for mark, encoding in ((BOM_UTF8, "utf-8"), (BOM_UTF16_LE, "utf-16-le"), (BOM_UTF16_BE, "utf-16-be")):
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace").encode()
    return data


def _laid_bare(data: bytes) -> Iterator[bytes]:
    """Yield the text as the tool printed it.

    That is without quotation marks (`>`) before its lines, then also without indents of whole blocks, output that Python printed as
    bytes (`b'…'`), and output that is a string in a JSON document.
    """
    if len(data) > _TRIED_BYTES or b"\0" in data:
        return
    if (unquoted := _QUOTED.sub(b"", data)) != data:
        yield unquoted
    if (bare := _BLOCK.sub(_outdented, unquoted)) != unquoted:
        yield bare
    if (printed := _LITERAL.sub(_content, data)) != data:
        yield printed
    if data.lstrip().startswith((b"{", b"[")) and (texts := [text for text in _strings_in(data) if "\n" in text]):
        yield "\n\n".join(texts).encode("utf-8", "replace")


def _lines_in(data: bytes) -> bytes | None:
    """Return the lines of a program's output that is kept as a JSON list of strings, or of lists of them; None for another file."""
    if len(data) > _TRIED_BYTES or not re.match(rb'\s*\[[\s\[]*"', data):
        return None
    strings = _strings_in(data, alone=True)
    return "\n".join(strings).encode("utf-8", "replace") if strings else None


def _strings_in(data: bytes, *, alone: bool = False) -> list[str]:
    """Return the strings in a JSON document, in order. With `alone` none, if it contains anything but strings."""
    strings, others = list[str](), 0

    def take(value: object) -> None:
        nonlocal others
        if isinstance(value, str):
            strings.append(value)
        elif isinstance(value, list):
            for part in value:
                take(part)
        elif isinstance(value, dict) and not alone:
            for part in value.values():
                take(part)
        else:
            others += 1

    try:
        take(json.loads(data))
    except (ValueError, RecursionError):
        return []
    return [] if alone and others else strings


def _content(literal: re.Match[bytes]) -> bytes:
    try:
        return b"\n%b\n" % literal_eval(literal[0].decode("ascii"))
    except (ValueError, SyntaxError):
        return literal[0]


def _outdented(block: re.Match[bytes]) -> bytes:
    lines = block[0].splitlines(keepends=True)
    least = min((len(line) - len(line.lstrip(b" \t")) for line in lines if line.strip()), default=0)
    return b"".join(line[least:] if line.strip() else line for line in lines)


def _kinds_of(kind: str, name: str, data: bytes) -> list[str]:
    """Return the other kinds whose importers can read the file."""
    kinds = []
    for other in IMPORTS if len(data) <= _TRIED_BYTES else ():
        try:
            if other != kind and _with_result(other, name, data, ImportOptions()):
                kinds.append(other)
        except InputError:
            continue
    return kinds
