"""Open loop on drives: the engine's `drive-load`, one process for each drive, and the device's own count of the reads.

fio cannot do this. Before it waits for the next I/O, it waits for those under way (io_u_quiesce in io_u.c), so I/Os that are due while
the drive stalls begin after the stall, and their latency counts from then. Its `io_submit_mode=offload` would not wait, but jobs with it
do not end in fio 3.33.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError

from dutlab.errors import ToolFailed
from dutlab.hosts.host import Host
from dutlab.spec.drives import parse_size
from dutlab.spec.workloads.storage_latency import StorageLatencySetting
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.histogram import merged, percentile, percentiles
from dutlab.tools.fio.meanwhile import SECTOR_BYTES

TOOL = "dutlab-engine"
GRACE_S = 60.0
MOST_BUCKETS = 8192
"""Most buckets of a histogram: the engine has 4352."""
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p999": 0.999, "p9999": 0.9999}
_LATE_SHARE = 0.1
"""Share of the drive's latency that the engine's own lateness may reach."""
# Prints the reads of the drive's device before and after the load: the first number of its `stat` (Documentation/block/stat.rst), or of
# the device of the file system for a file. Nothing where the kernel has no such device, as for tmpfs or an overlay.
_COUNTED = r"""
path=$1; shift
if [ -b "$path" ]; then stat=/sys/class/block/$(basename "$(readlink -f -- "$path")")/stat
else stat=/sys/dev/block/$(stat -c %d -- "$path" | awk '{ printf "%d:%d", int($1 / 256) % 4096, $1 % 256 }')/stat; fi
reads() { if [ -r "$stat" ]; then read -r ios _ sectors _ <"$stat"; echo "reads $ios $sectors" >&2; fi; }
reads
"$@"; status=$?
reads
exit $status
"""


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class Times(_Part):
    """Distribution of times: upper end of each bucket in ns, and its count."""

    mean_ns: float
    max_ns: NonNegativeInt
    buckets: tuple[tuple[NonNegativeInt, NonNegativeInt], ...] = Field(max_length=MOST_BUCKETS)

    @property
    def bins(self) -> dict[int, int]:
        """Upper end in ns → count."""
        return dict(self.buckets)


class Ios(_Part):
    """Reads or writes of one drive."""

    ios: NonNegativeInt
    errors: NonNegativeInt
    latency: Times


class DriveLoad(_Part):
    """Output of the engine's `drive-load`."""

    began_ns: NonNegativeInt
    due: NonNegativeInt
    not_begun: NonNegativeInt
    short_of_threads: NonNegativeInt
    most_under_way: NonNegativeInt
    elapsed_ns: NonNegativeInt
    reads: Ios
    writes: Ios
    late: Times
    first_error: str | None = Field(max_length=1000)


@dataclass(frozen=True)
class DriveReads:
    """Reads that the device itself counted during the load; None if its kernel has no counter."""

    ios: int | None
    bytes: int | None


@dataclass(frozen=True)
class OpenResult:
    """Result of one rate on all drives of a trial."""

    loads: Mapping[str, DriveLoad]
    """`host:drive` → output."""
    counted: Mapping[str, DriveReads]
    raw: Mapping[str, bytes]

    @property
    def bins(self) -> Counter[int]:
        """Latencies of all I/Os: upper end in ns → count."""
        return merged(times.bins for load in self.loads.values() for times in (load.reads.latency, load.writes.latency))

    def figures(self, duration_s: float) -> dict[str, float]:
        """Return rate and latency of all drives together. I/Os that ended after the duration count, since they were due in it."""
        return figures_of(list(self.loads.values()), duration_s)


def figures_of(loads: Sequence[DriveLoad], duration_s: float) -> dict[str, float]:
    """Return I/Os a second of `duration_s`, and mean, maximum and percentiles of their latency."""
    parts = [part for load in loads for part in (load.reads, load.writes) if part.ios]
    ios, bins = sum(part.ios for part in parts), merged(part.latency.bins for part in parts)
    if not ios:
        return {}
    mean = sum(part.latency.mean_ns * part.ios for part in parts) / ios
    latency = {f"lat_{name}_ns": value for name, value in percentiles(bins, PERCENTILES).items()}
    return {"iops": ios / duration_s, "lat_mean_ns": mean, **latency, "lat_max_ns": float(max(part.latency.max_ns for part in parts))}


