"""Machines that spoil measurements: clocks, processors, cores, firewalls, kernels, neighbours."""

from __future__ import annotations

from typing import Any

import pytest

from dutlab.analysis.doctor import CoreShare, WatchedCores
from patients import HOST, card, found_on, healthy, only, with_host


def test_generator_and_dut_on_one_core_of_a_machine() -> None:
    pinned: dict[str, tuple[int, ...]] = {"source": (0,), "dut": (0,), "sink": (1,)}
    cards = {name: {**of, "interfaces": {i: card(kind="veth", irqs=None) for i in of["interfaces"]}} for name, of in healthy().items()}
    assert only(found_on(cards, pinned=pinned, one_machine=True), "shared-core").where == ("source", "dut")
    assert found_on(cards, pinned=pinned) == []  # on two machines core 0 is not core 0


def test_a_fixed_low_clock_has_a_price_and_a_governor_that_follows_the_load_has_none() -> None:
    low = only(found_on(with_host("dut", cpu={**HOST["cpu"], "governor": "powersave"})), "governor")  # type: ignore[dict-item]
    assert low.price.percent == pytest.approx(75)
    assert low.undo[0].command.endswith('do echo powersave > "$f"; done')
    follows = only(found_on(with_host("dut", cpu={**HOST["cpu"], "governor": "schedutil"})), "governor")  # type: ignore[dict-item]
    assert follows.price.percent is None
    own = {**HOST["cpu"], "governor": "powersave", "scaling_driver": "intel_pstate"}  # type: ignore[dict-item]
    assert only(found_on(with_host("dut", cpu=own)), "governor").price.percent is None


@pytest.mark.parametrize(
    ("key", "value", "cure"),
    [
        ("boost", 0, "echo 1 > /sys/devices/system/cpu/cpufreq/boost"),
        ("no_turbo", 1, "echo 0 > /sys/devices/system/cpu/intel_pstate/no_turbo"),
    ],
)
def test_boost_off_costs_at_most_what_it_would_add_to_the_clock(key: str, value: int, cure: str) -> None:
    cpu = {**HOST["cpu"], key: value, "base_khz": 2_400_000}  # type: ignore[dict-item]
    found = only(found_on(with_host("dut", cpu=cpu)), "boost-off")
    assert found.price.percent == pytest.approx(25) and found.cure[0].command == cure


def test_deep_idle_states_delay_a_frame_and_cost_no_rate() -> None:
    found = only(found_on(with_host("dut", cpu={**HOST["cpu"], "idle_exit_latency_us": 133})), "power-saving")  # type: ignore[dict-item]
    assert "133 µs" in found.what and found.price.percent is None


def test_a_processor_of_openbsd_at_its_lowest_has_the_published_price() -> None:
    found = only(found_on(with_host("dut", sysctls={"hw.setperf": "0", "hw.perfpolicy": "auto"})), "power-saving")
    assert found.price.percent == pytest.approx(100 * (55.7 - 38.9) / 55.7)
    assert found.undo[0].command == "sysctl hw.perfpolicy=auto"
    assert found_on(with_host("dut", sysctls={"hw.setperf": "100"}, kernel={"name": "OpenBSD"}, cpu={"governor": "manual"})) == []


def test_a_clock_that_needs_a_system_call() -> None:
    assert only(found_on(with_host("dut", clocksource="hpet")), "clock-source").cure[0].command.startswith("echo tsc > ")
    without = with_host("dut", clocksource="hpet", clocksources=["hpet"])
    assert only(found_on(without), "clock-source").cure[0].command.startswith("by hand: ")
    assert found_on(with_host("dut", clocksource="kvm-clock")) == []


@pytest.mark.parametrize(
    ("now", "choice", "cure"),
    [
        ("HPET", "ACPI-fast(900) HPET(950) i8254(0) TSC-low(1000) dummy(-1000000)", "sysctl kern.timecounter.hardware=TSC-low"),
        ("acpihpet0", "i8254(0) tsc(2000) acpihpet0(1000)", "sysctl kern.timecounter.hardware=tsc"),
        ("acpitimer0", "i8254(0) acpitimer0(1000)", "by hand: see in dmesg why there is no TSC"),
    ],
)
def test_a_timecounter_of_bsd_outside_the_processor(now: str, choice: str, cure: str) -> None:
    found = only(found_on(with_host("dut", clocksource=now, sysctls={"kern.timecounter.choice": choice})), "clock-source")
    assert found.cure[0].command == cure


