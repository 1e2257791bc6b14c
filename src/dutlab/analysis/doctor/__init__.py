"""Findings on a testbed that distort results, and their costs: pure functions of facts. docs/method/doctor.md lists them."""

from collections.abc import Callable, Iterator

from dutlab.analysis.doctor import cable, card, loads, memory, path, processor, programs, queues, router, slot, system, tracking, windows
from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, by_price
from dutlab.analysis.doctor.inventory import CoreShare, Inventory, InventoryLink, InventoryPort, PassedMtu, Streams, WatchedCores
from dutlab.analysis.doctor.kinds import KINDS, FindingKind, FindingProof
from dutlab.analysis.doctor.path import sizes_to_try

CHECKS: tuple[Callable[[Inventory], Iterator[Finding]], ...] = (
    slot.narrow_slot, slot.small_payload, slot.link_power,
    path.mtu, path.carried, path.neighbours,
    cable.speed_and_duplex, cable.flow_control, cable.optics,
    card.offloads, card.small_ring, card.moderation, card.interrupts, card.far_node, card.shared_core,
    queues.one_queue, queues.netisr_one_thread, router.offloads_on_router,
    processor.governor, processor.setperf, processor.boost, processor.idle_states, processor.freebsd_idle_states,
    processor.clock_source, processor.timecounter, processor.busy, processor.stolen, memory.slow_memory,
    system.firewall, system.pf, system.pool_debug, system.kernel_relinking,
    windows.windows_firewall, windows.adapter_moderation, windows.driver_age, windows.power_scheme,
    tracking.conntrack_full, tracking.conntrack_hash, loads.one_stream, loads.both_ways,
    programs.iperf3_versions, programs.iperf3_threads,
)  # fmt: skip

__all__ = [
    "CHECKS",
    "KINDS",
    "CoreShare",
    "CureStep",
    "Evidence",
    "Finding",
    "FindingKind",
    "FindingProof",
    "Inventory",
    "InventoryLink",
    "InventoryPort",
    "PassedMtu",
    "Price",
    "Streams",
    "WatchedCores",
    "by_price",
    "examine",
    "sizes_to_try",
]


def examine(patient: Inventory) -> list[Finding]:
    """Return all findings, largest impact first."""
    return by_price(finding for check in CHECKS for finding in check(patient))
