"""Workload `exact`: a guest for each trial, and the cost of its passes.

pktgen reports how long a pass took by the guest's clock, which advances by one nanosecond per instruction. The router's own share is the
difference between a pass through it and the same frames over the rig: same generator, same sink, no router in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import hypot
from pathlib import Path

from dutlab.dut.linux_exact import in_words
from dutlab.dut.linux_exact_words import GuestWords
from dutlab.errors import ToolFailed
from dutlab.hosts.host import Host, OnThisMachine
from dutlab.hosts.kernels import MODULES, newest_kernel, release_of
from dutlab.hosts.programs import Program, insist, missing_on
from dutlab.methods.ports import Measured, Row
from dutlab.plan.cell import Cell
from dutlab.spec.workloads.exact import ExactSetting
from dutlab.stats.functions import FUNCTIONS, REST, WITH, WITHOUT, FunctionCost
from dutlab.tools.exact.guest import (
    MARK,
    PROGRAMS,
    PROOF_FRAMES,
    TRACED,
    TRACED_RIG,
    Pass,
    guest_image,
    insist_on_modules,
    layer3_bytes,
    passes_of,
    trial_script,
)
from dutlab.tools.exact.machine import APPEND, MEMORY_MB, QEMU, GuestEnd, GuestFailed, Machine, ended, run_script, saved, tried, version_of
from dutlab.tools.exact.traced import Count, PassProfile, Tracer, tracer, weighed, without_symbols
from dutlab.tools.generator_tool import GeneratorSite
from dutlab.tools.raw_figures import CannotRecompute, KeptTrial, Recomputed
from dutlab.user_cache import user_cache

_NS_OF_US = 1000
_PASS = re.compile(rf"^{MARK} pass (\S+) \S+ \d+ \d+ \d+ \d+ .*?OK: (\d+)\(.*?\) usec, (\d+) .*errors: (\d+)", re.MULTILINE)
_COUNTED = re.compile(rf"^{MARK} counted .*counter ours {{\s*packets (\d+) bytes (\d+).*counter foreign {{\s*packets (\d+)", re.MULTILINE)
_DISTINCT = re.compile(rf"^{MARK} distinct (\d+)", re.MULTILINE)
_TRACKED = re.compile(rf"^{MARK} tracked (\d+)", re.MULTILINE)
_HAS = re.compile(rf"^{MARK} (has|ciphers) (.*\S)", re.MULTILINE)


@dataclass(frozen=True)
class PassResult:
    """Counts of pktgen and the sink in a pass."""

    instructions: int
    sent: int
    errors: int
    came: int
    layer3_bytes: int
    foreign: int


def parse_console(text: str) -> tuple[list[PassResult], int, int]:
    """Return all passes in order, the number of different frames in the proof, and the number of tracked flows. Raises ValueError."""
    passes, counted = _PASS.findall(text), _COUNTED.findall(text)
    distinct, tracked = _DISTINCT.search(text), _TRACKED.search(text)
    if not passes or len(passes) != len(counted) or distinct is None or tracked is None:
        raise ValueError("the console lacks the output of a trial")
    results = [
        PassResult(int(us) * _NS_OF_US, int(sent), int(errors), int(came), int(length), int(foreign))
        for (_, us, sent, errors), (came, length, foreign) in zip(passes, counted, strict=True)
    ]
    return results, int(distinct[1]), int(tracked[1])


def void_because(planned: Sequence[Pass], results: Sequence[PassResult], distinct: int) -> str:
    """Return why the frames of a trial do not count; empty if each arrived once and no other frame did."""
    proof, *rest = results
    lost, twice = proof.sent - distinct, proof.came - distinct
    if proof.sent != PROOF_FRAMES or lost or twice or proof.foreign:
        return f"of {proof.sent} probe frames {lost} were lost, {twice} arrived twice, and {proof.foreign} are foreign"
    for p, of in zip(planned, rest, strict=True):
        if of.sent != p.frames or of.errors:
            return f"pktgen sent {of.sent} of {p.frames} frames of {p.size} bytes ({of.errors} errors)"
        if (of.came, of.foreign) != (p.frames, 0):
            return f"of {p.frames} frames of {p.size} bytes ({p.name}) {of.came} arrived, and {of.foreign} foreign ones"
        if of.layer3_bytes != layer3_bytes(p):
            return f"frames of {p.size} bytes ({p.name}) arrived with another length: {of.layer3_bytes} bytes, not {layer3_bytes(p)}"
    return ""


def figures_of(planned: Sequence[Pass], results: Sequence[PassResult]) -> tuple[dict[str, float], list[Row]]:
    """Return instructions per frame (for a mix, by the shares of its sizes), and a row per pass."""
    by_name = dict[str, list[tuple[Pass, PassResult]]]()
    for p, of in zip(planned, results[1:], strict=True):
        by_name.setdefault(p.name, []).append((p, of))

    def each(name: str) -> float:
        return sum(of.instructions for _, of in by_name[name]) / sum(p.frames for p, _ in by_name[name])

    figures = {
        "exact_instructions_per_frame": each("router") - each("rig"),
        "exact_rig_instructions_per_frame": each("rig"),
        "exact_whole_instructions_per_frame": each("router"),
    }
    if "first" in by_name:
        figures["exact_first_instructions_per_frame"] = each("first") - each("first-rig")
    rows: list[Row] = [
        {"pass": p.name, "size_bytes": p.size, "sent_frames": of.sent, "received_frames": of.came, "instructions": of.instructions}
        for p, of in zip(planned, results[1:], strict=True)
    ]
    return figures, rows


def profiles_of(planned: Sequence[Pass], profiles: Sequence[PassProfile]) -> dict[str, PassProfile]:
    """Return the profiles with and without the router; sizes of a mix count by their shares."""
    frames = {p.size: p.frames for p in planned if p.name == "router"}
    traced = list(zip([p for p in planned if p.is_traced], profiles, strict=True))
    return {
        name: weighed([(frames[p.size], of) for p, of in traced if p.name == kind])
        for name, kind in ((WITH, TRACED), (WITHOUT, TRACED_RIG))
    }


def function_costs(profiles: Mapping[str, PassProfile], figures: Mapping[str, float]) -> list[FunctionCost]:
    """Return the cost of each function, the largest first, and the rest, so that all add up to the figures."""
    whole, rig, none = profiles[WITH].functions, profiles[WITHOUT].functions, Count(0.0)
    costs = list[FunctionCost]()
    for name in whole.keys() | rig.keys():
        a, b = whole.get(name, none), rig.get(name, none)
        costs.append(FunctionCost(name, a.mean - b.mean, hypot(a.error, b.error), a.mean, b.mean))
    costs.sort(key=lambda of: (-of.own, of.name))
    all_of_it, of_rig = (figures[f"exact_{word}_instructions_per_frame"] for word in ("whole", "rig"))
    rest, rest_of_rig = all_of_it - sum(of.whole for of in costs), of_rig - sum(of.rig for of in costs)
    return [*costs, FunctionCost(REST, rest - rest_of_rig, 0.0, rest, rest_of_rig)]


def folded(profile: PassProfile) -> bytes:
    """Return a line per stack, with thousandths of an instruction per frame."""
    lines = [f"{';'.join(stack)} {round(count * 1000)}" for stack, count in sorted(profile.stacks.items())]
    return "\n".join([f"# thousandths of an instruction a frame, the mean of {profile.frames} frames", *lines, ""]).encode()


async def check(site: GeneratorSite, cells: Sequence[Cell]) -> str:
    """Return QEMU's version. Raises ToolMissing if a program is missing, LabError if the kernel lacks a part, HostError."""
    host = _host(site)
    words = [_words(site, mode) for mode in dict.fromkeys(cell.mode for cell in cells)]
    insist(await missing_on(host, [QEMU, *PROGRAMS, *(program for of in words for program in of.programs)]))
    version, modules = await version_of(host), {name: option for of in words for name, option in of.modules.items()}
    for setting in dict.fromkeys(cell.setting_as(ExactSetting) for cell in cells):
        for of in words:
            await _machine(setting, replace(of, modules=modules), version)
    return version


