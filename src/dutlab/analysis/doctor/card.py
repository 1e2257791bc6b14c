"""Findings about settings of a card: interrupt moderation, interrupted cores, offloads, ring sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price, shell, unknown_price, write
from dutlab.analysis.doctor.inventory import Inventory, InventoryPort, cpus_of, whole
from dutlab.analysis.doctor.published import FAR_NODE, NO_GRO, NO_TSO
from dutlab.physics.ceilings.ethernet import frames
from dutlab.units import SHORTEST_FRAME, BpsL1

LONG_WAIT_US = 10
"""Shortest interrupt delay that counts. Shorter ones are small against the other delays of a path through two cards."""
SHORT_RING_US = 100.0
"""Time to fill a ring that is long enough, our choice. At 10 Gb/s the shortest frames fill 512 places, a usual default, in 34 µs,
and 4096 in 275 µs."""
_FEW_SLOTS = 0.5
_SHARED = Price(50.0, "that core, at most", "computed: 1 - 1 / 2, two that both could use all of it share it evenly")
_OFFLOADS = {
    "rx-checksumming": "rx",
    "tx-checksumming": "tx",
    "scatter-gather": "sg",
    "generic-segmentation-offload": "gso",
    "generic-receive-offload": "gro",
}
_ON_A_WIRE = {**_OFFLOADS, "tcp-segmentation-offload": "tso"}
"""Offloads of a physical card. Labs of namespaces disable segmentation on purpose, since no link carries frames above its MTU."""


def moderation(p: Inventory) -> Iterator[Finding]:
    """Find cards that delay their interrupts to reduce their number."""
    for port, card in p.cards():
        coalescing = card.get("coalescing")
        if not isinstance(coalescing, Mapping) or card.get("kind") not in (None, "physical"):
            continue
        waits, adaptive = whole(coalescing.get("rx_usecs")) or 0, coalescing.get("adaptive_rx") is True
        if waits < LONG_WAIT_US and not adaptive:
            continue
        how = f"latencies grow by up to {waits} µs" if not adaptive else "latencies grow by an amount that changes with the load"
        off = [*(["adaptive-rx", "off"] if adaptive else []), "rx-usecs", "0"]
        back = [*(["adaptive-rx", "on"] if adaptive else []), "rx-usecs", str(waits)]
        yield Finding(
            "interrupt-moderation",
            f"the card waits before it interrupts: {how}",
            Price(None, "", "none on rates: fewer interrupts may even raise them"),
            (str(port),),
            (Evidence(port.host, shell("ethtool", "-c", port.interface), f"rx-usecs {waits}, adaptive RX {'on' if adaptive else 'off'}"),),
            (CureStep(port.host, shell("ethtool", "-C", port.interface, *off)),),
            (CureStep(port.host, shell("ethtool", "-C", port.interface, *back)),),
        )


def offloads(p: Inventory) -> Iterator[Finding]:
    """Find supported offloads that are off. The card, or the kernel once for many frames, could do their work."""
    for port, card in p.cards():
        free = card.get("offloads_off_by_choice")
        wanted = _ON_A_WIRE if card.get("kind") == "physical" else _OFFLOADS
        off = [name for name in wanted if isinstance(free, list) and name in free]
        if not off:
            continue
        words = [wanted[name] for name in off]
        yield Finding(
            "offloads-off",
            f"supported offloads are off: {', '.join(off)}",
            _offloads_price(off),
            (str(port),),
            (Evidence(port.host, shell("ethtool", "-k", port.interface), ", ".join(f"{name}: off" for name in off)),),
            (CureStep(port.host, shell("ethtool", "-K", port.interface, *(w for word in words for w in (word, "on")))),),
            (CureStep(port.host, shell("ethtool", "-K", port.interface, *(w for word in words for w in (word, "off")))),),
        )


def small_ring(p: Inventory) -> Iterator[Finding]:
    """Find receive rings that the shortest frames fill in less than SHORT_RING_US."""
    for port, _ in p.cards():
        now, most = (whole(p.fact(port.host, "interfaces", port.interface, "rings", which, "rx")) for which in ("now", "most"))
        if not now or not most or now >= most:
            continue
        speed = p.speed(port)
        fills_us = 1e6 * now / frames(BpsL1(speed), SHORTEST_FRAME).pps if speed else None
        if now > most * _FEW_SLOTS if fills_us is None else fills_us >= SHORT_RING_US:
            continue
        how = f": {SHORTEST_FRAME}-byte frames at line rate fill it in {fills_us:.0f} µs" if fills_us is not None else ""
        yield Finding(
            "small-ring",
            f"the receive ring holds {now} frames of {most} possible{how}",
            unknown_price("none while its core empties the ring in time; otherwise each further frame is lost"),
            (str(port),),
            (Evidence(port.host, shell("ethtool", "-g", port.interface), f"RX {now}, at most {most}"),),
            (CureStep(port.host, shell("ethtool", "-G", port.interface, "rx", most)),),
            (CureStep(port.host, shell("ethtool", "-G", port.interface, "rx", now)),),
        )


def interrupts(p: Inventory) -> Iterator[Finding]:
    """Find cards whose queues all interrupt one core, or interrupt a core that the generator is bound to."""
    for port, card in p.cards():
        queues = _receive_queues(port, card)
        served = {n: _cores(of) for n, of in queues.items()}
        cores = set().union(*served.values()) if served else set()
        evidence = tuple(
            Evidence(port.host, f"/proc/irq/{n}/effective_affinity_list", f"{of.get('cores_now')} ({of.get('name', 'no name')})")
            for n, of in queues.items()
        )
        if len(queues) > 1 and len(cores) == 1 and (whole(p.fact(port.host, "cpu", "cores")) or 1) > 1:
            yield _on_one_core(
                port, f"all {len(queues)} queues of the card interrupt one core, {min(cores)}", evidence, queues, _spread(p, port, queues)
            )
        elif port.host != p.dut and (both := cores & set(p.pinned.get(port.host, ()))):
            numbers = ", ".join(map(str, sorted(both)))
            yield _on_one_core(port, f"the card interrupts core {numbers}, where the generator runs", evidence, queues, _SHARED)


def shared_core(p: Inventory) -> Iterator[Finding]:
    """Find generator and DUT bound to the same core of one machine, or to two threads of one core."""
    if not p.one_machine:
        return
    dut = set(p.pinned.get(p.dut, ()))
    groups = [set(cpus_of(of)) for of in _texts(p.fact(p.dut, "cpu", "siblings"))]
    for host, cores in p.pinned.items():
        if host == p.dut:
            continue
        if both := sorted(dut & set(cores)):
            numbers = ", ".join(map(str, both))
            yield _shared(p, host, f"the DUT forwards on core {numbers}, where the {host} works too", _SHARED, numbers)
        elif pairs := [(mine, its) for group in groups for mine in sorted(group & set(cores)) for its in sorted(group & dut)]:
            numbers = ", ".join(f"{mine} and {its}" for mine, its in pairs)
            what = f"threads {numbers} share one core: the {host} uses one, the DUT forwards on the other"
            yield _shared(
                p, host, what, unknown_price("two threads of a core share its units and caches; how much depends on the work"), numbers
            )


def far_node(p: Inventory) -> Iterator[Finding]:
    """Find queues that interrupt cores of another NUMA node than the card's."""
    for port, card in p.cards():
        near = set(cpus_of(card.get("near_cores")))
        if not near or (whole(p.fact(port.host, "cpu", "numa_nodes")) or 1) <= 1:
            continue
        far = {n: of for n, of in _receive_queues(port, card).items() if _cores(of) - near}
        if far:
            files = [f"/proc/irq/{n}/smp_affinity_list" for n in far]
            yield Finding(
                "far-node",
                f"{len(far)} queues of the card interrupt cores of another NUMA node; cores of the card's node: {card.get('near_cores')}",
                FAR_NODE,
                (str(port),),
                tuple(Evidence(port.host, f"/proc/irq/{n}/effective_affinity_list", str(of.get("cores_now"))) for n, of in far.items()),
                tuple(CureStep(port.host, write(card.get("near_cores"), file)) for file in files),
                tuple(CureStep(port.host, write(of.get("cores_allowed", ""), file)) for of, file in zip(far.values(), files, strict=True)),
            )


