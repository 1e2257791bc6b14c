"""Facts of the machine and its kernel: processor and its limits, clock source, sysctls, versions of programs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dutlab.systems.facts import Answers, FactTree, Question
from dutlab.systems.linux_facts.text import chosen, command_line, dimms, lscpu_fields, os_name

_CPUS = "/sys/devices/system/cpu"
_FILES = {
    "os": "/etc/os-release",
    "command_line": "/proc/cmdline",
    "memory_bytes": "/proc/meminfo",
    "clocksource": "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    "clocksources": "/sys/devices/system/clocksource/clocksource0/available_clocksource",
    "pcie_aspm_policy": "/sys/module/pcie_aspm/parameters/policy",
    "cpu.scaling_driver": f"{_CPUS}/cpu0/cpufreq/scaling_driver",
    "cpu.min_khz": f"{_CPUS}/cpu0/cpufreq/cpuinfo_min_freq",
    "cpu.max_khz": f"{_CPUS}/cpu0/cpufreq/cpuinfo_max_freq",
    "cpu.base_khz": f"{_CPUS}/cpu0/cpufreq/base_frequency",
    "cpu.boost": f"{_CPUS}/cpufreq/boost",
    "cpu.no_turbo": f"{_CPUS}/intel_pstate/no_turbo",
    "cpu.idle_driver": f"{_CPUS}/cpuidle/current_driver",
    "cpu.smt": f"{_CPUS}/smt/control",
    "cpu.isolated": f"{_CPUS}/isolated",
    "machine.vendor": "/sys/class/dmi/id/sys_vendor",
    "machine.product": "/sys/class/dmi/id/product_name",
    "machine.bios": "/sys/class/dmi/id/bios_version",
}
_OF_EVERY_CORE = {
    "cpu.governor": (f"{_CPUS}/cpufreq", "policy*/scaling_governor"),
    "cpu.energy_preference": (f"{_CPUS}/cpufreq", "policy*/energy_performance_preference"),
}
_IDLE_STATES = (f"{_CPUS}/cpu0/cpuidle", "state*/latency state*/disable")
_SIBLINGS = (_CPUS, "cpu[0-9]*/topology/thread_siblings_list")
_MITIGATIONS = (f"{_CPUS}/vulnerabilities", "*")
_MODULES = ("/sys/module", "*/version")
_LOADED = 'cut -d" " -f1 -- "$1"'
_BUCKETS = "net.netfilter.nf_conntrack_buckets"
_HASH_SIZE = "/sys/module/nf_conntrack/parameters/hashsize"
"""File with the size of the hash table, for kernels without the sysctl."""
_DIMMS = ("asroot", "dmidecode", "--type", "17")
_BMC = ("/sys/devices/platform", " ".join(f"ipmi_bmc.*/{file}" for file in ("manufacturer_id", "product_id", "firmware_revision")))
"""Files of management controllers that a kernel driver has found (drivers/char/ipmi/ipmi_msghandler.c)."""
_MAKERS = {11: "Hewlett Packard", 343: "Intel", 674: "Dell", 10876: "Super Micro", 19046: "Lenovo", 47488: "Super Micro"}
"""IANA's enterprise number → maker of management controllers, as in ipmitool's include/ipmitool/ipmi_oem.h."""
_NUMBERS = ("cpu.min_khz", "cpu.max_khz", "cpu.base_khz", "cpu.boost", "cpu.no_turbo")
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
    _BUCKETS,
)
_UNAME = (("kernel.name", "-s"), ("kernel.release", "-r"), ("kernel.version", "-v"), ("kernel.machine", "-m"))
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
    "iperf3": ("iperf3", "--version"),
    "nft": ("nft", "--version"),
    "ip": ("ip", "-V"),
    "ethtool": ("ethtool", "--version"),
    "conntrack": ("conntrack", "--version"),
    "vpp": ("vppctl", "show", "version"),
    "mdadm": ("sh", "-c", "mdadm --version 2>&1"),
    "nvme": ("nvme", "version"),
    "smartctl": ("smartctl", "--version"),
}
# systemd-detect-virt ends with 1 and prints "none" on bare metal.
_VIRTUAL = ("sh", "-c", "systemd-detect-virt --vm || true")
_HYPERVISOR = 'grep -c -w hypervisor -- "$1" || [ $? = 1 ]'


def questions(root: str) -> Iterator[Question]:
    """Yield the questions."""
    yield from (("uname", option) for _, option in _UNAME)
    yield from (("slurp", root + file) for file in _FILES.values())
    yield from (("every", root + folder, pattern) for folder, pattern in (*_OF_EVERY_CORE.values(), _SIBLINGS))
    yield from (("lines", root + folder, pattern) for folder, pattern in (_IDLE_STATES, _MITIGATIONS, _MODULES))
    yield _loaded(root)
    yield _DIMMS
    yield ("lines", root + _BMC[0], _BMC[1])
    yield from (("slurp", _sysctl_file(name, root)) for name in _SYSCTLS)
    yield ("slurp", root + _HASH_SIZE)
    yield ("lscpu", "-J")
    yield _VIRTUAL
    yield _hypervisor(root)
    yield from _VERSIONS.values()


def put(facts: FactTree, answers: Answers, root: str) -> None:
    """Store the answers under `kernel`, `cpu`, `machine`, `sysctls`, `versions` and others."""
    for path, option in _UNAME:
        facts.put(path, *answers.output_of("uname", option))
    _files(facts, answers, root)
    _lscpu(facts, answers)
    output, why = answers.output_of("lines", root + _IDLE_STATES[0], _IDLE_STATES[1])
    facts.put("cpu.idle_exit_latency_us", idle_exit_latency(output) if output else None, why)
    output, why = answers.output_of("every", root + _SIBLINGS[0], _SIBLINGS[1])
    facts.put("cpu.siblings", output.split() if output else None, why)
    output, why = answers.output_of("lines", root + _MITIGATIONS[0], _MITIGATIONS[1])
    facts.put("mitigations", dict(line.split(":", 1) for line in output.splitlines() if ":" in line) if output else None, why)
    output, why = answers.output_of(*_loaded(root))
    facts.put("modules.loaded", sorted(output.split()) if output else None, why)
    output, why = answers.output_of("lines", root + _MODULES[0], _MODULES[1])
    versions = (line.partition("/version:")[::2] for line in (output or "").splitlines())
    facts.put("modules.versions", {name: version for name, version in versions if version} or None, why)
    output, why = answers.output_of(*_DIMMS)
    facts.put("dimms", (dimms(output) or None) if output else None, "none is listed" if output else why)
    output, why = answers.output_of("lines", root + _BMC[0], _BMC[1])
    facts.put("bmc", management_controller(output) if output else None, why)
    output, _ = answers.output_of(*_VIRTUAL)
    counted, _ = answers.output_of(*_hypervisor(root))
    hypervisor = output or {None: None, "0": "none"}.get(counted, "of unknown kind")
    facts.put("virtual", hypervisor, "neither systemd-detect-virt nor /proc/cpuinfo has it")
    for name in _SYSCTLS:
        text, why = answers.of("slurp", _sysctl_file(name, root))
        if name == _BUCKETS and text is None:
            text, why = answers.of("slurp", root + _HASH_SIZE)
        facts.put(f"sysctls/{name}", " ".join(text.split()) if text is not None else None, why)
    for name, argv in _VERSIONS.items():
        output, why = answers.output_of(*argv)
        facts.put(f"versions.{name}", output.splitlines()[0] if output else None, why)


def idle_exit_latency(lines: str) -> int | None:
    """Return the most microseconds that a core needs to wake, from enabled states (Documentation/admin-guide/pm/cpuidle)."""
    contents = dict(line.partition(":")[::2] for line in lines.splitlines())
    states = {name.partition("/")[0] for name in contents}
    enabled = [contents.get(f"{state}/latency", "") for state in states if contents.get(f"{state}/disable", "0") == "0"]
    return max((int(latency) for latency in enabled if latency.isdigit()), default=None)


def management_controller(lines: str) -> dict[str, str] | None:
    """Return maker, product and firmware of the first management controller, from `name:text` of its files; None if none is stated."""
    contents = dict(line.partition(":")[::2] for line in lines.splitlines())
    first = next(iter(sorted(contents)), "").partition("/")[0]
    maker, product, firmware = (contents.get(f"{first}/{file}", "") for file in ("manufacturer_id", "product_id", "firmware_revision"))
    number = int(maker, 16) if re.fullmatch(r"0x[0-9a-fA-F]{1,6}", maker) else None
    named = {"maker": maker if number is None else _MAKERS.get(number, f"number {number}"), "product": product, "firmware": firmware}
    return {name: text for name, text in named.items() if text} or None


def _files(facts: FactTree, answers: Answers, root: str) -> None:
    for path, file in _FILES.items():
        text, why = answers.of("slurp", root + file)
        value: object = text
        if text is not None and path == "os":
            value = os_name(text)
        elif text is not None and path == "command_line":
            value = command_line(text)
        elif text is not None and path == "memory_bytes":
            m = re.search(r"MemTotal:\s+(\d+) kB", text)
            value = int(m[1]) * 1024 if m else None
        elif text is not None and path == "pcie_aspm_policy":
            value = chosen(text)
        elif text is not None and path == "clocksources":
            value = text.split()
        elif text is not None and path in _NUMBERS:
            value = int(text) if text.isdigit() else None
        facts.put(path, value, why)
    for path, (folder, pattern) in _OF_EVERY_CORE.items():
        output, why = answers.output_of("every", root + folder, pattern)
        facts.put(path, ", ".join(output.splitlines()) if output else None, why)


def _lscpu(facts: FactTree, answers: Answers) -> None:
    output, why = answers.output_of("lscpu", "-J")
    fields = lscpu_fields(output) if output else {}
    for path, field in _LSCPU.items():
        text = next((v for k, v in fields.items() if k.rstrip(":").removesuffix(" cache") == field), None)
        facts.put(path, int(text) if text and text.isdigit() else text, "not in the output of lscpu" if output else why)


def _sysctl_file(name: str, root: str) -> str:
    return f"{root}/proc/sys/{name.replace('.', '/')}"


def _loaded(root: str) -> Question:
    return ("sh", "-c", _LOADED, "cut", f"{root}/proc/modules")


def _hypervisor(root: str) -> Question:
    return ("sh", "-c", _HYPERVISOR, "grep", f"{root}/proc/cpuinfo")
