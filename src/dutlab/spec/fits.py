"""Whether an experiment fits its testbed: modes that the DUT has, links that exist, frames and rates that the links carry."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from pydantic import TypeAdapter, ValidationError

from dutlab.spec.drives import DriveSpec
from dutlab.spec.generators import ENGINE, Generator, GeneratorModel
from dutlab.spec.known import BLACK_BOX, FAMILY_MODES, INSIDE_ONLY, LABS, RUN_ENGINE, WITHOUT_A_WAY_IN
from dutlab.spec.model import FILE_CONTEXT, Loc, did_you_mean
from dutlab.spec.testbed import DUT, IPV6, HostSpec, Testbed
from dutlab.spec.workloads import LinkBounds, Need, TestbedBounds, Workload, WorkloadModel
from dutlab.spec.workloads.frames import FrameWorkload
from dutlab.spec.workloads.reconf import RELOAD, ReconfWorkload
from dutlab.spec.workloads.steps import StepsWorkload
from dutlab.systems.system import IPSEC

MOST_TRIALS = 100_000

_GENERATOR: TypeAdapter[GeneratorModel | None] = TypeAdapter(Generator | None)
_WORKLOAD: TypeAdapter[WorkloadModel] = TypeAdapter(Workload)


@dataclass(frozen=True)
class TestbedShape:
    """What of a testbed an experiment must fit."""

    title: str
    family: str
    """Of the DUT; that of a black box where there is none."""
    bounds: TestbedBounds
    hosts: Mapping[str, str]
    """Name → family of each host that can be given commands."""
    generator: GeneratorModel = ENGINE
    """What drives frames where the experiment names nothing."""
    one_machine: frozenset[str] = frozenset()
    """Links of which two ends are one machine, so its kernel would hand packets over by itself."""
    has_dut: bool = True

    @classmethod
    def of_lab(cls, name: str) -> Self | None:
        """An embedded lab's, or None if there is no such lab."""
        if name not in LABS:
            return None
        lab = LABS[name]
        links = {
            link: LinkBounds(
                ipv6=lab.ipv6,
                ends=hosts if link in lab.segments else (hosts[0], hosts[-1]),
                hosts=hosts,
                is_segment=link in lab.segments,
                through_dut=DUT in hosts[1:-1],
            )
            for link, hosts in lab.links.items()
        }
        drives = {f"{host}:{d}": DriveSpec(name=d, by_id=d, destroy=True) for host, of in lab.drives.items() for d in of}
        family = lab.family if any(bound.through_dut for bound in links.values()) else BLACK_BOX
        return cls(f"lab {name}", family, TestbedBounds(links, drives), dict.fromkeys(lab.hosts, "linux"), has_dut=DUT in lab.hosts)

    @classmethod
    def of_testbed(cls, testbed: Testbed) -> Self:
        """A testbed file's."""
        bounds = bounds_of(testbed)
        reached = {name: host.family for name, host in testbed.hosts.items() if host.family not in WITHOUT_A_WAY_IN}
        family = testbed.dut_family if any(bound.through_dut for bound in bounds.values()) else BLACK_BOX
        one = frozenset(name for name, link in testbed.links.items() if _share_a_machine([testbed.hosts[end] for end in link.ends]))
        return cls(f"testbed {testbed.name}", family, bounds, reached, testbed.generator or ENGINE, one, has_dut=testbed.dut in reached)


def bounds_of(testbed: Testbed) -> TestbedBounds:
    """What each link bounds, by name, and the drives."""
    links = {
        name: LinkBounds(
            link.mtu,
            link.speed,
            ipv6=link.source_address.version == IPV6,
            ends=link.ends,
            hosts=link.hosts,
            is_segment=bool(link.segment),
            through_dut=testbed.dut in link.forwarders,
        )
        for name, link in testbed.links.items()
    }
    return TestbedBounds(links, testbed.drives)


def _share_a_machine(hosts: Sequence[HostSpec]) -> bool:
    ways = ["" if host.local else host.ssh for host in hosts if host.local or host.ssh is not None]
    return len(set(ways)) < len(ways)


