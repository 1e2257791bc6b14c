"""What a host is: all that a reader of a figure must know of the machine, and nothing secret.

Every fact is optional. One that cannot be read is None, and `absent` says why under the fact's path.
Command line of the kernel, host names, addresses and users are left out on purpose: they say nothing of speed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dutlab.hosts.host import Host
from dutlab.hosts.optics import of_ethtool

_CPU0 = "/sys/devices/system/cpu/cpu0/cpufreq"
_FILES = {
    "os": "/etc/os-release",
    "memory_bytes": "/proc/meminfo",
    "clocksource": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "cpu.governor": f"{_CPU0}/scaling_governor",
    "cpu.scaling_driver": f"{_CPU0}/scaling_driver",
    "cpu.max_khz": f"{_CPU0}/cpuinfo_max_freq",
    "cpu.boost": "/sys/devices/system/cpu/cpufreq/boost",
    "cpu.no_turbo": "/sys/devices/system/cpu/intel_pstate/no_turbo",
    "cpu.smt": "/sys/devices/system/cpu/smt/control",
    "cpu.isolated": "/sys/devices/system/cpu/isolated",
    "machine.vendor": "/sys/class/dmi/id/sys_vendor",
    "machine.product": "/sys/class/dmi/id/product_name",
    "machine.bios": "/sys/class/dmi/id/bios_version",
}
_SYSCTLS = (
    "net.ipv4.ip_forward",
    "net.ipv4.conf.all.rp_filter",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.all.disable_ipv6",
    "net.core.netdev_budget",
    "net.core.netdev_budget_usecs",
    "net.core.netdev_max_backlog",
    "net.core.default_qdisc",
    "net.core.rmem_max",
    "net.core.wmem_max",
    "net.core.bpf_jit_enable",
    "net.netfilter.nf_conntrack_max",
)
_LSCPU = {
    "cpu.model": "Model name",
    "cpu.cores": "CPU(s)",
    "cpu.threads_per_core": "Thread(s) per core",
    "cpu.sockets": "Socket(s)",
    "cpu.numa_nodes": "NUMA node(s)",
    "cpu.architecture": "Architecture",
    "cpu.l2_cache": "L2",
    "cpu.l3_cache": "L3",
}
_VERSIONS = {
    "iperf3": ["iperf3", "--version"],
    "nft": ["nft", "--version"],
    "ip": ["ip", "-V"],
    "ethtool": ["ethtool", "--version"],
    "conntrack": ["conntrack", "--version"],
}
_NIC_FILES = ("speed", "duplex", "operstate", "threaded", "device/numa_node", "device/current_link_speed", "device/current_link_width")
_MARK = "\x1e"
_CAT = r"""
for file; do
  printf '\036%s\n' "$file"
  cat -- "$file" 2>/dev/null || printf '\037%s' "$([ -e "$file" ] && echo 'cannot be read' || echo 'no such file on this kernel')"
