"""Built-in knobs: for each value of a host, the commands for `sh` that read it and set it.

A value with several files, such as one per core or queue, is read as `FILE=VALUE FILE=VALUE …`. It is set from the same text, or from one
value for all files. Meaning of the files: the kernel's Documentation/ABI and networking/scaling.rst; ethtool(8).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from dutlab.spec.factors import SYSCTL

_CHUNK_DIGITS = 8
"""Hexadecimal digits of a core mask between two commas (lib/bitmap-str.c)."""
_SEE_ETHTOOL = "`ethtool {}` shows what the port's driver has; [fixed] and n/a cannot be changed"


@dataclass(frozen=True)
class KnobSetting:
    """One value of a host. `read` prints it; `write` sets it to `$1`."""

    what: str
    read: str
    write: str
    wanted: str | None
    """Value to set; None for a value that is only restored, because another setting changes it."""
    remedy: str = ""
    in_files: bool = False

    def holds(self, value: str) -> bool:
        """Return whether the value that was read is the wanted one. ethtool prints more in brackets."""
        if self.in_files:
            return bool(value) and all(word.rpartition("=")[2] == self.wanted for word in value.split())
        return self.wanted is None or value == self.wanted or value.startswith(f"{self.wanted} [")

    def set_to(self, value: str) -> str:
        """Return a line for `sh` that sets the value; on failure it sets `bad` and prints the error."""
        return (
            f"set -- {shlex.quote(value)}; output=$({{ {self.write}; }} 2>&1) || "
            f'{{ bad=1; echo {shlex.quote(self.what)} "to $1: $output" >&2; }}'
        )


def script_to_read(settings: Sequence[KnobSetting]) -> str:
    """Return a script that prints one line per setting: the status of `read`, and its output with single spaces."""
    return "set -f\n" + "\n".join(f"v=$(set +f; {{ {s.read}; }} 2>&1); s=$?; echo $s $v" for s in settings)


def script_to_set(values: Sequence[tuple[KnobSetting, str]]) -> str:
    """Return a script that sets all values, even after one fails, and ends with 1 if one failed."""
    return "\n".join(["bad=0", *(setting.set_to(value) for setting, value in values), "exit $bad"])


def settings_of(name: str, level: str, ports: Sequence[str]) -> list[KnobSetting]:
    """Return all settings that a level of a knob needs on a host with these test ports."""
    if name.startswith(SYSCTL):
        key = shlex.quote(name.removeprefix(SYSCTL))
        remedy = f"see `sysctl {key}` there; a namespace has only the sysctls that are kept for each namespace"
        return [KnobSetting(name.removeprefix(SYSCTL), f"sysctl -n {key}", f'sysctl -w {key}="$1"', " ".join(level.split()), remedy)]
    if name in _OF_HOST:
        return [_OF_HOST[name](level)]
    return [setting for port in ports for setting in _OF_PORT[name](port, level)]


def _mtu(port: str, level: str) -> Iterator[KnobSetting]:
    read, write = f"cat /sys/class/net/{port}/mtu", f'ip link set dev {port} mtu "$1"'
    yield KnobSetting(f"MTU of {port}", read, write, str(int(level)), "see the largest that its driver allows: `ip -d link show`, maxmtu")


_FEATURES = {
    "rx": "rx-checksumming", "tx": "tx-checksumming", "sg": "scatter-gather", "tso": "tcp-segmentation-offload",
    "gso": "generic-segmentation-offload", "gro": "generic-receive-offload", "lro": "large-receive-offload",
    "rxvlan": "rx-vlan-offload", "txvlan": "tx-vlan-offload", "ntuple": "ntuple-filters", "rxhash": "receive-hashing",
}  # fmt: skip
"""Name for `ethtool -K` → name in `ethtool -k`."""
_DEPENDENT = ("rx", "tx", "sg", "tso", "gso", "gro")
"""Features that Linux switches off together with others (netdev_fix_features), in an order that can switch them on again."""


def _offloads(port: str, level: str) -> Iterator[KnobSetting]:
    asked = dict(part.split() for part in level.split(", "))
    for feature in dict.fromkeys((*_DEPENDENT, *asked)):
        read = f"v=$(ethtool -k {port}) && v=$(echo \"$v\" | sed -n 's/^[[:space:]]*{_FEATURES.get(feature, feature)}: //p') && "
        read += f'{{ [ -n "$v" ] || v="no feature {feature}"; echo "$v"; [ "${{v#no }}" = "$v" ]; }}'
        write = f'v=$({read}); [ "${{v%% *}}" = "${{1%% *}}" ] || ethtool -K {port} {feature} "${{1%% *}}"'
        yield KnobSetting(f"{feature} of {port}", read, write, asked.get(feature), _SEE_ETHTOOL.format("-k"))


def _by_ethtool(show: str, change: str, line_of: Callable[[str], str]) -> Callable[[str, str], Iterator[KnobSetting]]:
    """Return a function that yields a setting for each `NAME VALUE` of a level; it skips values already set, which ethtool refuses."""

    def settings(port: str, level: str) -> Iterator[KnobSetting]:
        for name, value in (part.split() for part in level.split(", ")):
            read = f'v=$(ethtool {show} {port}) && v=$(echo "$v" | sed -n \'{line_of(name)}\') && [ -n "$v" ] && echo "$v"'
            write = f'[ "$({read})" = "$1" ] || ethtool {change} {port} {name} "$1"'
            yield KnobSetting(f"{name} of {port}", read, write, value, _SEE_ETHTOOL.format(show))

    return settings


def _line_of_rings(name: str) -> str:
    title = {"rx": "RX", "tx": "TX", "rx-mini": "RX Mini", "rx-jumbo": "RX Jumbo"}[name]
    return rf"/^Current/,$ s/^{title}:[[:space:]]*//p"


def _line_of_queues(name: str) -> str:
    title = {"rx": "RX", "tx": "TX", "combined": "Combined"}[name]
    return rf"/^Current/,$ s/^{title}:[[:space:]]*//p"


def _line_of_coalescing(name: str) -> str:
    if name in {"adaptive-rx", "adaptive-tx"}:
        return rf"s/^Adaptive.*{name[-2:].upper()}: *\([a-z/]*\).*/\1/p"
    return rf"s/^{name}:[[:space:]]*//p"


def _files(what: str, glob: str, level: str, remedy: str, *, shown: str = "cat", called: str = "") -> KnobSetting:
    """Return the setting of one value in all files that match `glob`; the host's shell expands it."""
    read = (
        f'n=0; for f in {glob}; do [ -e "$f" ] || continue; n=1; v=$({shown} "$f") || exit 1; printf "%s=%s " "$f" "$v"; done; '
        f'[ "$n" = 1 ] || {{ echo "there is no {called or glob}"; exit 1; }}'
    )
    write = (
        f'case $1 in *=*) for p in $1; do echo "${{p##*=}}" > "${{p%=*}}" || exit 1; done;; '
        f'*) for f in {glob}; do echo "$1" > "$f" || exit 1; done;; esac'
    )
    return KnobSetting(what, read, write, level, remedy, in_files=True)