def incompatibilities(experiment: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
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
    count = _levels(factors) * (repeats if isinstance(repeats, int) else 1) * sum(w.count(bed.bounds) for w in whole.values())
    if count > MOST_TRIALS:
        yield ("workloads",), f"{count} trials in all; at most {MOST_TRIALS} can be planned"
        return
    yield from _duplicates(whole, bed)
    for i, workload in whole.items():
        unmet = list(_needs_unmet(workload, bed))
        yield from ((("workloads", i, workload.kind), what) for what in (*unmet, *_out_of_reach(workload, factors, bed)))
        for loc, what in workload.incompatibilities(bed.bounds):
            yield ("workloads", i, workload.kind, *loc), what
        if isinstance(workload, FrameWorkload):
            for loc, what in workload.beyond(_generator(workload, experiment, bed), bed.bounds):
                yield ("workloads", i, workload.kind, *loc), what
        yield from _unknown_names(workload, ("workloads", i, workload.kind), modes if isinstance(modes, Mapping) else {}, bed)
        if isinstance(workload, ReconfWorkload):
            yield from _unchangeable(workload, ("workloads", i, workload.kind), experiment, bed)


def _out_of_reach(workload: WorkloadModel, factors: object, bed: TestbedShape) -> Iterator[str]:
    """What a workload needs of the DUT's family and of the modes, and does not have."""
    for name in sorted({link for links in workload.link_sets(bed.bounds) for link in links} & bed.one_machine):
        if workload.needs & {Need.IPERF3, Need.PING}:
            ends = " and ".join(bed.bounds[name].ends)
            yield f"{ends} of {bed.title} are one machine, whose kernel hands such packets over itself; only generated frames leave"
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


def _needs_unmet(workload: WorkloadModel, bed: TestbedShape) -> Iterator[str]:
    """What a workload needs of its hosts and none of them has."""
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
            yield f"needs commands at both ends of link {name}, and there is no way into {', '.join(closed)}"
        elif Need.FRAMES in workload.needs:
            foreign = [f"{host} is {bed.hosts[host]}" for host in bound.ends if bed.hosts[host] not in RUN_ENGINE]
            if foreign:
                yield f"frames need Linux at both ends of link {name}; {', '.join(foreign)}: use iperf3"
            elif Need.TRANSIT in workload.needs and not bound.through_dut:
                yield f"is about what the DUT does to frames, and link {name} goes through none"


def _generator(workload: FrameWorkload, experiment: Mapping[str, Any], bed: TestbedShape) -> GeneratorModel:
    """What would drive the workload; one that is wrong by itself is passed over."""
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
        if name in builtin:
            yield ("modes", name), f"family {bed.family} already has a mode {name}; give yours another name"
    levels = factors.get("mode") if isinstance(factors, Mapping) else None
    written = levels if isinstance(levels, list) else []
    yield from _unknown_modes([(("factors", "mode", i), level) for i, level in enumerate(written) if isinstance(level, str)], own, bed)


def _unknown_modes(named: Iterable[tuple[Loc, str]], own: Collection[str], bed: TestbedShape, *also: str) -> Iterator[tuple[Loc, str]]:
    """A fault for each of `named`, by its place, that is neither a mode of the DUT's family nor one of the experiment's own."""
    known = [*FAMILY_MODES.get(bed.family, ()), *own, *also]
    for at, name in named:
        if name not in known:
            yield at, f"no mode {name!r} for the DUT of {bed.title}, of family {bed.family} {did_you_mean(name, known)}"


def _unknown_links(raw: object, at: Loc, bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    if not isinstance(raw, Mapping):
        return
    for kind, body in raw.items():
        sets = body.get("links") if isinstance(body, Mapping) else None
        for i, links in enumerate(sets if isinstance(sets, list) else ()):
            for j, link in enumerate(links if isinstance(links, list) else ()):
                if isinstance(link, str) and link not in bed.bounds:
                    yield (*at, kind, "links", i, j), f"{bed.title} has no link {link!r} {did_you_mean(link, bed.bounds)}"


def _unknown_names(workload: WorkloadModel, at: Loc, own: Collection[str], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    """Hosts and modes that only this kind of workload names."""
    if isinstance(workload, StepsWorkload):
        yield from _unknown_hosts(workload, at, bed)
    if isinstance(workload, ReconfWorkload):
        yield from _unknown_modes([((*at, "to", i), to) for i, to in enumerate(workload.to)], own, bed, RELOAD)


def _unchangeable(workload: ReconfWorkload, at: Loc, experiment: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
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


def _unknown_hosts(workload: StepsWorkload, at: Loc, bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    for phase, by_host in workload.phases.items():
        for host in by_host:
            if host not in bed.hosts:
                yield (*at, phase, host), f"{bed.title} has no host {host!r} {did_you_mean(host, bed.hosts)}"


def _levels(factors: object) -> int:
    count = 1
    for levels in factors.values() if isinstance(factors, Mapping) else ():
        count *= max(len(levels), 1) if isinstance(levels, list) else 1
    return count


def _duplicates(whole: Mapping[int, WorkloadModel], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    seen: dict[tuple[object, ...], int] = {}
    for i, workload in whole.items():
        for drive in workload.drives(bed.bounds):
            key = (workload.kind, frozenset(drive.links), tuple(sorted(drive.setting.params.items())))
            if (first := seen.setdefault(key, i)) != i:
                yield ("workloads", i), f"asks for trials that workload {first + 1} asks for too; `repeats` repeats trials"
                break
