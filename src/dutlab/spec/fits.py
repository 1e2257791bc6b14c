"""Check that an experiment fits its testbed: the DUT has the modes, the links exist, and they can carry the frames and rates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from dutlab.spec.factors import combinations, with_least_mtu
from dutlab.spec.generators import Generator, GeneratorModel
from dutlab.spec.known import FAMILY_MODES, MDRAID, ROLES, RUN_ENGINE, STARTS_PROGRAMS, modes_of
from dutlab.spec.level_misfits import level_misfits
from dutlab.spec.model import FILE_CONTEXT, Loc, did_you_mean
from dutlab.spec.shape import TestbedShape
from dutlab.spec.translation import untranslatable, untranslatable_links
from dutlab.spec.wire_form import NAT64
from dutlab.spec.workloads import Need, Workload, WorkloadModel
from dutlab.spec.workloads.frames import FrameWorkload
from dutlab.spec.workloads.setting import identity_of
from dutlab.systems.modes import DeclaredMode

MOST_TRIALS = 100_000
_TUNNELS_FROM = ROLES[0]
"""Host at the other end of tunnels from the DUT, for every family (dut/ipsec.py, dut/linux_tunnels.py)."""

_GENERATOR: TypeAdapter[GeneratorModel | None] = TypeAdapter(Generator | None, config=ConfigDict(defer_build=True))
_WORKLOAD: TypeAdapter[WorkloadModel] = TypeAdapter(Workload)


def incompatibilities(experiment: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    """Yield (place, reason) for everything in the experiment that cannot run on `bed`. Parts that are wrong on any testbed are skipped."""
    modes = experiment.get("modes")
    factors = experiment.get("factors")
    own = modes if isinstance(modes, Mapping) else {}
    arrays = _arrays(factors, own, bed)
    yield from (*_mode_misfits(factors, own, bed), *_no_array(arrays, bed))
    yield from level_misfits(experiment, bed)
    yield from ((("factors", NAT64), what) for what in untranslatable_links(factors, bed))
    bed = replace(bed, bounds=with_least_mtu(bed.bounds, factors))
    workloads = experiment.get("workloads")
    whole: dict[int, WorkloadModel] = {}
    for i, raw in enumerate(workloads if isinstance(workloads, list) else ()):
        unknown = list(_unknown_links(raw, ("workloads", i), bed))
        yield from unknown
        try:
            workload = _WORKLOAD.validate_python(raw, context=FILE_CONTEXT)
        except ValidationError:
            continue
        if not unknown:
            whole[i] = workload
    repeats = experiment.get("repeats", 1)
    cells = combinations(factors, experiment.get("exclude"), MOST_TRIALS)
    count = cells * (repeats if isinstance(repeats, int) else 1) * sum(w.count(bed.bounds) for w in whole.values())
    if count > MOST_TRIALS:
        yield ("workloads",), f"{count} trials in all; at most {MOST_TRIALS} can be planned"
        return
    yield from _duplicates(whole, bed)
    for i, workload in whole.items():
        yield from ((("workloads", i, workload.kind, key), what) for key, what in _not_of_array(workload, list(arrays.values()), bed))
        unmet = list(_needs_unmet(workload, bed))
        yield from ((("workloads", i, workload.kind), what) for what in (*unmet, *_unmet_needs(workload, factors, bed)))
        for loc, what in workload.incompatibilities(bed.bounds):
            yield ("workloads", i, workload.kind, *loc), what
        generator = _generator(workload, experiment, bed) if isinstance(workload, FrameWorkload) else None
        yield from ((("workloads", i, workload.kind), what) for what in untranslatable(workload, generator, factors))
        if isinstance(workload, FrameWorkload) and generator is not None:
            for loc, what in (*workload.beyond(generator, bed.bounds), *_not_at_ends(workload, generator, bed)):
                yield ("workloads", i, workload.kind, *loc), what
        for loc, what in workload.unfit(experiment, bed):
            yield ("workloads", i, workload.kind, *loc), what


def _unmet_needs(workload: WorkloadModel, factors: object, bed: TestbedShape) -> Iterator[str]:
    """Yield unmet needs of a workload: of the testbed's machines, and of the modes."""
    for name in sorted({link for links in workload.link_sets(bed.bounds) for link in links} & bed.one_machine):
        if workload.needs & {Need.IPERF3, Need.PING}:
            ends = " and ".join(bed.bounds[name].ends)
            yield f"{ends} of {bed.title} are one machine, whose kernel delivers such packets locally; only generated frames leave"
    levels = factors.get("mode") if isinstance(factors, Mapping) else None
    to = getattr(workload, "to", ())
    into = to if isinstance(to, tuple) else ()
    named = {str(mode) for mode in (*(levels if isinstance(levels, list) else ()), *into)}
    modes = [mode for name, mode in FAMILY_MODES.get(bed.family, {}).items() if name in named]
    tunnels = {mode.name: mode.tunnel for mode in sorted(modes, key=lambda mode: mode.name) if mode.tunnel}
    closed = sorted(mode.name for mode in modes if not mode.behaviour.admits_unsolicited)
    if getattr(workload, "directions", "forward") == "both" and closed and not workload.answers_own_flows:
        yield (
            f"sends in both directions at once, and mode {', '.join(closed)} admits no flow from outside: its rule would drop every "
            "frame from the sink; write directions: forward, or drive these modes in a separate experiment"
        )
    if workload.own_frames and (encrypting := [name for name, of in tunnels.items() if of.drops_clear]):
        yield f"its frames pass no kernel that encrypts them, so none would pass in mode {', '.join(encrypting)}"
    if workload.own_frames and (wrapping := [name for name, of in tunnels.items() if of.between == "networks" and not of.drops_clear]):
        yield f"its frames pass no kernel that wraps them, so they would go past the tunnel in mode {', '.join(wrapping)}"
    if (
        workload.goes_to_sink
        and getattr(workload, "server", None) is None
        and (host_to_host := [name for name, of in tunnels.items() if of.between == "hosts"])
    ):
        beyond = f"goes on to the sink, which is beyond the tunnel of mode {', '.join(host_to_host)}"
        yield f"{beyond}: it is between source and DUT; use steps, or iperf3 with server: dut"


