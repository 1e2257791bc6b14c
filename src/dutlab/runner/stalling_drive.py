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
from dutlab.tools.generator_tool import GeneratorSite

STALL_S, EVERY_S, LOADED_S = 0.2, 10.0, 60.0
RATE, DEPTH, SECTORS = "300", 128, 65_536
"""I/Os a second, of which 60 are due in a stall, and the drive's size."""
SHARE, WITHIN = 0.001, 0.05
"""Share of the I/Os that take longer than the percentile, and the tolerance of its latency."""
HIDDEN_WITHIN_PERCENT = 25.0
"""Tolerance of the closed loop's error. Fewer I/Os than SHARE wait for the end of a stall there, so its percentile is near the median."""
ATTEMPTS = 3
"""Most measurements: on a busy machine the engine itself may begin I/Os too late."""
_STEPS = 60
# It prints the name of the device.
_LINEAR = r"""
printf '0 %s linear %s 0\n' "$2" "$(readlink -f "$1")" | dmsetup create dutlab-stalls --noudevsync &&
dmsetup info -c --noheadings -o blkdevname dutlab-stalls
"""
_REMOVED = "dmsetup resume --noudevsync dutlab-stalls; dmsetup remove --noudevsync dutlab-stalls"
# Device mapper's own call (linux/dm-ioctl.h), since dmsetup takes some 20 ms to start. Prints start and end in ns since 1970.
_STALLING = """
import fcntl, struct, sys, time
stall_s, every_s = map(float, sys.argv[1:])
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
    print(start, time.time_ns(), flush=True)
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
    for _ in range(ATTEMPTS):
        loaded, lines = await _load(site, host_name, device, setting)
        (opened,) = loaded.opened[RATE].loads.values()
        figures = latency.both_figures(setting, loaded.loops(RATE))
        expected = waited_ns(stalls_in(lines), opened.began_ns, setting.duration_s, SHARE) + figures["lat_p50_ns"]
        if on_time := percentile(opened.late.bins, 1 - SHARE) <= WITHIN * expected:
            break
    hidden = 100 * (figures["clat_p50_ns"] / expected - 1)
    value, why = (figures.get("lat_p999_ns"), "") if on_time else (None, "this machine itself began I/Os too late")
    return [
        Known(name, "storage-latency", "lat_p999_ns", expected, value, WITHIN * expected, why),
        Known(
            name, "fio, closed loop", "closed_error_p999_percent", hidden, figures.get("closed_error_p999_percent"), HIDDEN_WITHIN_PERCENT
        ),
    ]


async def _load(site: GeneratorSite, host_name: str, device: str, setting: StorageLatencySetting) -> tuple[Loaded, list[bytes]]:
    """Load the drive while it stalls; return the results and the program's lines."""
    host, lines = site.hosts[host_name], list[bytes]()
    async with ended_by(lambda: host.run(["sh", "-c", _REMOVED], check=False)):
        reply = await host.run(["sh", "-c", _LINEAR, "dutlab", device, str(SECTORS)])
        process = await host.spawn(["python3", "-c", _STALLING, str(STALL_S), str(EVERY_S)])
        reading = asyncio.ensure_future(_read(process, lines))
        try:
            drive = FoundDrive(f"{host_name}:known", f"/dev/{reply.text.strip()}", SECTORS * 512)
            loaded = await latency.load(site, {host_name: {"known": drive}}, setting, 1)
        finally:
            await process.end()
            await cancelled(reading)
    return loaded, lines


def stalls_in(lines: Sequence[bytes]) -> list[tuple[int, int]]:
    """Return start and end of each stall in ns from the program's lines."""
    return [(int(start), int(end)) for start, end in (line.split() for line in lines)]


def waited_ns(stalls: Sequence[tuple[int, int]], began_ns: int, duration_s: float, share: float) -> float:
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
