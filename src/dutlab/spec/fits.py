"""Whether an experiment fits its testbed: modes that the DUT has, links that exist, frames and rates that the links carry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from dutlab.spec.generators import ENGINE, Generator, GeneratorModel
from dutlab.spec.known import FAMILY_MODES, INSIDE_ONLY, LABS, ROLES, WITHOUT_A_WAY_IN
from dutlab.spec.model import FILE_CONTEXT, Loc, did_you_mean
from dutlab.spec.testbed import IPV6, Testbed
from dutlab.spec.workloads import LinkBounds, Workload, WorkloadModel
from dutlab.spec.workloads.frames import FrameWorkload
from dutlab.spec.workloads.reconf import RELOAD, ReconfWorkload
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.systems.system import IPSEC

MOST_TRIALS = 100_000

_KERNEL_TOOLS = frozenset({"iperf3", "ping"})
"""Programs that leave the way of a packet to the kernel of the host they run on."""
_GENERATOR: TypeAdapter[GeneratorModel | None] = TypeAdapter(Generator | None)
_WORKLOAD: TypeAdapter[WorkloadModel] = TypeAdapter(Workload)


@dataclass(frozen=True)
class Bed:
    """What of a testbed an experiment must fit."""

    title: str
    family: str
    wires: Mapping[str, LinkBounds]
    hosts: Collection[str] = ROLES
    generator: GeneratorModel = ENGINE
    """What drives frames where the experiment names nothing."""
    one_machine: bool = False
    """Source and sink are, so its kernel would hand packets over by itself."""

    @classmethod
    def of_lab(cls, name: str) -> Self | None:
        """An embedded lab's, or None if there is no such lab."""
        if name not in LABS:
            return None
        return cls(f"lab {name}", LABS[name].family, {link: LinkBounds(ipv6=LABS[name].ipv6) for link in LABS[name].links})

    @classmethod
    def of_testbed(cls, testbed: Testbed) -> Self:
        """A testbed file's."""
        wires = {name: LinkBounds(link.mtu, link.speed, ipv6=link.source_address.version == IPV6) for name, link in testbed.links.items()}
        reached = [name for name, host in testbed.hosts.items() if host.family not in WITHOUT_A_WAY_IN]
        source, sink = testbed.hosts["source"], testbed.hosts["sink"]
        one = (source.local and sink.local) or (source.ssh is not None and source.ssh == sink.ssh)
        return cls(f"testbed {testbed.name}", testbed.hosts["dut"].family, wires, reached, testbed.generator or ENGINE, one)


def incompatibilities(experiment: Mapping[str, Any], bed: Bed) -> Iterator[tuple[Loc, str]]:
    """Every reason why the experiment, as written, cannot run on `bed`; parts that are wrong by themselves are passed over."""
    modes = experiment.get("modes")
    factors = experiment.get("factors")
    yield from _mode_misfits(factors, modes if isinstance(modes, Mapping) else {}, bed)
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
    count = _levels(factors) * (repeats if isinstance(repeats, int) else 1) * sum(w.count(bed.wires) for w in whole.values())
    if count > MOST_TRIALS:
        yield ("workloads",), f"{count} trials in all; at most {MOST_TRIALS} can be planned"
        return
    yield from _duplicates(whole, bed)
    for i, workload in whole.items():
        yield from ((("workloads", i, workload.kind), what) for what in _out_of_reach(workload, factors, bed))
        for loc, what in workload.incompatibilities(bed.wires):
            yield ("workloads", i, workload.kind, *loc), what
        if isinstance(workload, FrameWorkload):
            for loc, what in workload.beyond(_generator(workload, experiment, bed), bed.wires):
                yield ("workloads", i, workload.kind, *loc), what
        yield from _unknown_names(workload, ("workloads", i, workload.kind), modes if isinstance(modes, Mapping) else {}, bed)
        if isinstance(workload, ReconfWorkload):
            yield from _unchangeable(workload, ("workloads", i, workload.kind), experiment, bed)


def _out_of_reach(workload: WorkloadModel, factors: object, bed: Bed) -> Iterator[str]:
    """What a workload needs of the DUT's family and of the modes, and does not have."""
    if bed.one_machine and workload.tool in _KERNEL_TOOLS:
        yield f"source and sink of {bed.title} are one machine, whose kernel hands such packets over itself; only generated frames leave"
    changed = workload.to if isinstance(workload, ReconfWorkload) else ()
    if isinstance(workload, ReconfWorkload) and bed.family in WITHOUT_A_WAY_IN:
        yield f"changes the mode within a trial, but no command reaches the DUT of {bed.title}"
    levels = factors.get("mode") if isinstance(factors, Mapping) else None
    modes = {str(mode) for mode in (*(levels if isinstance(levels, list) else ()), *changed)}
    closed = sorted(modes & set(INSIDE_ONLY) & set(FAMILY_MODES.get(bed.family, ())))
    if getattr(workload, "directions", "forward") == "both" and closed:
        yield (
            f"sends both ways at once, and mode {', '.join(closed)} admits no flow from outside: its rule would drop every frame from the "
            "sink; write directions: forward, or drive these modes in an experiment of their own"
        )
    if isinstance(workload, FrameWorkload) and (encrypting := sorted(modes & set(IPSEC))):
        yield f"its frames pass no kernel that encrypts them, so none would pass in mode {', '.join(encrypting)}"


