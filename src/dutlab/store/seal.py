"""Proof that this machine's user made a run: the user's key seals its settings, each line of its journal, and the journal's length.

`dutlab undo` and `dutlab resume` carry out commands from a run folder, often as root. A folder may be from someone else. So these
commands need a seal (HMAC-SHA-256, RFC 2104) by the user's key, which never leaves this machine. The seal does not depend on the path,
so the folder may be moved. The length of the journal is sealed too: with a shortened copy, undo would repeat changes undone long ago.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import pwd
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dutlab import bounds, outside
from dutlab.bounds import PART, PLAN, SECRET_BYTES
from dutlab.errors import StoreError
from dutlab.own_folder import is_private, own_folder
from dutlab.store.manifest import JOURNAL_SEAL

SEAL = "seal.json"
SEALED = ("resolved.json", "plan.json")
"""Files that resume and undo check, in addition to the journal."""
MAC = "mac"
_SEAL_WIDTH = 120
"""Characters of JOURNAL_SEAL. Every version has the same width, so one write replaces it."""
_KEY_BYTES = 32


def own_key() -> bytes | None:
    """Return the user's key, made at its first use; None if no file can be kept. A run without a key has no seal."""
    _, key = own_file("journal.key", lambda: secrets.token_bytes(_KEY_BYTES))
    return key if key is not None and len(key) == _KEY_BYTES else None


def own_file(name: str, new: Callable[[], bytes]) -> tuple[Path, bytes | None]:
    """Return path and content of a user's secret file in the state folder (mode 0600), made by `new` at its first use.

    The content is None if no file can be kept, or if other users can access it.
    """
    path = state_folder() / "dutlab" / name
    with contextlib.suppress(OSError):
        own_folder(path.parent)
        if not os.path.lexists(path):
            part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
            try:
                with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb") as f:  # noqa: PTH123 - a descriptor
                    f.write(new())
                    f.flush()
                    os.fsync(f.fileno())
                with contextlib.suppress(FileExistsError):
                    os.link(part, path)  # if two processes make it at once, the first link counts
            finally:
                part.unlink(missing_ok=True)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as f:  # noqa: PTH123 - as above
            about = os.fstat(f.fileno())
            content = f.read(SECRET_BYTES)
    except OSError:
        return path, None
    return path, content if is_private(about) else None


def new_seal(folder: Path) -> dict[str, Any]:
    """Return the seal of a new run in `folder`, which must have its SEALED files. The token identifies the run in any folder."""
    token = secrets.token_hex(16)
    return {"schema_version": 1, "token": token, MAC: _mac(own_key(), _beginning(folder, token))}


def token_of(folder: Path) -> str:
    """Return the token of a run; empty if it has none."""
    document = _read(folder / SEAL)
    token = document.get("token")
    return token if isinstance(token, str) and token.isascii() and token.isalnum() else ""


