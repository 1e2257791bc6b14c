"""Find the drives of the testbed on their host, and every reason not to write to one.

A drive is found by a stable name: a link under /dev/disk or its serial number. dutlab may write to a drive if nothing is mounted from it,
no device is made of it, and wipefs(8) finds no signature on it or its parts: a partition table, a file system, swap, LUKS, a member of md,
LVM, ZFS or btrfs. dutlab never wipes a drive: the user erases one by hand.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dutlab.dut.mdraid import array_of
from dutlab.errors import TestbedError
from dutlab.hosts.host import Host
from dutlab.hosts.programs import Program
from dutlab.plan.cell import Cell
from dutlab.spec.drives import DriveSpec, parse_size
from dutlab.spec.workloads.fio import FioSetting
from dutlab.systems.modes import ModeArray

LSBLK, WIPEFS = Program("lsblk", "util-linux"), Program("wipefs", "util-linux")
_COLUMNS = "PATH,KNAME,TYPE,SIZE,SERIAL,MODEL,REV,ROTA,LOG-SEC,PHY-SEC,SCHED,RQ-SIZE,MOUNTPOINTS,RO,TRAN"
ARRAY = "array"
"""Name of a host's array, in place of a drive's name: `HOST:array`."""
_DISKS = frozenset({"disk", "loop"})
"""Types of whole drives in lsblk(8); other types are parts of a drive, or made of several drives."""
_ASKS = """
echo "path $(readlink -f -- "$1" 2>/dev/null)"
"""
# Prints one line per signature: device, kind, offset. A holder is a device that is made of this one (/sys/block/*/holders).
_SIGNATURES = """
for part in $(lsblk -lnpo PATH -- "$1"); do
  wipefs -n -p -- "$part" 2>/dev/null | while IFS=, read -r at _ _ kind; do
    case $at in '#'*|'') ;; *) echo "signature $part $kind at $at" ;; esac
  done
  for by in "/sys/class/block/${part##*/}/holders/"*; do
    [ -e "$by" ] && echo "holder $part ${by##*/}"
  done
  while read -r swap _; do [ "$swap" = "$part" ] && echo "swap $part"; done </proc/swaps
done
exit 0
"""


@dataclass(frozen=True)
class FoundDrive:
    """A drive as its host sees it now. `path` may change at the next boot, so every trial looks it up again."""

    name: str
    path: str
    size_bytes: int
    facts: Mapping[str, str] = field(default_factory=dict)
    is_file: bool = False
    stays: bool = False
    """True if a mode made this file; the mode also removes it."""
    in_use: tuple[str, ...] = ()
    """Every reason not to write to it, in words."""


async def find(host: Host, drives: Mapping[str, DriveSpec], *, written: Collection[str] = ()) -> dict[str, FoundDrive]:
    """Return each drive by its name. For drives in `written`, also find their users; this reads the drives themselves.

    Raises TestbedError that lists every name that is missing or not a drive; HostError.
    """
    output = (await host.run(["lsblk", "-J", "-b", "-o", _COLUMNS])).text
    devices = list(_flat(json.loads(output).get("blockdevices", [])))
    drive_by_name, faults = dict[str, FoundDrive](), list[str]()
    for name, spec in drives.items():
        try:
            drive_by_name[name] = await (
                _file(host, name, spec) if spec.file is not None else _drive(host, name, spec, devices, look=name in written)
            )
        except TestbedError as error:
            faults.append(str(error))
    same = [
        f"{b} and {a} are one drive, {drive_by_name[a].path}"
        for b in drive_by_name
        for a in drive_by_name
        if a < b and drive_by_name[a].path == drive_by_name[b].path
    ]
    if faults or same:
        raise TestbedError("\n".join((*faults, *same)))
    return drive_by_name


async def find_array(host: Host, made: ModeArray) -> dict[str, FoundDrive]:
    """Return the array that a mode made of the host's drives; it replaces them. Raises TestbedError, HostError."""
    array = await array_of(host, made)
    if array.is_file:
        kind = (await host.run(["findmnt", "-n", "-o", "FSTYPE", "--target", array.path])).text.strip()
        memory = (await host.run(["sh", "-c", _MEMORY])).text.strip()
        facts = {"path": array.path, "file_system": kind, "memory_bytes": memory, **array.facts}
        return {ARRAY: FoundDrive(f"{host.name}:{ARRAY}", array.path, array.size_bytes, facts, is_file=True, stays=True)}
    output = (await host.run(["lsblk", "-J", "-b", "-o", _COLUMNS, "--", array.path])).text
    device, *_ = _flat(json.loads(output).get("blockdevices", []))
    uses = tuple(f"{device['path']} is mounted at {at}" for at in device.get("mountpoints") or () if at)
    return {ARRAY: FoundDrive(f"{host.name}:{ARRAY}", array.path, array.size_bytes, {**_facts(device), **array.facts}, in_use=uses)}


