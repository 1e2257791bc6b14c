"""Files of other tools, mutated: each mutation is drawn from a seed.

`python tests/faults/mutated_imports.py --count 10000 [--seed N]` gives so many to the importers, in this process. A fault is an exception that
is none of ours, also one that the boundary of importers would name, and a trial that no record can hold. Exit 1 for any.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
import signal
import sys
import time
import traceback
import zlib
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parents[1])]

from dutlab.choices import IMPORTS
from dutlab.errors import DutlabError
from dutlab.interop.figure_checks import checked
from dutlab.interop.imported_run import Imported, ImportOptions, record_of
from dutlab.interop.loadtest_json import to_bytes
from dutlab.units import BpsL1
from import_files import DATA, FIO, FIO_CACHED, FLENT, conductor, csit, csit_draft, ndr, nfvbench, trex_astf, trex_stl
from ipgen_files import line as ipgen_line
from loadtest_files import ramp_file

_WORDS = (
    b"NaN", b"-Infinity", b"1e999", b"9" * 400, b"9" * 5000, b"null", b"true", b'""', b"{}", b"[]", b'{"framesize": {}}', b'\\"', b'"', b"\x00", b"\xff\xfe",
    b"-1", b"1e-320", b"\r\n", b"\xe2\x80\xae", b",,,", b"[" * 2000, b"{" * 2000, b"../../x", b"=cmd|x", b"<script>", b"0001-01-01T00:00:00",
)  # fmt: skip
PKT_GEN = (
    b"870.571509 main_thread [1418] 1400000 pps (1400000 pkts in 1000000 usec)\n"
    b"Sent 14000000 packets 840000000 bytes 27350 events 60 bytes each in 10.00 seconds.\n"
)
NETPERF = b"""\
MIGRATED UDP STREAM TEST from 0.0.0.0 (0.0.0.0) port 0 AF_INET to 172.16.10.2 () port 0 AF_INET
Socket  Message  Elapsed      Messages
Size    Size     Time         Okay Errors   Throughput
bytes   bytes    secs            #      #   10^6bits/sec

212992   65507   10.00       46000      0    2410.66
212992           10.00       45080           2362.45
"""
_MEMBERS: tuple[Any, ...] = (None, True, -1, 1e308, 10**400, "", "x" * 300, [], {}, [1, [2]], {"a": {"b": 1}})
_MOST_CPU_S = 10.0
_NOW = datetime(2026, 11, 21, tzinfo=UTC)
_NAMES = ("device.json", "my drive.json", "+x.json", "caf\udce9.json", "\u202egnp.json", "-.csv", "a\nb.csv", "x" * 200)


class _TooLongError(BaseException):
    """An importer used more processor time than any file may take."""


def whole_files() -> list[tuple[str, bytes]]:
    """(kind, bytes) of whole files of every kind that tests have."""
    found = [("fio", FIO.read_bytes()), ("fio", FIO_CACHED.read_bytes()), ("flent", FLENT.read_bytes())]
    found += [("trex-ndr", ndr()), ("conductor", conductor()), ("conductor", conductor(1))]
    found += [("trex-stats", trex_stl()), ("trex-stats", trex_astf()), ("csit", csit())]
    found += [("csit", csit_draft("NDRPDR", {"throughput": {"unit": "pps", "ndr": {"value": {"lower": 9e6, "upper": 1e7}}}}))]
    found += [("nfvbench", nfvbench()), ("nfvbench", nfvbench(search=False))]
    found += [("loadtest", to_bytes(ramp_file((1000, 1000), (2000, 1500)))), ("pkt-gen", PKT_GEN), ("netperf", NETPERF)]
    found += [("ministat", b"# TCP_STREAM\n9.41 Gbits/sec\n9.38 Gbits/sec\n"), ("ministat", b"1.5\n2\n")]
    found += [("pkt-gen", path.read_bytes()) for path in sorted((DATA / "pkt-gen").glob("*.log"))]
    found += [("iperf3", path.read_bytes()) for path in sorted((DATA / "iperf3" / "versions").glob("*"))]
    found += [("ipgen", f"{ipgen_line()}\n{ipgen_line(tx=3000, rx=2900).replace('123.5', '125.5')}\n".encode())]
    found += [(kind, path.read_bytes()) for kind in ("iperf2", "wrk") for path in sorted((DATA / kind).glob("*.[ct]*"))]
    found += _cases()
    found += [("fio", path.read_bytes()) for path in sorted((DATA / "fio").glob("*.txt"))]
    found += [("iperf3", path.read_bytes()) for path in sorted((DATA / "iperf3").glob("*.json"))]
    found += [("figures", path.read_bytes()) for path in sorted((DATA.parents[1] / "examples" / "published").glob("*.csv"))]
    return found


def _cases() -> list[tuple[str, bytes]]:
    """Of the public cases those that `dutlab import` reads, as the command in their README says."""
    found = []
    for readme in sorted((DATA / "cases").glob("*/README")):
        if (command := re.search(r"dutlab import (\S+)", readme.read_text())) and command[1] in IMPORTS:
            found += [(command[1], path.read_bytes()) for path in sorted(readme.parent.rglob("*")) if path.is_file() and path != readme]
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


def _lines(data: bytes, dice: random.Random) -> bytes:
    """Doubles a line, takes one out, or puts two in each other's place."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    one, other = dice.randrange(len(lines)), dice.randrange(len(lines))
    match dice.randrange(3):
        case 0:
            lines.insert(one, lines[one])
        case 1:
            del lines[one]
        case _:
            lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