class LineSeal:
    """Seal of the lines of a journal. Each line's seal covers all earlier lines, so no line can be changed, moved or left out."""

    def __init__(self, folder: Path, before: bytes) -> None:
        """`before` is the current content of the journal."""
        self._key = own_key()
        self._before = _started(folder)
        self._before.update(before)

    def sealed(self, entry: Mapping[str, object]) -> bytes:
        """Return `entry` as a line with its seal. The line counts as earlier content only after wrote()."""
        entry = json.loads(json.dumps(entry))  # as its reader will get it
        body = _body(entry)
        return json.dumps({**entry, MAC: self._mac(body)}, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"

    def wrote(self, data: bytes) -> None:
        """Add `data`, which was written to the journal, to the content that later seals cover."""
        self._before.update(data)

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Return whether `entry` was sealed by our key after the earlier lines of the journal."""
        code = str(entry.get(MAC, ""))
        body = _body({name: value for name, value in entry.items() if name != MAC})
        return self._key is not None and hmac.compare_digest(code.encode(), self._mac(body).encode())

    def _mac(self, body: bytes) -> str:
        return _mac(self._key, self._before.copy().digest() + body)


class LengthSeal:
    """Seal of a journal's length, in JOURNAL_SEAL, so that no line can be cut off its end.

    A line is written before the new length. So after a power cut the journal may be longer than the sealed length, never shorter.
    """

    def __init__(self, folder: Path, journal: bytes) -> None:
        """`journal` is the current content of the journal. If it was cut, the old seal stays as evidence."""
        self._key, self._file = own_key(), -1
        self._sealed = _started(folder)
        if self._key is None or not _is_whole(folder, self._key, journal):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._length = 0
        with contextlib.suppress(OSError):  # disk full: the journal then has no seal
            self._file = os.open(folder / JOURNAL_SEAL, flags, 0o666)
            self.wrote(journal)
            os.fsync(self._file)

    def wrote(self, data: bytes) -> None:
        """Add `data`, which was written to the journal. If the seal cannot be written, it covers the earlier lines only."""
        if self._file >= 0:
            self._sealed.update(data)
            self._length += len(data)
            text = json.dumps({"bytes": self._length, MAC: _mac(self._key, _whole(self._sealed))})
            with contextlib.suppress(OSError):
                os.pwrite(self._file, text.ljust(_SEAL_WIDTH).encode() + b"\n", 0)

    def close(self) -> None:
        """Close the file of the seal; harmless if it is closed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_ours(folder: Path) -> bool:
    """Return whether this user on this machine made the run and wrote every line of its journal, and no line was cut off."""
    document, key = _read(folder / SEAL), own_key()
    code = str(document.get(MAC, ""))
    try:
        begun = key is not None and hmac.compare_digest(code.encode(), _mac(key, _beginning(folder, token_of(folder))).encode())
        journal = folder / "journal.jsonl"
        text = outside.read(journal, bounds.JOURNAL) if journal.exists() else b""
    except (OSError, StoreError):
        return False
    if not begun or key is None or not _is_whole(folder, key, text):
        return False
    seal = LineSeal(folder, b"")
    for line in text.split(b"\n"):
        entry = _entry(line)
        if entry is not None and not seal.holds(entry):
            return False
        seal.wrote(line + b"\n")
    return True


def _is_whole(folder: Path, key: bytes, journal: bytes) -> bool:
    """Return whether no line is missing at the end of the journal. An empty journal needs no seal."""
    if not journal and not os.path.lexists(folder / JOURNAL_SEAL):
        return True
    document = _read(folder / JOURNAL_SEAL)
    length = document.get("bytes")
    if not isinstance(length, int) or not 0 <= length <= len(journal):
        return False
    sealed = _started(folder)
    sealed.update(journal[:length])
    return hmac.compare_digest(str(document.get(MAC, "")).encode(), _mac(key, _whole(sealed)).encode())


def _started(folder: Path) -> hashlib._Hash:
    """Return the hash of an empty journal."""
    return hashlib.sha256(b"journal " + token_of(folder).encode() + b"\n")


def _whole(sealed: hashlib._Hash) -> bytes:
    """Return the message that seals a journal's length. It differs from the message of any line, whose body is a JSON object."""
    return sealed.copy().digest() + b"whole"


def _entry(line: bytes) -> Mapping[str, Any] | None:
    """Return the entry in a line; None for a line that a crash cut, which has no effect."""
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "event" in document else None


def _beginning(folder: Path, token: str) -> bytes:
    digests = [hashlib.sha256(outside.read(folder / name, PLAN)).digest() for name in SEALED]
    return b"".join([b"run ", token.encode(), b"\n", *digests])


def _body(entry: Mapping[str, object]) -> bytes:
    return json.dumps(entry, sort_keys=True, separators=(",", ":")).encode()


def _mac(key: bytes | None, message: bytes) -> str:
    """Return the HMAC-SHA-256 of `message` in hexadecimal; empty without a key."""
    return "" if key is None else hmac.new(key, message, hashlib.sha256).hexdigest()


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(outside.read(path, PART))
    except (OSError, StoreError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def state_folder() -> Path:
    """Return XDG_STATE_HOME, or ~/.local/state of the effective user (XDG base directory specification 0.8); sudo may keep HOME."""
    if (named := os.environ.get("XDG_STATE_HOME", "")).startswith("/"):
        return Path(named)
    home = Path(os.environ.get("HOME", "/nonexistent"))
    with contextlib.suppress(OSError, KeyError):
        if home.stat().st_uid != os.geteuid():
            home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return home / ".local" / "state"