async def find_own_array(host: Host, path: str, mode: str, drives: Mapping[str, DriveSpec], *, look: bool) -> dict[str, FoundDrive]:
    """Return the device that a user's own mode made of the host's drives; it replaces them.

    If the kernel lists the drives of that device, the testbed must name all of them. Raises TestbedError, HostError.
    """
    kernel_name = (await host.run(["lsblk", "-dno", "KNAME", "--", path], check=False)).text.strip()
    devices = list(_flat(json.loads((await host.run(["lsblk", "-J", "-b", "-o", _COLUMNS])).text).get("blockdevices", [])))
    device = next((d for d in devices if d["kname"] == kernel_name), None)
    if device is None:
        raise TestbedError(f"{host.name}: {path}, the array of mode {mode}, is not a block device there", remedy="let `apply` make it")
    device_path, named = device["path"], {of.path for of in (await find(host, drives)).values()}
    others = sorted({d["above"][0] for d in devices if d["path"] == device_path and d["above"]} - named)
    if device_path in named or others:
        of = "is a drive itself" if device_path in named else f"is made of {', '.join(others)} too, which the testbed does not name"
        raise TestbedError(f"{host.name}: {path}, the array of mode {mode}, {of}", remedy="name the device that is made of its drives")
    uses = await _uses(host, device, devices) if look else ()
    size = int(device["size"])
    return {ARRAY: FoundDrive(f"{host.name}:{ARRAY}", device_path, size, {**_facts(device), "array_of": path}, in_use=tuple(uses))}


def require_unused_drives(drives: Mapping[str, FoundDrive]) -> None:
    """Check that none of these drives is in use. Raises TestbedError with every reason not to write to one."""
    if used := [f"{drive.name} ({drive.path}): {why}" for drive in drives.values() for why in drive.in_use]:
        remedy = "nothing was written; end its use, and erase old content by hand (wipefs -a), or name another drive"
        raise TestbedError("\n".join(used), remedy=remedy)


def require_space_on_drives(cells: Iterable[Cell], drives: Mapping[str, FoundDrive]) -> None:
    """Check that every job (`numjobs`, `offset_increment`) begins within its drive. Raises TestbedError."""
    faults = {}
    for cell in cells:
        for drive in drives.values():
            if isinstance(cell.setting, FioSetting) and drive.name in cell.links:
                jobs, step = cell.setting.options.get("numjobs", "1"), cell.setting.options.get("offset_increment", "0")
                first = _bytes_of(step, drive.size_bytes) * (int(jobs) - 1 if jobs.isdecimal() else 0)
                if first >= drive.size_bytes:
                    faults[drive.name, jobs, step] = (
                        f"{drive.name}: job {jobs} would begin at byte {first} (offset_increment {step}), beyond its end"
                    )
    if faults:
        raise TestbedError("\n".join(faults.values()), remedy="fewer jobs, or a smaller offset_increment")


def _bytes_of(step: str, size: int) -> int:
    """Return a step in bytes; it may be a share of the drive, as in `25%`. Return 0 if it cannot be read."""
    if step.endswith("%") and step[:-1].isdecimal():
        return size * int(step[:-1]) // 100
    try:
        return parse_size(step)
    except ValueError:
        return 0  # fio reports what is wrong with it


