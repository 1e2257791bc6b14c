"""Findings about the number of cores that can receive: queues of a card, and threads of FreeBSD's netisr."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from dutlab.analysis.doctor.commands import is_bsd, is_windows, powershell_quoted
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, shell, unknown_price, write
from dutlab.analysis.doctor.inventory import Inventory, InventoryPort, whole

SLOW_BPS = 1e9
"""Speed below which one core receives the shortest frames at line rate: 149 thousand a second at 100 Mb/s."""
_MORE_FROM_OUTSIDE: Mapping[str, str] = {
    "virtio_net": "give the guest's card queues (libvirt: <driver name='vhost' queues='{n}'/>; QEMU: -netdev …,queues={n} with "
    "-device virtio-net-pci,mq=on,vectors={vectors})",
    "vtnet": "give the guest's card queues on its host, and leave hw.vtnet.mq_disable at 0; with ALTQ in the kernel it has one",
    "vmxnet3": "let the guest use MSI-X and give it {n} processors: vmxnet3 has as many queues, rounded down to a power of two",
    "vmx": "let the guest use MSI-X (hw.pci.honor_msi_blacklist=0 in /boot/loader.conf), and give it {n} processors",
    "hv_netvsc": "let Hyper-V spread the guest's card: Set-VMNetworkAdapter -VMName NAME -VmmqEnabled $true -VrssEnabled $true",
    "ena": "choose an instance with more processors: the number of queues follows from them",
    "vif": "raise max_queues of xen_netback on the Xen host and of xen_netfront in the guest",
}
"""Driver of a virtual card → option of its hypervisor; `n` is the number of queues."""
_DEFERS = ("deferred", "hybrid")


def one_queue(p: Inventory) -> Iterator[Finding]:
    """Find cards with one receive queue on a machine of several cores. One core then receives everything."""
    for port, card in p.cards():
        now, most = (_queues(card, which) for which in ("now", "most"))
        cores, speed = whole(p.fact(port.host, "cpu", "cores")) or 1, p.speed(port)
        off = is_windows(p, port.host) and card.get("rss") is False
        if (now != 1 and not off) or cores == 1 or (speed is not None and speed < SLOW_BPS):
            continue
        if card.get("kind") not in (None, "physical") and not _has_napi(card):
            continue
        can = min(cores, most or cores)
        computed = Price(100 * (1 - 1 / can), f"the rate of {can} cores, at most", f"computed: 1 - 1 / {can}, if the core is the limit")
        at_most = f"1 queue, at most {most or 'not stated'}"
        cure, undo = _more_queues(p, port, card, can if (most or 1) > 1 else cores, possible=(most or 1) > 1)
        yield Finding(
            "one-queue",
            f"the card receives with one queue, so one core of {cores} does all of its work",
            computed if can > 1 else unknown_price("the card has one queue; the work that other cores can take over is not known"),
            (str(port),),
            (Evidence(port.host, _read(p, port), f"{'RSS is off' if off else at_most}; {cores} cores"),),
            (CureStep(port.host, cure),),
            (CureStep(port.host, undo),),
        )


def netisr_one_thread(p: Inventory) -> Iterator[Finding]:
    """Find FreeBSD hosts that queue packets for netisr with one thread (net.isr(4))."""
    for host in p.facts:
        dispatch = p.text(host, "sysctls", "net.isr.dispatch")
        threads = p.text(host, "sysctls", "net.isr.numthreads") or p.text(host, "sysctls", "net.isr.maxthreads")
        rss, cores = p.text(host, "sysctls", "net.inet.rss.enabled") == "1", whole(p.fact(host, "cpu", "cores")) or 1
        if threads != "1" or cores == 1 or not (dispatch in _DEFERS or rss):
            continue
        yield Finding(
            "netisr-one-thread",
            f"one thread of netisr processes all packets, on a machine of {cores} cores",
            Price(100 * (1 - 1 / cores), f"the rate of {cores} cores, at most", f"computed: 1 - 1 / {cores}, if the thread is the limit"),
            (host,),
            (Evidence(host, "sysctl net.isr.numthreads net.isr.dispatch net.inet.rss.enabled", f"{threads}, {dispatch}, {int(rss)}"),),
            (CureStep(host, "by hand: write net.isr.maxthreads=-1 and net.isr.bindthreads=1 into /boot/loader.conf, then reboot"),)
            if rss else (CureStep(host, "sysctl net.isr.dispatch=direct"),),
            (CureStep(host, "by hand: take both lines out again, then reboot"),)
            if rss else (CureStep(host, shell("sysctl", f"net.isr.dispatch={dispatch}")),),
        )  # fmt: skip


def _has_napi(card: Mapping[str, Any]) -> bool:
    """Return True for a veth(4) with GRO: one core serves each of its queues. Without GRO the sender's core does the work (veth.c)."""
    offloads = card.get("offloads")
    gro = isinstance(offloads, Mapping) and offloads.get("generic-receive-offload") is True
    return card.get("kind") == "veth" and gro and (_queues(card, "most") or 1) > 1


