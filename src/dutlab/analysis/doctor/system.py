"""Findings about other work of a system: unrequested firewall rules, checks for developers, jobs after boot."""

from __future__ import annotations

from collections.abc import Iterator

from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, shell, unknown_price
from dutlab.analysis.doctor.inventory import Inventory, whole
from dutlab.analysis.doctor.published import PF_FREEBSD, PF_RULE, linux_rules

_KEPT, _KEPT_LEGACY = "/root/rules-before.nft", "/root/rules-before.iptables"


def firewall(p: Inventory) -> Iterator[Finding]:
    """Find Linux firewall rules: on the DUT before a mode is applied, on other hosts at any time."""
    for host in p.facts:
        chains = p.fact(host, "firewall", "hooked_chains")
        hooked = [c for c in chains if isinstance(c, dict) and whole(c.get("rules_in_table"))] if isinstance(chains, list) else []
        tables = p.fact(host, "firewall", "legacy_tables")
        legacy = [str(t) for t in tables] if isinstance(tables, list) else []
        rules = {str(c.get("table")): c["rules_in_table"] for c in hooked}
        if not rules and not legacy:
            continue
        evidence = [
            Evidence(host, "nft list ruleset", f"table {table}: {count} rule{'s' if count != 1 else ''}") for table, count in rules.items()
        ]
        if legacy:
            evidence.append(Evidence(host, "/proc/net/ip_tables_names", " ".join(legacy)))
        cure = [f"nft list ruleset > {_KEPT} && nft flush ruleset"] if rules else []
        undo = [f"nft -f {_KEPT}"] if rules else []
        if legacy:
            cure.append(f"iptables-legacy-save > {_KEPT_LEGACY} && iptables-legacy -F")
            undo.append(f"iptables-legacy-restore < {_KEPT_LEGACY}")
        when = "before its mode is set" if host == p.dut else "on a host that only sends or receives"
        yield Finding(
            "firewall-in-the-way",
            f"a software firewall has rules {when}",
            linux_rules(sum(rules.values())) if rules else unknown_price("the number of rules in the legacy tables is unknown"),
            (host,),
            tuple(evidence),
            tuple(CureStep(host, command) for command in cure),
            tuple(CureStep(host, command) for command in undo),
        )


def pf(p: Inventory) -> Iterator[Finding]:
    """Find enabled packet filters (pf) on hosts other than the DUT."""
    for host in p.facts:
        if host != p.dut and p.fact(host, "firewall", "pf_enabled") is True:
            yield Finding(
                "firewall-in-the-way", "pf is on, on a host that only sends or receives",
                PF_RULE if p.text(host, "kernel", "name") == "OpenBSD" else PF_FREEBSD, (host,),
                (Evidence(host, "pfctl -s info", "Status: Enabled"),), (CureStep(host, "pfctl -d"),), (CureStep(host, "pfctl -e"),),
            )  # fmt: skip


def pool_debug(p: Inventory) -> Iterator[Finding]:
    """Find OpenBSD kernels that check every memory allocation (kern.pool_debug, sysctl(2))."""
    for host in p.facts:
        now = p.text(host, "sysctls", "kern.pool_debug")
        if now not in ("0", ""):
            yield Finding(
                "pool-debug", "the kernel checks every memory allocation (pool debugging)",
                unknown_price("each packet pays for the check of its buffers"), (host,),
                (Evidence(host, "sysctl kern.pool_debug", now),),
                (CureStep(host, "sysctl kern.pool_debug=0"),), (CureStep(host, shell("sysctl", f"kern.pool_debug={now}")),),
            )  # fmt: skip


def kernel_relinking(p: Inventory) -> Iterator[Finding]:
    """Find OpenBSD hosts that relink their kernel after each boot (reorder_kernel, rc(8)).

    Relinking keeps a core busy, and each boot runs another layout of the code.
    """
    for host in p.facts:
        if p.fact(host, "kernel", "relinks_at_boot") is True:
            yield Finding(
                "kernel-relinking", "the kernel is relinked after each boot: a busy core, and a new layout of the code",
                unknown_price("the relinking ends soon after boot; the effect of the layout differs from boot to boot"),
                (host,), (Evidence(host, "/var/db/kernel.SHA256", "present, so reorder_kernel relinks"),),
                (CureStep(host, "rm /var/db/kernel.SHA256"),), (CureStep(host, "sha256 -h /var/db/kernel.SHA256 /bsd"),),
            )  # fmt: skip
