"""Host during fio: its cores, whatever they work for, and the progress of its array; one line a reading of a shell loop.

fio's own account has its own threads only: md's workers and the handling of interrupts are not in it (lib/getrusage.c, RUSAGE_THREAD).
Times are of the host's own clock, as in fio's logs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass

from dutlab.bounds import OUTPUT_BYTES
from dutlab.ending import cancelled
from dutlab.errors import HostError
from dutlab.hosts.host import Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.hosts.running import KeptOutput

EVERY_S = 0.5
SECTOR_BYTES = 512
"""Bytes of a sector in sync_completed and in a block device's stat, whatever the drive's (Documentation/admin-guide/md.rst)."""
# `$1` seconds between two readings, `$2` the array's device, `$3` the set of it that can lose a drive; both may be empty.
_LOOP = r"""
hz=$(getconf CLK_TCK)
set_md=/sys/block/${3##*/}/md
while :; do
  read -r _ user nice system _ _ irq soft steal _ </proc/stat
  ios=0 lost=0 doing=idle done=none
  if [ "$2" ]; then
    read -r reads _ _ _ writes _ <"/sys/block/${2##*/}/stat"
    ios=$((reads + writes))
  fi
  if [ "$3" ]; then
    read -r lost <"$set_md/degraded"
    read -r doing <"$set_md/sync_action"
    read -r done _ <"$set_md/sync_completed"
  fi
  echo "$(date +%s.%N) $((user + nice + system + irq + soft)) $hz $ios $lost $doing $done"
  sleep "$1"
done
"""


@dataclass(frozen=True)
class HostReading:
    """One look. `ticks_s` is what all cores have worked since the boot, in seconds; a guest's stolen time is not work."""

    at_s: float
    ticks_s: float
    ios: int
    """Those that the array has completed since it was made."""
    lost: int
    doing: str
    """Activity as in sync_action: `idle`, `recover`, …"""
    rebuilt_bytes: int | None
    """Rebuilt bytes of a member; None while nothing is rebuilt."""

    @property
    def whole(self) -> bool:
        """True if no drive is missing and nothing is rebuilt."""
        return self.lost == 0 and self.doing == "idle"


def read_line(line: str) -> HostReading:
    """A line of the loop. Raises ValueError."""
    at, ticks, hertz, ios, lost, doing, done = line.split()
    rebuilt = int(done) * SECTOR_BYTES if done.isdecimal() else None
    return HostReading(float(at), int(ticks) / int(hertz), int(ios), int(lost), doing, rebuilt)


def read_lines(text: bytes) -> list[HostReading]:
    """Those of a loop that ended; what it was cut off in is passed over."""
    readings = []
    for line in text.decode("ascii", "replace").splitlines():
        with contextlib.suppress(ValueError):
            readings.append(read_line(line))
    return readings


def cores_between(readings: Sequence[HostReading], begin_s: float, end_s: float) -> float | None:
    """Cores that worked, in the mean, between the first and the last reading of a time; None where it has no two."""
    within = [one for one in readings if begin_s <= one.at_s <= end_s]
    if len(within) < 2 or within[-1].at_s <= within[0].at_s:  # noqa: PLR2004 -- a mean is between two
        return None
    return (within[-1].ticks_s - within[0].ticks_s) / (within[-1].at_s - within[0].at_s)


def rebuilds(readings: Sequence[HostReading]) -> list[tuple[float, float, float]]:
    """From when to when, and how many bytes a second of the member were rebuilt: between two changes of what md says."""
    spans: list[tuple[float, float, float]] = []
    last: HostReading | None = None
    for now in readings:
        if now.rebuilt_bytes is None:
            last = None
        elif last is None or last.rebuilt_bytes is None or now.rebuilt_bytes < last.rebuilt_bytes:
            last = now
        elif now.rebuilt_bytes > last.rebuilt_bytes and now.at_s > last.at_s:
            spans.append((last.at_s, now.at_s, (now.rebuilt_bytes - last.rebuilt_bytes) / (now.at_s - last.at_s)))
            last = now
    return spans


class Meanwhile:
    """The readings so far of one host."""

    def __init__(self, host: Host) -> None:
        self.readings: list[HostReading] = []
        self._said = KeptOutput(OUTPUT_BYTES)
        self._host, self._new, self._over = host, asyncio.Event(), False

    @property
    def raw(self) -> bytes:
        """The lines as the host said them."""
        return bytes(self._said.kept)

    async def until(self, holds: Callable[[HostReading], bool], limit_s: float) -> HostReading | None:
        """The first reading from now on that `holds`; None where none did in this time. Raises HostError when the loop has ended."""
        start = len(self.readings)
        with contextlib.suppress(TimeoutError):
            async with own_timeout(limit_s):
                while True:
                    if reading := next((one for one in self.readings[start:] if holds(one)), None):
                        return reading
                    start = len(self.readings)
                    if self._over:
                        raise HostError("its state can be read no more", host=self._host.name, remedy="see that it runs and answers")
                    self._new.clear()
                    await self._new.wait()
        return None

    async def follow(self, process: Process) -> None:
        """Reads what the loop prints, to its end."""
        try:
            while line := await process.readline():
                self._said.take(line)
                self.readings += read_lines(line)
                self._new.set()
        except HostError:  # the host is lost, which whoever measures says too
            pass
        finally:
            self._over = True
            self._new.set()


@contextlib.asynccontextmanager
async def watched(host: Host, array: str = "", failing: str = "") -> AsyncIterator[Meanwhile]:
    """Reads `host` while the block runs; `array` and the set of it that can lose a drive are devices. Raises HostError."""
    process = await host.spawn(["sh", "-c", _LOOP, "dutlab", str(EVERY_S), array, failing])
    meanwhile = Meanwhile(host)
    following = asyncio.ensure_future(meanwhile.follow(process))
    try:
        yield meanwhile
    finally:
        with contextlib.suppress(HostError):
            await process.end(grace_s=0.5)
        await cancelled(following)