def _queues(card: Mapping[str, Any], which: str) -> int | None:
    """Return the number of receive queues from `ethtool -l`, now or at most; without it, the number now that the driver reports."""
    channels = card.get("channels")
    counts = channels.get(which) if isinstance(channels, Mapping) else None
    if isinstance(counts, Mapping):
        combined, receiving = (whole(counts.get(name)) or 0 for name in ("combined", "rx"))
        return combined + receiving or None
    return whole(card.get("rx_queues")) if which == "now" else None


def _read(p: Inventory, port: InventoryPort) -> str:
    if is_windows(p, port.host):
        return f"Get-NetAdapterRss -Name {powershell_quoted(port.interface)}"
    return "vmstat -ia" if is_bsd(p, port.host) else shell("ethtool", "-l", port.interface)


def _more_queues(p: Inventory, port: InventoryPort, card: Mapping[str, Any], queues: int, *, possible: bool) -> tuple[str, str]:
    """Return the commands that add queues and that undo it."""
    driver = card.get("driver")
    if is_windows(p, port.host):
        name = powershell_quoted(port.interface)
        return f"Enable-NetAdapterRss -Name {name}", f"Disable-NetAdapterRss -Name {name}"
    if isinstance(driver, str) and not possible and (words := _MORE_FROM_OUTSIDE.get(driver)):
        return f"by hand: {words.format(n=queues, vectors=2 * queues + 2)}", "by hand: undo that on its host"
    if is_bsd(p, port.host):
        unit = re.sub(r"(\d+).*", r".\1", port.interface)  # ix0 → ix.0
        tunable = f"dev.{unit}.iflib.override_nrxqs"
        return (
            f"by hand: remove {tunable}=1 from /boot/loader.conf (0 is a queue a core), then reboot",
            f"by hand: write {tunable}=1 again, then reboot",
        )
    if possible:
        counts = card["channels"]["most"]
        kind = "combined" if whole(counts.get("combined")) else "rx"
        return shell("ethtool", "-L", port.interface, kind, queues), shell("ethtool", "-L", port.interface, kind, 1)
    # Receive packet steering (Documentation/networking/scaling.rst): the interrupted core passes packets to the other cores.
    file = f"/sys/class/net/{port.interface}/queues/rx-0/rps_cpus"
    return write(_mask(queues), file), write("0", file)


def _mask(cores: int) -> str:
    """Return a mask of the first `cores` in the kernel's format: groups of 32 bits in hexadecimal, separated by commas."""
    digits = f"{(1 << cores) - 1:x}"
    first = len(digits) % 8 or 8
    return ",".join([digits[:first], *(digits[n : n + 8] for n in range(first, len(digits), 8))])
