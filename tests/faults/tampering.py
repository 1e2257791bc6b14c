"""Run folders that somebody has changed: each tampering is drawn from a seed and says in words what it did."""

from __future__ import annotations

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fake_run import Wanted, build

COMMANDS = (
    ("runs", "--runs", "{runs}"),
    ("query", "SELECT count(*) FROM trials JOIN figures USING (run, trial)", "--runs", "{runs}"),
    ("query", "SELECT count(*) FROM samples", "--runs", "{runs}"),
    ("history", "firewall-modes", "--runs", "{runs}"),
    ("report", "{run}"),
    ("plot", "{run}"),
    ("compare", "{run}", "{other}"),
    ("compare", "{run}"),
    ("check", "{run}", "--baseline", "{other}"),
    ("effects", "{run}"),
    ("cost", "{run}"),
    ("rescore", "{run}"),
    ("claims", "{run}"),
    ("report", "{run}", "--style", "review"),
    ("undo", "{run}"),
    ("resume", "{run}"),
)
_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**400, 1e308, -1e308, 5e-324, 0.1, "", "x", "\x00", "\x1b[2J", "../../x", "/etc/passwd",
    "<script>alert(1)</script>", "\u202e", "\udcff", "9" * 5000, "2026-11-21T08:01:00", "2026-11-21T08:01:00+99:00", "0001-01-01T00:00:00Z",
    "9999-12-31T23:59:59Z", [], {}, [[]], {"": {}}, [None], {"framesize": {}}, float("nan"), float("inf"), float("-inf"),
)  # fmt: skip


def made_runs(folder: Path) -> tuple[Path, Path]:
    """Two small whole runs of one experiment under `folder`; to be copied, never changed."""
    runs = folder / "whole"
    wanted = Wanted(repeats=2, seconds=2, sizes=(64, "imix"), modes={"router": "router", "nat": "nat"}, cores=1)
    first = build(runs, wanted)
    other = first.with_name(first.name.replace("3f2a", "77c0"))
    shutil.copytree(first, other)
    return first, other


def tamper(run: Path, dice: random.Random) -> str:
    """Changes something in `run`; returns what, in words."""
    change = dice.choice(
        (_change_value, _change_value, _change_value, _change_value, _spoil_bytes, _replace_file, _odd_entry, _odd_journal)
    )
    return change(run, dice)


def _files(run: Path) -> list[Path]:
    return sorted(p for p in run.rglob("*") if p.is_file() and not p.is_symlink())


def _change_value(run: Path, dice: random.Random) -> str:
    """A value somewhere in a JSON file becomes another."""
    path = dice.choice([p for p in _files(run) if p.suffix == ".json" and "raw" not in p.parts])
    document = json.loads(path.read_text())
    places = list(_places(document))
    at = dice.choice(places) if places else ()
    value = dice.choice(_VALUES) if dice.random() < 0.8 else _deep(dice.choice((900, 5000, 200_000)))
    kind = dice.choice(("set", "set", "set", "remove", "add"))
    target = document
    for key in at[:-1]:
        target = target[key]
    if not at or (kind == "add" and not isinstance(target, dict)):
        document = value
    elif kind == "remove":
        del target[at[-1]]
    elif kind == "add":
        target["surprise"] = value
    else:
        target[at[-1]] = value
    words = value if isinstance(value, str) and value.startswith("[[") else json.dumps(value)
    text = json.dumps(document)
    path.unlink()
    path.write_text(text.replace(json.dumps(value), words) if words is value else text)
    return f"{path.relative_to(run)}: {kind} {'.'.join(map(str, at))} {words[:60]}"


def _deep(levels: int) -> str:
    return "[" * levels + "]" * levels


def _places(value: Any, at: tuple[Any, ...] = ()) -> Any:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*at, key)
        yield from _places(below, (*at, key))


def _spoil_bytes(run: Path, dice: random.Random) -> str:
    path = dice.choice(_files(run))
    data = bytearray(path.read_bytes())
    how = dice.choice(("cut", "flip", "insert", "empty", "double"))
    at = dice.randrange(len(data) + 1)
    if how == "cut":
        del data[at:]
    elif how == "flip":
        for _ in range(dice.randint(1, 8)):
            if data:
                data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
    elif how == "insert":
        data[at:at] = dice.choice((b"\xff\xfe", b"\x00", b"NaN", b"-Infinity", b"1e999", b'\\"' * 500, b"[" * 3000))
    elif how == "empty":
        data.clear()
    else:
        data = data * 2
    path.unlink()
    path.write_bytes(bytes(data))
    return f"{path.relative_to(run)}: {how} at {at}"


def _replace_file(run: Path, dice: random.Random) -> str:
    path = dice.choice(_files(run))
    how = dice.choice(("fifo", "a terabyte", "folder", "missing", "link to nothing", "link to itself", "link to a device", "unreadable"))
    path.unlink()
    if how == "fifo":
        os.mkfifo(path)
    elif how == "a terabyte":
        path.touch()
        os.truncate(path, 1 << 40)
    elif how == "folder":
        path.mkdir()
    elif how == "link to nothing":
        path.symlink_to("nothing")
    elif how == "link to itself":
        path.symlink_to(path.name)
    elif how == "link to a device":
        path.symlink_to("/dev/zero")
    elif how == "unreadable":
        path.touch(mode=0)
    return f"{path.relative_to(run)}: {how}"


def _odd_entry(run: Path, dice: random.Random) -> str:
    name = dice.choice(("trials/0000", "trials/00001", "trials/99999999999999999999", "trials/-001", "trials/\u0661\u0662\u0663\u0664", "trials/9999",
                        "trials/0001.cut-1", "hosts/x\udcff", "report", "trials/0001/.record.json.1.part"))  # fmt: skip
    path = run / name
    kind = dice.choice(("folder", "file", "fifo", "a record of trial 1"))
    if path.exists():
        return f"{name!r}: there already"
    if kind == "folder":
        path.mkdir()
    elif kind == "file":
        path.write_text("{}")
    elif kind == "fifo":
        os.mkfifo(path)
    else:
        path.mkdir()
        shutil.copy2(run / "trials" / "0001" / "record.json", path / "record.json")
    return f"{name!r}: {kind}"


def _odd_journal(run: Path, dice: random.Random) -> str:
    entries: tuple[Callable[[], Any], ...] = (
        lambda: {"event": "mode-applying"},
        lambda: {"event": "mode-applying", "application": dice.choice(_PLAIN), "undo": dice.choice(_PLAIN)},
        lambda: {"event": dice.choice(_PLAIN)},
        lambda: {"event": "lab-up", "label": "../../x"},
        lambda: {"event": "leasing", "hosts": dice.choice(_PLAIN)},
        lambda: dice.choice(_PLAIN),
    )
    entry = dice.choice(entries)()
    lines = dice.choice((json.dumps(entry).encode(), _deep(100_000).encode(), b"\xff\x00garbage", b"{" * 5000))
    (run / "journal.jsonl").write_bytes(lines + b"\n")
    if dice.random() < 0.7:
        (run / "MANIFEST.sha256").unlink(missing_ok=True)
    return f"journal: {lines[:80]!r}"


_PLAIN = tuple(v for v in _VALUES if not isinstance(v, float))
