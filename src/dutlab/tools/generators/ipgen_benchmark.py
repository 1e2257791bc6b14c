"""Output of `ipgen -X`: its own benchmark, in which a process makes frames and sends none.

The format is that of gen.c of iij/ipgen (gentest_main, commit b124ae8; the same in 1.29, commit 050e621, and 1.31, which was run). X writes
addresses, ports and length into a packet, XX also copies it, XXX also computes its checksum. The process waits for the next whole second,
prints once

    Packet generation benchmark. pktsize=46 with MEMCPY with CKSUM test start

(without MEMCPY for -X, without CKSUM for -XX), and then each second

    9 pkt generated. totally 25 packet generated in 3 second. average: 8 pps, pktsize 46, 0.00Mbps

`-t SECONDS` ends it, at times just before the last line (seen with 1.31), so dutlab asks for a second more than it reads. Versions without
that option run until they are killed. `pktsize` is of layer 3, 18 bytes less than the frame with FCS. Its Mbps follow from the other
numbers (layer 1 with --l1-bps, else layer 2) and are not read. A process is one stream. Several streams are several processes at once. If
these wrote into one file, their lines are mixed; the totals show which process a line belongs to.
"""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from dutlab.bounds import OUTPUT_BYTES
from dutlab.errors import ToolFailed, ToolMissing
from dutlab.hosts.host import NO_SUCH_PROGRAM, Host
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.generators.ipgen import L2_BYTES, FrameWork, IpgenModel
from dutlab.spec.workloads.generation import GenerationSetting
from dutlab.tools.generator_tool import GeneratorSite

TOOL = "ipgen"
INSTALL = "build it from github.com/iij/ipgen"
_ENDS_S = 30.0
_VERSION = re.compile(r"ipgen v(\S+)")
_BEGIN = re.compile(r"Packet generation benchmark\. pktsize=(\d{1,9})( with MEMCPY)?( with CKSUM test)? start")
_SECOND = re.compile(
    r"(?<!\d)(\d{1,18}) pkt generated\. totally (\d{1,18}) packet generated in (\d{1,9}) second\. average: \d+ pps, pktsize (\d{1,9}),"
)


@dataclass
class BenchmarkProcess:
    """One process of the benchmark, and the frames that it made."""

    frame_bytes: int
    """Frame size, FCS included."""
    work: FrameWork
    lines: list[int]
    """Line numbers, from 1: its first line, then one per second."""
    made: list[int] = field(default_factory=list)
    """Frames of each second."""

    @property
    def pps(self) -> float:
        """Mean rate over its whole time."""
        return sum(self.made) / len(self.made)


def parse_benchmark(text: str) -> tuple[list[list[BenchmarkProcess]], list[str]]:
    """Return groups of processes that ran at once with one size and work (mixed lines), in file order; and the faults."""
    begun, faults = list[BenchmarkProcess](), list[str]()
    waiting: dict[tuple[int, int, int], list[BenchmarkProcess]] = defaultdict(list)  # by size, frames so far and seconds
    for number, line in enumerate(text.splitlines(), 1):
        if match := _BEGIN.search(line):
            work = FrameWork.CHECKSUMS if match[3] else FrameWork.COPIES if match[2] else FrameWork.FRAMES
            begun.append(BenchmarkProcess(int(match[1]) + L2_BYTES, work, [number]))
            waiting[begun[-1].frame_bytes, 0, 0].append(begun[-1])
        elif match := _SECOND.search(line):
            now, total, second, packet = map(int, match.groups())
            if not (of_it := waiting[packet + L2_BYTES, total - now, second - 1]):
                faults.append(f"line {number} continues no benchmark that began above it")
            else:
                own = of_it.pop(0)
                own.made.append(now)
                own.lines.append(number)
                waiting[own.frame_bytes, total, second].append(own)
        elif "pkt generated" in line or "generation benchmark" in line:
            faults.append(f"line {number} is like one of the benchmark and cannot be read")
    faults += [f"line {p.lines[0]} begins a benchmark that printed no second" for p in begun if not p.made]
    return list(_at_once([p for p in begun if p.made])), faults


def _at_once(processes: Sequence[BenchmarkProcess]) -> Iterator[list[BenchmarkProcess]]:
    """Yield groups of processes that ran at the same time, with one size and work in each group."""
    batches = list[list[BenchmarkProcess]]()
    for process in processes:
        if batches and process.lines[0] < max(p.lines[-1] for p in batches[-1]):
            batches[-1].append(process)
        else:
            batches.append([process])
    for batch in batches:
        kinds = dict.fromkeys((p.frame_bytes, p.work) for p in batch)
        yield from ([p for p in batch if (p.frame_bytes, p.work) == kind] for kind in kinds)