def _shared(p: Inventory, host: str, what: str, price: Price, text: str) -> Finding:
    dut = ", ".join(map(str, sorted(p.pinned.get(p.dut, ()))))
    return Finding(
        "shared-core", what, price, (host, p.dut),
        (Evidence(host, "taskset -pc", text), Evidence(p.dut, "taskset -pc", dut)),
        (CureStep(host, "by hand: give the machine more cores, or choose a layout of the lab that keeps the two apart"),),
        (CureStep(host, "by hand: choose the earlier layout"),),
    )  # fmt: skip


def _texts(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _offloads_price(off: Sequence[str]) -> Price:
    """Price of the most expensive offload that is off."""
    dear = {"tcp-segmentation-offload": NO_TSO, "generic-receive-offload": NO_GRO}
    return next((price for name, price in dear.items() if name in off), unknown_price("a core does this work for each byte or frame"))


def _spread(p: Inventory, port: InventoryPort, queues: Mapping[str, Any]) -> Price:
    """Return the cost of one core for all queues, if each queue could have its own core and cores are the limit."""
    cores = min(len(queues), whole(p.fact(port.host, "cpu", "cores")) or 1)
    return Price(100 * (1 - 1 / cores), f"the rate of {cores} cores, at most", f"computed: 1 - 1 / {cores}, if the core is the limit")


def _on_one_core(port: InventoryPort, what: str, evidence: tuple[Evidence, ...], queues: Mapping[str, Any], price: Price) -> Finding:
    files = [f"/proc/irq/{n}/smp_affinity_list" for n in queues]
    back = [write(of.get("cores_allowed", ""), file) for of, file in zip(queues.values(), files, strict=True)]
    return Finding(
        "irq-one-core", what, price, (str(port),), evidence,
        (CureStep(port.host, f"by hand: start irqbalance, or write one other core into each of {' '.join(files)}"),),
        tuple(CureStep(port.host, command) for command in back),
    )  # fmt: skip


def _receive_queues(port: InventoryPort, card: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the interrupts of receive queues: not those for sending only, for the card's own events or for its configuration."""
    irqs = card.get("irqs")
    irq_by_number = {str(n): of for n, of in irqs.items() if isinstance(of, Mapping)} if isinstance(irqs, Mapping) else {}
    return {
        n: of
        for n, of in irq_by_number.items()
        if _receives(str(of.get("name", "")).lower()) and (len(irq_by_number) == 1 or of.get("name") != port.interface)
    }


def _receives(name: str) -> bool:
    """Return True for an interrupt of a receive queue, by drivers' names: `e0-TxRx-0`, `e0-rx-0`, `mlx5_comp0@pci:…`, `virtio2-input`."""
    sends = "output" in name or ("tx" in name and "rx" not in name)
    return not sends and not any(word in name for word in ("config", "async", "cmd", "mgmt", "admin", "misc"))


def _cores(irq: Mapping[str, Any]) -> set[int]:
    return set(cpus_of(irq.get("cores_now")))
