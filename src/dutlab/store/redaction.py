"""Cover passwords in the copies of run files that leave this machine (outgoing.py).

A user's command may print secrets: its environment, an address with a login, a key. The run keeps such text, because measured files are
never rewritten. Asterisks cover it in the copies: the values of variables that hold passwords on this machine, and text in the form of
a password. The length of a text stays the same, so every format stays readable.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, urlsplit

from dutlab.errors import StoreError
from dutlab.store.fleet_database import FLEET_DATABASE
from dutlab.store.manifest import REDACTED
from dutlab.store.memory_database import in_memory
from dutlab.store.samples import interruptible
from dutlab.store.write import as_json

if TYPE_CHECKING:
    import duckdb

_SHORTEST = 5
"""Length of the shortest value that is covered. Shorter values would match parts of ordinary numbers."""
_SECRET_NAME = re.compile(r"PASSW(?:OR)?D|SECRET|TOKEN|ACCESS_KEY|PRIVATE_KEY|API_?KEY|CREDENTIAL")
_NAMED_BY = ("password_from", "privacy_from", "community_from")
_VALUE = rb"""[^\s"'\\,;&*][^\s"'\\,;&]*"""
_NAME = rb"(?<![A-Za-z0-9_])(?=[A-Z0-9_]*(?:PASSW(?:OR)?D|SECRET|TOKEN|ACCESS_KEY|PRIVATE_KEY|API_?KEY))[A-Z0-9_]+"
_WRITTEN = {  # each takes time linear in the length of the text
    "a variable": re.compile(_NAME + rb"=(" + _VALUE + rb")"),
    "a password": re.compile(rb"[Pp]assw(?:or)?d\"?[ \t]*[=:][ \t]*\"?(" + _VALUE + rb")"),
    "a login in an address": re.compile(rb"""(?<=[a-z0-9+.-])://[^\s/@:"'\\]*:([^\s/@"'\\*][^\s/"'\\]*)@"""),
    "an authorization": re.compile(rb"[Aa]uthorization:[ \t]*[A-Za-z]+[ \t]+(" + _VALUE + rb")"),
    "a key of AWS": re.compile(rb"\b((?:AKIA|ASIA)[0-9A-Z]{16})\b"),
    "a token of GitHub": re.compile(rb"\b(gh[opsur]_[A-Za-z0-9]{36,})\b"),
    "a private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----([^*-](?:[^-]++|-(?!----))*+)-----"),
}
_TABLE = ".parquet"
_BARE = re.compile(r"(?:U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|U?INTEGER|FLOAT|DOUBLE|DECIMAL.*|BOOLEAN|DATE|TIME.*|INTERVAL)")
"""Types of DuckDB whose values cannot be text."""
_AT_ONCE_BYTES, _LONGEST_LINE_BYTES = 1 << 20, 64 << 20
_ROWS_AT_ONCE = 10_000


@dataclass(frozen=True)
class RedactedFile:
    """File of a copy that differs from the measured file."""

    sha256: str
    """Hash of the copy."""
    taken: Mapping[str, int]
    """Kind of secret → number of places where it was covered."""