def made_by(processes: Sequence[BenchmarkProcess]) -> tuple[dict[str, float], list[Row]]:
    """Return the figures of processes that ran at once, and a row for each."""
    rows: list[Row] = [
        {"process": n, "made_pps": p.pps, "least_pps": min(p.made), "most_pps": max(p.made), "seconds": len(p.made)}
        for n, p in enumerate(processes, 1)
    ]
    return {"made_pps": sum(p.pps for p in processes)}, rows


async def version_of(host: Host, program: str) -> str:
    """Return the version that it prints; it has no option to print only that. Raises ToolMissing, HostError."""
    done = await host.run([program, "-v", "-X", "-t", "1"], check=False)
    if done.status == NO_SUCH_PROGRAM:
        raise ToolMissing("ipgen is not installed", tool=TOOL, host=host.name, remedy=INSTALL)
    match = _VERSION.search(done.text)
    return match[1] if match else "not stated"


@dataclass(frozen=True)
class BenchmarkRun:
    """Options of each process of a benchmark."""

    program: str
    work: FrameWork
    frame_bytes: int
    """Frame size, FCS included."""
    seconds: int

    @property
    def argv(self) -> list[str]:
        """Command of a process."""
        return [self.program, f"-{self.work.letters}", "-s", str(self.frame_bytes - L2_BYTES), "-t", str(self.seconds + 1)]


async def run_benchmark(host: Host, run: BenchmarkRun, cores: Sequence[int | None]) -> tuple[list[BenchmarkProcess], dict[str, bytes]]:
    """Run a process on each of `cores` at once (None: not pinned); return them and their outputs. Raises ToolFailed, HostError."""
    pinned = [[*(host.system.pinned([core]) if core is not None else ()), *run.argv] for core in cores]
    done = await asyncio.gather(
        *(host.run(words, check=False, timeout_s=run.seconds + _ENDS_S, most_bytes=OUTPUT_BYTES) for words in pinned)
    )
    raw = {f"ipgen-{n}.txt": d.stdout + d.stderr for n, d in enumerate(done, 1)}
    batch_lists = [parse_benchmark(d.text)[0] for d in done]
    for d, batches in zip(done, batch_lists, strict=True):
        if len(batches) != 1:
            raise ToolFailed(f"its benchmark ended with {d.status} and no figure: {d.reason}", tool=TOOL, host=host.name, raw=raw)
    return [replace(batches[0][0], made=batches[0][0].made[: run.seconds]) for batches in batch_lists], raw


async def check(site: GeneratorSite, cells: Sequence[Cell]) -> str:
    """Return its version; of each host if they differ. Raises ToolMissing, ToolFailed if a host has too few cores, HostError."""
    version_by_host = dict[str, str]()
    for cell in cells:
        setting, host, model = cell.setting_as(GenerationSetting), _host(site, cell), _model(cell)
        cores = site.cores(model, host)
        if cores and setting.streams > len(cores):
            what = f"{setting.streams} streams need as many cores, and {host} gives {len(cores)} ({', '.join(map(str, cores))})"
            raise ToolFailed(what, tool=TOOL, host=host)
        if host not in version_by_host:
            version_by_host[host] = await version_of(site.hosts[host], model.program)
    same = set(version_by_host.values())
    return same.pop() if len(same) == 1 else ", ".join(f"{host}: {version}" for host, version in version_by_host.items())


async def generation(site: GeneratorSite, cell: Cell) -> Measured:
    """Run workload `generation`: one process per stream, at once, on the host at the link's source. Raises ToolFailed, HostError."""
    setting, host, model = cell.setting_as(GenerationSetting), _host(site, cell), _model(cell)
    cores = site.cores(model, host)[: setting.streams] or (None,) * setting.streams
    ((size, _),) = setting.frame_size.parts  # spec.workloads.generation allows one size only
    run = BenchmarkRun(model.program, setting.work, size, setting.duration_s)
    processes, raw = await run_benchmark(site.hosts[host], run, cores)
    figures, rows = made_by(processes)
    where = "not pinned" if cores[0] is None else f"on cores {', '.join(map(str, cores))}"
    return Measured(
        {cell.links[0]: figures}, raw=raw, facts={"processes": f"{setting.streams} of {host}, {where}"}, tables={"processes": rows}
    )


def _host(site: GeneratorSite, cell: Cell) -> str:
    return site.testbed.links[cell.links[0]].source.host


def _model(cell: Cell) -> IpgenModel:
    model = cell.setting_as(GenerationSetting).generator or IpgenModel()
    assert isinstance(model, IpgenModel)  # noqa: S101 -- no experiment has another here
    return model
