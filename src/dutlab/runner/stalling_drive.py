"""Drive that stalls at known times, measured in an open and a closed loop: one of the drives of `known_drives`.

Device mapper suspends the drive, so I/Os that are due meanwhile wait until it is resumed. A program in the guest prints the times of both.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dutlab.ending import cancelled, ended_by
from dutlab.hosts.host import Process
from dutlab.methods.known import Known
from dutlab.spec.workloads.storage_latency import StorageLatencySetting
from dutlab.tools.fio import latency
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.histogram import percentile
from dutlab.tools.fio.latency import Loaded
from dutlab.tools.fio.open_loop import DriveLoad
from dutlab.tools.generator_tool import GeneratorSite

STALL_S, EVERY_S, LOADED_S = 0.2, 10.0, 60.0
RATE, DEPTH, SECTORS = "300", 128, 65_536
"""I/Os a second, of which 60 are due in a stall, and the drive's size."""
SHARE, WITHIN = 0.001, 0.05
"""Share of the I/Os that take longer than the percentile, and the tolerance of its latency."""
HIDDEN_WITHIN_PERCENT = 25.0
"""Tolerance of the closed loop's error. Fewer I/Os than SHARE wait for the end of a stall there, so its percentile is near the median."""
ATTEMPTS = 3
"""Most measurements. On a busy machine the engine itself may begin I/Os too late, or the guest may stand still for a moment."""
HALT_S = 0.02
"""Shortest time that counts as standing still: user-mode Linux sleeps in steps of 10 ms."""
BY_HALTS = 0.02
"""Largest share of the expected latency that the guest itself may add by standing still."""
_STEPS = 60
Interval = tuple[int, int]
"""Start and end in ns since 1970."""
# It prints the name of the device.
_LINEAR = r"""
printf '0 %s linear %s 0\n' "$2" "$(readlink -f "$1")" | dmsetup create dutlab-stalls --noudevsync &&
dmsetup info -c --noheadings -o blkdevname dutlab-stalls
"""
_REMOVED = "dmsetup resume --noudevsync dutlab-stalls; dmsetup remove --noudevsync dutlab-stalls"
# Device mapper's own call (linux/dm-ioctl.h), since dmsetup takes some 20 ms to start. Prints start and end in ns since 1970: `stall` of
# each stall; `halt` of each time in which a read of the drive below device mapper, which never stalls, ended later than the third argument.
_STALLING = """
import fcntl, mmap, os, struct, sys, threading, time
stall_s, every_s, halt_s = map(float, sys.argv[1:4])
def watch():
    drive, memory = os.open(sys.argv[4], os.O_RDONLY | os.O_DIRECT), mmap.mmap(-1, 4096)
    while True:
        due, at = time.time_ns() + 10_000_000, time.monotonic() + 0.01
        time.sleep(0.01)
        os.preadv(drive, [memory], 0)
        if time.monotonic() - at > halt_s:
            os.write(1, b"halt %d %d\\n" % (due, time.time_ns()))
threading.Thread(target=watch, daemon=True).start()
SUSPEND, SKIP_LOCKFS, NOFLUSH, CALL, SIZE = 1 << 1, 1 << 10, 1 << 11, 0xC138FD06, 312
control = open("/dev/mapper/control", "rb+", buffering=0)
def suspend(flags):
    head = struct.pack("=3I7IQ", 4, 0, 0, SIZE, 0, 0, 0, flags, 0, 0, 0)
    fcntl.ioctl(control, CALL, bytearray((head + b"dutlab-stalls").ljust(SIZE, b"\\0")))
begin = time.monotonic()
for n in range(1000):
    time.sleep(max(0.0, begin + (n + 0.5) * every_s - time.monotonic()))
    start, at = time.time_ns(), time.monotonic()
    suspend(SUSPEND | SKIP_LOCKFS | NOFLUSH)
    try:
        time.sleep(max(0.0, at + stall_s - time.monotonic()))
    finally:
        suspend(0)
    os.write(1, b"stall %d %d\\n" % (start, time.time_ns()))
"""