async def _traced(host: Host, machine: Machine, script: bytes) -> tuple[str, Tracer]:
    """Return the guest's console and the log of its functions. Each run of a guest has a new log."""
    folder = user_cache() / "exact"
    try:
        state = await saved(host, machine, folder)
    except OSError as error:
        why = f"the booted guest cannot be kept in {folder}: {error.strerror}"
        raise ToolFailed(why, tool=QEMU.name, host=host.name, remedy="make room there, or set XDG_CACHE_HOME") from error
    async with tracer(state.parent) as log:
        return without_symbols(await run_script(host, machine, state, script, log.paused)), log


async def measure(site: GeneratorSite, cell: Cell) -> Measured:
    """Run one trial. Raises ToolFailed, LabError, HostError."""
    setting, host = cell.setting_as(ExactSetting), _host(site)
    words = _words(site, cell.mode, cell.setting_as(ExactSetting).tunnels)
    planned = passes_of(setting)
    script = trial_script(setting, words, planned)
    version = await version_of(host)
    machine = await _machine(setting, words, version)
    console, log = await tried(partial(_traced, host, machine, script))
    raw = {"console.txt": console.encode(), "script.sh": script}
    try:
        results, distinct, tracked = parse_console(console)
    except ValueError:
        raise ended(host, console) from None
    if why := void_because(planned, results, distinct):
        raise GuestFailed(GuestEnd.VOID, why, host=host.name, raw=raw)
    figures, rows = figures_of(planned, results)
    tables = {"passes": rows}
    if log.profiles and not log.why:
        profiles = profiles_of(planned, log.profiles)
        tables[FUNCTIONS] = [of.row for of in function_costs(profiles, figures)]
        raw |= {f"instructions-{name}.folded": folded(of) for name, of in profiles.items()}
    return Measured(
        {cell.link_label: figures},
        raw=raw,
        facts={
            **await asyncio.to_thread(_facts, machine, setting),
            "tracked_flows": str(tracked),
            **_had(console),
            **({"no_profile": log.why} if log.why else {}),
        },
        tables=tables,
    )


