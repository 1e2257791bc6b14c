"""Method `routes`: forwarding with many routes in the DUT, and destinations spread over all of them.

The routes are loaded and checked first: the DUT must count as many as were loaded, and send addresses behind some of them as intended. Then
frames go to one address behind each route in pseudo-random order, at full speed (with the figures of `sweep`) or in a search (with those of
`search`). Further figures:

    routes_loaded       as the DUT counts them
    routes_load_s       time to load them; routes_load_per_s is their number ÷ this time
    routes_hit          different routes of the sent frames, if a trial is long enough
"""

from __future__ import annotations

from dataclasses import replace

from dutlab.errors import InputError, MeasurementError
from dutlab.methods import sweep
from dutlab.methods.carrying import carrying
from dutlab.methods.dut_tables import LinkEnd, RoutesLoaded, RouteTable
from dutlab.methods.ports import NO_TIME, Bench, Measured, Offer
from dutlab.methods.search import method as search
from dutlab.methods.search.request import search_of
from dutlab.plan.cell import Cell
from dutlab.spec.traffic import FlowSet, Spread, Traffic
from dutlab.spec.workloads.routes import RoutesSetting

SEED = 1
NOTHING = "no frame arrived: the DUT forwards nothing to these routes; modes that filter permit the links' own networks only"


async def measure(bench: Bench, cell: Cell) -> Measured:
    """Run one trial. Raises InputError, ToolFailed, HostError, MeasurementError."""
    if bench.routes is None:
        raise InputError("no routes can be loaded into this DUT", remedy="take a DUT of family linux, or load them in your own mode")
    setting = cell.setting_as(RoutesSetting)
    spread_by_link = _spreads(bench, cell, setting)
    loads = [await load_checked(bench.routes, link, spread) for link, spread in spread_by_link.items()]
    traffic_of = {link: traffic_to(spread) for link, spread in spread_by_link.items()}
    traffic, warmup, drain = traffic_of[cell.links[0]], setting.warmup_s, setting.drain_s
    if len(traffic_of) == 1:
        traffic_of = {}
    if setting.goals is not None:
        wanted = search_of(cell.links, setting.frame_size, setting.goals, bench.speeds, warmup=warmup, drain=drain)
        measured: Measured = await search.searched(carrying(bench, traffic, traffic_of), wanted)
        sent = max((int(row["sent_frames"] or 0) for row in measured.tables["trials"]), default=0)
    else:
        duration = setting.duration_s or NO_TIME
        measured = await sweep.offered(
            bench.generator, Offer(cell.links, setting.frame_size, None, duration, warmup, drain, traffic=traffic, traffic_of=traffic_of)
        )
        sent = sum(flow.sent_frames for flow in measured.flows)
        if not sum(flow.received_frames for flow in measured.flows):
            measured = replace(measured, notes=(*measured.notes, NOTHING))
    routes, took_s = sum(of.count for of in loads), sum(of.took_s for of in loads)
    wanted_routes = sum(spread.count for spread in spread_by_link.values())
    hit = min(wanted_routes, sent)
    figures = {
        **measured.figures[cell.link_label],
        "routes_loaded": float(routes),
        "routes_load_s": took_s,
        "routes_load_per_s": routes / took_s if took_s > 0 else 0.0,
        "routes_hit": float(hit),
    }
    notes = [
        f"the DUT counts {of.count} routes in {spread.network}; {of.checked} addresses behind them are routed to the sink"
        for of, spread in zip(loads, spread_by_link.values(), strict=True)
    ]
    if hit < wanted_routes:
        notes.append(f"the longest trial sent {sent} frames, so at most {hit} of {wanted_routes} routes were used in it; lengthen it")
    return replace(measured, figures={**measured.figures, cell.link_label: figures}, notes=(*measured.notes, *notes))


def _spreads(bench: Bench, cell: Cell, setting: RoutesSetting) -> dict[str, Spread]:
    """Return link → destinations of its version of IP. Raises InputError for links of one version."""
    if len(cell.links) == 1 and setting.ipv6_network is None:
        return {cell.links[0]: setting.spreads[0]}
    versions = {link: bench.addresses[link][1].version for link in cell.links}
    if len(set(versions.values())) < len(versions):
        raise InputError("a route leads to one sink: links of one version of IP cannot be loaded together", remedy="drive each alone")
    return {link: setting.spread_of(version) for link, version in versions.items()}


def traffic_to(spread: Spread) -> Traffic:
    """Return traffic with one flow to an address in each part: each round of as many frames uses every part once."""
    flows = FlowSet(
        count=spread.count, destinations=spread.network, destination_addresses=spread.count, source_ports=1, destination_ports=1, seed=SEED
    )
    return Traffic(flows=flows)


async def load_checked(table: RouteTable, link: str, spread: Spread, towards: LinkEnd = LinkEnd.SINK) -> RoutesLoaded:
    """Load a route to each part of `spread`. Raises MeasurementError if the DUT has not taken them as intended, HostError."""
    loaded = await table.load(link, spread, towards)
    if loaded.count != spread.count:
        raise MeasurementError(f"{spread.count} routes were loaded, and the DUT counts {loaded.count}")
    if loaded.astray:
        raise MeasurementError(f"{len(loaded.astray)} of {loaded.checked} addresses would be sent elsewhere, the first: {loaded.astray[0]}")
    return loaded
