"""Purge a whole drive before a test, with the command that the experiment names and the testbed allows."""

from __future__ import annotations

from collections.abc import Mapping

from dutlab.errors import MeasurementError
from dutlab.hosts.host import NO_SUCH_PROGRAM, Host
from dutlab.tools.fio.drives import FoundDrive

LONGEST_S = 4 * 3600.0
"""Time limit of a purge, in seconds: sanitizing takes minutes to hours."""
_SANITIZE = """
nvme sanitize --sanact=2 "$1" || exit
while log=$(nvme sanitize-log -o json "$1"); do
  case $log in *'in Progress'*) sleep 1 ;; *Failed*) printf '%s' "$log" | grep Failed >&2; exit 1 ;; *) exit 0 ;; esac
done
exit 1
"""
# The script looks for the words of nvme-cli's nvme-print.c for NVMe's sanitize status.
WORDS: Mapping[str, tuple[str, ...]] = {
    "blkdiscard": ("blkdiscard", "-f"),
    "nvme-format": ("nvme", "format", "--ses=1", "--force"),
    "nvme-sanitize": ("sh", "-c", _SANITIZE, "dutlab"),
}


async def purge(host: Host, drive: FoundDrive, how: str) -> None:
    """Purge a drive. Raises MeasurementError if it is not a whole drive or the command refuses; HostError."""
    whole = int(drive.facts.get("size_bytes", 0))
    if drive.is_file or drive.size_bytes < whole:
        part = "is a file" if drive.is_file else f"is used for {drive.size_bytes} of its {whole} bytes only"
        raise MeasurementError(f"{drive.name} {part}: a purge would erase more than it", remedy="leave `purge` out")
    done = await host.run([*WORDS[how], drive.path], check=False, timeout_s=LONGEST_S)
    if done.status == NO_SUCH_PROGRAM:
        raise MeasurementError(f"{drive.name}: {WORDS[how][0]} is not installed", remedy="install util-linux, for nvme-* nvme-cli")
    if done.status != 0:
        raise MeasurementError(f"{drive.name}: {how} refused: {done.complaint or f'status {done.status}'}", remedy="name another `purge`")
