"""fio and the rounds to steady state on drives with known answers, in the guest of the lab `raid`.

Every answer is set in the guest's kernel. A drive of scsi_debug completes each I/O after a set time. The control group's io.max
limits I/Os or bytes a second. A set part of a device-mapper drive is dm-flakey and always fails. dm-delay is not used, since
it counts in jiffies, 10 ms on user-mode Linux (CONFIG_HZ=100): 2 ms become 10 to 20 ms.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from dataclasses import dataclass
from itertools import accumulate

from dutlab import labs
from dutlab.ending import closing, ended_by
from dutlab.hosts.host import Host
from dutlab.hosts.local import THIS_MACHINE, LocalHost
from dutlab.hosts.programs import Program, insist, missing_on
from dutlab.labs.guest import GROUP
from dutlab.methods.known import Known
from dutlab.plan.cell import Cell
from dutlab.runner import stalling_drive
from dutlab.spec.workloads.fio import DEFAULTS, FioSetting
from dutlab.spec.workloads.pts_setting import STEADY, PtsSetting
from dutlab.spec.workloads.setting import Setting
from dutlab.tools.engine.engine import Engine
from dutlab.tools.fio import pts
from dutlab.tools.fio.drives import FoundDrive
from dutlab.tools.fio.program import FIO, FioResult, measure, run
from dutlab.tools.generator_tool import GeneratorSite

DMSETUP = Program("dmsetup", "dmsetup")
LAB, HOST, DRIVE = "raid", "server", "server:d1"
_DEVICE = "/dev/disk/by-id/d1"
DELAYS_NS, DELAY_WITHIN_NS = (2_000_000, 5_000_000, 20_000_000), 200_000
RATE_WITHIN = 0.02
_RATES = (
    ("riops", 400, "randread", "4k", "iops.read"),
    ("wiops", 200, "randwrite", "4k", "iops.write"),
    ("rbps", 8_000_000, "read", "64k", "bytes_per_s.read"),
    ("wbps", 4_000_000, "write", "64k", "bytes_per_s.write"),
)
"""Limit in io.max, its value, fio's `rw` and block size, and the figure that must equal the value."""
_GOOD, _BAD, _BLOCK = 24_576, 8_192, 4096
"""Sectors of the drive's good part and of the part that always fails, and bytes of a block."""
_FAST, _SLOW, _SLOWS_AFTER = 1200, 300, 25_000_000
"""Writes a second of the drive that slows down, before and after; bytes written after which it does."""
_ROUND_S = 2.0
_HELD = 0.05
"""Largest deviation of a round from the drive's rate, for the round of the window to be known."""
_IN_WINDOW = (1.05, 1.2)
"""Rate of the round with the change ÷ the rate after it: below the first, that round belongs to the window; above the second, not."""
_READY_S = 60.0
_SCSI = """
modprobe -d /run/modules scsi_debug dev_size_mb=16 ndelay="$1" || exit
for tries in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
  for disk in /sys/block/sd*; do [ ! -b "/dev/${disk##*/}" ] || { echo "/dev/${disk##*/}"; exit; }; done
  sleep 0.5
done
echo "scsi_debug makes no drive" >&2
exit 1
"""
_NO_SCSI = "modprobe -r -d /run/modules scsi_debug"
_FLAKEY = r"""
drive=$(readlink -f "$1")
printf '0 %s linear %s 0\n%s %s flakey %s %s 0 1\n' "$2" "$drive" "$2" "$3" "$drive" "$2" | dmsetup create dutlab-flakey --noudevsync &&
dmsetup info -c --noheadings -o blkdevname dutlab-flakey
"""
_NO_FLAKEY = "dmsetup remove --noudevsync dutlab-flakey"
_LIMIT = 'echo "$(cat /sys/class/block/$(basename "$(readlink -f "$1")")/dev) $2" >"$3/io.max"'
_NO_LIMIT = "riops=max wiops=max rbps=max wbps=max"
# Sectors written are the seventh number (Documentation/block/stat.rst).
_SLOWS = """
stat=/sys/class/block/$(basename "$(readlink -f "$1")")/stat
written() { read -r _ _ _ _ _ _ sectors _ <"$stat"; echo "$sectors"; }
end=$(($(written) + $4 / 512))
echo ready
while [ "$(written)" -lt "$end" ]; do sleep 0.05; done
"""