def test_busy_and_stolen_cores_cost_what_was_read() -> None:
    watched = {"dut": WatchedCores(1.0, {0: CoreShare(3.0, 0.5), 1: CoreShare(64.0, 7.0)})}
    busy, stolen = found_on(healthy(), watched=watched)
    assert (busy.kind, busy.price.percent, stolen.kind, stolen.price.percent) == ("busy-cpu", 64.0, "stolen-cpu", 7.0)
    assert busy.evidence[0].said == "core 1 64 % busy"


def test_a_firewall_in_the_way_is_kept_before_it_is_flushed() -> None:
    rules = {"hooked_chains": [{"table": "inet filter", "hook": "input", "rules_in_table": 12}], "legacy_tables": ["nat"]}
    found = only(found_on(with_host("sink", firewall=rules)), "firewall-in-the-way")
    assert [s.command for s in found.cure] == [
        "nft list ruleset > /root/rules-before.nft && nft flush ruleset",
        "iptables-legacy-save > /root/rules-before.iptables && iptables-legacy -F",
    ]
    assert len(found.undo) == 2
    # València: 6 Mpps without rules, 250 kpps past 1000; so 12 take 12 thousandths of the 3.83 us between them, of 0.167 + 0.046 us.
    assert found.price.percent == pytest.approx(100 * 0.046 / (1 / 6 + 0.046))
    old = with_host("sink", firewall={"hooked_chains": [], "legacy_tables": ["nat"]})
    assert "is unknown" in only(found_on(old), "firewall-in-the-way").price.source


def test_pf_on_an_end_has_the_published_price_and_on_the_dut_is_its_mode() -> None:
    on = {"pf_enabled": True}
    openbsd = with_host("source", firewall=on, kernel={"name": "OpenBSD"})
    assert only(found_on(openbsd), "firewall-in-the-way").price.percent == pytest.approx(100 * (55.7 - 46.8) / 55.7)
    freebsd = with_host("source", firewall=on, kernel={"name": "FreeBSD"})
    assert only(found_on(freebsd), "firewall-in-the-way").price.percent == pytest.approx(100 * (9.40 - 6.99) / 9.40)
    assert found_on(with_host("dut", firewall=on)) == []


def test_checks_for_developers_and_work_after_boot() -> None:
    assert only(found_on(with_host("dut", sysctls={"kern.pool_debug": "1"})), "pool-debug").undo[0].command == "sysctl kern.pool_debug=1"
    assert found_on(with_host("dut", sysctls={"kern.pool_debug": "0"})) == []
    relinks = with_host("dut", kernel={"name": "OpenBSD", "relinks_at_boot": True})
    assert only(found_on(relinks), "kernel-relinking").cure[0].command == "rm /var/db/kernel.SHA256"


@pytest.mark.parametrize(
    ("entry", "found"),
    [
        ({"state": "PERMANENT", "confirmed_s": 900}, False), ({"state": "NOARP", "confirmed_s": 900}, False),
        ({"state": "REACHABLE", "confirmed_s": 2}, False), ({"state": "REACHABLE", "confirmed_s": 20}, True),
        ({"state": "STALE", "confirmed_s": 70}, True), ({"state": "FAILED", "confirmed_s": 9}, True),
    ],
)  # fmt: skip
def test_a_neighbour_that_must_be_asked_again(entry: dict[str, Any], found: bool) -> None:
    findings = found_on(with_host("dut", neighbours={"out0": [entry]}))
    assert [f.kind for f in findings] == (["neighbour-ageing"] if found else [])
    if found:
        assert "172.16.10.2" in findings[0].cure[0].command and findings[0].where == ("dut:out0",)


FREEBSD, WINDOWS = {"name": "FreeBSD"}, {"name": "Windows"}
CX = "C1/1/1 C2/2/41 C3/3/133"