async def _drive(host: Host, name: str, spec: DriveSpec, devices: Sequence[Mapping[str, Any]], *, look: bool) -> FoundDrive:
    if spec.by_id is not None:
        link = f"{spec.folder}/{spec.by_id}"
        path = (await host.run(["sh", "-c", _ASKS, "dutlab", link])).text.partition("path ")[2].strip()
        entries = [d for d in devices if d["path"] == path]
        what = f"{host.name}: {name}: {link} does not exist"
    else:
        entries = [d for d in devices if (d.get("serial") or "").strip() == spec.serial and d["type"] in _DISKS]
        what = f"{host.name}: {name}: no drive has the serial number {spec.serial}"
    if not entries:
        raise TestbedError(what, remedy="`lsblk -o NAME,SERIAL,MODEL` and /dev/disk/by-id list the drives")
    if len(entries) > 1:
        paths = ", ".join(d["path"] for d in entries)
        raise TestbedError(f"{host.name}: {name}: {paths} all have the serial number {spec.serial}", remedy="name it by-id")
    (device,) = entries
    path = device["path"]
    if device["type"] not in _DISKS:
        raise TestbedError(f"{host.name}: {name}: {path} is a {device['type']}, not a drive", remedy="name the drive that it is on")
    size = min(int(device["size"]), spec.size or int(device["size"]))
    if size <= 0:
        raise TestbedError(f"{host.name}: {name}: {path} has no capacity", remedy="check that it is plugged in and answers")
    uses = await _uses(host, device, devices) if look else ()
    return FoundDrive(f"{host.name}:{name}", path, size, _facts(device), in_use=tuple(uses))


async def _uses(host: Host, device: Mapping[str, Any], devices: Sequence[Mapping[str, Any]]) -> list[str]:
    path = device["path"]
    family = [d for d in devices if d["path"] == path or path in d["above"]]
    uses = [f"{d['path']} is mounted at {at}" for d in family for at in d.get("mountpoints") or () if at]
    uses += ["it is read-only"] if device.get("ro") else []
    for line in (await host.run(["sh", "-c", _SIGNATURES, "dutlab", path])).text.splitlines():
        kind, _, rest = line.partition(" ")
        part, _, what = rest.partition(" ")
        match kind:
            case "signature":
                uses.append(f"{part} has a signature of {what}")
            case "holder":
                uses.append(f"{what} is made of {part}")
            case "swap" if not any(part in use for use in uses):
                uses.append(f"{part} is swap")
    return list(dict.fromkeys(uses))


_MEMORY = "while read -r word kib _; do [ $word != MemTotal: ] || echo $((kib * 1024)); done </proc/meminfo"
_LOOK_AT_FILE = """
[ -L "$1" ] && { echo link; exit; }
[ -e "$1" ] && { [ -f "$1" ] && stat -c "file %s" -- "$1" || echo other; exit; }
folder=$(dirname -- "$1")
[ -d "$folder" ] && df --output=avail,fstype -B1 -- "$folder" | tail -n 1 | {
  read -r free kind; while read -r word kib _; do [ "$word" = MemTotal: ] && break; done </proc/meminfo
  echo "free $free $kind $kib"
}
"""


async def _file(host: Host, name: str, spec: DriveSpec) -> FoundDrive:
    """Return a file in place of a drive. It must not exist yet, so that nothing is overwritten and nothing is cached."""
    path = str(spec.file)
    words = (await host.run(["sh", "-c", _LOOK_AT_FILE, "dutlab", path], check=False)).text.split()
    where = f"{host.name}: {name}: {path}"
    match words:
        case ["free", free, kind, kib] if int(free) > (spec.size or 0):
            facts = {"file_system": kind, "memory_bytes": str(int(kib) * 1024)}
            return FoundDrive(f"{host.name}:{name}", path, spec.size or 0, facts, is_file=True)
        case ["free", free, *_]:
            raise TestbedError(f"{where}: {spec.size} bytes do not fit, {free} are free", remedy="write a smaller size, or free some")
        case ["file", size]:
            raise TestbedError(
                f"{where}: exists already, with {size} bytes", remedy="dutlab makes its own and removes it: name another path"
            )
        case []:
            raise TestbedError(f"{where}: its folder does not exist", remedy="make it, or name another path")
        case _:
            raise TestbedError(f"{where}: is not a plain file", remedy="name a path that does not exist yet")


def _flat(entries: Sequence[Mapping[str, Any]], above: tuple[str, ...] = ()) -> Iterator[dict[str, Any]]:
    for entry in entries:
        yield {**entry, "above": above}
        yield from _flat(entry.get("children") or (), (*above, entry["path"]))


def _facts(device: Mapping[str, Any]) -> dict[str, str]:
    known = {
        "path": device["path"],
        "model": device.get("model"),
        "serial": device.get("serial"),
        "firmware": device.get("rev"),
        "size_bytes": device.get("size"),
        "logical_sector_bytes": device.get("log-sec"),
        "physical_sector_bytes": device.get("phy-sec"),
        "scheduler": device.get("sched"),
        "queue_requests": device.get("rq-size"),
        "transport": device.get("tran"),
        "rotational": device.get("rota"),
    }
    return {key: str(value).strip() for key, value in known.items() if value not in (None, "")}