@dataclass(frozen=True)
class KnownDrive:
    """Known drive, and its measurement."""

    name: str
    measure: Callable[[GeneratorSite], Awaitable[list[Known]]]


async def verify(tell: Callable[[Known], None], standing: str | None = None, names: Collection[str] = ()) -> list[Known]:
    """Measure the drives in `names`, or all of them, in a new lab or in the lab labelled `standing`; call `tell` with each figure.

    Raises LabError, ToolsMissing, ToolMissing, ToolFailed, MeasurementError, HostError.
    """
    results = list[Known]()
    insist(await missing_on(LocalHost(THIS_MACHINE), (FIO, DMSETUP)))  # the guest's programs are this machine's
    async with labs.used(LAB, standing) as lab:
        hosts = lab.hosts()
        engine = Engine(hosts, lab.testbed, lab.cpus, "")
        async with closing(engine, *hosts.values()):
            for drive in (d for d in DRIVES if not names or d.name in names):
                for known in await drive.measure(GeneratorSite(hosts, lab.testbed, lab.cpus, engine)):
                    results.append(known)
                    tell(known)
    return results


async def _delays(site: GeneratorSite) -> list[Known]:
    host, results = site.hosts[HOST], list[Known]()
    for delay in DELAYS_NS:
        async with ended_by(lambda: host.run(["sh", "-c", _NO_SCSI], check=False)):
            path = (await host.run(["sh", "-c", _SCSI, "dutlab", str(delay)])).text.strip()
            job = await _job(site, path, 16 << 20, {"rw": "randread", "bs": "4k", "iodepth": "1"}, ramp_s=0.5, duration_s=3.0)
        name = "clat_p50_ns.read"
        device = f"answers {delay // 1_000_000} ms later"
        results.append(Known(device, "fio", name, delay, job.whole.figures.get(name), DELAY_WITHIN_NS))
    return results


async def _errors(site: GeneratorSite) -> list[Known]:
    """Read and write the whole drive once, in order. Each block of the bad part must count as an error, also in the doubt."""
    host, results = site.hosts[HOST], list[Known]()
    async with ended_by(lambda: host.run(["sh", "-c", _NO_FLAKEY], check=False)):
        reply = await host.run(["sh", "-c", _FLAKEY, "dutlab", _DEVICE, str(_GOOD), str(_BAD)])
        for way in ("read", "write"):
            options = {"rw": way, "bs": str(_BLOCK), "iodepth": "4", "continue_on_error": "all", "loops": "1"}
            job = await _job(site, f"/dev/{reply.text.strip()}", (_GOOD + _BAD) * 512, options, ramp_s=0.0, duration_s=60.0)
            errors = job.whole.errors if any(str(job.whole.errors) in doubt.detail for doubt in job.doubts) else 0
            results.append(Known("fails in its last quarter", "fio", f"{way}_errors", _BAD * 512 / _BLOCK, errors, 0))
    return results


async def _rates(site: GeneratorSite) -> list[Known]:
    results = list[Known]()
    for word, rate, way, block, figure in _RATES:
        async with _limited(site.hosts[HOST], f"{word}={rate}"):
            options = {**DEFAULTS, "rw": way, "bs": block, "iodepth": "4"}
            setting = FioSetting(options=options, writes="write" in way, ramp_s=1.0, duration_s=6.0)
            measured = await measure(site, _cell(setting))
        results.append(Known(f"io.max {word}={rate}", "fio", figure, rate, measured.figures[DRIVE].get(figure), RATE_WITHIN * rate))
    return results


