"""Places where cards lose frames, from drivers' counters (`ethtool -S`): one table by driver. Pure: text in, frames by place out.

Names are those of the drivers' sources in Linux 4.14 to 6.12, each in its `*_ethtool.c` (mlx5: `en_stats.c`; virtio_net and r8169: the
driver itself). Drivers without a table have the counters of all drivers (rtnl_link_stats64), which `linux_proc` reads.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MISSED, NO_BUFFER, NO_MEMORY, BUFFER_LATE = "rx_missed", "rx_no_buffer", "rx_no_memory", "rx_buffer_late"
TX_FULL, OVER_ALLOWANCE = "tx_ring_full", "over_allowance"
PLACES: Mapping[str, str] = {
    MISSED: "the card's own buffer was full: the bus or memory behind it was too slow, or no receive descriptor came back in time",
    NO_BUFFER: "the receive ring had no free descriptor: its core did not empty it in time",
    BUFFER_LATE: "the receive ring was empty for a moment; the card kept the frame",
    NO_MEMORY: "the kernel had no memory for a receive buffer",
    TX_FULL: "the ring of frames to send was full",
    OVER_ALLOWANCE: "the hypervisor's allowance for this machine was used up",
}
"""Place, which follows an interface's name in the counters of a record → cause of the loss. BUFFER_LATE counts no lost frames, and
OVER_ALLOWANCE also counts delayed frames."""


@dataclass(frozen=True)
class DriverCounter:
    """Counter of a driver, for the whole card or for each queue."""

    name: str
    """Regular expression for the whole name, without blanks around it."""
    place: str


def _table(rows: Mapping[str, Mapping[str, str]]) -> dict[str, tuple[DriverCounter, ...]]:
    return {
        driver: tuple(DriverCounter(name, place) for name, place in counters.items())
        for drivers, counters in rows.items()
        for driver in drivers.split()
    }


DRIVERS: Mapping[str, tuple[DriverCounter, ...]] = _table({
    # RNBC counts frames that arrived while no descriptor was free and that the card's buffer kept. RQDPC, per queue, counts lost frames.
    "igb igc e1000e e1000": {
        "rx_missed_errors": MISSED, "rx_no_buffer_count": BUFFER_LATE, r"rx_queue_\d+_drops": NO_BUFFER,
        r"alloc_rx_buff_failed|rx_queue_\d+_alloc_failed": NO_MEMORY,
    },
    "ixgbe": {
        "rx_missed_errors": MISSED, "rx_no_dma_resources": NO_BUFFER, "rx_no_buffer_count": BUFFER_LATE,
        "alloc_rx_page_failed|alloc_rx_buff_failed": NO_MEMORY,
    },
    "i40e": {r"port\.rx_(dropped|discards)": MISSED, "rx_alloc_fail|rx_pg_alloc_fail": NO_MEMORY},
    "ice": {r"rx_dropped\.nic": MISSED, "rx_dropped": NO_BUFFER, "rx_alloc_fail|rx_pg_alloc_fail": NO_MEMORY},
    "mlx5_core": {
        "rx_discards_phy": MISSED, "rx_out_of_buffer": NO_BUFFER, "rx_buff_alloc_err": NO_MEMORY, "tx_queue_dropped": TX_FULL,
    },
    # One counter per ring in brackets; their sum has two names (the second since Linux 6.6) and is not counted.
    "bnxt_en": {r"\[\d+\]: rx_(drops|discards)": NO_BUFFER, "rx_stat_discard": MISSED, "rx_total_oom_discards": NO_MEMORY},
    "r8169 r8125": {"rx_missed": MISSED},
    "virtio_net": {r"rx\d+_hw_drop_overruns": NO_BUFFER, r"tx\d+_hw_drop_overruns": TX_FULL},
    # The lines of each queue follow a line `Rx Queue#: N`; indented lines are parts of the line above.
    "vmxnet3": {"pkts rx OOB": NO_BUFFER, "rx buf alloc fail": NO_MEMORY, "pkts tx discard": TX_FULL},
    "ena": {
        r"queue_\d+_rx_(page|skb)_alloc_fail": NO_MEMORY, r"queue_\d+_rx_empty_rx_ring": BUFFER_LATE,
        "(bw_in|bw_out|pps|conntrack|linklocal)_allowance_exceeded": OVER_ALLOWANCE,
    },
    # Sum of the queues' counters, which have a number in front: `[0]: rx_discards`.
    "bnx2x": {"rx_brb_discard": MISSED, "rx_discards": NO_BUFFER},
    "cxgb4": {r"rx_bg\d_frames_dropped": MISSED},
    "sfc": {"port_rx_overflow": MISSED, "(port_)?rx_nodesc_drops": NO_BUFFER, "rx_noskb_drops": NO_MEMORY},
    "be2net": {"rx_drops_no_pbuf": MISSED, "rx_drops_no_erx_descr": NO_BUFFER},
    "hv_netvsc": {"rx_no_memory": NO_MEMORY, "tx_no_space": TX_FULL},
    "mana": {"hc_rx_discards_no_wqe": NO_BUFFER},
    "gve": {"rx_(skb|buf)_alloc_fail": NO_MEMORY},
    "stmmaceth rk_gmac-dwmac dwmac-sun8i meson8b-dwmac intel-eth-pci": {"mmc_rx_fifo_overflow": MISSED},
})  # fmt: skip
_CARD = re.compile(r"^card (\S+) (\S+)$")
_COUNT = re.compile(r"^\s+(\S.*?)\s*: (\d+)$")


def lost_at_cards(text: str) -> dict[str, float]:
    """Parse `ethtool -S` of each card, after a line `card INTERFACE DRIVER`, into INTERFACE_PLACE → frames of all queues."""
    frames_by_name: dict[str, float] = {}
    interface, counters = "", tuple[DriverCounter, ...]()
    for line in text.splitlines():
        if m := _CARD.match(line):
            interface, counters = m[1], DRIVERS.get(m[2], ())
        elif m := _COUNT.match(line):
            for place in (of.place for of in counters if re.fullmatch(of.name, m[1])):
                name = f"{interface}_{place}"
                frames_by_name[name] = frames_by_name.get(name, 0.0) + float(m[2])
    return frames_by_name
