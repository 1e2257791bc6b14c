"""Findings about processors: a low clock, deep idle states, slow clock sources, and other load."""

from __future__ import annotations

import re
from collections.abc import Iterator

from dutlab.analysis.doctor.commands import is_bsd, is_windows
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, shell, unknown_price, write
from dutlab.analysis.doctor.inventory import Inventory, whole
from dutlab.analysis.doctor.published import BOOST_AND_PCIE, SETPERF, SLOW_CLOCK

CORE_TIMES = "the kernel's times of each core"
BUSY_PERCENT = 10.0
"""Load of a core from which on it counts as busy while nothing is measured. An idle system is below this."""
STOLEN_PERCENT = 4.0
"""Stolen share that counts: two of the kernel's ticks in half a second. One tick may be chance. Trials report every percent."""
SLOW_WAKE_US = 50
_CPUS = "/sys/devices/system/cpu"
_SLOW_CLOCKS = {"hpet", "acpi_pm", "jiffies", "refined-jiffies", "pit", "xen"}
"""Clock sources that a program cannot read without a system call (arch/x86/entry/vdso)."""
_SLOW_TIMECOUNTERS = {"HPET", "ACPI-fast", "ACPI-safe", "i8254", "acpihpet0", "acpitimer0", "i8254timer"}
_OWN_GOVERNOR = ("intel_pstate", "amd-pstate-epp")
"""Drivers whose governor `powersave` is not a fixed frequency (Documentation/admin-guide/pm/intel_pstate)."""


def governor(p: Inventory) -> Iterator[Finding]:
    """Find frequency governors under which the clock follows the load with a delay, or stays low."""
    for host in p.facts:
        now = p.text(host, "cpu", "governor")
        if now in ("", "performance") or is_bsd(p, host) or is_windows(p, host):
            continue  # setperf() checks OpenBSD by its speed, not its policy; power_scheme() checks Windows
        of_all, first = f"{_CPUS}/cpufreq/policy*/scaling_governor", now.partition(",")[0]
        yield Finding(
            "governor",
            f"the frequency governor of the cores is {now}",
            _clock_price(p, host, now),
            (host,),
            (
                Evidence(host, of_all, now),
                Evidence(host, f"{_CPUS}/cpu0/cpufreq/scaling_driver", p.text(host, "cpu", "scaling_driver") or "not stated"),
            ),
            (CureStep(host, _into_each(of_all, "performance")),),
            (CureStep(host, _into_each(of_all, first)),),
        )


def setperf(p: Inventory) -> Iterator[Finding]:
    """Find OpenBSD processors below their highest clock (hw.setperf, sysctl(2))."""
    for host in p.facts:
        now, policy = p.text(host, "sysctls", "hw.setperf"), p.text(host, "sysctls", "hw.perfpolicy")
        if now in ("", "100"):
            continue
        undo = shell("sysctl", f"hw.perfpolicy={policy}") if policy not in ("", "manual") else shell("sysctl", f"hw.setperf={now}")
        yield Finding(
            "power-saving",
            f"the processor runs at {now} % of its range (hw.setperf)",
            SETPERF if now == "0" else Price(None, "", f"of 0 only; {SETPERF.source}"),
            (host,),
            (Evidence(host, "sysctl hw.setperf hw.perfpolicy", f"{now}, {policy}"),),
            (CureStep(host, "sysctl hw.perfpolicy=manual hw.setperf=100"),),
            (CureStep(host, undo),),
        )


def boost(p: Inventory) -> Iterator[Finding]:
    """Find processors with disabled boost, from either of Linux's two files for it."""
    for host in p.facts:
        for key, off, file in (("boost", 0, f"{_CPUS}/cpufreq/boost"), ("no_turbo", 1, f"{_CPUS}/intel_pstate/no_turbo")):
            if p.fact(host, "cpu", key) != off:
                continue
            base, most = (whole(p.fact(host, "cpu", name)) for name in ("base_khz", "max_khz"))
            price = Price(None, "", BOOST_AND_PCIE)
            if base and most and base < most:
                price = Price(100 * (1 - base / most), "the clock of a core, at most", f"computed: 1 - {base} kHz / {most} kHz")
            yield Finding(
                "boost-off", "turbo is disabled", price, (host,), (Evidence(host, file, str(off)),),
                (CureStep(host, write(1 - off, file)),), (CureStep(host, write(off, file)),),
            )  # fmt: skip


def idle_states(p: Inventory) -> Iterator[Finding]:
    """Find idle states so deep that the first frame after a pause waits for the core to wake."""
    for host in p.facts:
        wake = whole(p.fact(host, "cpu", "idle_exit_latency_us"))
        if wake is not None and wake >= SLOW_WAKE_US:
            evidence = Evidence(host, f"{_CPUS}/cpu0/cpuidle/state*/latency", f"{wake} µs")
            yield _slow_to_wake(wake, evidence, f"cpupower idle-set -D {SLOW_WAKE_US}", back="cpupower idle-set -E")