def _arrays(factors: object, own: Mapping[str, Any], bed: TestbedShape) -> dict[int, DeclaredMode]:
    """Return index → mode for the modes that make one array of all drives: the family's, and the user's that name the array's device."""
    levels = factors.get("mode") if isinstance(factors, Mapping) and bed.family == MDRAID else None
    known = modes_of(bed.family, {name: str(mode.get("array") or "") for name, mode in own.items() if isinstance(mode, Mapping)})
    written = enumerate(levels if isinstance(levels, list) else ())
    return {i: known[mode] for i, mode in written if isinstance(mode, str) and mode in known and known[mode].array}


def _not_of_array(workload: WorkloadModel, arrays: Sequence[DeclaredMode], bed: TestbedShape) -> Iterator[tuple[str, str]]:
    """Yield (key, fault) for sets of drives that are not the whole array, and for a purge of its drives."""
    sets, mode = getattr(workload, "drives_", ()), arrays[0].name if arrays else ""
    if mode and any(entry in ("each", "halves") or (entry != "together" and len(entry) < len(bed.bounds.drives)) for entry in sets):
        yield "drives", f"mode {mode} makes one array of all drives: write [together]"
    if mode and getattr(workload, "purge", "none") != "none":
        yield "purge", f"erases drives, and mode {mode} makes an array of them: leave it out, or purge in an experiment of as-found"


def _needs_unmet(workload: WorkloadModel, bed: TestbedShape) -> Iterator[str]:
    """Yield unmet needs of a workload: of its links and their hosts."""
    if workload.needs & {Need.COMMANDS, Need.DRIVES}:
        return
    driven = list(dict.fromkeys(link for links in workload.link_sets(bed.bounds) for link in links))
    if not driven:
        yield f"drives links, and {bed.title} has none: write one, or use steps"
    for name in driven:
        bound = bed.bounds[name]
        if bound.is_segment and not workload.on_segments:
            yield f"goes from one end of a path to the other, but link {name} is a segment: use matrix or path-mtu, or write a path"
        elif closed := [host for host in bound.ends if host not in bed.hosts]:
            yield f"needs commands at both ends of link {name}, and no command reaches {', '.join(closed)}"
        elif Need.FRAMES in workload.needs:
            foreign = [f"{host} is {bed.hosts[host]}" for host in bound.ends if bed.hosts[host] not in RUN_ENGINE]
            if foreign:
                yield f"frames need Linux at both ends of link {name}; {', '.join(foreign)}: use iperf3"
            elif Need.TRANSIT in workload.needs and not bound.through_dut:
                yield f"is about what the DUT does to frames, and link {name} goes through none"