async def measure(site: GeneratorSite, host_name: str, device: str) -> list[Known]:
    """Measure the drive on `device` of a guest. Expected latency follows from the times of the stalls and the median.

    Raises MeasurementError, HostError.
    """
    name = f"stalls for {STALL_S * 1e3:g} ms every {EVERY_S:g} s"
    setting = StorageLatencySetting(
        access="random", bs="4k", reads_percent=100, rates=(RATE,), order="as-written", depth=DEPTH, writes=False, ramp_s=1.0,
        duration_s=LOADED_S,
    )  # fmt: skip
    attempts = list[list[Known]]()
    for _ in range(ATTEMPTS):
        loaded, lines = await _load(site, host_name, device, setting)
        (opened,) = loaded.opened[RATE].loads.values()
        figures = latency.both_figures(setting, loaded.loops(RATE))
        stalls, halts = times_in(lines, "stall"), times_in(lines, "halt")
        expected = waited_ns(stalls, opened.began_ns, setting.duration_s, SHARE) + figures["lat_p50_ns"]
        busy = busy_guest(stalls, halts, opened, setting.duration_s, expected)
        hidden, error = 100 * (figures["clat_p50_ns"] / expected - 1), figures.get("closed_error_p999_percent")
        closed = Known(name, "fio, closed loop", "closed_error_p999_percent", hidden, error, HIDDEN_WITHIN_PERCENT)
        value = figures.get("lat_p999_ns")
        attempts.append([Known(name, "storage-latency", "lat_p999_ns", expected, value, WITHIN * expected, disturbed=busy), closed])
        if attempts[-1][0].holds:
            break
    return _decisive(attempts)


def _decisive(attempts: Sequence[list[Known]]) -> list[Known]:
    """Return the attempt that holds; else the one with the median error of those that no halt explains; else the last."""
    last = attempts[-1]
    known = sorted((of for of in attempts if of[0].is_off), key=lambda of: abs(of[0].error or 0.0))
    return last if last[0].holds or not known else known[len(known) // 2]


def busy_guest(stalls: Sequence[Interval], halts: Sequence[Interval], opened: DriveLoad, duration_s: float, expected_ns: float) -> str:
    """Return how the guest itself delayed I/Os too much for a verdict; empty if it did not."""
    if percentile(opened.late.bins, 1 - SHARE) > WITHIN * expected_ns:
        return "this machine itself began I/Os too late"
    began_ns = opened.began_ns
    added = waited_ns(joined([*stalls, *halts]), began_ns, duration_s, SHARE) - waited_ns(stalls, began_ns, duration_s, SHARE)
    longest = max((end - start for start, end in halts), default=0)
    return f"this machine stood still, for up to {longest / 1e6:.0f} ms" if added > BY_HALTS * expected_ns else ""


async def _load(site: GeneratorSite, host_name: str, device: str, setting: StorageLatencySetting) -> tuple[Loaded, list[bytes]]:
    """Load the drive while it stalls; return the results and the program's lines."""
    host, lines = site.hosts[host_name], list[bytes]()
    async with ended_by(lambda: host.run(["sh", "-c", _REMOVED], check=False)):
        reply = await host.run(["sh", "-c", _LINEAR, "dutlab", device, str(SECTORS)])
        process = await host.spawn(["python3", "-c", _STALLING, str(STALL_S), str(EVERY_S), str(HALT_S), device])
        reading = asyncio.ensure_future(_read(process, lines))
        try:
            drive = FoundDrive(f"{host_name}:known", f"/dev/{reply.text.strip()}", SECTORS * 512)
            loaded = await latency.load(site, {host_name: {"known": drive}}, setting, 1)
        finally:
            await process.end()
            await cancelled(reading)
    return loaded, lines


def times_in(lines: Sequence[bytes], kind: str) -> list[Interval]:
    """Return start and end in ns of each `stall` or `halt` from the program's lines."""
    return [(int(start), int(end)) for word, start, end in (line.split() for line in lines) if word == kind.encode()]


def joined(intervals: Sequence[Interval]) -> list[Interval]:
    """Return the intervals in order, those that touch as one."""
    result = list[Interval]()
    for start, end in sorted(intervals):
        if result and start <= result[-1][1]:
            result[-1] = (result[-1][0], max(end, result[-1][1]))
        else:
            result.append((start, end))
    return result


def waited_ns(stalls: Sequence[Interval], began_ns: int, duration_s: float, share: float) -> float:
    """Return the wait for the end of a stall, in ns, that `share` of all instants of a load exceed; 0 if the stalls are too short.

    Instants are evenly distributed over the load, and an instant in a stall waits until its end.
    """
    last_ns = began_ns + duration_s * 1e9

    def longer_ns(wait: float) -> float:
        return sum(max(0.0, min(end - wait, last_ns) - max(start, began_ns)) for start, end in stalls)

    low, high = 0.0, float(max((end - start for start, end in stalls), default=0))
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if longer_ns(middle) > share * duration_s * 1e9 else (low, middle)
    return low


async def _read(process: Process, lines: list[bytes]) -> None:
    while line := await process.readline():
        lines.append(line)
