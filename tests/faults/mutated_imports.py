"""Files of other tools, mutated: each mutation is drawn from a seed."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from import_files import DATA, FIO, FIO_CACHED, FLENT, conductor, ndr

_WORDS = (
    b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"9" * 5000, b"null", b"true", b'""', b"{}", b"[]", b'{"framesize": {}}', b'\\"', b'"', b"\x00", b"\xff\xfe",
    b"-1", b"1e-320", b"\r\n", b"\xe2\x80\xae", b",,,", b"[" * 2000, b"{" * 2000, b"../../x", b"=cmd|x", b"<script>", b"0001-01-01T00:00:00",
)  # fmt: skip
_NAMES = ("device.json", "my drive.json", "+x.json", "caf\udce9.json", "\u202egnp.json", "-.csv", "a\nb.csv", "x" * 200)


def whole_files() -> list[tuple[str, bytes]]:
    """(kind, bytes) of whole files of every kind that tests have."""
    found = [("fio", FIO.read_bytes()), ("fio", FIO_CACHED.read_bytes()), ("flent", FLENT.read_bytes())]
    found += [("trex-ndr", ndr()), ("conductor", conductor()), ("conductor", conductor(1))]
    found += [("fio", path.read_bytes()) for path in sorted((DATA / "fio").glob("*.txt"))]
    found += [("iperf3", path.read_bytes()) for path in sorted((DATA / "iperf3").glob("*.json"))]
    found += [("figures", path.read_bytes()) for path in sorted(DATA.glob("*.csv"))]
    return found


def mutated(data: bytes, dice: random.Random) -> bytes:
    """One to four changes, mostly one."""
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        data = dice.choice(_CHANGES)(data, dice)
    return data


def name(dice: random.Random) -> str:
    """Of a file, ordinary or not."""
    return dice.choice(_NAMES) if dice.random() < 0.3 else "device.json"


def write(folder: Path, dice: random.Random) -> tuple[str, Path]:
    """A mutated file in `folder`: its kind, mostly the right one, and where it is."""
    files = whole_files()
    kind, data = dice.choice(files)
    if dice.random() < 0.1:
        kind = dice.choice(files)[0]
    path = folder / name(dice)
    path.write_bytes(mutated(data, dice))
    return kind, path


def _cut(data: bytes, dice: random.Random) -> bytes:
    return data[: dice.randrange(len(data) + 1)]


def _flip(data: bytes, dice: random.Random) -> bytes:
    out = bytearray(data)
    for _ in range(dice.randint(1, 10) if out else 0):
        out[dice.randrange(len(out))] = dice.randrange(256)
    return bytes(out)


def _insert(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    return data[:at] + dice.choice(_WORDS) * dice.choice((1, 1, 1, 50, 3000)) + data[at:]


def _value(data: bytes, dice: random.Random) -> bytes:
    """Puts something in the place of a run of digits."""
    at = dice.randrange(len(data) + 1)
    digits = next((n for n in range(at, len(data)) if data[n : n + 1].isdigit()), None)
    if digits is None:
        return data
    end = next((n for n in range(digits, len(data)) if not data[n : n + 1].isdigit()), len(data))
    return data[:digits] + dice.choice(_WORDS) + data[end:]


def _double(data: bytes, dice: random.Random) -> bytes:
    at, length = dice.randrange(len(data) + 1), dice.choice((10, 1000, 20_000))
    return data[: at + length] + data[at:]


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (_cut, _flip, _insert, _value, _value, _double)
