"""Factors other than the mode: how their levels are set, and which combinations are measured.

A level is set by commands under `levels:` in the experiment file, by a built-in knob (KNOBS), or by a person.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import InitErrorDetails

from dutlab.errors import FaultKind
from dutlab.spec.bounds import TestbedBounds
from dutlab.spec.fields import Duration, Name, YesNo, name_fault
from dutlab.spec.links import IPV6_LEAST_MTU
from dutlab.spec.model import SpecModel, ValueFault, did_you_mean, fault
from dutlab.spec.translation import MOST_MTU as TRANSLATED_MTU
from dutlab.spec.translation import prefix_fault, prefixes_of
from dutlab.spec.tunnels import MOST_TUNNELS
from dutlab.spec.wire_form import NAT64
from dutlab.units import Seconds

MODE, MTU, TUNNELS, TRANSCEIVERS = "mode", "mtu", "tunnels", "transceivers"
OFF = "off"
"""Level of a knob of the mode that leaves the mode unchanged."""
VERSION = "version"
"""Factor whose levels are versions of the DUT. Runs are compared between versions, not within one."""
SYSCTL = "sysctl."
_SYSCTL_NAME = r"[a-z0-9_]+([./][A-Za-z0-9_:-]+)+"
_WORD = r"[a-z][a-z0-9_-]*"
_CORES = r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*"
LARGEST_MTU = 65535
PPPOE_MTU = 1492
"""MTU of a PPPoE session: 1500 less 6 bytes of PPPoE and 2 of PPP (RFC 2516 section 7)."""
LONGEST_BOOT_S = 86_400.0


@dataclass(frozen=True)
class KnobKind:
    """Levels and place of a built-in knob."""

    level: str
    """Regular expression that matches a whole level."""
    example: str
    of_ports: bool = True
    """True if it applies to the test ports, and not to the whole host."""
    kernel: str = "Linux"
    """Kernel that has the knob."""
    of_mode: bool = False
    """True if it changes the mode: applied after it and verified with it (dut/mode_changes.py). Only family `linux` has such knobs."""
    within: range | None = None
    """Range of a level that is a number; None without a limit."""


KNOBS: Mapping[str, KnobKind] = {
    MTU: KnobKind(
        r"[0-9]{1,5}",
        f"{IPV6_LEAST_MTU} to 65535, as 9000; below {IPV6_LEAST_MTU} Linux removes a port's IPv6 addresses",
        within=range(IPV6_LEAST_MTU, LARGEST_MTU + 1),
    ),
    "offloads": KnobKind(rf"{_WORD} (on|off)(, {_WORD} (on|off))*", "gro off, tso off"),
    "rings": KnobKind(r"(rx|tx|rx-mini|rx-jumbo) [0-9]+(, (rx|tx|rx-mini|rx-jumbo) [0-9]+)*", "rx 512, tx 512"),
    "queues": KnobKind(r"(rx|tx|combined) [0-9]+(, (rx|tx|combined) [0-9]+)*", "combined 4"),
    "coalescing": KnobKind(rf"{_WORD} ([0-9]+|on|off)(, {_WORD} ([0-9]+|on|off))*", "adaptive-rx off, rx-usecs 50"),
    "rps": KnobKind(rf"off|{_CORES}", "off, or cores as 0-3"),
    "irq-affinity": KnobKind(_CORES, "cores, as 0-3"),
    "governor": KnobKind(_WORD, "performance", of_ports=False),
    "boost": KnobKind(r"on|off", "on, or off", of_ports=False),
    "pcie-aspm": KnobKind(_WORD, "performance", of_ports=False),
    "flowtable": KnobKind(r"off|software|hardware", "off, software or hardware", of_mode=True),
    NAT64: KnobKind(r"off|[0-9a-f:.]{2,39}/96", "off, or a prefix of 96 bits, as 2001:db8:64::/96", of_mode=True),
    "pppoe": KnobKind(r"off|on", "off, or on", of_mode=True),
    "shaper": KnobKind(
        r"off|(cake|fq_codel|fifo) [0-9]{1,6}([.][0-9]{1,3})? ?[kMG](bit/s)?", "off, or a queue and a rate, as cake 50Mbit/s", of_mode=True
    ),
    TUNNELS: KnobKind(
        r"0|[1-9][0-9]{0,3}",
        f"1 to {MOST_TUNNELS} a link; 0 for a mode whose tunnels have no number",
        of_ports=False,
        within=range(MOST_TUNNELS + 1),
    ),
    "setperf": KnobKind(r"[0-9]|[1-9][0-9]|100", "per cent, 0 to 100", of_ports=False, kernel="OpenBSD"),
}
"""Factors that dutlab sets and restores automatically, in addition to `sysctl.NAME`, which takes any text."""


_FAULTS: Mapping[str, Callable[[str], str]] = {NAT64: prefix_fault}
"""Knob → function that returns the fault of a level which matches the knob's expression."""


