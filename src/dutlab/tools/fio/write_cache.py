"""Volatile write cache of a drive: read it, and set it with an undo that is in the journal first.

SATA and SAS drives: the kernel's `cache_type` of the disk, which sends MODE SELECT to the drive (drivers/scsi/sd.c). NVMe: feature 06h, by
nvme-cli. The kernel's `queue/write_cache` is not used: it changes the kernel's setting for a drive, not the drive.
"""

from __future__ import annotations

from collections.abc import Collection

from dutlab.dut.mode import Announce, UndoStep
from dutlab.errors import MeasurementError
from dutlab.hosts.host import Host
from dutlab.tools.fio.drives import FoundDrive

UNKNOWN = "unknown"
"""State of a drive whose cache cannot be read: a loop device, a virtual drive, an array."""
# cache_type has one of sd.c's sd_cache_types: write through, none, write back, "write back, no read (daft)".
_READ = r"""
name=${1##*/}
for file in /sys/block/"$name"/device/scsi_disk/*/cache_type; do
  [ -r "$file" ] || continue
  case $(cat "$file") in 'write back'*) echo on ;; *) echo off ;; esac
  exit 0
done
case $name in nvme*)
  value=$(nvme get-feature "$1" -f 6 2>/dev/null) || { echo unknown; exit 0; }
  case $value in *:0x*1) echo on ;; *:0x*0) echo off ;; *) echo unknown ;; esac
  exit 0 ;;
esac
echo unknown
"""
_SET = r"""
name=${1##*/}
for file in /sys/block/"$name"/device/scsi_disk/*/cache_type; do
  [ -e "$file" ] || continue
  [ "$2" = on ] && words='write back' || words='write through'
  echo "$words" >"$file"
  exit
done
[ "$2" = on ] && value=1 || value=0
nvme set-feature "$1" -f 6 -v "$value"
"""


async def state_of(host: Host, drive: FoundDrive) -> str:
    """Return `on`, `off`, or UNKNOWN if the drive does not report it. Raises HostError."""
    if drive.is_file:
        return UNKNOWN
    return (await host.run(["sh", "-c", _READ, "dutlab", drive.path])).text.strip() or UNKNOWN


async def set_all(host: Host, drives: Collection[FoundDrive], wanted: str, announce: Announce | None) -> None:
    """Set the write cache of each drive to `on` or `off`; a drive that is in this state is left alone.

    The drive is named by its path, which stays until the host is booted again. Raises MeasurementError if a drive has no cache that can
    be set, or refuses; HostError.
    """
    states = {drive.name: await state_of(host, drive) for drive in drives}
    if lacking := [drive for drive in drives if states[drive.name] == UNKNOWN]:
        names = ", ".join(f"{drive.name} ({drive.path})" for drive in lacking)
        raise MeasurementError(
            f"the write cache of {names} cannot be read", remedy="leave `write_cache` out; for NVMe drives, install nvme-cli"
        )
    for drive in drives:
        if (state := states[drive.name]) == wanted:
            continue
        if announce is None:
            raise MeasurementError(f"the write cache of {drive.name} is {state}, and nothing would restore it here")
        announce(f"write cache of {drive.name}", [UndoStep(host.name, words(drive, state), why=f"write cache {state}, as found")])
        done = await host.run(words(drive, wanted), check=False)
        if done.status != 0 or await state_of(host, drive) != wanted:
            why = done.complaint or "it stays as it was"
            raise MeasurementError(f"{drive.name}: its write cache cannot be set to {wanted}: {why}", remedy="leave `write_cache` out")


def words(drive: FoundDrive, wanted: str) -> tuple[str, ...]:
    """Return the command that sets the write cache to `on` or `off`."""
    return ("sh", "-c", _SET, "dutlab", drive.path, wanted)
