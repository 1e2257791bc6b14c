"""Findings about memory that runs below its rated speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dutlab.analysis.doctor.finding import CureStep, Evidence, Finding, Price
from dutlab.analysis.doctor.inventory import Inventory, whole


def slow_memory(p: Inventory) -> Iterator[Finding]:
    """Find memory modules that run below their rated speed."""
    for host in p.facts:
        listed = p.fact(host, "dimms")
        speeds = [
            (now, rated)
            for of in (listed if isinstance(listed, list) else [])
            if isinstance(of, Mapping) and (now := whole(of.get("mts_now"))) and (rated := whole(of.get("mts")))
        ]
        if not speeds or not any(now < rated for now, rated in speeds):
            continue
        now, rated = min(now for now, _ in speeds), max(rated for _, rated in speeds)
        yield Finding(
            "slow-memory",
            f"memory made for {rated} MT/s runs at {now}",
            Price(100 * (1 - now / rated), "the memory's bandwidth", f"computed: 1 - {now} / {rated}; rates of packets lose less"),
            (host,),
            tuple(Evidence(host, "dmidecode --type 17", f"{now} of {rated} MT/s") for now, rated in dict.fromkeys(speeds)),
            (
                CureStep(
                    host,
                    "by hand: choose the memory's profile (XMP, EXPO) or its highest speed in the BIOS, or use fewer modules a channel",
                ),
            ),
            (CureStep(host, "by hand: choose the earlier setting"),),
        )