def missed(name: str, load: DriveLoad) -> list[str]:
    """Return a sentence for each way in which the I/Os were not made at their instants.

    All latencies count from the instants. So a lack of threads loads the drive less than asked, and lateness is counted as the drive's.
    """
    sentences = []
    if load.not_begun:
        sentences.append(
            f"{name}: {load.not_begun} of {load.due} I/Os were not begun within 10 s of the end; the drive is slower than the rate"
        )
    if load.short_of_threads:
        sentences.append(f"{name}: {load.short_of_threads} of {load.due} I/Os began late, since as many as `depth` were under way")
    bins = merged((load.reads.latency.bins, load.writes.latency.bins))
    for share, word in ((0.5, "half"), (0.99, "1 %")):
        if bins and load.late.buckets and (late := percentile(load.late.bins, share)) > _LATE_SHARE * percentile(bins, share):
            sentences.append(f"{name}: {word} of the I/Os began {late / 1e3:.0f} µs late or more, which counts as latency")
    return sentences


def answered_by_memory(name: str, load: DriveLoad, counted: DriveReads, block: int) -> str:
    """Return the evidence that memory answered most reads; empty if there is none. Devices may merge reads, so bytes are compared."""
    if counted.bytes is None or not load.reads.ios or counted.bytes >= load.reads.ios * block / 2:
        return ""
    return f"{name}: {load.reads.ios * block} bytes were read, {counted.bytes} from the device: memory answered the others"


async def run(
    hosts: Mapping[str, Host],
    engines: Mapping[str, str],
    drives: Mapping[str, Mapping[str, FoundDrive]],
    setting: StorageLatencySetting,
    iops: Mapping[str, float],
    *,
    seed: int,
) -> OpenResult:
    """Load every drive at its rate in `iops` (`host:drive` → I/Os a second), all at once. Raises ToolFailed, HostError."""
    every = [(host, drive) for host, of in drives.items() for drive in of.values()]
    argvs = [_argv(engines[host], drive, setting, iops[drive.name], seed + i) for i, (host, drive) in enumerate(every)]
    loaded_s = setting.ramp_s + setting.duration_s
    results = await asyncio.gather(*(_one(hosts[host], drive, argv, loaded_s) for (host, drive), argv in zip(every, argvs, strict=True)))
    return OpenResult(
        {drive.name: load for (_, drive), (load, _, _) in zip(every, results, strict=True)},
        {drive.name: counted for (_, drive), (_, counted, _) in zip(every, results, strict=True)},
        {f"{_file(drive.name)}.json": raw for (_, drive), (_, _, raw) in zip(every, results, strict=True)},
    )


def _file(name: str) -> str:
    return f"drive-load-{name.replace(':', '-').replace('/', '-')}"


def _argv(engine: str, drive: FoundDrive, setting: StorageLatencySetting, iops: float, seed: int) -> list[str]:
    argv = [engine, "drive-load", "--rate", f"{iops:.3f}", "--duration", _time(setting.duration_s), "--block", str(parse_size(setting.bs))]
    argv += ["--size", str(drive.size_bytes), "--reads", str(setting.reads_percent), "--depth", str(setting.depth), "--seed", str(seed)]
    argv += [*(["--ramp", _time(setting.ramp_s)] if setting.ramp_s else []), *(["--sequential"] if setting.access == "sequential" else [])]
    return [*argv, *(["--overwrite"] if setting.writes else []), "--", drive.path]


async def _one(host: Host, drive: FoundDrive, argv: Sequence[str], loaded_s: float) -> tuple[DriveLoad, DriveReads, bytes]:
    done = await host.run(["sh", "-c", _COUNTED, "dutlab", drive.path, *argv], check=False, timeout_s=loaded_s + GRACE_S)
    counts = [line.split()[1:] for line in done.stderr.decode("utf-8", "replace").splitlines() if line.startswith("reads ")]
    return read(done.stdout, drive.name, done.complaint), _reads(counts), done.stdout


def read(data: bytes, name: str, complaint: str = "") -> DriveLoad:
    """Read the engine's output. Raises ToolFailed if it could not measure, or the output has no I/O."""
    why, load = complaint or "it printed nothing", None
    try:
        document = json.loads(data)
        if isinstance(document, dict) and "error" in document:
            why = str(document["error"])
        else:
            load = DriveLoad.model_validate(document)
    except ValidationError as error:
        why = f"its output does not fit: {error.errors()[0]['loc']}: {error.errors()[0]['msg']}"
    except ValueError:
        pass
    if load is not None and not load.reads.ios + load.writes.ios:
        why, load = load.first_error or "no I/O was due; raise the rate or the duration", None
    if load is None:
        raise ToolFailed(f"drive-load on {name}: {why}", tool=TOOL, host=name.partition(":")[0], raw={f"{_file(name)}.json": data})
    return load


def _reads(counts: Sequence[Sequence[str]]) -> DriveReads:
    try:
        (ios, sectors), (ios_after, sectors_after) = ([int(word) for word in line] for line in counts)
    except ValueError:
        return DriveReads(None, None)
    return DriveReads(ios_after - ios, (sectors_after - sectors) * SECTOR_BYTES)


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.0f}ms"
