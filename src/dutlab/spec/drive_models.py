"""Ratings of drives by model, in a CSV file that the user writes once for all testbeds and `dutlab limits`.

    model,read_iops,write_iops,read_bytes_per_s,write_bytes_per_s,capacity_bytes,endurance_tbw
    ACME X1 3.84TB,610200,75000,2.8e9,2.4e9,3.84e12,7000

A testbed names the file as `drive-models: models.csv`, relative to itself. A drive takes the row of its `model`; without `model`, the row
whose model is in its `by-id` name. The drive's own `rated` takes precedence over the row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dutlab.errors import Fault, FaultKind, SpecRefused
from dutlab.outside import csv_of
from dutlab.spec.drives import RatedSpec
from dutlab.spec.model import FILE_CONTEXT, did_you_mean, plain_faults
from dutlab.spec.yaml_source import Source, folder_of, printable, read_file

KEY = "drive-models"
_LINE = rf"(?m)^{KEY}:[ \t]*(\S.*?)[ \t]*(?:#.*)?$"
_COLUMNS = ("model", *RatedSpec.model_fields)
Models = Mapping[str, Mapping[str, float]]


def read_models(text: str, file: str) -> Models:
    """Return model → ratings from the text of a table. Raises SpecRefused with every fault."""
    try:
        first, *rows = csv_of(text.removeprefix("\ufeff")) or [[]]
    except ValueError as error:
        raise SpecRefused([Fault(file, 1, 1, "file", printable(str(error)), FaultKind.SYNTAX)]) from error
    head = [name.strip() for name in first]
    if "model" not in head or (unknown := [name for name in head if name not in _COLUMNS]):
        what = f"unknown column {', '.join(unknown)} {did_you_mean(unknown[0], _COLUMNS)}" if "model" in head else "no column `model`"
        raise SpecRefused([Fault(file, 1, 1, "file", printable(what), FaultKind.UNKNOWN_KEY if "model" in head else FaultKind.MISSING)])
    models, faults = dict[str, dict[str, float]](), list[Fault]()
    for line, cells in enumerate(rows, 2):
        if not any(cell.strip() for cell in cells):
            continue
        fields = dict(zip(head, (cell.strip() for cell in cells), strict=False))
        model = fields.pop("model", "")
        wrong = [] if model else ["no model"]
        wrong += [f"{model} is a duplicate"] if model in models else []
        wrong += [f"{len(cells)} cells under {len(head)} columns"] if len(cells) > len(head) else []
        models[model], unread = _numbers(fields)
        faults += [Fault(file, line, 1, model or "file", printable(one)) for one in (*wrong, *unread)]
    if faults:
        raise SpecRefused(faults)
    return models


def model_file(path: Path) -> Models:
    """Read a file of ratings. Raises SpecRefused."""
    return read_models(read_file(path).decode("utf-8", "replace"), str(path))


def rate_drives(source: Source, path: Path) -> list[Fault]:
    """Add the ratings of their models to the drives of the testbed in `source`, and remove the table from it.

    `path` is the file of the testbed. Returns all faults.
    """
    if not isinstance(source.data, dict):
        return []
    named = source.data.pop(KEY, None)
    drives = list(_drives(source.data))
    if named is None:
        return [
            source.fault((*loc, "model"), f"which table has it? write {KEY}: FILE.csv, or `rated` here", FaultKind.MISSING)
            for loc, drive in drives
            if "model" in drive and "rated" not in drive
        ]
    if not isinstance(named, str):
        return [source.fault((KEY,), "must be the name of a CSV file", FaultKind.TYPE)]
    try:
        models = read_models(named, f"{path} ({KEY})") if "\n" in named else model_file(folder_of(path) / named)
    except SpecRefused as refused:
        return list(refused.faults)
    return [fault for loc, drive in drives if (fault := _rate(source, loc, drive, models)) is not None]


def with_models(text: bytes, path: Path) -> bytes:
    """Return a testbed's text with the table in place of the name of its file, so that it needs no other file. Raises SpecRefused."""
    content = text.decode("utf-8", "replace")
    if (line := re.search(_LINE, content)) is None or line[1] in ("|", ">"):
        return text
    table = read_file(folder_of(path) / line[1].strip("\"'")).decode("utf-8", "replace").removeprefix("\ufeff")
    inside = "\n".join(f"  {row}" for row in table.splitlines() if row.strip())
    return f"{content[: line.start()]}{KEY}: |\n{inside}{content[line.end() :]}".encode()


def _rate(source: Source, loc: tuple[str, ...], drive: dict[str, Any], models: Models) -> Fault | None:
    model, by_id = drive.get("model"), drive.get("by-id")
    if model is None and isinstance(by_id, str):
        model = max((name for name in models if _as_id(name) in by_id), key=len, default=None)
    if model is None:
        return None
    if model not in models:
        return source.fault((*loc, "model"), f"is not in the table {did_you_mean(str(model), models)}", FaultKind.UNKNOWN_NAME)
    own = drive.get("rated")
    drive["rated"] = {**models[model], **own} if isinstance(own, dict) else own if own is not None else dict(models[model])
    return None


def _drives(data: Mapping[str, Any]) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    hosts = data.get("hosts")
    for host, of in hosts.items() if isinstance(hosts, Mapping) else ():
        drives = of.get("drives") if isinstance(of, Mapping) else None
        for name, drive in drives.items() if isinstance(drives, Mapping) else ():
            if isinstance(drive, dict):
                yield ("hosts", str(host), "drives", str(name)), drive


def _numbers(entries: Mapping[str, str]) -> tuple[dict[str, float], list[str]]:
    numbers, wrong = dict[str, float](), list[str]()
    for name, text in entries.items():
        try:
            numbers |= {name: float(text)} if text else {}
        except ValueError:
            wrong.append(f"{name}: {text!r} is not a number")
    try:
        RatedSpec.model_validate(numbers, context=FILE_CONTEXT)
    except ValidationError as error:
        wrong += [f"{'.'.join(map(str, loc))}: {what}" for loc, what, _ in plain_faults(error)]
    return numbers, wrong


def _as_id(model: str) -> str:
    """Return the model in the form that udev writes in /dev/disk/by-id."""
    return re.sub(r"[^A-Za-z0-9#+\-.:=@_]+", "_", model)