def freebsd_idle_states(p: Inventory) -> Iterator[Finding]:
    """Find deep idle states that FreeBSD allows. It writes each as `C2/2/80` (name, kind, latency in µs; acpi_cpu(4))."""
    for host in p.facts:
        supported = p.text(host, "sysctls", "dev.cpu.0.cx_supported")
        lowest = p.text(host, "sysctls", "dev.cpu.0.cx_lowest") or p.text(host, "sysctls", "hw.acpi.cpu.cx_lowest")
        states = [(int(number), int(latency)) for number, latency in re.findall(r"\bC(\d+)/\d+/(\d+)", supported)]
        deepest = int(lowest[1:]) if re.fullmatch(r"C\d+", lowest) else len(states) if lowest == "Cmax" else 0
        wake = max((latency for number, latency in states if number <= deepest), default=0)
        if wake >= SLOW_WAKE_US:
            evidence = Evidence(host, "sysctl dev.cpu.0.cx_supported dev.cpu.0.cx_lowest", f"{supported}; {lowest}")
            cure, back = "sysctl hw.acpi.cpu.cx_lowest=C1", shell("sysctl", f"hw.acpi.cpu.cx_lowest={lowest}")
            yield _slow_to_wake(wake, evidence, cure, back=back)


def _slow_to_wake(wake_us: float, evidence: Evidence, cure: str, *, back: str) -> Finding:
    what = f"idle cores take up to {wake_us} µs to wake, which adds to the latency of frames"
    price, host = Price(None, "", "none on rates: a loaded core does not sleep"), evidence.host
    return Finding("power-saving", what, price, (host,), (evidence,), (CureStep(host, cure),), (CureStep(host, back),))


def clock_source(p: Inventory) -> Iterator[Finding]:
    """Find clock sources that need a system call for each reading."""
    for host in p.facts:
        now, could = p.text(host, "clocksource"), p.fact(host, "clocksources")
        if now not in _SLOW_CLOCKS:
            continue
        file = "/sys/devices/system/clocksource/clocksource0/current_clocksource"
        has_tsc = isinstance(could, list) and "tsc" in could
        by_hand = "by hand: find why the kernel rejected the TSC (dmesg | grep -i tsc); tsc=reliable on its command line overrides that"
        yield Finding(
            "clock-source", f"the kernel's clock is {now}: each reading is a system call", SLOW_CLOCK, (host,),
            (Evidence(host, file, now),),
            (CureStep(host, write("tsc", file) if has_tsc else by_hand),),
            (CureStep(host, write(now, file)),),
        )  # fmt: skip


def timecounter(p: Inventory) -> Iterator[Finding]:
    """Find a slow timecounter of FreeBSD or OpenBSD (timecounters(4), tc_init(9))."""
    for host in p.facts:
        now, choice = p.text(host, "clocksource"), p.text(host, "sysctls", "kern.timecounter.choice")
        if now not in _SLOW_TIMECOUNTERS:
            continue
        better = next((name for name in ("TSC-low", "TSC", "tsc") if re.search(rf"(^|[ )]){name}\(", choice)), None)
        cure = shell("sysctl", f"kern.timecounter.hardware={better}") if better else "by hand: see in dmesg why there is no TSC"
        yield Finding(
            "clock-source", f"the kernel's clock is {now}, outside the processor: each reading waits for the bus", SLOW_CLOCK, (host,),
            (Evidence(host, "sysctl kern.timecounter.hardware kern.timecounter.choice", f"{now}; {choice}"),),
            (CureStep(host, cure),),
            (CureStep(host, shell("sysctl", f"kern.timecounter.hardware={now}")),),
        )  # fmt: skip


def busy(p: Inventory) -> Iterator[Finding]:
    """Find other programs that load the cores of the testbed."""
    for host, watched in p.watched.items():
        cores = {n: share.busy_percent for n, share in watched.cores.items() if share.busy_percent >= BUSY_PERCENT}
        if not cores:
            continue
        most = max(cores, key=lambda n: cores[n])
        shares = ", ".join(f"core {n} {percent:.0f} % busy" for n, percent in cores.items())
        yield Finding(
            "busy-cpu",
            "cores are busy without load: other programs run, or the device polls there"
            if host == p.dut and not p.one_machine
            else "other programs use the processor already",
            Price(cores[most], "its busiest core", f"read: {CORE_TIMES} over {watched.seconds:g} s"),
            (host,),
            (Evidence(host, CORE_TIMES, shares),),
            (CureStep(host, "by hand: stop the first program in `top`, or wait for it"),),
            (CureStep(host, "by hand: start it again"),),
        )


def stolen(p: Inventory) -> Iterator[Finding]:
    """Find CPU time that the hypervisor takes from the machine."""
    for host, watched in p.watched.items():
        cores = {n: share.stolen_percent for n, share in watched.cores.items() if share.stolen_percent >= STOLEN_PERCENT}
        if cores:
            most = max(cores, key=lambda n: cores[n])
            yield Finding(
                "stolen-cpu",
                "the hypervisor takes CPU time from this machine",
                Price(cores[most], f"core {most}", f"read: {CORE_TIMES} over {watched.seconds:g} s"),
                (host,),
                (Evidence(host, CORE_TIMES, ", ".join(f"core {n} {percent:.1f} % stolen" for n, percent in cores.items())),),
                (CureStep(host, "by hand: bind the guest's virtual processors to separate cores, or measure without a hypervisor"),),
                (CureStep(host, "by hand: remove the binding"),),
            )


def _clock_price(p: Inventory, host: str, governor_now: str) -> Price:
    low, high = (whole(p.fact(host, "cpu", name)) for name in ("min_khz", "max_khz"))
    driver = p.text(host, "cpu", "scaling_driver")
    if governor_now == "powersave" and driver not in _OWN_GOVERNOR and low and high:
        return Price(100 * (1 - low / high), "the clock of a core", f"computed: this governor stays at {low} kHz of {high} kHz")
    return unknown_price("under full load the clock rises within milliseconds; the loss for bursts depends on their length")


def _into_each(pattern: str, value: str) -> str:
    return f'for f in {pattern}; do {shell("echo", value)} > "$f"; done'
