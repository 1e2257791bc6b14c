"""Drives of a host, identified by permanent names, and written to only where the testbed allows it.

    hosts:
      server: {ssh: root@192.0.2.20, drives: {
        d1: {by-id: nvme-ACME_X1_S3RIAL0001, destroy: yes, rated: {read_iops: 610200, write_iops: 75000}},
        d2: {serial: S3RIAL0002}}, array: {chunk: 64k, stripe-cache: 4096, group-threads: 4}}

A name such as /dev/sdb is refused, since letters may change at each boot. `file` is a file of a file system in place of a drive; then the
file system is measured, and every record states it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, Strict
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.fields import Name, YesNo
from dutlab.spec.model import SpecModel, fault

_BY_ID = r"[A-Za-z0-9][A-Za-z0-9._:+=@-]{0,254}"
_SERIAL = r"[!-.0-~]([ -.0-~]{0,126}[!-.0-~])?"
_LETTER = r"(/dev/)?((sd|hd|vd|xvd)[a-z]+\d*|nvme\d+(n\d+(p\d+)?)?|(md|dm-|loop|mmcblk)\d+\w*)"
_SIZE = r"(?i)(\d+)([KMGT]?)i?B?"
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
LEAST_SIZE = 1 << 20

Positive = Annotated[float, Strict(), Field(gt=0)]


def parse_size(text: str) -> int:
    """Return the bytes of `4k`, `1MiB`, `512`, with binary prefixes as in fio (`kb_base=1024`). Raises ValueError."""
    if not (match := re.fullmatch(_SIZE, text)):
        raise ValueError(f"{text!r} is not a size; write it as in 4k, 1M or 10G")
    return int(match[1]) << 10 * _POWERS[match[2].upper()]


def is_size(text: str) -> bool:
    """Return whether `text` is a size."""
    return re.fullmatch(_SIZE, text) is not None


def _size(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return parse_size(value) if isinstance(value, str) else value


Size = Annotated[int, BeforeValidator(_size, json_schema_input_type=int | str), Field(ge=0)]
"""Size in bytes, written with binary prefixes: `4k` is 4096."""


class RatedSpec(SpecModel):
    """Ratings of a drive by its maker, from which ceilings follow."""

    read_iops: Positive | None = None
    write_iops: Positive | None = None
    read_bytes_per_s: Positive | None = None
    write_bytes_per_s: Positive | None = None
    capacity_bytes: Positive | None = None
    endurance_tbw: Positive | None = None
    """Rated endurance, in terabytes (10^12 bytes) written."""
    endurance_dwpd: Positive | None = None
    """Rated endurance, in writes of its whole capacity per day of the warranty."""
    warranty_years: Positive | None = None

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that the endurance is given in one way, with all keys that it needs."""
        yield from super().cross_faults(data, made)
        if made is None or made.endurance_dwpd is None:
            return
        if made.endurance_tbw is not None:
            yield fault(("endurance_dwpd",), "write the endurance once: endurance_tbw or endurance_dwpd", FaultKind.CONFLICT)
        if lacks := [key for key in ("capacity_bytes", "warranty_years") if getattr(made, key) is None]:
            yield fault(("endurance_dwpd",), f"is per day of the warranty; write {' and '.join(lacks)} too", FaultKind.CONFLICT)

    @property
    def endurance_bytes(self) -> float | None:
        """Rated endurance in bytes written; a year has 365 days."""
        if self.endurance_tbw is not None:
            return self.endurance_tbw * 1e12
        if self.endurance_dwpd is None or self.capacity_bytes is None or self.warranty_years is None:
            return None
        return self.endurance_dwpd * self.capacity_bytes * 365 * self.warranty_years


class DriveSpec(SpecModel):
    """One drive. Its key in the file is its name."""

    only_code: ClassVar[frozenset[str]] = frozenset({"name", "folder"})

    name: Name
    by_id: Annotated[str | None, Field(alias="by-id")] = None
    """Name of the drive in /dev/disk/by-id."""
    serial: str | None = None
    """Serial number, as in /sys/block/*/device/serial, or `lsblk -o SERIAL`."""
    file: str | None = None
    """Path of a file that is used in place of a drive."""
    size: Size | None = None
    """Bytes of the file, or bytes used from the beginning of a drive; None uses the whole drive."""
    destroy: YesNo = False
    """True if the drive's contents may be overwritten."""
    purge: YesNo = False
    """True if the whole drive may be erased by its own command (blkdiscard, nvme format, nvme sanitize)."""
    model: str | None = None
    """Model of the drive: its row in the testbed's table of models (spec.drive_models)."""
    rated: RatedSpec | None = None
    folder: str = "/dev/disk/by-id"
    """Folder of permanent drive names on the host; an embedded lab has a separate one."""

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check that the drive is identified in one way, and by a permanent name."""
        keys = {"by_id": "by-id", "serial": "serial", "file": "file"}
        ways = [key for name, key in keys.items() if data.get(name) is not None or data.get(key) is not None]
        if len(ways) != 1:
            yield fault(("by-id",), "name the drive in one way: by-id, serial, or file for a file in its place", FaultKind.CONFLICT)
        by_id, serial, file = data.get("by-id", data.get("by_id")), data.get("serial"), data.get("file")
        if isinstance(by_id, str) and (re.fullmatch(_LETTER, by_id) or not re.fullmatch(_BY_ID, by_id)):
            yield fault(("by-id",), f"{by_id!r} is not a name of /dev/disk/by-id, without the folder; letters change at each boot")
        if isinstance(serial, str) and (re.fullmatch(_LETTER, serial) or not re.fullmatch(_SERIAL, serial)):
            yield fault(("serial",), f"{serial!r} is not a serial number; `lsblk -dno NAME,SERIAL` lists them")
        if isinstance(file, str) and (not file.startswith("/") or file.startswith("/dev/") or ".." in file or ":" in file or "\n" in file):
            yield fault(("file",), "must be the whole path of a file, outside /dev, without .. and without a colon")
        if made is not None and made.file is not None and (made.size or 0) < LEAST_SIZE:
            yield fault(("size",), "missing or below 1M; write how large the file is to be, as in 4G", FaultKind.MISSING)


class ArraySpec(SpecModel):
    """Options of a host's arrays; without one, the default of md or LVM applies."""

    chunk: Annotated[Size | None, Field()] = None
    """Chunk size in bytes: consecutive data on one drive (mdadm --chunk, lvcreate --stripesize)."""
    bitmap: Literal["none", "internal"] = "none"
    """Write-intent bitmap of md (mdadm --bitmap)."""
    stripe_cache: Annotated[int | None, Strict(), Field(alias="stripe-cache", ge=17, le=32768)] = None
    """Entries of md's stripe cache for RAID 5 and 6 (stripe_cache_size)."""
    group_threads: Annotated[int | None, Strict(), Field(alias="group-threads", ge=0, le=1024)] = None
    """Additional md threads that handle stripes (group_thread_cnt)."""
    rebuild_bytes_per_s: Positive | None = None
    """Rebuild speed, in bytes per second, while `rebuilding` is measured (md: sync_speed_min and _max, LVM: --maxrecoveryrate)."""


def host_of_drive(name: str) -> str:
    """Return the host in a drive's name in cells: `server` of `server:d1`."""
    return name.partition(":")[0]