async def _slows(site: GeneratorSite) -> list[Known]:
    """Measure a drive that slows down. The steady window must hold no round that ended before; the round of the change may be in it."""
    setting = PtsSetting(
        test="iops", purge="none", passes=0, depth=4, jobs=1, block_sizes=("4k",), reads_percent=(0,), most_rounds=15,
        duration_s=_ROUND_S, writes=True,
    )  # fmt: skip
    host, name = site.hosts[HOST], f"{_FAST} writes a second, {_SLOW} after {_SLOWS_AFTER / 1e6:g} MB"
    async with _limited(host, f"wiops={_FAST}"):
        words = ["sh", "-c", _SLOWS + _LIMIT, "dutlab", _DEVICE, f"wiops={_SLOW}", GROUP, str(_SLOWS_AFTER)]
        process = await host.spawn(words)
        try:
            await asyncio.wait_for(process.readline(), _READY_S)
            measured = await pts.measure(site, _cell(setting))
        finally:
            await process.end()
    (verdict,) = measured.tables["verdict"]
    ios = [job.ios for job in pts.again(setting, measured.raw).outputs.values()]
    before = sum(total * _BLOCK < _SLOWS_AFTER for total in accumulate(ios))
    first = verdict.get("first_round") if verdict["state"] == STEADY else None
    value, why = (None, "not steady in time") if first is None else (float(first), "")
    if before == len(ios):
        value, why = None, "this machine never wrote enough to make the drive slower"
    elif min(ios[:before], default=0) < 2 * _SLOW * _ROUND_S:
        value, why = None, "this machine was no faster before than the drive is after"
    inside = None if value is None else max(0.0, before + 1 - value)
    after = [total / _ROUND_S for total in ios[before + 1 :]]
    if value is not None and any(abs(iops - _SLOW) > _HELD * _SLOW for iops in after):
        value, why = None, "this machine did not keep up with the drive after"
    steady = measured.figures[DRIVE].get("steady/iops")
    right, within = _right_round(before, ios[before] / _ROUND_S if before < len(ios) else 0.0)
    return [
        Known(name, "pts", "rounds_before_it_was_slow_in_window", 0, inside, 0, why if inside is None else ""),
        Known(name, "pts", "first_round_of_window", right, value, within, why),
        Known(name, "pts", "steady/iops", _SLOW, steady, RATE_WITHIN * _SLOW),
    ]


def _right_round(before: int, changing_iops: float) -> tuple[int, int]:
    """Return the round with which the steady window must begin after `before` rounds of the fast drive, and how wrong it may be.

    One more round has the change. Where the first of five values is x times the others, the slope over the window is 0.8 (x - 1) ÷ (1 +
    (x - 1) ÷ 5) of the mean, which is 10 % at x = 1.13. Near it both the round with the change and the next one are right.
    """
    excess = changing_iops / _SLOW
    if excess < _IN_WINDOW[0]:
        return before + 1, 0
    return before + 2, 1 if excess <= _IN_WINDOW[1] else 0


async def _job(site: GeneratorSite, path: str, size: int, options: dict[str, str], *, ramp_s: float, duration_s: float) -> FioResult:
    setting = FioSetting(options={**DEFAULTS, **options}, writes=False, ramp_s=ramp_s, duration_s=duration_s)
    return await run(site, {HOST: {"known": FoundDrive(f"{HOST}:known", path, size)}}, setting)


@contextlib.asynccontextmanager
async def _limited(host: Host, words: str) -> AsyncIterator[None]:
    async def limit(to: str) -> None:
        await host.run(["sh", "-c", _LIMIT, "dutlab", _DEVICE, to, GROUP])

    async with ended_by(lambda: limit(_NO_LIMIT)):
        await limit(words)
        yield


def _cell(setting: Setting) -> Cell:
    return Cell(mode="as-found", factors={}, tool="fio", links=(DRIVE,), setting=setting, repeat=1)


DRIVES = (
    KnownDrive("delays", _delays), KnownDrive("errors", _errors), KnownDrive("rates", _rates), KnownDrive("slows", _slows),
    KnownDrive("stalls", lambda site: stalling_drive.measure(site, HOST, _DEVICE)),
)  # fmt: skip
