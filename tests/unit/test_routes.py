"""Forwarding against the number of routes, over a simulated DUT."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from ipaddress import ip_address

import pytest
from pydantic import ValidationError

from cells import cell_of
from dutlab.errors import InputError, MeasurementError
from dutlab.methods.dut_tables import LinkEnd
from dutlab.methods.ports import Bench
from dutlab.methods.routes import measure
from dutlab.plan.cell import Cell
from dutlab.spec.shape import LinkBounds
from dutlab.spec.workloads.routes import RoutesWorkload
from refusal import faults_of
from simulated import Dut, Simulation
from simulated_tables import Routes


def cells(**body):
    settings = RoutesWorkload.model_validate({"links": [["a"]], "duration": 1.0, "warmup": 0.0, **body}).drives(["a"])
    return [Cell(mode="router", factors={"mode": "router"}, tool="engine", links=s.links, setting=s.setting, repeat=1) for s in settings]


def bench(routes, **dut):
    return Bench(Simulation(Dut(capacity_pps=5000.0, **dut), reach_pps=20_000.0), routes=routes)


async def test_each_count_is_loaded_and_each_route_is_sent_to_in_every_round():
    made = cells(counts=[10, 1000, 100_000])
    for cell, count in zip(made, (10, 1000, 100_000), strict=True):
        table = Routes()
        at = bench(table)
        measured = await measure(at, cell)
        ((link, spread, towards),) = table.loads
        assert (link, spread.count, spread.length, towards) == ("a", count, 25, LinkEnd.SINK), "of one length, whatever their count"
        (offer,) = at.generator.offers
        flows = offer.traffic.flows
        assert (flows.count, flows.members, flows.spread_destinations) == (count, count, spread)
        figures = measured.figures["a"]
        assert figures["received_pps"] == pytest.approx(5000, rel=0.01)
        assert (figures["routes_loaded"], figures["routes_hit"]) == (count, min(count, 20_000))
        assert figures["routes_load_per_s"] == count / figures["routes_load_s"]
        assert any("lengthen it" in note for note in measured.notes) == (count == 100_000)


async def test_with_a_preset_the_limit_is_searched_with_the_same_destinations():
    (cell,) = cells(counts=[50], preset="quick")
    at = bench(Routes())
    measured = await measure(at, cell)
    figures = measured.figures["a"]
    assert figures["ndr/lower_pps"] <= 5000 <= figures["ndr/upper_pps"] * 1.001
    assert figures["routes_hit"] == 50
    assert {o.traffic.flows.destination_addresses for o in at.generator.offers} == {50}
    assert measured.tables["goals"] and measured.tables["trials"]


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (Routes(keeps=0.5), "the DUT counts 50"),
        (Routes(keeps=2), "the DUT counts 200"),
        (Routes(astray=("10.0.0.1: unreachable",)), "10.0.0.1"),
    ],
)
async def test_a_dut_that_holds_other_routes_is_not_measured(table, says):
    (cell,) = cells(counts=[100])
    at = bench(table)
    with pytest.raises(MeasurementError, match=says):
        await measure(at, cell)
    assert at.generator.offers == []


async def test_a_dut_that_forwards_nothing_to_them_is_said_to():
    (cell,) = cells(counts=[100])
    at = bench(Routes())
    at.generator.deaf_from = 0
    measured = await measure(at, cell)
    assert measured.figures["a"]["received_pps"] == 0
    assert any("forwards nothing" in note for note in measured.notes)


def test_counts_a_network_cannot_hold_and_a_network_of_another_ip_are_refused(golden):
    bodies = (
        {"counts": [257], "network": "198.51.100.0/24"},
        {"counts": [10, 10]},
        {"counts": []},
        {"links": [["a", "b"]]},
        {"preset": "quik"},
    )
    refused = [faults_of(partial(RoutesWorkload.model_validate, body)) for body in bodies]
    six = RoutesWorkload.model_validate({"counts": [1], "network": "2001:2::/48"})
    refused += [what for _, what in six.incompatibilities({"a": LinkBounds()})]
    golden.check("refusals-routes.txt", "\n".join(refused) + "\n")
    assert not list(six.incompatibilities({"a": LinkBounds(ipv6=True)}))


async def test_a_dut_whose_routes_nobody_can_load_is_refused():
    (cell,) = cells(counts=[100])
    with pytest.raises(InputError, match="routes"):
        await measure(Bench(Simulation(Dut(capacity_pps=1.0))), cell)
    with pytest.raises(InputError, match="RoutesSetting was expected"):
        await measure(bench(Routes()), cell_of("path-mtu"))


def both(**body):
    made = RoutesWorkload.model_validate(
        {"links": [["four", "six"]], "duration": 1.0, "warmup": 0.0, "network": "10.0.0.0/8", "ipv6_network": "2001:db8::/32", **body}
    ).drives(["four", "six"])
    return [Cell(mode="router", factors={"mode": "router"}, tool="engine", links=s.links, setting=s.setting, repeat=1) for s in made]


ADDRESSES = {
    "four": (ip_address("172.16.0.2"), ip_address("172.16.10.2")),
    "six": (ip_address("2001:2:0:1::2"), ip_address("2001:2:0:8001::2")),
}


@pytest.mark.parametrize("preset", [None, "quick"])
async def test_routes_of_both_versions_are_in_the_dut_at_once_and_each_link_has_its_destinations(preset):
    (cell,) = both(counts=[50], **({"preset": preset} if preset else {}))
    table = Routes()
    at = replace(bench(table), addresses=ADDRESSES)
    measured = await measure(at, cell)
    assert [(link, spread.network.version, spread.count) for link, spread, _ in table.loads] == [("four", 4, 50), ("six", 6, 50)]
    for offer in at.generator.offers:
        assert {link: of.flows.destinations.version for link, of in offer.traffic_of.items()} == {"four": 4, "six": 6}
    figures = measured.figures["four+six"]
    assert (figures["routes_loaded"], figures["routes_hit"]) == (100, 100)


async def test_links_of_one_version_are_not_loaded_together():
    (cell,) = both(counts=[50])
    with pytest.raises(InputError):
        await measure(replace(bench(Routes()), addresses=dict.fromkeys(ADDRESSES, ADDRESSES["four"])), cell)


def test_networks_of_both_versions_are_checked():
    with pytest.raises(ValidationError):
        both(network="2001:db8::/32")
    with pytest.raises(ValidationError):
        both(ipv6_network=None)
    of = RoutesWorkload.model_validate({"links": [["a", "b"]], "ipv6_network": "2001:db8::/32"})
    faults = [at for at, _ in of.incompatibilities({"a": LinkBounds(), "b": LinkBounds()})]
    assert ("links", 0) in faults
