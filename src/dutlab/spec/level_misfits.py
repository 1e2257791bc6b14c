"""Levels that cannot be set on the hosts of a testbed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dutlab.spec.factors import KNOBS, MODE, MTU, SYSCTL, TUNNELS, as_sequence, is_excluded, is_knob, level_text, one_or_more, some_levels
from dutlab.spec.model import Loc, did_you_mean

if TYPE_CHECKING:
    from dutlab.spec.shape import TestbedShape


def level_misfits(experiment: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    """Yield (place, fault) for levels that cannot be set on the hosts of this testbed."""
    factors, own = experiment.get("factors"), experiment.get("levels")
    own = own if isinstance(own, Mapping) else {}
    for name in factors if isinstance(factors, Mapping) else ():
        if is_knob(name) and name not in own and (why := _unsettable(name, bed)):
            commands = "" if name == TUNNELS else "write its levels as commands under `levels:`, or "
            yield ("factors", name), f"{why}; {commands}rename it to have a person asked"
    if isinstance(factors, Mapping) and TUNNELS in factors:
        yield from _misnumbered(experiment, bed)
    for name, levels in own.items():
        for level, raw in levels.items() if isinstance(levels, Mapping) else ():
            for one in as_sequence(one_or_more(raw)):
                host = one.get("host") if isinstance(one, Mapping) else None
                if host is not None and host not in bed.hosts:
                    what = f"{bed.title} has no host {host!r} that takes commands"
                    yield ("levels", name, level), f"{what} {did_you_mean(str(host), bed.hosts)}"
                elif host is None and one and not bed.has_dut:
                    yield ("levels", name, level), f"no command reaches a DUT of {bed.title}: name the `host`"


def _unsettable(name: str, bed: TestbedShape) -> str:
    """Return the reason why dutlab cannot set a knob on this testbed; empty where it can."""
    if name == TUNNELS:
        return _no_tunnels(bed)
    if name != MTU:
        if not bed.has_dut:
            return f"no command reaches a DUT of {bed.title}"
        hosts = {"the DUT": bed.family}
    else:
        on_links = dict.fromkeys(host for link in bed.bounds.values() for host in link.hosts)
        if closed := [host for host in on_links if host not in bed.hosts]:
            return f"the MTU is set at both ends of every cable, and no command reaches {', '.join(closed)}"
        hosts = {host: bed.hosts[host] for host in on_links}
    return next(filter(None, (_lacks_knob(name, host, family) for host, family in hosts.items())), "")


def _lacks_knob(name: str, host: str, family: str) -> str:
    """Return the reason why a host of this family does not have the knob; empty if it has it."""
    from dutlab.spec.known import LINUX, OWN_PORTS  # noqa: PLC0415 -- loads every system; only files with levels need them
    from dutlab.systems import system_of  # noqa: PLC0415 -- as above

    system = system_of(family)
    if name.startswith(SYSCTL):
        return "" if system.kernel else f"{host} is {system.title}, which has no sysctl"
    knob = KNOBS[name]
    if knob.of_mode:
        return "" if family == LINUX else f"dutlab sets {name} on hosts of family linux, and {host} is {system.title}"
    fits = system.kernel == knob.kernel and not (knob.of_ports and family in OWN_PORTS)
    return "" if fits else f"dutlab sets {name} on {knob.kernel}, and {host} is {system.title}"


def _no_tunnels(bed: TestbedShape) -> str:
    """Return the reason why dutlab cannot make tunnels by number on this testbed; empty where it can."""
    from dutlab.spec.known import LINUX, ROLES  # noqa: PLC0415 -- loads every system; only files with levels need them
    from dutlab.systems import system_of  # noqa: PLC0415 -- as above

    odd = next((f"{host} is {system_of(family).title}" for host, family in bed.hosts.items() if family != LINUX), "")
    paths = {link: of.hosts for link, of in bed.bounds.items() if of.through_dut}
    odd = odd or next((f"nothing reaches {host}" for of in paths.values() for host in of if host not in bed.hosts), "")
    odd = odd or next((f"link {link} is not one" for link, of in paths.items() if len(of) != len(ROLES)), "")
    return f"dutlab makes them on Linux, on paths of source, DUT and sink, and in {bed.title} {odd}" if odd else ""


def _misnumbered(experiment: Mapping[str, Any], bed: TestbedShape) -> Iterator[tuple[Loc, str]]:
    """Yield faults: a number of tunnels with a mode that has no tunnels by number, or 0 with a mode that has them."""
    from dutlab.spec.known import mode_of  # noqa: PLC0415 -- as above

    factors, excluded = experiment["factors"], [one for one in as_sequence(experiment.get("exclude")) if isinstance(one, Mapping) and one]
    texts = [{name: [level_text(level) for level in some_levels(of)] for name, of in one.items()} for one in excluded]
    for i, number in enumerate(map(level_text, as_sequence(factors[TUNNELS]))):
        for mode in as_sequence(factors.get(MODE)):
            if not isinstance(mode, str) or is_excluded({MODE: mode, TUNNELS: number}, texts):
                continue
            tunnel = mode_of(bed.family, mode).tunnel
            if (tunnel is not None and tunnel.by_number) is (number == "0"):
                why = "makes one tunnel at least" if number == "0" else "has no tunnels by number: give it level 0"
                yield ("factors", TUNNELS, i), f"mode {mode} {why}; exclude: [{{mode: {mode}, {TUNNELS}: {number}}}] leaves this out"
