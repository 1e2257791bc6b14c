"""Proof that this machine's user made a run: the user's key seals its beginning, its journal and each line of that.

`dutlab undo` and `dutlab resume` carry out commands that a run folder names, often as root. A folder may have come by mail. So what they
carry out counts only under a seal (HMAC-SHA-256, RFC 2104) by the key, which never leaves this machine. A run keeps its seal wherever its
folder is moved to, since nothing of the path is in it. The length of the journal is sealed too: a copy that was cut short would have undo
carry out again what was undone long ago.
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
"""Width of JOURNAL_SEAL: it is overwritten in one piece, and never gets shorter."""
_KEY_BYTES = 32


def own_key() -> bytes | None:
    """The user's key, made at its first use; None where no file can be kept: such a run has no seal."""
    _, key = own_file("journal.key", lambda: secrets.token_bytes(_KEY_BYTES))
    return key if key is not None and len(key) == _KEY_BYTES else None


def own_file(name: str, new: Callable[[], bytes]) -> tuple[Path, bytes | None]:
    """A secret of the user in the state folder (mode 0600), made by `new` at its first use.

    The content is None where no file can be kept, or where the file is not the user's alone.
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
                    os.link(part, path)  # of two processes that make it at once, one counts
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
    """For the run that is made in `folder`, whose SEALED files are written. The token names the run, wherever it lies."""
    token = secrets.token_hex(16)
    return {"schema_version": 1, "token": token, MAC: _mac(own_key(), _beginning(folder, token))}


def token_of(folder: Path) -> str:
    """Empty for a run that has none."""
    document = _read(folder / SEAL)
    token = document.get("token")
    return token if isinstance(token, str) and token.isascii() and token.isalnum() else ""


class LineSeal:
    """Seals the lines of one journal: each with all that lies before it, so that none can be changed, moved or left out."""

    def __init__(self, folder: Path, before: bytes) -> None:
        """`before` is what the journal holds already."""
        self._key = own_key()
        self._before = _started(folder)
        self._before.update(before)

    def sealed(self, entry: Mapping[str, object]) -> bytes:
        """`entry` as a line with its seal; nothing is kept of it until wrote()."""
        entry = json.loads(json.dumps(entry))  # as its reader will have it
        body = _body(entry)
        return json.dumps({**entry, MAC: self._mac(body)}, ensure_ascii=False).encode(errors="backslashreplace") + b"\n"

    def wrote(self, data: bytes) -> None:
        """`data` is in the journal now."""
        self._before.update(data)

    def holds(self, entry: Mapping[str, Any]) -> bool:
        """Return whether `entry` was sealed by our key after the earlier lines of the journal."""
        code = str(entry.get(MAC, ""))
        body = _body({name: value for name, value in entry.items() if name != MAC})
        return self._key is not None and hmac.compare_digest(code.encode(), self._mac(body).encode())

    def _mac(self, body: bytes) -> str:
        return _mac(self._key, self._before.copy().digest() + body)


class LengthSeal:
    """Keeps in JOURNAL_SEAL how long the journal is, so that nothing can be cut off its end.

    A line reaches the disk before its length does. So after a power cut the journal may be longer than the seal says, never shorter.
    """

    def __init__(self, folder: Path, journal: bytes) -> None:
        """`journal` is what it holds now. One that was cut keeps the seal that says so."""
        self._key, self._file = own_key(), -1
        self._sealed = _started(folder)
        if self._key is None or not _is_whole(folder, self._key, journal):
            return
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        self._length = 0
        with contextlib.suppress(OSError):  # no room: such a run has no seal
            self._file = os.open(folder / JOURNAL_SEAL, flags, 0o666)
            self.wrote(journal)
            os.fsync(self._file)

    def wrote(self, data: bytes) -> None:
        """`data` is in the journal now. Where that cannot be kept, the seal covers what was there before."""
        if self._file >= 0:
            self._sealed.update(data)
            self._length += len(data)
            text = json.dumps({"bytes": self._length, MAC: _mac(self._key, _whole(self._sealed))})
            with contextlib.suppress(OSError):
                os.pwrite(self._file, text.ljust(_SEAL_WIDTH).encode() + b"\n", 0)

    def close(self) -> None:
        """Harmless when it is closed."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def is_ours(folder: Path) -> bool:
    """Return whether this user, here, made the run and wrote each line of its journal, and no line was cut off."""
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
    """Return whether nothing is missing from a sealed journal. One without a line needs no seal."""
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
    """The hash of a journal without a line."""
    return hashlib.sha256(b"journal " + token_of(folder).encode() + b"\n")


def _whole(sealed: hashlib._Hash) -> bytes:
    """No line is sealed by this: the body of each is a JSON object."""
    return sealed.copy().digest() + b"whole"


def _entry(line: bytes) -> Mapping[str, Any] | None:
    """None for a line that a crash cut, which announces nothing."""
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
    """Empty without a key."""
    return "" if key is None else hmac.new(key, message, hashlib.sha256).hexdigest()


def _read(path: Path) -> Mapping[str, Any]:
    try:
        document = json.loads(outside.read(path, PART))
    except (OSError, StoreError, ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def state_folder() -> Path:
    """XDG_STATE_HOME, or ~/.local/state (XDG base directory specification 0.8) of the user that the process acts as: sudo may keep HOME."""
    if (named := os.environ.get("XDG_STATE_HOME", "")).startswith("/"):
        return Path(named)
    home = Path(os.environ.get("HOME", "/nonexistent"))
    with contextlib.suppress(OSError, KeyError):
        if home.stat().st_uid != os.geteuid():
            home = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    return home / ".local" / "state"