def _swap(data: bytes, dice: random.Random) -> bytes:
    """Puts two numbers in each other's place."""
    numbers = [found.span() for found in re.finditer(rb"-?\d[\d.]*", data[:200_000])]
    if len(numbers) < 2:
        return data
    (a, b), (c, d) = sorted(dice.sample(numbers, 2))
    return data[:a] + data[c:d] + data[b:c] + data[a:b] + data[d:]


def _encode(data: bytes, dice: random.Random) -> bytes:
    """As another system would write the text, or packed, or not at all."""
    text = data.decode("latin-1")
    found = (
        text.encode("utf-16"),
        text.encode("utf-8-sig"),
        text.replace("\n", "\r\n").encode(),
        text.replace(".", ",").encode(),
        gzip.compress(data),
        b"",
    )
    return dice.choice(found)


def _nest(data: bytes, dice: random.Random) -> bytes:
    """Puts JSON into JSON, or a list around it."""
    return dice.choice(
        (
            b'{"a": ' + data + b"}",
            b"[" + data + b"," + data + b"]",
            data + b"\n" + data,
            b'{"result": {"results": ' * 50 + data + b"}}" * 50,
        )
    )


def _member(data: bytes, dice: random.Random) -> bytes:
    """Puts a value of another kind in the place of a member of JSON, at any depth."""
    try:
        here = document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    if not isinstance(document, dict | list):
        return data
    for _ in range(dice.randrange(7)):
        inside = [of for of in (here.values() if isinstance(here, dict) else here) if isinstance(of, dict | list) and of]
        if not inside:
            break
        here = dice.choice(inside)
    if here:
        here[dice.choice(list(here) if isinstance(here, dict) else range(len(here)))] = dice.choice(_MEMBERS)
    return json.dumps(document).encode()


def _unpacked(change: Callable[[bytes, random.Random], bytes]) -> Callable[[bytes, random.Random], bytes]:
    """Of a packed file what is inside is changed, mostly: a changed byte of the packed one makes it unreadable."""

    def changed(data: bytes, dice: random.Random) -> bytes:
        try:
            inside = gzip.decompress(data) if data.startswith(b"\x1f\x8b") and dice.random() < 0.8 else None
        except (OSError, EOFError, zlib.error):
            inside = None
        return change(data, dice) if inside is None else gzip.compress(change(inside, dice), 1)

    return changed


_CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = tuple(
    map(_unpacked, (_cut, _flip, _insert, _value, _value, _double, _lines, _lines, _swap, _swap, _encode, _nest, _member, _member))
)


def fault_of(kind: str, data: bytes, dice: random.Random) -> tuple[str, list[Imported]]:
    """The exception that is none of ours, empty where there is none; and the trials."""
    signal.signal(signal.SIGVTALRM, _too_long)
    signal.setitimer(signal.ITIMER_VIRTUAL, _MOST_CPU_S)
    line = BpsL1(dice.choice((1e6, 1e9, 1e11))) if IMPORTS[kind].has_line and dice.random() < 0.5 else None
    try:
        trials = [checked(trial, line) for trial in IMPORTS[kind].importer("in/device.json", data, ImportOptions(line))]
        for number, trial in enumerate(trials, 1):
            record_of(number, trial.cell, trial, _NOW).model_dump_json()
    except DutlabError:
        return "", []
    except (Exception, _TooLongError) as error:  # noqa: BLE001 -- any is a fault
        where = next(f for f in reversed(traceback.extract_tb(error.__traceback__)) if "dutlab" in f.filename)
        return f"{type(error).__name__} in {Path(where.filename).name}:{where.lineno}: {error}"[:200], []
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return "", trials


def _too_long(*_: object) -> None:
    raise _TooLongError


def main() -> None:
    """Exit 1 for any fault."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=1000)
    arguments.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**32))
    given = arguments.parse_args()
    print(f"seed {given.seed}", flush=True)
    files, counts, faults, slowest = whole_files(), Counter[str](), dict[str, str](), (0.0, "")
    for number in range(given.count):
        dice = random.Random(f"{given.seed} {number}")
        kind = dice.choice(sorted(IMPORTS))
        own = dice.random() < 0.9
        data = dice.choice([of for of_kind, of in files if (of_kind == kind) == own])
        began = time.monotonic()
        fault, trials = fault_of(kind, mutated(data, dice), dice)
        slowest = max(slowest, (time.monotonic() - began, f"{kind} {number}"))
        counts[f"{kind}: {'fault' if fault else 'read' if trials else 'refused'}"] += 1
        if fault and fault not in faults:
            faults[fault] = f"{kind}, attempt {number}"
            print(f"  FAULT: {faults[fault]}: {fault}", flush=True)
    print("\n".join(f"  {what} {count}" for what, count in sorted(counts.items())))
    print(
        f"{given.count} files of {len(files)}, {len(faults)} different faults; slowest {slowest[0]:.1f} s ({slowest[1]}); seed {given.seed}"
    )
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