@pytest.mark.parametrize(
    ("changes", "kind", "percent", "cure", "undo"),
    [
        ({"sysctls": {"net.netfilter.nf_conntrack_max": "65536", "net.netfilter.nf_conntrack_buckets": "1024"}}, "conntrack-hash", None,
         "sysctl net.netfilter.nf_conntrack_buckets=65536", "sysctl net.netfilter.nf_conntrack_buckets=1024"),
        ({"dimms": [{"mts": 3200, "mts_now": 2400}, {"mts": 3200, "mts_now": 3200}]}, "slow-memory", 25.0, None, None),
        ({"kernel": FREEBSD, "sysctls": {"net.isr.numthreads": "1", "net.isr.dispatch": "deferred"}}, "netisr-one-thread", 75.0,
         "sysctl net.isr.dispatch=direct", "sysctl net.isr.dispatch=deferred"),
        ({"kernel": FREEBSD, "sysctls": {"net.isr.numthreads": "1", "net.isr.dispatch": "direct", "net.inet.rss.enabled": "1"}},
         "netisr-one-thread", 75.0, None, None),
        ({"kernel": FREEBSD, "sysctls": {"dev.cpu.0.cx_supported": CX, "dev.cpu.0.cx_lowest": "C8"}}, "power-saving", None,
         "sysctl hw.acpi.cpu.cx_lowest=C1", "sysctl hw.acpi.cpu.cx_lowest=C8"),
        ({"kernel": WINDOWS, "cpu": {"governor": "balanced", "power_scheme": "381b4222-f694-41f0-9685-ff5bb260df2e"}}, "governor", None,
         "powercfg.exe /setactive 8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c", "powercfg.exe /setactive 381b4222-f694-41f0-9685-ff5bb260df2e"),
    ],
)  # fmt: skip
def test_a_cause_in_a_machine_is_cured_in_the_words_of_its_system(
    changes: dict[str, Any], kind: str, percent: float | None, cure: str | None, undo: str | None
) -> None:
    found = only(found_on(with_host("dut", **changes)), kind)
    assert found.price.percent == percent
    assert (found.cure[0].command, found.undo[0].command) == (cure, undo) if cure else found.cure[0].by_hand and found.undo[0].by_hand


@pytest.mark.parametrize(
    "changes",
    [
        {"sysctls": {"net.netfilter.nf_conntrack_max": "262144", "net.netfilter.nf_conntrack_buckets": "65536"}, "firewall": {"tracked_connections": 9}},
        {"dimms": [{"mts": 3200, "mts_now": 3200}, {"mts": 2400}]},
        {"kernel": FREEBSD, "sysctls": {"net.isr.numthreads": "1", "net.isr.dispatch": "direct", "net.inet.rss.enabled": "0"}},
        {"kernel": FREEBSD, "sysctls": {"net.isr.maxthreads": "-1", "net.isr.dispatch": "deferred"}},
        {"kernel": FREEBSD, "sysctls": {"dev.cpu.0.cx_supported": CX, "dev.cpu.0.cx_lowest": "C2"}},
        {"kernel": WINDOWS, "cpu": {"governor": "high performance", "power_scheme": "8c5e7fda-e8bf-4a96-9a85-a6e23a8c635c"}},
    ],
)  # fmt: skip
def test_a_machine_in_order_has_none_of_them(changes: dict[str, Any]) -> None:
    assert found_on(with_host("dut", **changes)) == []


def test_two_threads_of_one_core_that_sender_and_dut_are_bound_to_are_one_core() -> None:
    facts = with_host("dut", cpu={**HOST["cpu"], "siblings": ["0,2", "1,3"]})  # type: ignore[dict-item]
    cards = {name: {**of, "interfaces": {i: card(kind="veth", irqs=None) for i in of["interfaces"]}} for name, of in facts.items()}
    shared = only(found_on(cards, pinned={"source": (0,), "dut": (2,)}, one_machine=True), "shared-core")
    assert (shared.where, shared.evidence[0].said, shared.price.percent) == (("source", "dut"), "0 and 2", None)
    assert found_on(cards, pinned={"source": (0,), "dut": (1,)}, one_machine=True) == []


def test_the_tracking_of_a_lab_is_that_of_the_whole_machine_and_a_person_changes_it() -> None:
    full = {"sysctls": {"net.netfilter.nf_conntrack_max": "100"}, "firewall": {"tracked_connections": 95}}
    assert "sysctl" in only(found_on(with_host("dut", **full), one_machine=True), "conntrack-full").cure[0].by_hand
    assert only(found_on(with_host("dut", **full)), "conntrack-full").price.percent == 95