done
"""
_REFUSED = "\x1f"


class _Facts:
    """Collects values by path; a value that is not there is noted with its reason."""

    def __init__(self) -> None:
        self.tree: dict[str, Any] = {}
        self.absent: dict[str, str] = {}

    def put(self, path: str, value: object, why: str = "not reported") -> None:
        node = self.tree
        *folders, leaf = path.split("/") if "/" in path else path.split(".")
        for folder in folders:
            node = node.setdefault(folder, {})
        node[leaf] = value
        if value is None:
            self.absent[path] = why


async def collect_facts(host: Host, interfaces: Iterable[str]) -> dict[str, Any]:
    """All facts of `host` and of its test `interfaces`, fit for JSON. Raises HostError only when the host itself is gone."""
    facts = _Facts()
    await asyncio.gather(
        _kernel(host, facts),
        _files(host, facts),
        _lscpu(host, facts),
        _mitigations(host, facts),
        _virtual(host, facts),
        _sysctls(host, facts),
        _versions(host, facts),
        *(_interface(host, facts, name) for name in interfaces),
    )
    return {"host": host.name, **dict(sorted(facts.tree.items())), "absent": dict(sorted(facts.absent.items()))}


async def _kernel(host: Host, facts: _Facts) -> None:
    for path, option in (("kernel.name", "-s"), ("kernel.release", "-r"), ("kernel.version", "-v"), ("kernel.machine", "-m")):
        said, why = await _say(host, ["uname", option])
        facts.put(path, said, why)


async def _files(host: Host, facts: _Facts) -> None:
    found = await _cat(host, list(_FILES.values()))
    for path, file in _FILES.items():
        text, why = found[file]
        value: object = text
        if text is not None and path == "os":
            value = os_name(text)
        elif text is not None and path == "memory_bytes":
            m = re.search(r"MemTotal:\s+(\d+) kB", text)
            value = int(m[1]) * 1024 if m else None
        facts.put(path, value, why)


async def _lscpu(host: Host, facts: _Facts) -> None:
    said, why = await _say(host, ["lscpu", "-J"])
    fields = lscpu_fields(said) if said else {}
    for path, field in _LSCPU.items():
        text = next((v for k, v in fields.items() if k.rstrip(":").removesuffix(" cache") == field), None)
        facts.put(path, int(text) if text and text.isdigit() else text, why or "not in the output of lscpu")


async def _mitigations(host: Host, facts: _Facts) -> None:
    said, why = await _say(host, ["sh", "-c", "cd /sys/devices/system/cpu/vulnerabilities && grep -H . *"])
    found = dict(line.split(":", 1) for line in said.splitlines() if ":" in line) if said else None
    facts.put("mitigations", found, why)


async def _virtual(host: Host, facts: _Facts) -> None:
    done = await host.run(["systemd-detect-virt", "--vm"], check=False)
    if told := done.text.strip():  # it ends with 1 and says "none" on bare metal
        facts.put("virtual", told)
        return
    done = await host.run(["grep", "-c", "-w", "hypervisor", "/proc/cpuinfo"], check=False)
    kind = {"": None, "0": "none"}.get(done.text.strip(), "of unknown kind")
    facts.put("virtual", kind, "neither systemd-detect-virt nor /proc/cpuinfo tells")


async def _sysctls(host: Host, facts: _Facts) -> None:
    files = {name: "/proc/sys/" + name.replace(".", "/") for name in _SYSCTLS}
    found = await _cat(host, list(files.values()))
    for name, file in files.items():
        text, why = found[file]
        facts.put(f"sysctls/{name}", " ".join(text.split()) if text is not None else None, why)


async def _versions(host: Host, facts: _Facts) -> None:
    for name, argv in _VERSIONS.items():
        said, why = await _say(host, argv)
        facts.put(f"versions.{name}", said.splitlines()[0] if said else None, why)


async def _interface(host: Host, facts: _Facts, name: str) -> None:
    at = f"interfaces/{name}"
    said, why = await _say(host, ["ip", "-d", "-j", "link", "show", "dev", name])
    link = _first_of_json(said)
    facts.put(f"{at}/mtu", link.get("mtu"), why or "not in the output of ip")
    facts.put(f"{at}/mac", link.get("address"), why or "not in the output of ip")
    facts.put(f"{at}/kind", link.get("linkinfo", {}).get("info_kind", "physical") if link else None, why)
    facts.put(f"{at}/rx_queues", link.get("num_rx_queues"), why or "not in the output of ip")
    files = {file: f"/sys/class/net/{name}/{file}" for file in _NIC_FILES}
    found = await _cat(host, list(files.values()))
    for file, path in files.items():
        key = {"speed": "speed_mbps", "threaded": "napi_threaded"}.get(file, file.removeprefix("device/"))
        text, why = found[path]
        if file == "speed" and text is not None and (text == "-1" or link.get("linkinfo")):
            # A veth pair claims 10 Gb/s and carries what the cores can; -1 is a link that is down.
            text, why = None, "no wire, so no speed" if link.get("linkinfo") else "the link is down"
        facts.put(f"{at}/{key}", int(text) if text and re.fullmatch(r"-?\d+", text) else text, why)
    await _ethtool(host, facts, name, at)


async def _ethtool(host: Host, facts: _Facts, name: str, at: str) -> None:
    said, why = await _say(host, ["ethtool", "-i", name])
    told = colon_pairs(said or "")
    for key, field in (("driver", "driver"), ("driver_version", "version"), ("firmware", "firmware-version"), ("bus", "bus-info")):
        facts.put(f"{at}/{key}", told.get(field) or None, why or "the driver does not tell")
    said, why = await _say(host, ["ethtool", "--json", "-k", name])
    features = {k: v["active"] for k, v in _first_of_json(said).items() if isinstance(v, dict) and "active" in v}
    facts.put(f"{at}/offloads", features or None, why or "this ethtool prints no JSON")
    said, why = await _say(host, ["ethtool", "-g", name])
    facts.put(f"{at}/rings", ring_sizes(said) if said else None, why or "the driver has no rings to set")
    said, why = await _say(host, ["ethtool", "-l", name])
    facts.put(f"{at}/channels", ring_sizes(said) if said else None, why or "the driver has no channels to set")
    said, why = await _say(host, ["ethtool", "-m", name])
    optic = of_ethtool(said) if said else None
    facts.put(f"{at}/optic", optic.to_json() if optic else None, why or "ethtool tells of no module")


def os_name(os_release: str) -> str | None:
    """PRETTY_NAME of /etc/os-release (os-release(5))."""
    m = re.search(r'^PRETTY_NAME="?([^"\n]*)"?$', os_release, re.MULTILINE)
    return m[1] if m else None


def lscpu_fields(text: str) -> dict[str, str]:
    """Field → value, of `lscpu -J` whether its entries are nested (util-linux since 2.37) or not."""
    try:
        found: dict[str, str] = {}
        _gather(json.loads(text)["lscpu"], found)
    except (ValueError, KeyError, TypeError):
        return {}
    return found


def colon_pairs(text: str) -> dict[str, str]:
    """Lines `key: value`."""
    return {k.strip(): v.strip() for k, colon, v in (line.partition(":") for line in text.splitlines()) if colon}


def ring_sizes(text: str) -> dict[str, dict[str, int]] | None:
    """`ethtool -g` or `-l`: most and now → what → number. None when nothing can be set."""
    most, _, now = text.partition("Current hardware settings:")
    numbers = {
        which: {k.lower().replace(" ", "_"): int(v) for k, v in colon_pairs(part).items() if v.isdigit()}
        for which, part in (("most", most), ("now", now))
    }
    return numbers if any(numbers.values()) else None


def _gather(entries: Sequence[Mapping[str, Any]], into: dict[str, str]) -> None:
    for entry in entries:
        into.setdefault(str(entry["field"]), str(entry.get("data") or ""))
        _gather(entry.get("children", []), into)


def _first_of_json(text: str | None) -> dict[str, Any]:
    try:
        parsed = json.loads(text or "[]")
    except ValueError:
        return {}
    return next((entry for entry in parsed if isinstance(entry, dict) and entry), {}) if isinstance(parsed, list) else {}


async def _say(host: Host, argv: Sequence[str]) -> tuple[str | None, str]:
    """What a command printed, or None and why."""
    done = await host.run(argv, check=False)
    text = done.text.strip()
    if done.status == 0 and text:
        return text, ""
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return None, said[-1][-200:] if said else f"`{argv[0]}` ended with {done.status}"


async def _cat(host: Host, files: Sequence[str]) -> dict[str, tuple[str | None, str]]:
    """File → its text, or None and why, in one command."""
    done = await host.run(["sh", "-c", _CAT, "cat", *files], check=False)
    found: dict[str, tuple[str | None, str]] = dict.fromkeys(files, (None, "the host has no sh"))
    for part in done.text.split(_MARK)[1:]:
        file, _, body = part.partition("\n")
        text, refused, why = body.partition(_REFUSED)
        found[file] = (None, why.strip()) if refused else (text.strip(), "")
    return found
