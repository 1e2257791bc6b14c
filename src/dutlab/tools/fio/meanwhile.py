"""State of a host while fio runs: the load of its cores and the progress of its array. A shell loop prints one line per reading.

fio's own CPU figures cover only its own threads, without md's workers and interrupt handling (lib/getrusage.c, RUSAGE_THREAD).
Times are from the host's own clock, as in fio's logs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass

from dutlab.bounds import OUTPUT_BYTES
from dutlab.ending import cancelled
from dutlab.errors import HostError
from dutlab.hosts.host import Host, Process
from dutlab.hosts.own_time import own_timeout
from dutlab.hosts.running import KeptOutput

EVERY_S = 0.5
HOST_LOG = "host-{}.txt"
"""Name of the raw file with a host's readings during a job; the figures are recomputed from it."""
SECTOR_BYTES = 512
"""Size of a sector in sync_completed and in a block device's stat, for every drive (Documentation/admin-guide/md.rst)."""
# `$1`: seconds between readings. `$2`: the array's device. `$3`: the md device that can lose a drive. The last two may be empty.
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
    """One reading. `ticks_s` is the busy time of all cores since boot, in seconds, without stolen time."""

    at_s: float
    ticks_s: float
    ios: int
    """I/Os that the array has completed since it was created."""
    lost: int
    doing: str
    """Activity as in sync_action: `idle`, `recover`, …"""
    rebuilt_bytes: int | None
    """Rebuilt bytes of the array member; None while no rebuild runs."""

    @property
    def whole(self) -> bool:
        """True if no drive is missing and no rebuild runs."""
        return self.lost == 0 and self.doing == "idle"


def read_line(line: str) -> HostReading:
    """Parse one line of the loop. Raises ValueError."""
    at, ticks, hertz, ios, lost, doing, done = line.split()
    rebuilt = int(done) * SECTOR_BYTES if done.isdecimal() else None
    return HostReading(float(at), int(ticks) / int(hertz), int(ios), int(lost), doing, rebuilt)


def read_lines(text: bytes) -> list[HostReading]:
    """Parse the lines of the loop. A truncated line is skipped."""
    readings = []
    for line in text.decode("ascii", "replace").splitlines():
        with contextlib.suppress(ValueError):
            readings.append(read_line(line))
    return readings


def cores_between(readings: Sequence[HostReading], begin_s: float, end_s: float) -> float | None:
    """Return the mean number of busy cores between the first and last reading in a period; None with fewer than two readings."""
    within = [one for one in readings if begin_s <= one.at_s <= end_s]
    if len(within) < 2 or within[-1].at_s <= within[0].at_s:  # noqa: PLR2004 -- a mean is between two
        return None
    return (within[-1].ticks_s - within[0].ticks_s) / (within[-1].at_s - within[0].at_s)


def rebuilds(readings: Sequence[HostReading]) -> list[tuple[float, float, float]]:
    """Return (start, end, rebuilt bytes per second of the member) between successive changes of md's progress."""
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


def host_cores(spans: Mapping[str, tuple[float, float]], readings: Mapping[str, Sequence[HostReading]]) -> dict[str, float]:
    """Return the busy cores of all hosts during `spans` (host → start and end); empty if one was too short to measure them."""
    cores = [cores_between(of_host, *spans[host]) for host, of_host in readings.items() if host in spans]
    known = [one for one in cores if one is not None]
    return {"host_cpu_cores": sum(known)} if known and len(known) == len(cores) else {}


class HostReadings:
    """Readings of one host so far."""

    def __init__(self, host: Host) -> None:
        self.readings: list[HostReading] = []
        self._said = KeptOutput(OUTPUT_BYTES)
        self._host, self._new, self._over = host, asyncio.Event(), False

    @property
    def raw(self) -> bytes:
        """The lines as the host printed them."""
        return bytes(self._said.kept)

    async def until(self, holds: Callable[[HostReading], bool], limit_s: float) -> HostReading | None:
        """Wait for a new reading that `holds`; return None after `limit_s`. Raises HostError if the loop has ended."""
        start = len(self.readings)
        with contextlib.suppress(TimeoutError):
            async with own_timeout(limit_s):
                while True:
                    if reading := next((one for one in self.readings[start:] if holds(one)), None):
                        return reading
                    start = len(self.readings)
                    if self._over:
                        raise HostError("its state can no longer be read", host=self._host.name, remedy="check that it runs and answers")
                    self._new.clear()
                    await self._new.wait()
        return None

    async def follow(self, process: Process) -> None:
        """Read the output of the loop until its end."""
        try:
            while line := await process.readline():
                self._said.take(line)
                self.readings += read_lines(line)
                self._new.set()
        except HostError:  # the host is lost; the measurement reports it too
            pass
        finally:
            self._over = True
            self._new.set()


@contextlib.asynccontextmanager
async def watched(host: Host, array: str = "", failing: str = "") -> AsyncIterator[HostReadings]:
    """Read the state of `host` while the block runs. `array` is a device; `failing` is its md device. Raises HostError."""
    process = await host.spawn(["sh", "-c", _LOOP, "dutlab", str(EVERY_S), array, failing])
    meanwhile = HostReadings(host)
    following = asyncio.ensure_future(meanwhile.follow(process))
    try:
        yield meanwhile
    finally:
        with contextlib.suppress(HostError):
            await process.end(grace_s=0.5)
        await cancelled(following)