def _generator(workload: FrameWorkload, experiment: Mapping[str, Any], bed: Bed) -> GeneratorModel:
    """What would drive the workload; one that is wrong by itself is passed over."""
    try:
        of_experiment = _GENERATOR.validate_python(experiment.get("generator"), context=FILE_CONTEXT)
    except ValidationError:
        of_experiment = None
    return workload.generator or of_experiment or bed.generator


def _mode_misfits(factors: object, own: Mapping[str, Any], bed: Bed) -> Iterator[tuple[Loc, str]]:
    builtin = FAMILY_MODES.get(bed.family, ())
    for name, mode in own.items():
        if bed.family in WITHOUT_A_WAY_IN and isinstance(mode, Mapping) and any(mode.values()):
            yield ("modes", name), f"has commands, but none reaches the DUT of {bed.title}, of family {bed.family}"
        if name in builtin:
            yield ("modes", name), f"family {bed.family} already has a mode {name}; give yours another name"
    levels = factors.get("mode") if isinstance(factors, Mapping) else None
    written = levels if isinstance(levels, list) else []
    yield from _unknown_modes([(("factors", "mode", i), level) for i, level in enumerate(written) if isinstance(level, str)], own, bed)


def _unknown_modes(named: Iterable[tuple[Loc, str]], own: Collection[str], bed: Bed, *also: str) -> Iterator[tuple[Loc, str]]:
    """A fault for each of `named`, by its place, that is neither a mode of the DUT's family nor one of the experiment's own."""
    known = [*FAMILY_MODES.get(bed.family, ()), *own, *also]
    for at, name in named:
        if name not in known:
            yield at, f"no mode {name!r} for the DUT of {bed.title}, of family {bed.family} {did_you_mean(name, known)}"


def _unknown_links(raw: object, at: Loc, bed: Bed) -> Iterator[tuple[Loc, str]]:
    if not isinstance(raw, Mapping):
        return
    for kind, body in raw.items():
        sets = body.get("links") if isinstance(body, Mapping) else None
        for i, links in enumerate(sets if isinstance(sets, list) else ()):
            for j, link in enumerate(links if isinstance(links, list) else ()):
                if isinstance(link, str) and link not in bed.wires:
                    yield (*at, kind, "links", i, j), f"{bed.title} has no link {link!r} {did_you_mean(link, bed.wires)}"


def _unknown_names(workload: WorkloadModel, at: Loc, own: Collection[str], bed: Bed) -> Iterator[tuple[Loc, str]]:
    """Hosts and modes that only this kind of workload names."""
    if isinstance(workload, StepsWorkload):
        yield from _unknown_hosts(workload, at, bed)
    if isinstance(workload, ReconfWorkload):
        yield from _unknown_modes([((*at, "to", i), to) for i, to in enumerate(workload.to)], own, bed, RELOAD)


def _unchangeable(workload: ReconfWorkload, at: Loc, experiment: Mapping[str, Any], bed: Bed) -> Iterator[tuple[Loc, str]]:
    """Modes that no command puts the DUT into: a change that does nothing would cost no frame."""
    if bed.family in WITHOUT_A_WAY_IN:
        yield at, f"no command changes the mode of the DUT of {bed.title}, of family {bed.family}"
        return
    own, factors = experiment.get("modes"), experiment.get("factors")
    levels = factors.get("mode") if isinstance(factors, Mapping) else None
    for name in dict.fromkeys([*workload.to, *(levels if isinstance(levels, list) else ())]):
        mode = own.get(name) if isinstance(own, Mapping) and isinstance(name, str) else None
        if isinstance(mode, Mapping) and not mode.get("apply"):
            yield (*at, "to"), f"mode {name} has no commands to `apply`: changing into it, or back to it, would do nothing"


def _unknown_hosts(workload: StepsWorkload, at: Loc, bed: Bed) -> Iterator[tuple[Loc, str]]:
    for phase, by_host in workload.phases.items():
        for host in by_host:
            if host not in bed.hosts:
                yield (*at, phase, host), f"{bed.title} has no host {host!r} {did_you_mean(host, bed.hosts)}"


def _levels(factors: object) -> int:
    count = 1
    for levels in factors.values() if isinstance(factors, Mapping) else ():
        count *= max(len(levels), 1) if isinstance(levels, list) else 1
    return count


def _duplicates(whole: Mapping[int, WorkloadModel], bed: Bed) -> Iterator[tuple[Loc, str]]:
    seen: dict[tuple[object, ...], int] = {}
    for i, workload in whole.items():
        for drive in workload.drives(bed.wires):
            key = (workload.kind, frozenset(drive.links), tuple(sorted(drive.setting.params.items())))
            if (first := seen.setdefault(key, i)) != i:
                yield ("workloads", i), f"asks for trials that workload {first + 1} asks for too; `repeats` repeats trials"
                break