def _not_at_ends(workload: FrameWorkload, generator: GeneratorModel, bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    """Yield (place, reason) where the workload's generators cannot work at the ends of the links."""
    paths = [name for name, bound in bed.bounds.items() if not bound.is_segment]
    for model in workload.sent_by(generator):
        if model.needs_one_machine and len(bed.testers(paths)) > 1:
            ends = ", ".join(dict.fromkeys(end for name in paths for end in bed.bounds[name].ends))
            what = f"{model.kind} is one process with both ends of every path, and {ends} of {bed.title} are several machines"
            yield (), f"{what}; write a testbed where they are one, or use lab two-port"
        ports = {port: why for port in bed.end_ports(workload.driven(bed.bounds)) if (why := model.port_fault(port.interface))}
        if ports:
            yield (), f"{model.kind} cannot take {', '.join(map(str, ports))}: {next(iter(ports.values()))}"


def _generator(workload: FrameWorkload, experiment: Mapping[str, Any], bed: TestbedShape) -> GeneratorModel:
    """Return the generator of the workload: its own, else that of the experiment if it is valid, else that of the testbed."""
    try:
        of_experiment = _GENERATOR.validate_python(experiment.get("generator"), context=FILE_CONTEXT)
    except ValidationError:
        of_experiment = None
    return workload.generator or of_experiment or bed.generator


def _mode_misfits(factors: object, own: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    builtin = FAMILY_MODES.get(bed.family, ())
    for name, mode in own.items():
        if not bed.has_dut and isinstance(mode, Mapping) and any(mode.values()):
            yield ("modes", name), f"has commands, but none reaches the DUT of {bed.title}, of family {bed.family}"
        if bed.family != MDRAID and isinstance(mode, Mapping) and mode.get("array"):
            yield (
                ("modes", name, "array"),
                f"{bed.title} has links, or no one host with drives: an array is measured where there are drives alone",
            )
        if bed.has_dut and isinstance(mode, Mapping) and mode.get("start") and bed.family not in STARTS_PROGRAMS:
            yield ("modes", name, "start"), f"dutlab starts programs on Linux, and the DUT of {bed.title} is {bed.family}"
        if name in builtin:
            yield ("modes", name), f"family {bed.family} already has a mode {name}; give yours another name"
    levels = factors.get("mode") if isinstance(factors, Mapping) else None
    written = levels if isinstance(levels, list) else []
    ends_there = bed.hosts.get(_TUNNELS_FROM) in RUN_ENGINE
    for i, level in enumerate(written):
        if isinstance(level, str) and level in builtin and FAMILY_MODES[bed.family][level].tunnel and not ends_there:
            state = f"is {bed.hosts[_TUNNELS_FROM]}" if _TUNNELS_FROM in bed.hosts else "does not exist, or has no login"
            what = f"the tunnels of mode {level} begin on a Linux host called {_TUNNELS_FROM}, which in {bed.title} {state}"
            yield ("factors", "mode", i), what
    yield from bed.unknown_modes([(("factors", "mode", i), level) for i, level in enumerate(written) if isinstance(level, str)], own)


def _no_array(modes: Mapping[int, DeclaredMode], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    """Yield (place, fault) for modes that cannot make an array of these drives, and for drives that must not be in one."""
    drives = bed.bounds.drives
    protected = [name for name, drive in drives.items() if not drive.destroy]
    for i, mode in modes.items():
        if mode.array and (what := mode.array.misfit(len(drives))):
            yield ("factors", "mode", i), f"mode {mode.name} {what}"
        if protected:
            yield ("factors", "mode", i), f"mode {mode.name} writes to {protected[0]}, and the testbed lacks `destroy: yes` there"
        if files := [name for name, drive in drives.items() if drive.file is not None]:
            yield ("factors", "mode", i), f"mode {mode.name} is made of drives, and {files[0]} is a file"


def _unknown_links(raw: object, at: Loc, bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    if not isinstance(raw, Mapping):
        return
    for kind, body in raw.items():
        sets = body.get("links") if isinstance(body, Mapping) else None
        for i, links in enumerate(sets if isinstance(sets, list) else ()):
            for j, link in enumerate(links if isinstance(links, list) else ()):
                if isinstance(link, str) and link not in bed.bounds:
                    yield (*at, kind, "links", i, j), f"{bed.title} has no link {link!r} {did_you_mean(link, bed.bounds)}"


def _duplicates(whole: Mapping[int, WorkloadModel], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    first_by_key: dict[tuple[object, ...], int] = {}
    for i, workload in whole.items():
        for drive in workload.drives(bed.bounds):
            key = (workload.kind, frozenset(drive.links), identity_of(drive.setting.params))
            if (first := first_by_key.setdefault(key, i)) != i:
                yield ("workloads", i), f"asks for trials that workload {first + 1} asks for too; `repeats` repeats trials"
                break