def _words(site: GeneratorSite, mode: str, tunnels: int = 1) -> GuestWords:
    own = site.modes.get(mode)
    return in_words(mode, None if own is None else (*own.apply, *own.verify), tunnels)


def _host(site: GeneratorSite) -> Host:
    host = site.hosts[site.testbed.dut or ""]
    if not isinstance(host, OnThisMachine):
        raise ToolFailed("guests are made on the machine that dutlab runs on", tool=QEMU.name, host=host.name, remedy="write local: true")
    return host


async def _machine(setting: ExactSetting, words: GuestWords, version: str) -> Machine:
    kernel = newest_kernel() if setting.kernel is None else Path(setting.kernel)
    release = release_of(kernel)
    modules = MODULES / release if setting.modules is None else Path(setting.modules)
    image = await asyncio.to_thread(_image, modules, release, words)
    return Machine(kernel, image, setting.cpu, version)


_IMAGES: dict[tuple[Path, str, tuple[Program, ...]], bytes] = {}


def _image(modules: Path, release: str, words: GuestWords) -> bytes:
    """Return the guest's image, made once per process: it changes only when something is installed. Raises LabError."""
    insist_on_modules(modules, release, words.modules)
    key = (modules, release, words.programs)
    if (image := _IMAGES.get(key)) is None:
        image = _IMAGES[key] = guest_image(modules, release, more=words.programs)
    return image


def _facts(machine: Machine, setting: ExactSetting) -> dict[str, str]:
    """Return all facts on which a figure depends."""
    release = release_of(machine.kernel)
    config = machine.kernel.with_name(f"config-{release}")
    return {
        "qemu": machine.qemu,
        "kernel": release,
        "kernel_sha256": _sha256(machine.kernel.read_bytes()),
        "kernel_config_sha256": _sha256(config.read_bytes()) if config.exists() else "no config next to the kernel",
        "kernel_command_line": APPEND,
        "initrd_sha256": _sha256(machine.image),
        "processor": setting.cpu,
        "memory_mb": str(MEMORY_MB),
        "machine_sha256": machine.digest,
    }


def _had(console: str) -> dict[str, str]:
    """Return the recorded instructions of the processor, and the ciphers that the mode uses."""
    names = {"has": "processor_instructions", "ciphers": "ciphers"}
    return {names[what]: listed for what, listed in _HAS.findall(console)}


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def again(kept: KeptTrial) -> Recomputed:
    """Recompute the figures from the guest's console. Raises CannotRecompute."""
    planned = passes_of(kept.cell.setting_as(ExactSetting))
    try:
        results, distinct, _ = parse_console(kept.raw["console.txt"].decode())
    except (KeyError, ValueError) as error:
        raise CannotRecompute(f"the guest's console: {error}") from error
    if why := void_because(planned, results, distinct):
        raise CannotRecompute(why)
    return {kept.cell.link_label: figures_of(planned, results)[0]}