class Redactor:
    """Redactor of the secrets of an environment: variables named as secrets, and variables that a run's resolved.json names."""

    def __init__(self, resolved: Mapping[str, Any], environment: Mapping[str, str]) -> None:
        self._known = dict[bytes, str]()
        named = set(_variables(resolved))
        for name, value in environment.items():
            if name in named or _SECRET_NAME.search(name):
                self._know(value, f"the value of {name}")
            elif name == FLEET_DATABASE:
                self._know(_password_in(value), f"the password of {name}")
        longest = sorted(self._known, key=len, reverse=True)
        self._values = re.compile(b"|".join(map(re.escape, longest))) if longest else None

    def _know(self, value: str, what: str) -> None:
        if len(value) >= _SHORTEST:
            for form in (value, quote(value, safe=""), json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]):
                self._known.setdefault(os.fsencode(form), what)

    def redacted(self, name: str, file: BinaryIO) -> tuple[BinaryIO, RedactedFile | None]:
        """Return the file and None, or a temporary copy without its secrets and a report about it."""
        if name.endswith(_TABLE) and (result := self._redacted_table(file)) is not None:
            return result
        taken = Counter[str]()
        for piece in _pieces(file):
            self._covered(piece, taken)
        file.seek(0)
        if not taken:
            return file, None
        copy, known = tempfile.TemporaryFile(), hashlib.sha256()  # noqa: SIM115 -- its reader closes it
        for piece in _pieces(file):
            copy.write(covered := self._covered(piece, Counter()))
            known.update(covered)
        copy.seek(0)
        return copy, RedactedFile(known.hexdigest(), dict(taken))

    def _redacted_table(self, file: BinaryIO) -> tuple[BinaryIO, RedactedFile | None] | None:
        """Return the result of redacted() for a Parquet file; None for other files. Pages are compressed, so the table is written again.

        Raises StoreError if the table cannot be read to its end, because its secrets are then unknown.
        """
        import duckdb  # noqa: PLC0415 - 80 ms that only this needs

        taken = Counter[str]()
        with in_memory() as connection, interruptible():
            try:
                path = f"/proc/self/fd/{file.fileno()}"
                columns = connection.execute("DESCRIBE SELECT * FROM read_parquet($path)", {"path": path}).fetchall()
            except (duckdb.Error, io.UnsupportedOperation):
                file.seek(0)
                return None
            try:
                chosen = [self._column(connection, path, str(name), str(kind), taken) for name, kind, *_ in columns]
                if not taken:
                    return file, None
                with tempfile.NamedTemporaryFile(suffix=_TABLE) as part:
                    select = f"SELECT {', '.join(chosen)} FROM read_parquet($path)"  # noqa: S608 - names and texts are quoted
                    connection.execute(f"COPY ({select}) TO '{part.name}' (FORMAT PARQUET, COMPRESSION ZSTD)", {"path": path})
                    copy = Path(part.name).open("rb")  # noqa: SIM115 -- its reader closes it
            except duckdb.Error as error:
                raise StoreError(
                    f"{getattr(file, 'name', 'a table')}: cannot be searched for secrets: {str(error).splitlines()[0]}",
                    remedy="verify the run with its MANIFEST.sha256",
                ) from error
        known = hashlib.file_digest(copy, "sha256").hexdigest()
        copy.seek(0)
        return copy, RedactedFile(known, dict(taken))

    def _column(self, connection: duckdb.DuckDBPyConnection, path: str, name: str, kind: str, taken: Counter[str]) -> str:
        """Return the SQL of a column without its secrets, and count them in `taken`."""
        column, head = _named(name), _named(self._text(name, taken))
        if _BARE.fullmatch(kind):
            return f"{column} AS {head}"
        texts = connection.execute(f"SELECT DISTINCT {column}::VARCHAR FROM read_parquet($path)", {"path": path})  # noqa: S608 - quoted
        changed = dict[str, str]()
        while some := texts.fetchmany(_ROWS_AT_ONCE):
            changed |= {text: new for (text,) in some if text is not None and (new := self._text(text, taken)) != text}
        if not changed:
            return f"{column} AS {head}"
        cases = " ".join(f"WHEN {_literal(text)} THEN {_literal(new)}" for text, new in changed.items())
        return f"CASE {column}::VARCHAR {cases} ELSE {column}::VARCHAR END AS {head}"

    def text(self, text: str) -> str:
        """Return a text without its secrets."""
        return self._text(text, Counter())

    def _text(self, text: str, taken: Counter[str]) -> str:
        return self._covered(text.encode(), taken).decode(errors="replace")

    def _covered(self, data: bytes, taken: Counter[str]) -> bytes:
        def value(m: re.Match[bytes]) -> bytes:
            taken[self._known[m[0]]] += 1
            return b"*" * len(m[0])

        if self._values is not None:
            data = self._values.sub(value, data)
        for what, pattern in _WRITTEN.items():
            covered = bytearray(data)  # in place: a line may have a million matches
            for m in pattern.finditer(data):
                covered[m.start(1) : m.end(1)] = b"*" * (m.end(1) - m.start(1))
                taken[what] += 1
            data = bytes(covered)
        taken += Counter()
        return data


def _pieces(file: BinaryIO) -> Iterator[bytes]:
    """Yield pieces of several whole lines. A line longer than any that dutlab writes comes in parts."""
    piece = bytearray()
    while line := file.readline(_LONGEST_LINE_BYTES):
        piece += line
        if len(piece) >= _AT_ONCE_BYTES:
            yield bytes(piece)
            piece.clear()
    if piece:
        yield bytes(piece)


def _named(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def as_file(files: Mapping[str, RedactedFile], before: Mapping[str, Any]) -> bytes:
    """Return the content of REDACTED for a copy. `before` has the entries of the run's REDACTED, if the run is a copy itself."""
    new = {name: {"sha256": f.sha256, "taken": dict(f.taken)} for name, f in files.items()}
    return as_json({"schema_version": 1, "files": {**before, **new}})


def in_words(files: Mapping[str, RedactedFile]) -> str:
    """Return words such as `covered 2 secrets in 1 file: a login in an address, the value of PLUG_PASSWORD; see redacted.json`."""
    kinds = sorted({what for f in files.values() for what in f.taken})
    count = sum(sum(f.taken.values()) for f in files.values())
    return f"covered {count} secret{'s' * (count > 1)} in {len(files)} file{'s' * (len(files) > 1)}: {', '.join(kinds)}; see {REDACTED}"


def _variables(value: Any) -> Iterator[str]:  # noqa: ANN401 -- JSON
    if isinstance(value, Mapping):
        yield from (str(value[key]) for key in _NAMED_BY if isinstance(value.get(key), str))
    inner: Iterable[Any] = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    for part in inner:
        yield from _variables(part)


def _password_in(where: str) -> str:
    """Return the password in a connection string of libpq; empty if there is none."""
    if m := re.search(r"password\s*=\s*'?([^\s']+)", where):
        return m[1]
    try:
        return urlsplit(where).password or ""
    except ValueError:
        return ""