def _rps(port: str, level: str) -> Iterator[KnobSetting]:
    glob = f"/sys/class/net/{port}/queues/rx-*/rps_cpus"
    without_zeros = r"sed 's/^[0,]*\([0-9a-f]\)/\1/'"
    yield _files(
        f"cores of RPS of {port}", glob, _mask(level), "the kernel has no RPS (CONFIG_RPS), or the port no such queue", shown=without_zeros
    )


def _irq_affinity(port: str, level: str) -> Iterator[KnobSetting]:
    glob = f"$(ls /sys/class/net/{port}/device/msi_irqs 2>/dev/null | sed 's|.*|/proc/irq/&/smp_affinity_list|')"
    remedy = "a virtual port has none; leave irq-affinity out there"
    yield _files(f"cores of the interrupts of {port}", glob, _ranges(_cores(level)), remedy, called="separate interrupt")


def _governor(level: str) -> KnobSetting:
    remedy = "the kernel controls no frequencies there, as in a virtual machine; set it on the VM's host"
    return _files("governor of the cores", "/sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor", level, remedy)


def _boost(level: str) -> KnobSetting:
    """Return the setting of boost; intel_pstate has the inverse file `no_turbo` in place of the common one."""
    boost, no_turbo = "/sys/devices/system/cpu/cpufreq/boost", "/sys/devices/system/cpu/intel_pstate/no_turbo"
    read = f"if [ -e {no_turbo} ]; then v=$((1 - $(cat {no_turbo}))); else v=$(cat {boost}); fi || exit 1; "
    read += "[ $v = 1 ] && echo on || echo off"
    write = f'v=0; [ "$1" = on ] && v=1; if [ -e {no_turbo} ]; then echo $((1 - v)) > {no_turbo}; else echo $v > {boost}; fi'
    return KnobSetting("boost of the cores", read, write, level, "the kernel has no such switch there; set it manually in the firmware")


def _pcie_aspm(level: str) -> KnobSetting:
    path = "/sys/module/pcie_aspm/parameters/policy"
    read = f'v=$(cat {path}) && echo "$v" | ' + r"sed 's/.*\[\(.*\)\].*/\1/'"
    return KnobSetting(
        "power management of PCIe", read, f'echo "$1" > {path}', level, "the kernel was built without it, or the firmware controls it"
    )


def _setperf(level: str) -> KnobSetting:
    """Return OpenBSD's clock of all cores; read-only where the kernel controls it (sysctl(2), HW_SETPERF and HW_PERFPOLICY)."""
    remedy = "write the factor sysctl.hw.perfpolicy: [manual], else the kernel sets it; a virtual machine has none"
    return KnobSetting("clock of the cores", "sysctl -n hw.setperf", 'sysctl hw.setperf="$1"', level, remedy)


def _cores(level: str) -> list[int]:
    """Return the numbers in `0-1,3`."""
    numbers: set[int] = set()
    for part in level.split(","):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return sorted(numbers)


def _mask(level: str) -> str:
    """Return cores as a mask in the kernel's format, without leading zeros."""
    digits = f"{sum(1 << core for core in ([] if level == 'off' else _cores(level))):x}"
    first = len(digits) % _CHUNK_DIGITS
    return ",".join(filter(None, (digits[:first], *re.findall(rf".{{{_CHUNK_DIGITS}}}", digits[first:]))))


def _ranges(cores: Sequence[int]) -> str:
    """Return numbers as a list in the kernel's format: `0-1,3`."""
    spans: list[list[int]] = []
    for core in cores:
        if spans and spans[-1][-1] == core - 1:
            spans[-1][1:] = [core]
        else:
            spans.append([core])
    return ",".join("-".join(map(str, of)) for of in spans)


_OF_HOST: Mapping[str, Callable[[str], KnobSetting]] = {
    "governor": _governor,
    "boost": _boost,
    "pcie-aspm": _pcie_aspm,
    "setperf": _setperf,
}
_OF_PORT: Mapping[str, Callable[[str, str], Iterator[KnobSetting]]] = {
    "mtu": _mtu,
    "offloads": _offloads,
    "rings": _by_ethtool("-g", "-G", _line_of_rings),
    "queues": _by_ethtool("-l", "-L", _line_of_queues),
    "coalescing": _by_ethtool("-c", "-C", _line_of_coalescing),
    "rps": _rps,
    "irq-affinity": _irq_affinity,
}