def is_knob(name: str) -> bool:
    """Return whether dutlab can set this factor without commands."""
    return name in KNOBS or name.startswith(SYSCTL)


def changes_mode(name: str) -> bool:
    """Return whether a knob changes the mode, and not the host."""
    return name in KNOBS and KNOBS[name].of_mode


def level_text(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Return a level as text: numbers and truth values in the form in which they are written."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int | float) else value


Level = Annotated[str, BeforeValidator(level_text, json_schema_input_type=str | int | float | bool), Field(min_length=1, max_length=100)]


class Commands(SpecModel):
    """Three lists of commands, each run in the shell of its host."""

    apply: tuple[str, ...] = ()
    verify: tuple[str, ...] = ()
    """Commands that must end with 0, or nothing is measured."""
    restore: tuple[str, ...] = ()
    """Commands that always run after the trials."""

    changed: ClassVar[str] = "a mode that changes the DUT needs the commands that restore it"

    def own_faults(self) -> Iterator[InitErrorDetails]:
        """Check that no command is empty, and that changes can be undone."""
        yield from (
            fault((key, i), "empty command", FaultKind.MISSING)
            for key, commands in (("apply", self.apply), ("verify", self.verify), ("restore", self.restore))
            for i, command in enumerate(commands)
            if not command.strip()
        )
        if self.apply and not self.restore:
            yield fault(("restore",), f"missing; {self.changed}", FaultKind.MISSING)


def _boot_time(value: Seconds) -> Seconds:
    if not 1 <= value <= LONGEST_BOOT_S:
        raise ValueFault("must be from 1s to a day", FaultKind.RANGE)
    return value


class LevelCommands(Commands):
    """Commands that set a level on one host."""

    changed: ClassVar[str] = "a level that changes a host needs the commands that restore it"

    host: Name | None = None
    """Host that runs the commands; None is the DUT."""
    reboot: YesNo = False
    """True if the changes of `apply` and `restore` take effect only at the next boot."""
    back_within: Annotated[Duration, AfterValidator(_boot_time)] = Seconds(600.0)

    @classmethod
    def cross_faults(cls, data: Mapping[str, Any], made: Self | None) -> Iterator[InitErrorDetails]:
        """Check also that a reboot has a reason."""
        needless = made is not None and made.reboot and not made.apply
        more = (
            [fault(("reboot",), "no `apply` before it; a level that is as the hosts were found needs no reboot", FaultKind.CONFLICT)]
            if needless
            else []
        )
        yield from super().cross_faults(data, made)
        yield from more


def one_or_more(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Return commands for one host as a list of one; other values unchanged."""
    return [value] if isinstance(value, Mapping | LevelCommands) else value


def _by_level(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    return {level_text(level): of for level, of in value.items()} if isinstance(value, Mapping) else value


CommandsOfLevel = Annotated[
    tuple[LevelCommands, ...], BeforeValidator(one_or_more, json_schema_input_type=LevelCommands | tuple[LevelCommands, ...])
]
Levels = dict[str, Annotated[dict[str, CommandsOfLevel], BeforeValidator(_by_level)]]
"""Factor → level → commands for each host; empty for a level that is the state in which the hosts were found."""


def some_levels(value: Any) -> Any:  # noqa: ANN401 what a user wrote can be anything
    """Return one level as a list of one; lists unchanged."""
    return value if isinstance(value, list | tuple) else [value]


Exclusion = dict[
    str, Annotated[tuple[Level, ...], BeforeValidator(some_levels, json_schema_input_type=Level | tuple[Level, ...]), Field(min_length=1)]
]
"""Factor → levels. A combination that has one of the levels in each of these factors is left out."""


def is_excluded(levels: Mapping[str, str], exclude: Iterable[Mapping[str, Sequence[str]]]) -> bool:
    """Return whether a combination of levels is left out; an incomplete one is not, if a factor of the exclusion is missing."""
    return any(all(levels.get(name) in of for name, of in one.items()) for one in exclude)


def factor_faults(data: Mapping[str, Any]) -> Iterator[InitErrorDetails]:
    """Yield the faults of an experiment's `factors`, `levels`, `expensive_to_change` and `exclude`, without the testbed."""
    factors = data.get("factors")
    if not isinstance(factors, Mapping):
        return
    if MODE not in factors:
        what = "missing; write the modes to measure, as in [router, nat]; a mode with no commands can be written under `modes:`"
        yield fault(("factors", MODE), what, FaultKind.MISSING)
    own = data.get("levels")
    own = {k: {level_text(level) for level in v} for k, v in own.items() if isinstance(v, Mapping)} if isinstance(own, Mapping) else {}
    texts: dict[str, list[Any]] = {}
    for name, levels in factors.items():
        if what := _name_fault(name):
            yield fault(("factors", name), what)
        if isinstance(levels, list | tuple):
            texts[name] = [level_text(level) for level in levels]
            yield from _levels_faults(name, texts[name], written_out=name in own)
    yield from _own_faults(own, texts)
    for i, name in enumerate(as_sequence(data.get("expensive_to_change"))):
        if name == MODE or name not in factors:
            yield fault(
                ("expensive_to_change", i),
                f"no factor {name!r} other than the mode {did_you_mean(str(name), set(factors) - {MODE})}",
                FaultKind.UNKNOWN_NAME,
            )
    exclude = data.get("exclude")
    yield from _exclude_faults(exclude if isinstance(exclude, list | tuple) else (), texts)


def as_sequence(value: object) -> Sequence[object]:
    """Return a list or a tuple unchanged; anything else as empty."""
    return value if isinstance(value, list | tuple) else ()


def _name_fault(name: str) -> str:
    if not name.startswith(SYSCTL):
        return name_fault(name)
    if re.fullmatch(_SYSCTL_NAME, name.removeprefix(SYSCTL)):
        return ""
    return f"{name!r} names no sysctl; write it as in sysctl.net.core.netdev_budget"


def _levels_faults(name: str, levels: Sequence[Any], *, written_out: bool) -> Iterator[InitErrorDetails]:
    if not levels:
        yield fault(("factors", name), "empty; a factor has at least one level", FaultKind.MISSING)
    for i, level in enumerate(levels):
        if level in levels[:i]:
            yield fault(("factors", name, i), f"duplicate {level!r}; `repeats` repeats trials", FaultKind.DUPLICATE)
        elif isinstance(level, str) and not written_out and (what := _level_fault(name, level)):
            yield fault(("factors", name, i), what)


def _level_fault(name: str, level: str) -> str:
    """Return the fault of a knob's level, or ""."""
    if name.startswith(SYSCTL) and not level.isprintable():
        return f"{level!r} is not the value of a sysctl: it has unprintable characters"
    if (kind := KNOBS.get(name)) is None:
        return ""
    backwards = name in ("rps", "irq-affinity") and any(int(a) > int(b) for a, b in re.findall(r"([0-9]{1,4})-([0-9]{1,4})", level))
    beyond = kind.within is not None and level.isdecimal() and int(level) not in kind.within
    if not re.fullmatch(kind.level, level) or backwards or beyond:
        return f"{level!r} is not a level of {name}; write {kind.example}"
    what = _FAULTS[name](level) if name in _FAULTS else ""
    return f"{what}; write {kind.example}" if what else ""


def _own_faults(own: Mapping[str, set[Any]], factors: Mapping[str, Sequence[Any]]) -> Iterator[InitErrorDetails]:
    """Check that each level of a factor with commands has some. Commands for unused levels are allowed, as are unused modes."""
    for name, of in own.items():
        if name == MODE:
            yield fault(("levels", name), "modes with commands are written under `modes:`", FaultKind.CONFLICT)
        elif name == TUNNELS:
            yield fault(("levels", name), "modes make the tunnels; rename a factor with commands", FaultKind.CONFLICT)
        elif name not in factors:
            yield fault(("levels", name), f"no such factor {did_you_mean(name, factors)}", FaultKind.UNKNOWN_NAME)
        else:
            missing = [level for level in factors[name] if level not in of]
            if missing:
                yield fault(
                    ("levels", name),
                    f"nothing for {missing[0]!r}; a level that is as the hosts were found is written {{}}",
                    FaultKind.MISSING,
                )


def _exclude_faults(exclude: Sequence[Any], factors: Mapping[str, Sequence[Any]]) -> Iterator[InitErrorDetails]:
    known = [one for one in exclude if isinstance(one, Mapping)]
    for i, one in enumerate(exclude):
        if not isinstance(one, Mapping):
            continue
        if not one:
            yield fault(("exclude", i), "empty: it would leave everything out", FaultKind.MISSING)
        for name, levels in one.items():
            if name not in factors:
                yield fault(("exclude", i, name), f"no such factor {did_you_mean(str(name), factors)}", FaultKind.UNKNOWN_NAME)
                continue
            texts = [level_text(level) for level in some_levels(levels)]
            yield from (
                fault(
                    ("exclude", i, name),
                    f"{name} has no level {level!r} {did_you_mean(str(level), map(str, factors[name]))}",
                    FaultKind.UNKNOWN_NAME,
                )
                for level in texts
                if level not in factors[name]
            )
    if known and all(known) and factors and not any(True for _ in _kept(factors, known)):
        yield fault(("exclude",), "leaves nothing to measure", FaultKind.MISSING)


def _kept(factors: Mapping[str, Sequence[Any]], exclude: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the combinations of levels that are not left out."""
    texts = [{name: [level_text(level) for level in some_levels(of)] for name, of in one.items()} for one in exclude]
    for row in product(*factors.values()):
        if not is_excluded(levels := dict(zip(factors, row, strict=True)), texts):
            yield levels


def combinations(factors: object, exclude: object, most: int) -> int:
    """Return the number of combinations to measure; above `most` without counting `exclude`, to save time."""
    if not isinstance(factors, Mapping):
        return 1
    texts = {name: [level_text(level) for level in of] for name, of in factors.items() if isinstance(of, list | tuple) and of}
    count = 1
    for of in texts.values():
        count *= len(of)
    known = [one for one in as_sequence(exclude) if isinstance(one, Mapping) and one]
    return count if count > most or not known else sum(1 for _ in _kept(texts, known))


def with_least_mtu(bounds: TestbedBounds, factors: object) -> TestbedBounds:
    """Return the limits of links at the smallest MTU of the experiment, since frames must pass at each. PPPoE and NAT64 lower it too."""
    levels = factors.get(MTU) if isinstance(factors, Mapping) else None
    mtus = [int(level) for level in map(level_text, as_sequence(levels)) if isinstance(level, str) and level.isdecimal()]
    dials = isinstance(factors, Mapping) and "on" in map(level_text, as_sequence(factors.get("pppoe")))
    translated = bool(prefixes_of(factors))
    most = min(PPPOE_MTU if dials else LARGEST_MTU, TRANSLATED_MTU if translated else LARGEST_MTU)
    links = {
        name: replace(
            link,
            mtu=min([*(mtus or [link.mtu]), most]),
            translated=translated and link.through_dut,
        )
        for name, link in bounds.items()
    }
    return TestbedBounds(links, bounds.drives)
